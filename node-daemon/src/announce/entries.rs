//! What the L2Networks are to say of this Node, where they say something else: pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mooring_common::l2_network::{SegmentNode, SpokenFor};
use mooring_common::names::{segment_notices, segment_reasons};

use super::control_plane_entry::Findings;
use super::segments::{Role, Roles};
use crate::cluster::snapshot::Snapshot;
use crate::cluster::status_writer::{Change, Entries};
use crate::protocol::mac::Mac;
use crate::responder::DesiredSegments;
use crate::wire::links::Link;

/// The longest message that the CRD takes, in characters.
const LONGEST_MESSAGE: usize = 512;
/// The most addresses that it takes of one Node.
const MOST_ADDRESSES: usize = 1000;

/// What is said of a daemon that waits for a key.
pub const NO_KEY: &str = "the daemon has no key to sign heartbeats with, and is silent until it has \
     one; mooring-central makes the Secret mooring-heartbeat where it is missing: see the log of \
     mooring-central, or make the Secret that nodeDaemon.heartbeats.secret of the chart names";

/// How this Node does on one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentStatus {
    /// The MAC address that it can speak from; `None` as long as it cannot.
    pub responding_from: Option<Mac>,
    /// Why it cannot, as far as that is known.
    pub fault: Option<String>,
    /// What it speaks for.
    pub speaks_for: BTreeMap<IpAddr, SpokenFor>,
    /// What else is to be known of it, sorted.
    pub notices: Vec<&'static str>,
}

impl SegmentStatus {
    fn has_lost_quorum(&self) -> bool {
        self.notices.contains(&segment_notices::QUORUM_LOST)
    }
}

/// The entries that are not as they should be. `roles` are the segments that this Node has a part
/// in; `desired` what is to be there; `status` how it does; `control_plane` what is found about the control
/// plane's address.
///
/// While a segment is being opened its entry stays as it is: one write for each start is enough.
#[must_use]
pub fn changes(
    snapshot: &Snapshot,
    own_node: &str,
    roles: &Roles<'_>,
    desired: &DesiredSegments,
    status: &BTreeMap<String, SegmentStatus>,
    control_plane: &Findings,
) -> Entries {
    let nothing = SegmentStatus::default();
    let mut changes = Entries::new();
    for (key, network) in snapshot.networks.iter() {
        let name = &key.name;
        let change = match roles.get(name) {
            None => network.entry.is_some().then_some(Change::Take),
            Some(role) => {
                let status = status.get(name).unwrap_or(&nothing);
                let address = desired.get(name).and_then(|desired| desired.node_address);
                let draining = snapshot.drains_on_named(name);
                let control_plane = control_plane.get(name);
                let differs = control_plane.is_some_and(|found| found.difference.is_some());
                let differs = differs.then_some(segment_notices::CONTROL_PLANE_FILE_DIFFERS);
                entry(role, status, draining.then(|| why_draining(snapshot)))
                    .map(|entry| SegmentNode {
                        name: own_node.to_owned(),
                        address: address.map(|address| address.to_string()),
                        notices: notices(role, status, differs),
                        control_plane: control_plane.map(|found| found.node.clone()),
                        // Where it is gone: it is not to be replaced by any other after a start.
                        interface: entry.interface.or_else(|| {
                            let last = network.entry.as_ref()?.interface.clone();
                            last.filter(|_| matches!(role, Role::Hindered(_) | Role::Keyless))
                        }),
                        ..entry
                    })
                    .filter(|entry| network.entry.as_ref() != Some(entry))
                    .map(|entry| Change::Put(Box::new(entry)))
            }
        };
        changes.extend(change.map(|change| (name.clone(), change)));
    }
    changes
}

fn notices(role: &Role<'_>, status: &SegmentStatus, more: Option<&'static str>) -> Vec<String> {
    let of_segment = match role {
        // It is on no segment, and so has nothing else to say of one.
        Role::Keyless => &[segment_notices::HEARTBEATS_UNSIGNED],
        _ => status.notices.as_slice(),
    };
    let all = of_segment.iter().copied().chain(more);
    all.map(str::to_owned).collect()
}

