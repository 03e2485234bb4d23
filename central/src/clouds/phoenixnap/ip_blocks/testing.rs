//! A cloud and a cluster without servers, for tests.

mod cluster;
mod ration;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Service;
use mooring_common::k8s::{ObjectKey, Slim};
use mooring_common::node_facts::{NodeFacts, Presence};
use mooring_common::provider_id::ProviderId;
use serde_json::{Value, json};

use super::super::api::Tag;
use super::super::api::bgp::Peers;
use super::super::api::blocks::{BlockCloud, Order};
use super::super::api::ip_blocks::{Block, BlockStatus, Holder};
use super::super::api::public_networks::Network;
use super::super::setting::Setting;
use super::super::setting::Settings;
use super::super::{Flags, NAME, facts};
use crate::cloud_api::{CloudError, Entries, ErrorKind};
use crate::cloud_provider::load_balancers::{HealthTarget, LoadBalancerRequest};
use crate::cloud_provider::{Machine, MachineSource};
use crate::views::service_view::ServiceView;
pub(crate) use cluster::{FakeCluster, OpenGuard};
pub(crate) use ration::Ration;

pub(crate) const CLUSTER: &str = "cluster-uid";
pub(crate) const NETWORK: &str = "net";

/// A block that is free, without tags.
pub(crate) fn block(id: &str, cidr: &str) -> Block {
    Block {
        id: id.to_owned(),
        location: "PHX".to_owned(),
        cidr: cidr.parse().unwrap(),
        status: BlockStatus::Unassigned,
        holder: None,
        tags: Vec::new(),
        created: None,
    }
}

pub(crate) fn in_network(network: &str) -> Option<Holder> {
    Some(Holder::PublicNetwork(network.to_owned()))
}

pub(crate) fn network() -> Network {
    Network {
        id: NETWORK.to_owned(),
        location: "PHX".to_owned(),
        vlan: Some(100),
        blocks: Vec::new(),
        servers: Some(Vec::new()),
        is_ready: true,
        used: Vec::new(),
        unread: Vec::new(),
    }
}

/// For how long the cloud may take to show what was bought.
pub(crate) const SETTLE: Duration = Duration::from_secs(30);

pub(crate) fn settings(sharing: bool) -> Settings {
    Settings {
        setting: format!("kube-vip://{NETWORK}").parse::<Setting>().unwrap(),
        location: None,
        location_annotation: "phoenixnap.com/ip-location".to_owned(),
        flags: Flags {
            block_size: 29,
            shares_blocks: sharing,
            max_blocks: 20,
            attaches_nodes: false,
            settle_time: SETTLE,
        },
    }
}

/// What the flags say when none is given.
impl Default for Flags {
    fn default() -> Self {
        Self {
            block_size: 28,
            shares_blocks: true,
            max_blocks: 10,
            attaches_nodes: false,
            settle_time: Duration::from_secs(90),
        }
    }
}

/// A Service of type LoadBalancer; its UID is its name.
pub(crate) fn service(name: &str) -> ServiceView {
    view(&json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": name, "resourceVersion": "1",
            "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
        },
        "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv4"]},
    }))
}

pub(crate) fn view(service: &Value) -> ServiceView {
    ServiceView::slim(serde_json::from_value::<Service>(service.clone()).unwrap())
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// For how long the cloud wants to be left alone when it answers 429.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(20);

/// What goes wrong at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// It is not done, and an error is given.
    Refused(ErrorKind),
    /// It is done, and nobody hears of it.
    Unheard,
}

