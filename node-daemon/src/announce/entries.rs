//! What the L2Networks are to say of this Node, where they say something else: pure.

use std::collections::BTreeMap;

use mooring_common::l2_network::SegmentNode;
use mooring_common::names::segment_reasons;

use super::links::Link;
use super::mac::Mac;
use super::observe::Snapshot;

/// The longest message that the CRD takes, in characters.
const LONGEST_MESSAGE: usize = 512;

/// What is to be done about the entries of this Node, by L2Network.
pub type Entries = BTreeMap<String, Change>;

/// What is to be done about one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is to be this.
    Put(SegmentNode),
    /// It is to go.
    Take,
}

/// The entries that are not as they should be. `footing` are the segments that this Node is on, with
/// its interface; `on_air` those that it can speak on; `complaint` is why it can not speak on one.
///
/// While a segment is being opened its entry stays as it is: one write for each start is enough.
#[must_use]
pub fn changes<'a>(
    snapshot: &Snapshot,
    own_node: &str,
    footing: &BTreeMap<String, Result<&Link, String>>,
    on_air: &BTreeMap<String, Mac>,
    complaint: impl Fn(&str) -> Option<&'a str>,
) -> Entries {
    let mut changes = Entries::new();
    for (key, network) in snapshot.networks.iter() {
        let name = &key.name;
        let change = match footing.get(name) {
            None => network.entry.is_some().then_some(Change::Take),
            Some(link) => {
                let mac = on_air.get(name).copied();
                entry(link, mac, complaint(name), snapshot.draining())
                    .map(|entry| SegmentNode {
                        name: own_node.to_owned(),
                        ..entry
                    })
                    .filter(|entry| network.entry.as_ref() != Some(entry))
                    .map(Change::Put)
            }
        };
        changes.extend(change.map(|change| (name.clone(), change)));
    }
    changes
}

/// What is to be said; `None` as long as nothing is known.
fn entry(
    link: &Result<&Link, String>,
    mac: Option<Mac>,
    complaint: Option<&str>,
    draining: bool,
) -> Option<SegmentNode> {
    let link = match link {
        Ok(link) => *link,
        Err(fault) => return Some(not_ready(segment_reasons::NO_INTERFACE, fault)),
    };
    let entry = if !link.up || link.mac.is_none() {
        let fault = format!(
            "interface {} is down, has no carrier or no Ethernet address; set it up, or name \
             another in spec.parent",
            link.name
        );
        not_ready(segment_reasons::INTERFACE_DOWN, &fault)
    } else if let Some(mac) = mac {
        let entry = if draining {
            let fault = "the Node is being deleted, excluded from load balancers, or drained";
            not_ready(segment_reasons::DRAINING, fault)
        } else {
            SegmentNode {
                ready: true,
                reason: segment_reasons::READY.to_owned(),
                ..SegmentNode::default()
            }
        };
        SegmentNode {
            mac: Some(mac.to_string()),
            ..entry
        }
    } else {
        not_ready(segment_reasons::CANNOT_SPEAK, complaint?)
    };
    Some(SegmentNode {
        interface: Some(link.name.clone()),
        ..entry
    })
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
