//! Machines that listings lack.

use async_trait::async_trait;
use mooring_common::k8s::Slim;
use mooring_common::node_addresses::{AddressType, NodeAddress};
use mooring_common::node_facts::{NodeFacts, Presence};
use serde_json::json;

use super::*;
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::{Machine, MachineSource};

/// A cloud that counts what it is asked for alone.
#[derive(Default)]
struct Cloud {
    listed: Vec<u32>,
    /// Listed without addresses.
    unread: Vec<u32>,
    /// There, and not listed.
    hidden: Mutex<Vec<u32>>,
    /// Not to be seen with these credentials.
    forbidden: Vec<u32>,
    is_down: Mutex<bool>,
    asked: Mutex<Vec<String>>,
}

impl Cloud {
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

fn machine(id: u32) -> Machine {
    let address = NodeAddress {
        kind: AddressType::InternalIP,
        address: format!("10.0.0.{id}"),
    };
    Machine {
        id: format!("c://{id}").parse().unwrap(),
        names: Vec::new(),
        found_by: Vec::new(),
        attachments: Vec::new(),
        facts: NodeFacts {
            addresses: vec![address],
            ..NodeFacts::default()
        },
        presence: Presence::Running,
    }
}

#[async_trait]
impl MachineSource for Cloud {
    fn provider(&self) -> &'static str {
        "c"
    }

    fn parse_id(&self, provider_id: &str) -> Result<ProviderId, String> {
        provider_id.parse().map_err(|_| "bad".to_owned())
    }

    fn credentials(&self) -> u64 {
        0
    }

    async fn list(&self) -> Result<Vec<Machine>, CloudError> {
        let listed = self.listed.iter().map(|id| {
            let mut machine = machine(*id);
            if self.unread.contains(id) {
                machine.facts.addresses.clear();
            }
            machine
        });
        Ok(listed.collect())
    }

    async fn get(&self, id: &ProviderId) -> Result<Option<Machine>, CloudError> {
        self.asked.lock().unwrap().push(id.instance().to_owned());
        if *self.is_down.lock().unwrap() {
            return Err(CloudError::new("c", ErrorKind::Server, "down"));
        }
        if self.forbidden.iter().any(|one| machine(*one).id == *id) {
            return Err(CloudError::new("c", ErrorKind::Forbidden, "no"));
        }
        let hidden = self.hidden.lock().unwrap();
        let mut hidden = hidden.iter().map(|id| machine(*id));
        Ok(hidden.find(|one| one.id == *id))
    }
}

/// A cloud, and who finds machines in it.
fn world(listed: &[u32], hidden: &[u32]) -> (Arc<Cloud>, MemberResolver) {
    let cloud = Arc::new(Cloud {
        listed: listed.to_vec(),
        hidden: Mutex::new(hidden.to_vec()),
        ..Cloud::default()
    });
    let inventory = Arc::new(Inventory::new(cloud.clone()));
    (cloud, MemberResolver::new(inventory, "C"))
}

fn nodes(ids: &[u32]) -> Vec<Arc<NodeView>> {
    let node = |id: &u32| {
        let node = json!({
            "metadata": {"name": format!("n{id}"), "uid": "u"},
            "spec": {"providerID": format!("c://{id}")},
        });
        Arc::new(NodeView::slim(serde_json::from_value(node).unwrap()))
    };
    ids.iter().map(node).collect()
}

/// The Nodes that are members, and whether these are all.
async fn found(members: &MemberResolver, ids: &[u32]) -> (Vec<String>, bool) {
    let members = members.find(&nodes(ids)).await.members;
    let names = members.found.into_iter().map(|machine| machine.node);
    (names.collect(), members.are_complete)
}

fn names(ids: &[u32]) -> Vec<String> {
    ids.iter().map(|id| format!("n{id}")).collect()
}

#[tokio::test(start_paused = true)]
async fn machine_that_listings_lack_is_left_out_only_if_it_is_gone() {
    let (cloud, members) = world(&[1, 3], &[2]);
    let all = [1, 2, 3, 4];
    assert_eq!(found(&members, &all).await, (names(&[1, 2, 3]), true));
    let told = members.find(&nodes(&all)).await.notices;
    assert!(
        told.len() == 1 && told[0].note.contains(": n4. "),
        "{told:?}"
    );
    assert_eq!(cloud.asked(), ["2", "4"], "once, for both passes");
    // It is deleted.
    cloud.hidden.lock().unwrap().clear();
    assert_eq!(found(&members, &all).await, (names(&[1, 2, 3]), true));
    tokio::time::advance(LOOK_AGAIN).await;
    assert_eq!(found(&members, &all).await, (names(&[1, 3]), true));
    assert_eq!(cloud.asked(), ["2", "4"]);
}