/// An account of the cloud.
#[derive(Default)]
pub(crate) struct Account {
    pub(crate) blocks: BTreeMap<String, Block>,
    pub(crate) network: Option<Network>,
    pub(crate) tags: BTreeSet<String>,
    /// The names of tags that a person has deleted.
    taken: BTreeSet<String>,
    /// Every call, in words.
    pub(crate) calls: Vec<String>,
    /// What goes wrong, by the number of the call, counted from 0.
    pub(crate) faults: BTreeMap<usize, InjectedFault>,
    /// What goes wrong at the next purchase.
    pub(crate) spoiled_purchase: Option<InjectedFault>,
    /// How many listings a transition takes.
    pub(crate) slowness: usize,
    waits: BTreeMap<String, usize>,
    pub(crate) bought: usize,
    /// How often the network says that it is busy.
    pub(crate) busy: usize,
    /// The network has just said so.
    was_busy: bool,
    /// Blocks and servers, by id, of which the cloud refuses every change.
    pub(crate) refused: BTreeSet<String>,
    /// Blocks, by id, that the cloud does not come to an end with.
    pub(crate) held: BTreeSet<String>,
    /// The network is answered with this.
    pub(crate) network_fault: Option<ErrorKind>,
    /// Listings by tags are empty although there are blocks.
    pub(crate) shows_nothing: bool,
    /// Blocks, by id, that listings show in a way that cannot be read.
    pub(crate) unreadable: BTreeSet<String>,
    /// The network is shown without its members.
    pub(crate) hides_members: bool,
    pub(crate) peers: Option<Peers>,
    /// The identifiers of its servers.
    pub(crate) servers: Vec<String>,
}

/// The account, and how much it takes if that is limited.
#[derive(Clone, Default)]
pub(crate) struct FakeCloud(
    pub(crate) Arc<Mutex<Account>>,
    pub(crate) Option<Arc<Ration>>,
);

impl FakeCloud {
    pub(crate) fn new() -> Self {
        let cloud = Self::default();
        cloud.0.lock().unwrap().network = Some(network());
        cloud
    }

    /// The calls since the last time, without those that only read.
    pub(crate) fn writes(&self) -> Vec<String> {
        let calls = std::mem::take(&mut self.0.lock().unwrap().calls);
        let is_write = |call: &String| !call.starts_with("get ") && !call.starts_with("list ");
        calls.into_iter().filter(is_write).collect()
    }

    async fn call<T: Send>(
        &self,
        words: String,
        act: impl FnOnce(&mut Account) -> Result<T, CloudError> + Send,
    ) -> Result<T, CloudError> {
        if let Some(ration) = &self.1 {
            ration.ask().await?;
        }
        let mut account = self.0.lock().unwrap();
        let number = account.calls.len();
        let spoiled = match words.starts_with("buy ") {
            true => account.spoiled_purchase.take(),
            false => None,
        };
        account.calls.push(words);
        match account.faults.remove(&number).or(spoiled) {
            None => act(&mut account),
            Some(InjectedFault::Refused(kind)) => {
                let mut error = CloudError::new("fake", kind, "refused");
                error.retry_after = (kind == ErrorKind::RateLimited).then_some(RETRY_AFTER);
                Err(error)
            }
            Some(InjectedFault::Unheard) => {
                let _ = act(&mut account);
                Err(CloudError::new("fake", ErrorKind::Timeout, "no answer"))
            }
        }
    }
}

impl Account {
    /// Transitions go on by one step.
    fn progress(&mut self) {
        let slowness = self.slowness;
        let held = &self.held;
        for (id, block) in self.blocks.iter_mut().filter(|(id, _)| !held.contains(*id)) {
            let end = match block.status {
                BlockStatus::Creating | BlockStatus::Unassigning => BlockStatus::Unassigned,
                BlockStatus::Assigning => BlockStatus::Assigned,
                _ => continue,
            };
            let waited = self.waits.entry(id.clone()).or_default();
            if *waited < slowness {
                *waited += 1;
                continue;
            }
            self.waits.remove(id);
            if end == BlockStatus::Unassigned {
                block.holder = None;
            }
            block.status = end;
        }
    }

    /// A person deletes a tag.
    pub(crate) fn take_tag(&mut self, name: &str) {
        assert!(self.tags.remove(name), "no tag {name}");
        self.taken.insert(name.to_owned());
    }

    /// A tag must exist before anything bears it. Only if a person has deleted it can it be missing.
    fn has_tags<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> Result<(), CloudError> {
        for name in names {
            if !self.tags.contains(name) {
                assert!(self.taken.contains(name), "nobody has made the tag {name}");
                let what = format!("there is no tag with the name {name}");
                return Err(CloudError::new("fake", ErrorKind::Invalid, what));
            }
        }
        Ok(())
    }

