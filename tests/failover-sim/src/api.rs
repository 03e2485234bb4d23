//! The API server of the simulation: who votes, what is spoken for, who has renewed its Lease.

use std::collections::{BTreeMap, BTreeSet};

use mooring_node::protocol::{ApiAnswer, Consent, NodeId, Request, VoterSet};

use super::clock::{Instant, SECOND};
use super::network::{MOST_NODES, Nodes};
use super::objects::Spots;

/// How long a Lease must have been unchanged for its node to be held for dead.
const LEASE: Instant = 30 * SECOND;

/// A Service: something to speak for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// Whether it is there: faults may take it away.
    pub absent: u8,
    /// Who may hold it; `None`: all.
    pub candidates: Option<Nodes>,
    /// The addresses that it has.
    pub spots: Spots,
    /// Since when it is as it is.
    pub since: Instant,
}

/// What the API server held at some time.
#[derive(Clone, Debug)]
struct Past {
    at: Instant,
    keys: Vec<KeyState>,
    history: BTreeMap<u64, VoterSet>,
    approvals: BTreeMap<NodeId, VoterSet>,
    uid: Option<u64>,
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
    /// The next voters that each approves.
    pub approvals: BTreeMap<NodeId, VoterSet>,
    /// Which L2Network it is: another one each time that it is made; `None` while there is none.
    pub uid: Option<u64>,
    /// When voters were last written, or others came to be there.
    pub voters_since: Instant,
    /// What there was at each change, if the schedule goes back to it.
    past: Option<Vec<Past>>,
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
    pub fn new(keys: &[(Option<Nodes>, Spots)], voters: Option<VoterSet>, uid: u64) -> Self {
        let keys = keys.iter().map(|(candidates, spots)| KeyState {
            absent: 0,
            candidates: *candidates,
            spots: *spots,
            since: 0,
        });
        let mut history = BTreeMap::new();
        history.extend(voters.map(|voters| (voters.generation, voters)));
        Self {
            version: 1,
            keys: keys.collect(),
            history,
            approvals: BTreeMap::new(),
            uid: Some(uid),
            voters_since: 0,
            past: None,
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

    /// Keeps what there is at each change from now on.
    pub fn keep_the_past(&mut self) {
        self.past = Some(Vec::new());
        self.remember(0);
    }

    /// What there is from now on may be restored later.
    pub fn remember(&mut self, now: Instant) {
        if let Some(past) = &mut self.past {
            past.push(Past {
                at: now,
                keys: self.keys.clone(),
                history: self.history.clone(),
                approvals: self.approvals.clone(),
                uid: self.uid,
            });
        }
    }

    /// Holds what it held at some time, as from a backup.
    pub fn restore(&mut self, then: Instant, now: Instant) {
        let past = self.past.iter().flatten();
        let Some(past) = past.rev().find(|past| past.at <= then).cloned() else {
            return;
        };
        self.history = past.history;
        self.approvals = past.approvals;
        self.uid = past.uid;
        for (key, before) in self.keys.iter_mut().zip(past.keys) {
            // What is taken away by a fault comes back with its end.
            key.candidates = before.candidates;
            key.spots = before.spots;
            key.since = now;
        }
        self.voters_since = now;
        self.version += 1;
        self.remember(now);
    }

    /// The L2Network is deleted, or (with a UID) made anew: nobody votes there yet.
    pub fn set_network(&mut self, uid: Option<u64>, now: Instant) {
        self.uid = uid;
        self.history.clear();
        self.approvals.clear();
        self.voters_since = now;
        self.version += 1;
        self.remember(now);
    }

    /// A node renews its Lease.
    pub const fn renew(&mut self, node: usize, now: Instant) {
        self.renewed[node] = now;
    }

    /// Whether enough approve a set that one of them wants to write.
    fn suffices(&self, consent: &Consent, voters: &VoterSet, by: NodeId) -> bool {
        let approves = |node: &&NodeId| **node == by || self.approvals.get(node) == Some(voters);
        let most = |of: &BTreeSet<NodeId>| {
            of.is_empty() || of.iter().filter(approves).count() * 2 > of.len()
        };
        let all = voters.voters.iter().all(|node| approves(&node));
        match consent {
            Consent::Own => true,
            Consent::Most(served) => most(served) && (most(&self.voters().voters) || all),
            Consent::All => all,
        }
    }

    fn approve(&mut self, node: NodeId, voters: &VoterSet) -> bool {
        let before = self.approvals.insert(node, voters.clone());
        let changed = before.as_ref() != Some(voters);
        self.version += u64::from(changed);
        changed
    }

    /// Executes a request about this L2Network (`None`: whichever there is), and gives the answer. Says
    /// whether anything has changed.
    pub fn execute(
        &mut self,
        (about, request): (Option<u64>, &Request),
        by: usize,
        ids: &[NodeId],
        now: Instant,
    ) -> (ApiAnswer, bool) {
        let is_another = self.uid.is_none() || about.is_some_and(|uid| self.uid != Some(uid));
        if is_another && !matches!(request, Request::ReadLeases(_)) {
            return (ApiAnswer::Unreachable, false);
        }
        match request {
            Request::ReadVoters => (ApiAnswer::Voters(self.voters()), false),
            Request::Propose {
                replacing,
                voters,
                consent,
            } => {
                let current = self.voters();
                if current.generation != *replacing || voters.generation <= *replacing {
                    return (ApiAnswer::Conflict(current), false);
                }
                if !self.suffices(consent, voters, ids[by]) {
                    let changed = self.approve(ids[by], voters);
                    return (ApiAnswer::Awaiting(voters.clone()), changed);
                }
                self.history.insert(voters.generation, voters.clone());
                self.approvals.clear();
                self.version += 1;
                self.voters_since = now;
                (ApiAnswer::Written(voters.clone()), true)
            }
            Request::Approve(voters) => {
                let changed = self.approve(ids[by], voters);
                (ApiAnswer::Approved, changed)
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
