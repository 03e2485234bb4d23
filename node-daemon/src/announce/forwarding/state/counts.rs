//! How many connections this node has left of what it has handed over, and what new speakers are told of it.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Forwarding;
use crate::protocol::{Moment, NodeId};

/// It may say that it has none once its own count is not a moment's chance.
pub(super) const NONE_FOR: Duration = Duration::from_secs(10);

/// An address that this node has handed over, and of which it has connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Served {
    pub(super) to: NodeId,
    pub(super) ends: Moment,
    /// Since when none was found.
    #[serde(skip)]
    none_since: Option<Moment>,
    #[serde(skip)]
    count: Option<u32>,
}

/// How many connections this node has to an address that it has handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Who speaks for it now.
    pub to: NodeId,
    /// Which.
    pub address: IpAddr,
    /// How many.
    pub connections: u32,
}

impl Served {
    /// Handed over to this node, and nothing is counted yet.
    pub(super) const fn to(node: NodeId, ends: Moment) -> Self {
        Self {
            to: node,
            ends,
            none_since: None,
            count: None,
        }
    }
}

impl Forwarding {
    /// Takes in how many connections to an address this node has by its conntrack, apart from those that it
    /// passes on.
    pub fn counted(&mut self, address: IpAddr, connections: u32, now: Moment) {
        if let Some(served) = self.served.get_mut(&address) {
            served.count = Some(connections);
            served.none_since = match (connections, served.none_since) {
                (0, None) => Some(now),
                (0, since) => since,
                (_, _) => None,
            };
        }
    }

    /// The addresses of which this node's connections are to be counted.
    pub fn counts_for(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.served.keys().copied()
    }

    /// What the new speakers are to be told. A chain of hops needs this node as long as it passes on
    /// itself.
    #[must_use]
    pub fn counts(&self, now: Moment) -> Vec<Count> {
        let of = |(address, served): (&IpAddr, &Served)| {
            let found = served.count?;
            let none = served
                .none_since
                .is_some_and(|since| since + NONE_FOR <= now);
            let passes_on = self.pointers.contains_key(address);
            let connections = match (found, none && !passes_on) {
                (0, true) => 0,
                (0, false) => 1,
                (found, _) => found,
            };
            Some(Count {
                to: served.to,
                address: *address,
                connections,
            })
        };
        self.served.iter().filter_map(of).collect()
    }
}