    /// Whether the network takes a change of this block or server.
    fn takes_change(&mut self, id: &str) -> Result<(), CloudError> {
        if self.busy > 0 {
            self.busy -= 1;
            self.was_busy = true;
            return Self::conflict("the network is busy");
        }
        if self.refused.contains(id) {
            return Self::conflict("in use by a member");
        }
        Ok(())
    }

    fn conflict<T>(what: &str) -> Result<T, CloudError> {
        let mut error = CloudError::new("fake", ErrorKind::Busy, what);
        error.words = Some(what.to_owned());
        Err(error)
    }
}

#[async_trait]
impl BlockCloud for FakeCloud {
    async fn blocks(&self, tags: &[Tag]) -> Result<Entries<Block>, CloudError> {
        let of = if tags.is_empty() { "all " } else { "" };
        self.call(format!("list {of}blocks"), |account| {
            account.progress();
            if account.shows_nothing && !tags.is_empty() {
                return Ok(Entries::default());
            }
            let unread = account.unreadable.iter();
            let shown = account.blocks.iter();
            let shown = shown.filter(|(id, _)| !account.unreadable.contains(*id));
            Ok(Entries {
                read: shown.map(|(_, block)| block.clone()).collect(),
                unread: unread
                    .map(|id| format!("the IP block {id} is odd"))
                    .collect(),
            })
        })
        .await
    }

    async fn block(&self, id: &str) -> Result<Block, CloudError> {
        self.call(format!("get {id}"), |account| {
            match account.blocks.get(id) {
                Some(_) if account.unreadable.contains(id) => {
                    Err(CloudError::new("fake", ErrorKind::Malformed, "it is odd"))
                }
                Some(block) => Ok(block.clone()),
                None => Err(CloudError::new(
                    "fake",
                    ErrorKind::NotFound,
                    "no such block",
                )),
            }
        })
        .await
    }

    async fn network(&self, id: &str) -> Result<Network, CloudError> {
        self.call(format!("get network {id}"), |account| {
            if let Some(kind) = account.network_fault {
                return Err(CloudError::new("fake", kind, "not now"));
            }
            let was_busy = std::mem::take(&mut account.was_busy);
            let mut network = account.network.clone().filter(|network| network.id == id);
            if let Some(network) = &mut network {
                network.is_ready = !was_busy;
            }
            if let Some(network) = network.as_mut().filter(|_| account.hides_members) {
                network.servers = Some(Vec::new());
            }
            network.ok_or_else(|| CloudError::new("fake", ErrorKind::Forbidden, "no such network"))
        })
        .await
    }

    async fn tag_names(&self) -> Result<BTreeSet<String>, CloudError> {
        self.call("list tags".to_owned(), |account| Ok(account.tags.clone()))
            .await
    }

    async fn create_tag(&self, name: &str) -> Result<(), CloudError> {
        self.call(format!("tag {name}"), |account| {
            account.tags.insert(name.to_owned());
            account.taken.remove(name);
            Ok(())
        })
        .await
    }

    async fn buy(&self, order: &Order) -> Result<Block, CloudError> {
        self.call(format!("buy /{}", order.prefix), |account| {
            account.has_tags(order.tags.iter().map(|tag| &tag.name))?;
            account.bought += 1;
            let number = account.bought;
            let id = format!("b{number}");
            let cidr = format!("203.0.113.{}/{}", (number % 30) * 8, order.prefix);
            let block = Block {
                location: order.location.clone(),
                tags: order.tags.clone(),
                status: BlockStatus::Creating,
                created: jiff::Timestamp::from_second(i64::try_from(number).unwrap()).ok(),
                ..block(&id, &cidr)
            };
            account.blocks.insert(id, block.clone());
            Ok(block)
        })
        .await
    }

    async fn attach(&self, network: &str, block: &str) -> Result<(), CloudError> {
        self.call(format!("attach {block} to {network}"), |account| {
            account.takes_change(block)?;
            let found = account.blocks.get_mut(block).unwrap();
            if !matches!(
                found.status,
                BlockStatus::Unassigned | BlockStatus::ErrorAssigning
            ) {
                return Account::conflict("the block is in another state");
            }
            found.status = BlockStatus::Assigning;
            found.holder = in_network(network);
            let cidr = found.cidr;
            if let Some(known) = account.network.as_mut().filter(|known| known.id == network) {
                known.blocks.push((block.to_owned(), cidr));
            }
            Ok(())
        })
        .await
    }

