//! What this node is to do about the control plane's address: pure, from the file, what is remembered and what is
//! observed.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use mooring_common::control_plane::{ControlPlaneFile, Member, Role};

use super::fitness::Readiness;
use crate::announce::segments::{attachment, groups, own_addresses};
use crate::protocol::members::{Heard, Remembered};
use crate::protocol::{Candidates, Contact, Group, Key, NodeId, View, VoterSet, Wanted, Weight};
use crate::responder::{self, DesiredSegment};
use crate::wire::links::Link;

/// What does not come from the file.
#[derive(Clone, Copy, Debug)]
pub struct Here<'a> {
    /// The name of this node.
    pub node: &'a str,
    /// Its interfaces.
    pub links: &'a [Link],
    /// What can be expected of its API server.
    pub readiness: Readiness,
    /// It has the address.
    pub has_address: bool,
    /// Another node is there whose API server is ready.
    pub is_other_ready: bool,
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

/// The weight of a node whose API server is not ready, by which the others know that.
const NOT_READY: Weight = Weight::new(0, 1);

/// What is to be done on the segment.
///
/// A node whose API server is not ready is drained while another's is: it offers the address to that at once. Where
/// none is ready, whoever has the address keeps it, and of those whose API server runs one takes what nobody has.
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
        draining: role == Role::Stranger || is_to_leave(here) || is_left_with_nothing(here),
        weight: if here.readiness == Readiness::Ready {
            Weight::USUAL
        } else {
            NOT_READY
        },
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

/// Whether the address is to go to another node, if one can take it.
const fn is_to_leave(here: Here<'_>) -> bool {
    match here.readiness {
        Readiness::Ready | Readiness::Doubtful => false,
        Readiness::NotReady => here.is_other_ready,
        Readiness::Absent => here.is_other_ready || !here.has_address,
        // Whoever goes on for the process before it has not asked yet.
        Readiness::Unknown => !here.has_address,
    }
}

/// Whether the process ends, and nothing is left behind the address: then the next speaker has to announce it.
fn is_left_with_nothing(here: Here<'_>) -> bool {
    here.is_ending && here.readiness != Readiness::Ready
}