#[tokio::test(start_paused = true)]
async fn a_doubt_asks_anew() {
    let (cloud, members) = world(&[1], &[2]);
    assert_eq!(found(&members, &[1, 2]).await, (names(&[1, 2]), true));
    cloud.hidden.lock().unwrap().clear();
    members.doubt();
    assert_eq!(found(&members, &[1, 2]).await, (names(&[1]), true));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_known_of_a_machine_that_cannot_be_asked_for() {
    let (cloud, members) = world(&[1], &[2]);
    *cloud.is_down.lock().unwrap() = true;
    let asked = members.find(&nodes(&[1, 2])).await;
    assert!(!asked.members.are_complete && asked.notices.is_empty());
    let again = asked.again.unwrap();
    assert_eq!(found(&members, &[1, 2]).await, (names(&[1]), false));
    assert_eq!(cloud.asked().len(), 1, "it is left alone for a while");
    *cloud.is_down.lock().unwrap() = false;
    tokio::time::advance(again).await;
    assert_eq!(found(&members, &[1, 2]).await, (names(&[1, 2]), true));
}

/// With credentials of another project, no question tells more than the first few.
#[tokio::test(start_paused = true)]
async fn where_no_machine_is_there_few_are_asked_for() {
    let all: Vec<u32> = (100..150).collect();
    let (cloud, members) = world(&[1], &[]);
    assert_eq!(found(&members, &all).await, (Vec::new(), true));
    assert_eq!(cloud.asked().len(), SIDE_BY_SIDE);
    // A filter may hide all of them.
    let (cloud, members) = world(&[1], &all);
    assert_eq!(found(&members, &all).await, (names(&all), true));
    assert_eq!(cloud.asked().len(), all.len());
}

/// By its own word.
fn at_addresses(node: &mut Arc<NodeView>) {
    let entries = [
        (AddressType::Hostname, "n2"),
        (AddressType::InternalIP, "10.0.0.2"),
        (AddressType::InternalIP, "FD00::0:2"),
    ];
    Arc::make_mut(node).addresses = entries
        .map(|(kind, address)| NodeAddress::new(kind, address))
        .into();
}

/// Its Node says where it is; if not, any member may be its.
#[tokio::test(start_paused = true)]
async fn machine_without_addresses_is_known_by_its_node() {
    let cloud = Arc::new(Cloud {
        listed: vec![1, 2],
        unread: vec![2],
        ..Cloud::default()
    });
    let inventory = Arc::new(Inventory::new(cloud));
    let members = MemberResolver::new(inventory, "C");
    let mut nodes = nodes(&[1, 2]);
    let unknown = members.find(&nodes).await.members;
    assert!(!unknown.are_complete && unknown.unread.is_empty());
    at_addresses(&mut nodes[1]);
    let known = members.find(&nodes).await.members;
    let expected = ["10.0.0.2", "fd00::2"].map(ToOwned::to_owned);
    assert!(known.are_complete);
    assert_eq!(known.unread, BTreeSet::from(expected));
}

/// The token may not see it: what is its by its Node's word stays, and an Event says so.
#[tokio::test(start_paused = true)]
async fn machine_that_token_may_not_see_keeps_its_own_members_alone() {
    let cloud = Arc::new(Cloud {
        listed: vec![1],
        forbidden: vec![2],
        ..Cloud::default()
    });
    let members = MemberResolver::new(Arc::new(Inventory::new(cloud.clone())), "C");
    let mut nodes = nodes(&[1, 2, 3]);
    let unknown = members.find(&nodes).await.members;
    assert!(!unknown.are_complete, "any member may be its");
    at_addresses(&mut nodes[1]);
    let seen = members.find(&nodes).await;
    let of_provider = |node: &NodeView, _: Vec<Attachment>| match node.name.as_str() {
        "n2" => vec![Attachment {
            address: "192.168.0.2".parse().unwrap(),
            subnet: String::new(),
        }],
        _ => Vec::new(),
    };
    assert!(seen.members.are_complete && seen.again.is_none());
    let known = seen.members.with_attachments(&nodes, of_provider);
    let stays = |member| known.keeps(member);
    assert!(["2", "10.0.0.2", "fd00::2", "192.168.0.2"].map(stays) == [true; 4]);
    assert!(["1", "3", "10.0.0.1", "10.0.0.3"].map(stays) == [false; 4]);
    let notes: Vec<&str> = seen.notices.iter().map(|told| told.note.as_str()).collect();
    assert!(
        matches!(*notes, [gone, hidden] if gone.contains(": n3. ") && hidden.contains(": n2. ")),
        "{notes:?}"
    );
    assert_eq!(cloud.asked(), ["2", "3"], "once");
}