    async fn detach(&self, network: &str, block: &str) -> Result<(), CloudError> {
        self.call(format!("detach {block} from {network}"), |account| {
            account.takes_change(block)?;
            let found = account.blocks.get_mut(block).unwrap();
            assert_eq!(found.holder, in_network(network), "the wrong network");
            found.status = BlockStatus::Unassigning;
            if let Some(known) = account.network.as_mut().filter(|known| known.id == network) {
                known.blocks.retain(|(id, _)| id != block);
            }
            Ok(())
        })
        .await
    }

    async fn set_tags(&self, block: &str, tags: &[Tag]) -> Result<(), CloudError> {
        self.call(format!("mark {block}"), |account| {
            // What it bears exists.
            let old = account.blocks[block].tags.clone();
            let new = tags.iter().filter(|tag| !old.contains(tag));
            account.has_tags(new.map(|tag| &tag.name))?;
            account.blocks.get_mut(block).unwrap().tags = tags.to_vec();
            Ok(())
        })
        .await
    }

    async fn add_server(&self, network: &str, server: &str) -> Result<(), CloudError> {
        self.call(format!("add {server} to {network}"), |account| {
            account.takes_change(server)?;
            let known = account.network.as_mut().unwrap();
            let members = known.servers.get_or_insert_default();
            if members.iter().any(|member| member == server) {
                return Account::conflict("The server is a member of the public network already.");
            }
            members.push(server.to_owned());
            Ok(())
        })
        .await
    }

    async fn peers(&self, _: Option<&str>, _: &str) -> Result<Option<Peers>, CloudError> {
        self.call("get peers".to_owned(), |account| Ok(account.peers.clone()))
            .await
    }

    async fn release(&self, block: &str) -> Result<(), CloudError> {
        self.call(format!("release {block}"), |account| {
            if account.refused.contains(block) {
                return Account::conflict("something is attached to it");
            }
            let found = account.blocks.get(block);
            match found.map(|block| (block.status, &block.holder)) {
                Some(
                    (BlockStatus::Unassigned, _)
                    | (BlockStatus::ErrorAssigning | BlockStatus::ErrorUnassigning, None),
                ) => {
                    account.blocks.remove(block);
                    Ok(())
                }
                Some(_) => Account::conflict("it is assigned"),
                None => Err(CloudError::new(
                    "fake",
                    ErrorKind::NotFound,
                    "no such block",
                )),
            }
        })
        .await
    }
}

#[async_trait]
impl MachineSource for FakeCloud {
    fn provider(&self) -> &'static str {
        NAME
    }

    fn parse_id(&self, provider_id: &str) -> Result<ProviderId, String> {
        facts::parse_id(provider_id)
    }

    fn credentials(&self) -> u64 {
        0
    }

    async fn list(&self) -> Result<Vec<Machine>, CloudError> {
        let machine = |id: &String| Machine {
            id: format!("{NAME}://{id}").parse().unwrap(),
            names: Vec::new(),
            found_by: Vec::new(),
            attachments: Vec::new(),
            facts: NodeFacts::default(),
            presence: Presence::Running,
        };
        self.call("list servers".to_owned(), |account| {
            Ok(account.servers.iter().map(machine).collect())
        })
        .await
    }

    async fn get(&self, _: &ProviderId) -> Result<Option<Machine>, CloudError> {
        Ok(None)
    }
}

pub(crate) fn request(service: &ServiceView, others: &[ServiceView]) -> LoadBalancerRequest {
    let others = others.iter().filter(|other| other.uid != service.uid);
    LoadBalancerRequest {
        service: Arc::new(service.clone()),
        nodes: [].into(),
        other_nodes: [].into(),
        others: others.cloned().map(Arc::new).collect(),
        cluster: None,
        settle_time: std::time::Duration::from_secs(90),
        may_take_over: false,
        health: HealthTarget::default(),
        endpoints: None,
        secrets: crate::cloud_provider::secrets::Secrets::default(),
    }
}

/// Longer than any pause between two passes.
pub(crate) const LONG: Duration = Duration::from_secs(61);
