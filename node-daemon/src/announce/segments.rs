//! What this node is to do on each segment: pure, from what was observed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use mooring_common::engine::{self, Impact, Plan};
use mooring_common::l2_network::{AddressMode, QuorumLoss, Segment, SegmentNode, Voters};
use mooring_common::names::labels;
use mooring_common::node_addresses::AddressType;
use sha2::{Digest, Sha256};

use super::plan::Assignment;
use crate::cluster::snapshot::{L2NetworkView, Snapshot};
use crate::cluster::voters::voter_set;
use crate::protocol::{Contact, NodeId, View, VoterSet, Wanted, Weight};
use crate::responder::{Attachment, DesiredSegment, DesiredSegments, InterfaceAddress};
use crate::vlan;
use crate::wire::frames::solicited_node;
use crate::wire::links::{Link, Vlan, choose, choose_parent};

/// The part that this Node plays on a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role<'a> {
    /// It speaks, on this interface.
    Speaker(&'a Link),
    /// It would, but has no interface, and why.
    Hindered(String),
    /// It will: its interface is being made, which one.
    Awaiting(String),
    /// It is not on the segment, and only votes there.
    Witness,
    /// It is on the segment, and takes no part: it has no key to sign heartbeats with.
    Keyless,
}

/// The segments that this Node has a part in.
pub type Roles<'a> = BTreeMap<String, Role<'a>>;

/// The interfaces that segments were on, by the L2Network's name; `None` where there was none, or where
/// the L2Network itself says which.
pub type LastInterfaces = BTreeMap<String, Option<String>>;

/// The part that this Node plays on each segment, where it plays one. `witness_of` are the segments
/// that it shall be a witness of, as far as it is not on them.
///
/// An L2Network that cannot be read is left out: central says what is wrong with it.
#[must_use]
pub fn roles<'a>(
    snapshot: &Snapshot,
    links: &'a [Link],
    witness_of: &BTreeSet<String>,
    last_interfaces: &LastInterfaces,
) -> Roles<'a> {
    let Some(node) = &snapshot.node else {
        return BTreeMap::new();
    };
    let labels = node.labels.clone().unwrap_or_default();
    snapshot
        .networks
        .iter()
        .filter_map(|(key, network)| {
            let segment = network.segment.as_ref().ok()?;
            let role = if segment.includes(&labels) {
                let last_interface = last_interfaces.get(&key.name).cloned().flatten();
                let segment = segment.on_node(&labels);
                interface(&segment, links, snapshot, last_interface.as_deref())
            } else if witness_of.contains(&key.name) {
                Role::Witness
            } else {
                return None;
            };
            Some((key.name.clone(), role))
        })
        .collect()
}

/// The same for a daemon that has no key to sign heartbeats with, and must not go without: it takes
/// part in no segment, and says so of those that it is on.
#[must_use]
pub fn without_key(roles: Roles<'_>) -> Roles<'_> {
    let silent = roles.into_iter().filter_map(|(name, role)| match role {
        Role::Witness => None,
        Role::Speaker(_) | Role::Hindered(_) | Role::Awaiting(_) | Role::Keyless => {
            Some((name, Role::Keyless))
        }
    });
    silent.collect()
}

/// What is remembered of interfaces: of L2Networks that are there, as of before, or as the status of the
/// L2Network says, which outlives the machine's start.
#[must_use]
pub fn last_interfaces(snapshot: &Snapshot, before: &LastInterfaces) -> LastInterfaces {
    let last_interface = |name: &String, network: &L2NetworkView| {
        let segment = network.segment.as_ref().ok()?;
        if segment.vlan.is_some() || segment.parent.is_some() {
            return None;
        }
        let entry = || network.entry.as_ref()?.interface.clone();
        before.get(name).cloned().unwrap_or_else(entry)
    };
    let networks = snapshot.networks.iter();
    networks
        .map(|(key, network)| (key.name.clone(), last_interface(&key.name, network)))
        .collect()
}

fn interface<'a>(
    segment: &Segment,
    links: &'a [Link],
    snapshot: &Snapshot,
    last_interface: Option<&str>,
) -> Role<'a> {
    // Nobody would answer for what cannot be put on an interface.
    if segment.address_mode == AddressMode::Kernel && snapshot.vlan_faults.are_changes_forbidden() {
        return Role::Hindered(vlan::FORBIDDEN.to_owned());
    }
    let Some(id) = segment.vlan else {
        let chosen = choose(segment, links, last_interface);
        return chosen.map_or_else(|fault| Role::Hindered(fault.to_string()), Role::Speaker);
    };
    let parent = match choose_parent(segment, links) {
        Ok(parent) => parent,
        Err(fault) => return Role::Hindered(fault.to_string()),
    };
    let vlan = Some(Vlan {
        parent: parent.index,
        id,
    });
    if let Some(link) = links.iter().find(|link| link.stack.vlan == vlan) {
        return Role::Speaker(link);
    }
    match snapshot.vlan_faults.of(&segment.name) {
        Some(fault) => Role::Hindered(fault),
        None => Role::Awaiting(format!(
            "the interface for VLAN {id} on {:?} is not there yet; it is being made",
            parent.name
        )),
    }
}