/// What is said of a Node whose daemon has ended, where something else was said.
#[must_use]
pub fn stopped(snapshot: &Snapshot, roles: &Roles<'_>) -> Entries {
    let mut changes = Entries::new();
    for (key, network) in snapshot.networks.iter() {
        let change = match (&network.entry, roles.contains_key(&key.name)) {
            (Some(entry), true) => Change::Put(Box::new(SegmentNode {
                name: entry.name.clone(),
                interface: entry.interface.clone(),
                address: entry.address.clone(),
                witness: entry.witness,
                ..not_ready(segment_reasons::STOPPED, "its node daemon has ended")
            })),
            (Some(_), false) => Change::Take,
            (None, _) => continue,
        };
        changes.insert(key.name.clone(), change);
    }
    changes
}

fn why_draining(snapshot: &Snapshot) -> String {
    let maintenance = snapshot.maintenance();
    if maintenance.lasts(snapshot.looked_at) {
        return format!("the Node is {maintenance}");
    }
    "the Node is being deleted, excluded from load balancers, or out of service".to_owned()
}

/// What is to be said; `None` as long as nothing is known. `draining`: why the Node is to carry no traffic.
fn entry(role: &Role<'_>, status: &SegmentStatus, draining: Option<String>) -> Option<SegmentNode> {
    match role {
        Role::Hindered(fault) | Role::Awaiting(fault) => {
            Some(not_ready(segment_reasons::NO_INTERFACE, fault))
        }
        Role::Witness => {
            let entry = if status.has_lost_quorum() {
                without_quorum()
            } else {
                ready(segment_reasons::WITNESS)
            };
            Some(SegmentNode {
                witness: true,
                ..entry
            })
        }
        Role::Keyless => Some(not_ready(segment_reasons::NO_HEARTBEAT_KEY, NO_KEY)),
        Role::Speaker(link) => speaker(link, status, draining),
    }
}

fn speaker(link: &Link, status: &SegmentStatus, draining: Option<String>) -> Option<SegmentNode> {
    let entry = if !link.up || link.mac.is_none() {
        let fault = format!(
            "interface {} is down, has no carrier or no Ethernet address; set it up, or name \
             another in spec.parent or spec.interfaces",
            link.name
        );
        not_ready(segment_reasons::INTERFACE_DOWN, &fault)
    } else if let Some(mac) = status.responding_from {
        let entry = if let Some(fault) = draining {
            not_ready(segment_reasons::DRAINING, &fault)
        } else if status.has_lost_quorum() {
            without_quorum()
        } else {
            ready(segment_reasons::READY)
        };
        SegmentNode {
            mac: Some(mac.to_string()),
            ..entry
        }
    } else {
        not_ready(segment_reasons::CANNOT_SPEAK, status.fault.as_ref()?)
    };
    let spoken_for = status.speaks_for.values();
    Some(SegmentNode {
        interface: Some(link.name.clone()),
        addresses: spoken_for.take(MOST_ADDRESSES).cloned().collect(),
        ..entry
    })
}

fn ready(reason: &str) -> SegmentNode {
    SegmentNode {
        ready: true,
        reason: reason.to_owned(),
        ..SegmentNode::default()
    }
}

/// Nobody may speak, nor does a vote count, where no majority is heard.
fn without_quorum() -> SegmentNode {
    let fault = "it hears no majority of the voters; look at them, and at the segment and the node \
                 network between them";
    not_ready(segment_reasons::QUORUM_LOST, fault)
}

fn not_ready(reason: &str, fault: &str) -> SegmentNode {
    SegmentNode {
        reason: reason.to_owned(),
        message: fault.chars().take(LONGEST_MESSAGE).collect(),
        ..SegmentNode::default()
    }
}

#[cfg(test)]
mod tests;
