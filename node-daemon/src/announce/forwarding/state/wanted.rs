//! What the kernel is to do of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::{Forwarding, Phase};
use crate::announce::forwarding::table::{Group, KERNEL_LEASE, Table};
use crate::protocol::mac::Mac;
use crate::protocol::{Moment, NodeId};

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
            let Some(former) = self.mac_of(pointer.former) else {
                continue;
            };
            let successor = match pointer.phase {
                Phase::HandedOn(node) | Phase::Answering(node) => Some(node),
                Phase::Speaking => pointer.next.map(|next| next.node),
                Phase::Prepared(_) | Phase::Unannounced => None,
            };
            let successor = successor.and_then(|node| self.mac_of(node));
            let learns = now < pointer.learns_until;
            let left = pointer
                .ends
                .since(now)
                .min(self.longest(pointer.former, now));
            let group = groups.entry((former, successor, learns)).or_default();
            group.insert(*address, left);
        }
        let of = |((former, successor, learns), addresses)| {
            let unheard = self.unheard.values().map(|unheard| &unheard.mac);
            let members = self.members.values().chain(unheard);
            let all: BTreeSet<Mac> = members.copied().chain([device.mac]).collect();
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

    /// Where a node is, by what this process has heard or else the one before it.
    pub(super) fn mac_of(&self, node: NodeId) -> Option<Mac> {
        let heard = self.members.get(&node).copied();
        heard.or_else(|| Some(self.unheard.get(&node)?.mac))
    }

    /// For how long the kernel may pass on to a node without being told again.
    fn longest(&self, former: NodeId, now: Moment) -> Duration {
        let unheard = self.unheard.get(&former);
        let unheard = unheard.filter(|_| !self.members.contains_key(&former));
        unheard.map_or(KERNEL_LEASE, |unheard| unheard.until.since(now))
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