/// The segments with a VLAN that this Node is on, as they are on it; `None` as long as that is not known, or nothing
/// may be done.
#[must_use]
pub fn with_vlan(snapshot: &Snapshot) -> Option<Vec<Segment>> {
    let synced = snapshot.synced;
    if !(snapshot.may_write && synced.networks && synced.node) {
        return None;
    }
    let labels = snapshot.node.as_ref()?.labels.clone().unwrap_or_default();
    let segments = snapshot.networks.values();
    let segments = segments.filter_map(|network| network.segment.as_ref().ok());
    let here = segments.filter(|segment| segment.vlan.is_some() && segment.includes(&labels));
    let here = here.map(|segment| segment.on_node(&labels).into_owned());
    Some(here.collect())
}

/// What does not come from the API objects, or is the same for all segments.
#[derive(Clone, Copy, Debug)]
pub struct LocalState<'a> {
    /// The Node that this daemon runs on.
    pub node_name: &'a str,
    /// The interfaces of this node.
    pub links: &'a [Link],
    /// Where all daemons hear messages on the node network.
    pub heartbeat_port: u16,
    /// The service proxy works, as far as anybody can tell.
    pub service_proxy_works: bool,
    /// The daemon ends.
    pub ending: bool,
    /// What this process has spoken for, by segment.
    pub spoken: &'a BTreeMap<String, BTreeSet<IpAddr>>,
}

/// The addresses that this Node has spoken for: this process, or one before it, as the Node's entry says.
fn spoken_here(entry: Option<&SegmentNode>, here: Option<&BTreeSet<IpAddr>>) -> BTreeSet<IpAddr> {
    let here = here.into_iter().flatten().copied();
    let before = entry.into_iter().flat_map(|entry| &entry.addresses);
    let before = before.filter_map(|spoken| spoken.address.parse().ok());
    before.chain(here).collect()
}

/// What is to be done on each segment.
#[must_use]
pub fn desired(
    snapshot: &Snapshot,
    roles: &Roles<'_>,
    assignment: &Assignment,
    here: LocalState<'_>,
) -> DesiredSegments {
    let node_address = node_address(snapshot, here.links);
    let zone = zone(snapshot);
    let labels = snapshot.node.as_ref().and_then(|node| node.labels.clone());
    let labels = labels.unwrap_or_default();
    roles
        .iter()
        .filter_map(|(name, role)| {
            let link = match role {
                Role::Speaker(link) => Some(*link),
                // As if its link were down: it is up again in a moment.
                Role::Witness | Role::Awaiting(_) => None,
                Role::Hindered(_) | Role::Keyless => return None,
            };
            let key = mooring_common::k8s::ObjectKey::cluster_wide(name.as_str());
            let network = snapshot.networks.get(&key)?;
            let segment = network.segment.as_ref().ok()?;
            let addresses: BTreeMap<_, BTreeMap<IpAddr, Option<IpAddr>>> = assignment
                .of(name)
                .map(|(key, assigned)| (key, [(assigned.address, assigned.gateway)].into()))
                .collect();
            let spoken = spoken_here(network.entry.as_ref(), here.spoken.get(name));
            let service_addresses = || addresses.values().flat_map(BTreeMap::keys).copied();
            let desired = DesiredSegment {
                uid: network.uid.clone(),
                attachment: link.and_then(attachment),
                witness: matches!(role, Role::Witness),
                view: View {
                    keys: assignment
                        .of(name)
                        .map(|(key, assigned)| {
                            let wanted = Wanted {
                                spoken_here: spoken.contains(&assigned.address),
                                ..assigned.wanted.clone()
                            };
                            (key, wanted)
                        })
                        .collect(),
                    voters: Some(voter_set(network.voters.as_ref())),
                    approvals: approvals(network),
                    voters_from_file: false,
                    accepted: None,
                    known: contacts(network, here.heartbeat_port),
                },
                groups: groups(service_addresses()),
                gateways: segment.subnets.iter().filter_map(|(_, gw)| *gw).collect(),
                tells_routers: segment.vlan.is_some(),
                draining: snapshot.drains_on(segment) || here.ending && snapshot.shuts_down(),
                ending: here.ending,
                service_proxy_works: here.service_proxy_works,
                weight: Weight::new(segment.preference_for(&labels), snapshot.share()),
                own_addresses: link.map_or_else(Vec::new, |link| {
                    own_addresses(link, &service_addresses().collect())
                }),
                node_address: node_address.or_else(|| link.and_then(global_address)),
                zone,
                survive_via_api: segment.on_quorum_loss == QuorumLoss::SurviveViaApi,
                kernel_answers: segment.address_mode == AddressMode::Kernel,
                probes_addresses: segment.probes_addresses,
                keep_connections: segment.keep_connections,
                addresses,
            };
            Some((name.clone(), Arc::new(desired)))
        })
        .collect()
}

