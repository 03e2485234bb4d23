//! The API server of the world: who votes, what is spoken for, who has renewed its Lease.

use std::collections::{BTreeMap, BTreeSet};

use mooring_node::announce::protocol::{ApiAnswer, NodeId, Request, VoterSet};

use super::clock::{Instant, SECOND};
use super::network::{MOST_NODES, Nodes};

/// How long a Lease must have been unchanged for its node to be held for dead.
const LEASE: Instant = 30 * SECOND;

/// Something to speak for.
#[derive(Clone, Copy, Debug)]
pub struct KeyState {
    /// Whether it is there: faults may take it away.
    pub absent: u8,
    /// Who may hold it; `None`: all.
    pub candidates: Option<Nodes>,
    /// Since when it is as it is.
    pub since: Instant,
}

/// The API server's objects.
#[derive(Clone, Debug)]
pub struct Api {
    /// Goes up with each change that views show.
    pub version: u64,
    /// What is spoken for.
    pub keys: Vec<KeyState>,
    /// The voters of every generation that was written.
    pub history: BTreeMap<u64, VoterSet>,
    renewed: [Instant; MOST_NODES],
    away: [u8; MOST_NODES],
    /// How many causes there are that its answers do not reach a node.
    answers_lost: [u8; MOST_NODES],
    /// Since when each node has reached it.
    reached_since: [Instant; MOST_NODES],
}

impl Api {
    /// With these keys and voters.
    #[must_use]
    pub fn new(keys: &[Option<Nodes>], voters: Option<VoterSet>) -> Self {
        let keys = keys.iter().map(|candidates| KeyState {
            absent: 0,
            candidates: *candidates,
            since: 0,
        });
        let mut history = BTreeMap::new();
        history.extend(voters.map(|voters| (voters.generation, voters)));
        Self {
            version: 1,
            keys: keys.collect(),
            history,
            renewed: [0; MOST_NODES],
            away: [0; MOST_NODES],
            answers_lost: [0; MOST_NODES],
            reached_since: [0; MOST_NODES],
        }
    }

    /// The voters of now; generation 0 if nobody was ever named.
    #[must_use]
    pub fn voters(&self) -> VoterSet {
        let newest = self.history.values().next_back();
        newest.cloned().unwrap_or_default()
    }

    /// Whether a node reaches it.
    #[must_use]
    pub const fn is_reached_by(&self, node: usize) -> bool {
        self.away[node] == 0
    }

    /// Whether its answers reach a node that reaches it.
    #[must_use]
    pub const fn answers_reach(&self, node: usize) -> bool {
        self.answers_lost[node] == 0
    }

    /// Its answers do not reach a node from now on, or do again as far as this cause goes.
    pub const fn lose_answers(&mut self, node: usize, on: bool) {
        count(&mut self.answers_lost[node], on);
    }

    /// Whether a node does not reach it from now on, or does again as far as this cause goes.
    pub const fn take_away(&mut self, node: usize, on: bool, now: Instant) {
        count(&mut self.away[node], on);
        if self.away[node] == 0 {
            self.reached_since[node] = now;
        }
    }

    /// A node renews its Lease.
    pub const fn renew(&mut self, node: usize, now: Instant) {
        self.renewed[node] = now;
    }

    /// Executes a request, and gives the answer. Says whether anything has changed.
    pub fn execute(
        &mut self,
        request: &Request,
        by: usize,
        ids: &[NodeId],
        now: Instant,
    ) -> (ApiAnswer, bool) {
        match request {
            Request::ReadVoters => (ApiAnswer::Voters(self.voters()), false),
            Request::Propose { replacing, voters } => {
                let current = self.voters();
                if current.generation != *replacing || voters.generation != replacing + 1 {
                    return (ApiAnswer::Conflict(current), false);
                }
                self.history.insert(voters.generation, voters.clone());
                self.version += 1;
                (ApiAnswer::Written(voters.clone()), true)
            }
            Request::ReadLeases(nodes) => {
                let unchanged = |node: &usize| {
                    let watched = self.renewed[*node].max(self.reached_since[by]);
                    now.saturating_sub(watched) >= LEASE
                };
                let asked = (0..ids.len()).filter(|node| nodes.contains(&ids[*node]));
                let unchanged: BTreeSet<NodeId> =
                    asked.filter(unchanged).map(|node| ids[node]).collect();
                (ApiAnswer::LeasesUnchanged(unchanged), false)
            }
        }
    }
}

const fn count(causes: &mut u8, on: bool) {
    *causes = if on {
        *causes + 1
    } else {
        causes.saturating_sub(1)
    };
}
