//! What this node is to do on each segment: pure, from what was observed and decided, to the steps
//! that lead there.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use mooring_common::engine::{self, Impact, Plan};
use mooring_common::l2_network::Segment;

use super::frames::solicited_node;
use super::links::{Link, Vlan, choose, choose_parent};
use super::members::Members;
use super::observe::Snapshot;
use super::plan::Assignment;
use super::speaker::{Standing, View};
use super::station::{Attachment, Orders};

/// The segments that this Node is on: for each the interface, or why there is none.
///
/// An L2Network that cannot be read is left out: central says what is wrong with it.
#[must_use]
pub fn footing<'a>(
    snapshot: &Snapshot,
    links: &'a [Link],
) -> BTreeMap<String, Result<&'a Link, String>> {
    let Some(node) = &snapshot.node else {
        return BTreeMap::new();
    };
    let labels = node.labels.clone().unwrap_or_default();
    snapshot
        .networks
        .iter()
        .filter_map(|(key, network)| {
            let segment = network.segment.as_ref().ok()?;
            segment
                .includes(&labels)
                .then(|| (key.name.clone(), interface(segment, links, snapshot)))
        })
        .collect()
}

fn interface<'a>(
    segment: &Segment,
    links: &'a [Link],
    snapshot: &Snapshot,
) -> Result<&'a Link, String> {
    let Some(id) = segment.vlan else {
        return choose(segment, links).map_err(|error| error.to_string());
    };
    let parent = choose_parent(segment, links).map_err(|error| error.to_string())?;
    let vlan = Some(Vlan {
        parent: parent.index,
        id,
    });
    let link = links.iter().find(|link| link.stack.vlan == vlan);
    link.ok_or_else(|| {
        let fault = snapshot.vlan_faults.of(&segment.name);
        fault.unwrap_or_else(|| {
            format!(
                "the interface for VLAN {id} on {:?} is not there yet; it is being made",
                parent.name
            )
        })
    })
}

/// The segments with a VLAN that this Node is on; `None` as long as that is not known, or nothing
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
    Some(here.cloned().collect())
}

/// What the station of each segment is to do.
#[must_use]
pub fn orders(
    own_node: &str,
    footing: &BTreeMap<String, Result<&Link, String>>,
    members: &Members,
    assignment: &Assignment,
) -> BTreeMap<String, Arc<Orders>> {
    footing
        .iter()
        .filter_map(|(name, link)| Some((name, *link.as_ref().ok()?)))
        .map(|(name, link)| {
            let mine = assignment
                .of(name)
                .filter(|(_, assigned)| assigned.speaker.as_deref() == Some(own_node))
                .map(|(address, assigned)| (address, assigned.gateway))
                .collect();
            let groups = assignment
                .of(name)
                .filter_map(|(address, _)| match address {
                    IpAddr::V6(address) => Some(solicited_node(address)),
                    IpAddr::V4(_) => None,
                })
                .collect();
            let orders = Orders {
                attachment: attachment(link),
                view: View {
                    mine,
                    members: others(own_node, name, members),
                    renewals: members.renewals(),
                },
                groups,
            };
            (name.clone(), Arc::new(orders))
        })
        .collect()
}

fn attachment(link: &Link) -> Option<Attachment> {
    let mac = link.mac.filter(|_| link.up)?;
    Some(Attachment {
        name: link.name.clone(),
        index: link.index,
        mac,
    })
}

fn others(own_node: &str, segment: &str, members: &Members) -> BTreeMap<super::mac::Mac, Standing> {
    let mut others = BTreeMap::new();
    for (lease, alive) in members.known() {
        if lease.node == own_node {
            continue;
        }
        if let Some(mac) = lease.segments.get(segment) {
            let standing = if alive {
                Standing::Alive
            } else {
                Standing::Gone
            };
            // Of two Leases with one MAC (a machine that was renamed), the living one counts.
            let known = others.entry(*mac).or_insert(standing);
            if alive {
                *known = Standing::Alive;
            }
        }
    }
    others
}

/// One thing to do on a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Start its station.
    Open {
        /// The L2Network's name.
        segment: String,
        /// What it is to do.
        orders: Arc<Orders>,
    },
    /// Tell its station what has changed.
    Change {
        /// The L2Network's name.
        segment: String,
        /// What it did before.
        before: Arc<Orders>,
        /// What it is to do.
        orders: Arc<Orders>,
    },
    /// End its station.
    Close {
        /// The L2Network's name.
        segment: String,
    },
}

/// The steps from what the stations do to what they should.
#[must_use]
pub fn steps(
    running: &BTreeMap<String, Arc<Orders>>,
    wanted: &BTreeMap<String, Arc<Orders>>,
) -> Plan<Step> {
    let closing = running
        .keys()
        .filter(|segment| !wanted.contains_key(*segment))
        .map(|segment| Step::Close {
            segment: segment.clone(),
        });
    let others = wanted.iter().filter_map(|(segment, orders)| {
        let (segment, orders) = (segment.clone(), Arc::clone(orders));
        match running.get(&segment) {
            None => Some(Step::Open { segment, orders }),
            Some(before) if *before != orders => Some(Step::Change {
                segment,
                before: Arc::clone(before),
                orders,
            }),
            Some(_) => None,
        }
    });
    closing.chain(others).collect()
}

impl engine::Step for Step {
    fn impact(&self) -> Impact {
        match self {
            Self::Open { .. } => Impact::None,
            Self::Change { before, orders, .. } => {
                let kept = |address| orders.view.mine.contains_key(address);
                if before.view.mine.keys().all(kept) {
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
            Self::Open { segment, orders } => {
                let addresses = orders.view.mine.len();
                write!(f, "open segment {segment} with {addresses} addresses")
            }
            Self::Change {
                segment,
                before,
                orders,
            } => {
                let (old, new) = (&before.view.mine, &orders.view.mine);
                let added = new.keys().filter(|a| !old.contains_key(*a)).count();
                let removed = old.keys().filter(|a| !new.contains_key(*a)).count();
                write!(
                    f,
                    "on segment {segment} take {added} addresses and leave {removed}"
                )?;
                if before.attachment != orders.attachment {
                    match &orders.attachment {
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