/// The groups in which questions for these addresses arrive.
#[must_use]
pub fn groups(addresses: impl Iterator<Item = IpAddr>) -> BTreeSet<std::net::Ipv6Addr> {
    addresses
        .filter_map(|address| match address {
            IpAddr::V6(address) => Some(solicited_node(address)),
            IpAddr::V4(_) => None,
        })
        .collect()
}

fn approvals(network: &L2NetworkView) -> BTreeMap<NodeId, VoterSet> {
    let of = |(name, voters): (&String, &Voters)| (NodeId::of(name), voter_set(Some(voters)));
    network.approvals.iter().map(of).collect()
}

fn contacts(network: &L2NetworkView, port: u16) -> BTreeMap<NodeId, Contact> {
    let of = |(name, other): (&String, &crate::cluster::snapshot::PeerNode)| {
        let contact = Contact {
            mac: other.mac.filter(|_| !other.witness),
            node_network: other.address.map(|address| SocketAddr::new(address, port)),
            ..Contact::default()
        };
        (NodeId::of(name), contact)
    };
    network.others.iter().map(of).collect()
}

/// The interface to speak on, if it is up.
#[must_use]
pub fn attachment(link: &Link) -> Option<Attachment> {
    let mac = link.mac.filter(|_| link.up)?;
    Some(Attachment {
        name: link.name.clone(),
        index: link.index,
        mac,
    })
}

/// Of each family one address that the kernel answers for on this interface: no service address, which
/// may be there too.
#[must_use]
pub fn own_addresses(link: &Link, service_addresses: &BTreeSet<IpAddr>) -> Vec<IpAddr> {
    let own = || {
        let addresses = link.addresses.iter().map(ipnet::IpNet::addr);
        addresses.filter(|address| !service_addresses.contains(address))
    };
    let link_local = |address: &IpAddr| match address {
        IpAddr::V6(address) => address.is_unicast_link_local(),
        IpAddr::V4(_) => false,
    };
    let four = own().find(IpAddr::is_ipv4);
    let six = own()
        .find(link_local)
        .or_else(|| own().find(IpAddr::is_ipv6));
    four.into_iter().chain(six).collect()
}

/// One of the Node's addresses, as the policy `mooring-node-own-address` asks: one that an interface has, an
/// InternalIP before an ExternalIP, or else the first, where others reach it by translation. A Node that
/// nobody has described yet has none: then that of the default route's interface.
fn node_address(snapshot: &Snapshot, links: &[Link]) -> Option<IpAddr> {
    let on_a_link = |address: &IpAddr| {
        let mut all = links.iter().flat_map(|link| &link.addresses);
        all.any(|own| own.addr() == *address)
    };
    let of = |kind: AddressType| {
        let addresses = snapshot.node.iter().flat_map(|node| &node.addresses);
        let these = addresses.filter(move |address| address.kind == kind);
        these.filter_map(|address| address.address.parse().ok())
    };
    let internal = of(AddressType::InternalIP);
    let own: Vec<IpAddr> = internal.chain(of(AddressType::ExternalIP)).collect();
    let by_default_route = || {
        let routed = links
            .iter()
            .filter_map(|link| Some((link.default_route?, link)));
        let (_, link) = routed.min_by_key(|(metric, link)| (*metric, link.index))?;
        global_address(link)
    };
    let on_a_link = own.iter().copied().find(on_a_link);
    on_a_link
        .or_else(|| own.first().copied())
        .or_else(by_default_route)
}

fn global_address(link: &Link) -> Option<IpAddr> {
    let global = |address: &IpAddr| match address {
        IpAddr::V4(address) => !address.is_link_local() && !address.is_loopback(),
        IpAddr::V6(address) => !address.is_unicast_link_local() && !address.is_loopback(),
    };
    let mut addresses = link.addresses.iter().map(ipnet::IpNet::addr);
    addresses.find(global)
}

