//! What the kernel is to do of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::{Forwarding, Phase};
use crate::announce::forwarding::table::{Group, KERNEL_LEASE, Table};
use crate::protocol::Moment;
use crate::protocol::mac::Mac;

impl Forwarding {
    /// What the kernel is to do.
    #[must_use]
    pub fn groups(&self, now: Moment) -> Vec<Group> {
        let Some(device) = &self.device else {
            return Vec::new();
        };
        let mut groups: BTreeMap<(Mac, Option<Mac>, bool), BTreeMap<IpAddr, Duration>> =
            BTreeMap::new();
        for (address, pointer) in &self.pointers {
            // Never to a node that is not a member.
            let Some(former) = self.members.get(&pointer.former) else {
                continue;
            };
            let successor = match pointer.phase {
                Phase::HandedOn(node) | Phase::Answering(node) => Some(node),
                Phase::Speaking => pointer.next.map(|next| next.node),
                Phase::Prepared(_) | Phase::Unannounced => None,
            };
            let successor = successor.and_then(|node| self.members.get(&node).copied());
            let learns = now < pointer.learns_until;
            let left = pointer.ends.since(now).min(KERNEL_LEASE);
            let group = groups.entry((*former, successor, learns)).or_default();
            group.insert(*address, left);
        }
        let of = |((former, successor, learns), addresses)| {
            let all: BTreeSet<Mac> = self.members.values().copied().chain([device.mac]).collect();
            Group {
                device: device.name.clone(),
                own: device.mac,
                former,
                never_from: all
                    .into_iter()
                    .filter(|mac| Some(*mac) != successor)
                    .collect(),
                learns,
                addresses,
            }
        };
        groups.into_iter().map(of).collect()
    }

    /// The whole table, of all segments.
    #[must_use]
    pub fn table<'a>(segments: impl Iterator<Item = &'a Self>, now: Moment) -> Table {
        let segments: Vec<&Self> = segments.collect();
        let known_for = segments.iter().map(|segment| segment.keep_for).max();
        Table {
            groups: segments
                .iter()
                .flat_map(|segment| segment.groups(now))
                .collect(),
            known_for: known_for.unwrap_or_default(),
        }
    }
}
