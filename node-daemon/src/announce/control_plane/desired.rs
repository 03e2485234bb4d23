//! What this node is to do about the control plane's address: pure, from the file, what is remembered and what is
//! observed.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use mooring_common::control_plane::{ControlPlaneFile, Member, Role};

use crate::announce::segments::{attachment, groups, own_addresses};
use crate::protocol::members::{Heard, Remembered};
use crate::protocol::{Candidates, Contact, Group, Key, NodeId, View, VoterSet, Wanted};
use crate::responder::{self, DesiredSegment};
use crate::wire::links::Link;

/// What does not come from the file.
#[derive(Clone, Copy, Debug)]
pub struct Here<'a> {
    /// The name of this node.
    pub node: &'a str,
    /// Its interfaces.
    pub links: &'a [Link],
    /// Whether its API server is ready.
    pub is_fit: bool,
    /// The process ends.
    pub is_ending: bool,
}

/// The voters as the file names them.
#[must_use]
pub fn voters(file: &ControlPlaneFile) -> VoterSet {
    VoterSet {
        generation: file.revision,
        voters: file.voters().into_iter().map(NodeId::of).collect(),
        primary: None,
    }
}

/// What is to be done on the segment.
///
/// A node that is not fit is drained, and not told to have a service proxy that fails: it offers the address
/// to others at once, and keeps it as long as nobody else is fit.
#[must_use]
pub fn desired(file: &ControlPlaneFile, remembered: &Remembered, here: Here<'_>) -> DesiredSegment {
    let segment = file.segment();
    let role = file.role_of(here.node);
    let link = here.links.iter().find(|link| link.name == file.interface);
    let link = link.filter(|_| role != Role::Witness);
    let keys = |address: &IpAddr| (Key::of(&segment, *address), *address);
    let keys: Vec<(Key, IpAddr)> = file.addresses.iter().map(keys).collect();
    let wanted = |(key, _): &(Key, IpAddr)| {
        let wanted = Wanted {
            group: Group::of(&segment),
            ..Wanted::alone(*key, Candidates::All)
        };
        (*key, wanted)
    };
    let served = &remembered.served;
    DesiredSegment {
        attachment: link.and_then(attachment),
        witness: role == Role::Witness,
        view: View {
            keys: keys.iter().map(wanted).collect(),
            voters: (served.generation > 0).then(|| served.clone()),
            voters_from_file: true,
            accepted: remembered.accepted.clone(),
            known: contacts(file, here.node),
            ..View::default()
        },
        addresses: keys
            .iter()
            .map(|(key, address)| (*key, [(*address, gateway_of(file, *address))].into()))
            .collect(),
        groups: groups(file.addresses.iter().copied()),
        gateways: file.gateways.iter().copied().collect(),
        draining: !here.is_fit || role == Role::Stranger,
        ending: here.is_ending,
        own_addresses: link.map_or_else(Vec::new, |link| {
            own_addresses(link, &file.addresses.iter().copied().collect())
        }),
        node_address: all(file)
            .find(|member| member.name == here.node)
            .map(|member| member.address),
        // Without an API server nothing shows that those who are silent are dead.
        survive_via_api: false,
        uid: segment,
        ..DesiredSegment::default()
    }
}

/// What the members say of who votes. Who is silent says nothing.
#[must_use]
pub fn heard(members: &[responder::Member]) -> Vec<Heard> {
    let alive = members.iter().filter(|member| member.alive);
    alive
        .map(|member| Heard {
            node: member.node,
            served: member.voters.clone(),
            settled: member.settled,
            approved: member.approved,
        })
        .collect()
}

/// Whether another node than this one could take the address.
#[must_use]
pub fn is_other_fit(members: &[responder::Member], me: NodeId) -> bool {
    members.iter().any(|member| {
        let flags = member.flags;
        let hindered = flags.draining || flags.vlan_down || flags.unfit || flags.released;
        member.node != me && member.alive && member.contact.mac.is_some() && !hindered
    })
}