/// The addresses that are to be on an interface while they may be spoken for, with its number.
#[must_use]
pub fn on_interfaces(desired: &DesiredSegments) -> BTreeSet<InterfaceAddress> {
    let of = |desired: &Arc<DesiredSegment>| {
        let attachment = desired.attachment.as_ref();
        let index = attachment.filter(|_| desired.kernel_answers)?.index;
        Some((index, service_addresses(desired)))
    };
    let segments = desired.values().filter_map(of);
    let places = segments.flat_map(|(index, addresses)| {
        let places = addresses.into_iter();
        places.map(move |address| (index, address))
    });
    places.collect()
}

/// A hash of the failure domain; zero if the Node names none.
fn zone(snapshot: &Snapshot) -> u32 {
    let zone = snapshot
        .node
        .as_ref()
        .and_then(|node| node.label(labels::ZONE));
    zone.map_or(0, |zone| {
        let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(zone));
        u32::from_be_bytes([a, b, c, d])
    })
}

/// One change of what is to be done on a segment, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Take part in it.
    Open {
        /// The L2Network's name.
        segment: String,
        /// What to do.
        desired: Arc<DesiredSegment>,
    },
    /// Speak on another interface, or for other addresses.
    Change {
        /// The L2Network's name.
        segment: String,
        /// What was done before.
        before: Arc<DesiredSegment>,
        /// What is to be done.
        desired: Arc<DesiredSegment>,
    },
    /// Leave it.
    Close {
        /// The L2Network's name.
        segment: String,
    },
}

/// The changes from what was desired to what shall be. That other Nodes come and go, or a flag
/// changes, is none.
#[must_use]
pub fn steps(running: &DesiredSegments, wanted: &DesiredSegments) -> Plan<Step> {
    let closing = closed(running, wanted).map(|segment| Step::Close {
        segment: segment.clone(),
    });
    let others = wanted.iter().filter_map(|(segment, desired)| {
        let (segment, desired) = (segment.clone(), Arc::clone(desired));
        let before = running.get(&segment);
        match before.filter(|before| before.uid == desired.uid) {
            None => Some(Step::Open { segment, desired }),
            Some(before)
                if before.attachment != desired.attachment
                    || before.addresses != desired.addresses =>
            {
                Some(Step::Change {
                    segment,
                    before: Arc::clone(before),
                    desired,
                })
            }
            Some(_) => None,
        }
    });
    closing.chain(others).collect()
}

/// The segments that are left; an L2Network that was made again under its name is another one.
pub fn closed<'a>(
    running: &'a DesiredSegments,
    wanted: &DesiredSegments,
) -> impl Iterator<Item = &'a String> {
    let stays = |(segment, desired): &(&String, &Arc<DesiredSegment>)| {
        let now = wanted.get(*segment);
        now.is_some_and(|now| now.uid == desired.uid)
    };
    let closed = running.iter().filter(move |known| !stays(known));
    closed.map(|(segment, _)| segment)
}

fn service_addresses(desired: &DesiredSegment) -> BTreeSet<IpAddr> {
    let all = desired.addresses.values().flat_map(BTreeMap::keys);
    all.copied().collect()
}

impl engine::Step for Step {
    fn impact(&self) -> Impact {
        match self {
            Self::Open { .. } => Impact::None,
            Self::Change {
                before, desired, ..
            } => {
                if service_addresses(before).is_subset(&service_addresses(desired)) {
                    Impact::None
                } else {
                    Impact::Brief
                }
            }
            Self::Close { .. } => Impact::Brief,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { segment, desired } if desired.witness => {
                write!(f, "vote on segment {segment} as a witness")
            }
            Self::Open { segment, desired } => {
                let addresses = service_addresses(desired).len();
                write!(f, "open segment {segment} with {addresses} addresses")
            }
            Self::Change {
                segment,
                before,
                desired,
            } => {
                let (old, new) = (service_addresses(before), service_addresses(desired));
                let (added, removed) = (new.difference(&old).count(), old.difference(&new).count());
                write!(
                    f,
                    "on segment {segment} {added} addresses come and {removed} go"
                )?;
                if before.attachment != desired.attachment {
                    match &desired.attachment {
                        Some(link) => write!(f, ", speak on {} from {}", link.name, link.mac)?,
                        None => f.write_str(", the interface is down")?,
                    }
                }
                Ok(())
            }
            Self::Close { segment } => write!(f, "close segment {segment}"),
        }
    }
}

#[cfg(test)]
mod tests;