/// Whether another node than this one, which could take the address, has an API server that is ready. One whose
/// link has flapped takes it when the address is to leave this node.
#[must_use]
pub fn is_other_ready(members: &[responder::Member], me: NodeId) -> bool {
    members.iter().any(|member| {
        let flags = member.flags;
        let cut_off = flags.vlan_down && !member.on_segment;
        let hindered = flags.draining || cut_off || flags.unfit || flags.released;
        let lives = member.alive && !member.suspected && member.contact.mac.is_some();
        member.node != me && lives && !hindered && member.weight == Weight::USUAL
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
pub(super) mod tests {
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

    fn on(node: &str, readiness: Readiness) -> DesiredSegment {
        beside(node, readiness, false, true)
    }

    fn beside(
        node: &str,
        readiness: Readiness,
        has_address: bool,
        is_other_ready: bool,
    ) -> DesiredSegment {
        let file = parse(FILE).unwrap();
        let remembered = Remembered {
            served: voters(&file),
            accepted: None,
        };
        let here = Here {
            node,
            links: &[link()],
            readiness,
            has_address,
            is_other_ready,
            is_ending: false,
        };
        desired(&file, &remembered, here)
    }

    #[test]
    fn member_with_ready_api_server_may_have_the_address() {
        let desired = on("cp1", Readiness::Ready);
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
    fn without_ready_api_server_it_is_drained_while_another_has_one() {
        let doubtful = on("cp1", Readiness::Doubtful);
        assert!(!doubtful.draining && doubtful.weight != Weight::USUAL);
        for readiness in [Readiness::NotReady, Readiness::Absent] {
            let desired = on("cp1", readiness);
            assert!(desired.draining && desired.service_proxy_works);
            assert_ne!(desired.weight, Weight::USUAL);
        }
    }

    #[test]
    fn where_none_is_ready_the_address_stays_or_goes_to_one_that_runs() {
        for (readiness, has_address, drains) in [
            (Readiness::NotReady, false, false),
            (Readiness::NotReady, true, false),
            (Readiness::Absent, false, true),
            (Readiness::Absent, true, false),
        ] {
            let desired = beside("cp1", readiness, has_address, false);
            assert_eq!(desired.draining, drains, "{readiness:?} {has_address}");
        }
    }

    #[test]
    fn address_is_handed_over_loudly_by_one_that_ends_without_an_api_server() {
        let file = parse(FILE).unwrap();
        let ending = |readiness| {
            let here = Here {
                node: "cp1",
                links: &[link()],
                readiness,
                has_address: true,
                is_other_ready: false,
                is_ending: true,
            };
            desired(&file, &Remembered::default(), here).draining
        };
        assert!(!ending(Readiness::Ready));
        assert!(ending(Readiness::Doubtful) && ending(Readiness::NotReady));
    }

    #[test]
    fn who_has_not_asked_yet_takes_nothing_and_keeps_what_it_was_left() {
        for is_other_ready in [false, true] {
            assert!(beside("cp1", Readiness::Unknown, false, is_other_ready).draining);
            assert!(!beside("cp1", Readiness::Unknown, true, is_other_ready).draining);
        }
    }

    /// One that votes and has been heard on both paths just now.
    pub(in super::super) fn member(node: NodeId) -> responder::Member {
        responder::Member {
            node,
            epoch: crate::protocol::Epoch(1),
            alive: true,
            on_segment: true,
            on_node_network: true,
            flags: crate::protocol::Flags::default(),
            voter: true,
            contact: Contact {
                mac: Some(Mac::new([2, 0, 0, 0, 0, 2])),
                ..Contact::default()
            },
            generation: 3,
            voters: VoterSet::default(),
            settled: 3,
            approved: 0,
            suspected: false,
            weight: Weight::USUAL,
            holds: 0,
            signed: None,
            secrets: Vec::new(),
            refused: false,
        }
    }

    #[test]
    fn another_is_ready_if_it_says_so_and_is_not_taken_for_dead() {
        let (me, other) = (NodeId::of("cp1"), NodeId::of("cp2"));
        let ready = member(other);
        let others = |change: &dyn Fn(&mut responder::Member)| {
            let mut member = ready.clone();
            change(&mut member);
            is_other_ready(&[member], me)
        };
        assert!(others(&|_| {}));
        assert!(!others(&|member| member.node = me), "that is no other");
        assert!(!others(&|member| member.weight = NOT_READY));
        assert!(!others(&|member| member.suspected = true));
        assert!(!others(&|member| member.flags.draining = true));
        assert!(!others(&|member| member.contact.mac = None), "a witness");
        let cut_off = |on_segment| {
            others(&|member| {
                member.flags.vlan_down = true;
                member.on_segment = on_segment;
            })
        };
        assert!(!cut_off(false));
        assert!(cut_off(true), "its link has flapped, and is up");
    }

    #[test]
    fn witness_is_on_no_interface() {
        let desired = on("w1", Readiness::Absent);
        assert!(desired.witness && desired.attachment.is_none());
    }

    #[test]
    fn node_that_the_file_does_not_name_takes_nothing() {
        assert!(on("cp9", Readiness::Ready).draining);
    }

    #[test]
    fn nobody_votes_before_anything_is_remembered() {
        let file = parse(FILE).unwrap();
        let here = Here {
            node: "cp1",
            links: &[],
            readiness: Readiness::Ready,
            has_address: false,
            is_other_ready: false,
            is_ending: false,
        };
        let desired = desired(&file, &Remembered::default(), here);
        assert_eq!(desired.view.voters, None);
        assert!(desired.attachment.is_none(), "there is no such interface");
        assert!(!desired.survive_via_api && desired.view.voters_from_file);
    }
}