/// The names of all that the file names.
#[must_use]
pub fn names(file: &ControlPlaneFile) -> BTreeMap<NodeId, String> {
    all(file)
        .map(|member| (NodeId::of(&member.name), member.name.clone()))
        .collect()
}

fn all(file: &ControlPlaneFile) -> impl Iterator<Item = &Member> {
    file.members.iter().chain(&file.witness)
}

fn contacts(file: &ControlPlaneFile, me: &str) -> BTreeMap<NodeId, Contact> {
    let others = all(file).filter(|member| member.name != me);
    others
        .map(|member| {
            let contact = Contact {
                node_network: Some(SocketAddr::new(member.address, file.heartbeat_port)),
                ..Contact::default()
            };
            (NodeId::of(&member.name), contact)
        })
        .collect()
}

fn gateway_of(file: &ControlPlaneFile, address: IpAddr) -> Option<IpAddr> {
    let mut gateways = file.gateways.iter().copied();
    gateways.find(|gateway| gateway.is_ipv4() == address.is_ipv4())
}

#[cfg(test)]
mod tests {
    use mooring_common::control_plane::parse;

    use super::*;
    use crate::protocol::mac::Mac;

    const FILE: &str = "{version: 1, revision: 3, addresses: [192.0.2.100, \"2001:db8::100\"], interface: eth0, \
        members: [{name: cp1, address: 192.0.2.11}, {name: cp2, address: 192.0.2.12}], \
        witness: {name: w1, address: 192.0.2.21}, keyFile: /k, gateways: [192.0.2.1]}";

    fn link() -> Link {
        Link {
            name: "eth0".into(),
            index: 7,
            mac: Some(Mac::new([2, 0, 0, 0, 0, 1])),
            up: true,
            addresses: vec!["192.0.2.11/24".parse().unwrap()],
            default_route: None,
            stack: crate::wire::links::Stack::default(),
        }
    }

    fn on(node: &str, is_fit: bool) -> DesiredSegment {
        let file = parse(FILE).unwrap();
        let remembered = Remembered {
            served: voters(&file),
            accepted: None,
        };
        let here = Here {
            node,
            links: &[link()],
            is_fit,
            is_ending: false,
        };
        desired(&file, &remembered, here)
    }

    #[test]
    fn member_with_ready_api_server_may_have_the_address() {
        let desired = on("cp1", true);
        assert!(!desired.draining && !desired.witness && desired.attachment.is_some());
        assert_eq!(desired.addresses.len(), 2);
        let gateways: Vec<_> = desired
            .addresses
            .values()
            .flat_map(BTreeMap::values)
            .collect();
        assert_eq!(
            gateways.iter().filter(|gateway| gateway.is_some()).count(),
            1
        );
        assert_eq!(desired.view.voters.unwrap().voters.len(), 3);
        assert_eq!(desired.view.known.len(), 2, "it is not its own peer");
        assert_eq!(desired.node_address, Some("192.0.2.11".parse().unwrap()));
        let groups: std::collections::BTreeSet<_> = desired
            .view
            .keys
            .values()
            .map(|wanted| wanted.group)
            .collect();
        assert_eq!(groups.len(), 1, "both families on one node");
    }

    #[test]
    fn without_ready_api_server_it_is_drained() {
        let desired = on("cp1", false);
        assert!(desired.draining && desired.service_proxy_works);
    }

    #[test]
    fn witness_is_on_no_interface() {
        let desired = on("w1", false);
        assert!(desired.witness && desired.attachment.is_none());
    }

    #[test]
    fn node_that_the_file_does_not_name_takes_nothing() {
        assert!(on("cp9", true).draining);
    }

    #[test]
    fn nobody_votes_before_anything_is_remembered() {
        let file = parse(FILE).unwrap();
        let here = Here {
            node: "cp1",
            links: &[],
            is_fit: true,
            is_ending: false,
        };
        let desired = desired(&file, &Remembered::default(), here);
        assert_eq!(desired.view.voters, None);
        assert!(desired.attachment.is_none(), "there is no such interface");
        assert!(!desired.survive_via_api && desired.view.voters_from_file);
    }
}
