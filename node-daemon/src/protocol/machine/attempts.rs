//! Claims on their way: put to the voters, repeated, won or lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::protocol::decision::{AnnounceMode, Cause, Transition};
use crate::protocol::message::{Body, Claim, Grant, Incarnation, Key, Message, NodeId};
use crate::protocol::time::Moment;

/// A claim is repeated that often while voters that live have not answered.
const REPEAT: Duration = Duration::from_millis(5);
const REPEATS: u32 = 60;
/// And that often while all have answered, but some wait for a promise to end: the answer that they
/// give then may be lost.
const REMIND: Duration = Duration::from_millis(50);
/// A claim that has not been decided by then is given up.
const CLAIM_TIMEOUT: Duration = Duration::from_millis(700);

/// A claim on its way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Attempt {
    nonce: u32,
    /// Each with the voters that have granted and refused it.
    pub(super) keys: BTreeMap<Key, (BTreeSet<NodeId>, BTreeSet<NodeId>)>,
    /// What was claimed, but for what is lost.
    wanted: BTreeSet<Key>,
    answered: BTreeSet<NodeId>,
    released_by: Option<(NodeId, Incarnation, u64)>,
    begun: Moment,
    pub(super) next: Moment,
    repeats: u32,
    /// It is repeated no more: whoever has not answered by now cannot.
    over: bool,
}

impl Attempt {
    fn message(&self) -> Claim {
        Claim {
            nonce: self.nonce,
            keys: self.wanted.iter().copied().collect(),
            released_by: self.released_by,
        }
    }

    /// Whether all of these have granted or refused all that is claimed.
    fn is_decided_by(&self, voters: &BTreeSet<NodeId>) -> bool {
        self.keys.values().all(|(granted, refused)| {
            let mut voters = voters.iter();
            voters.all(|voter| granted.contains(voter) || refused.contains(voter))
        })
    }
}

impl Machine {
    /// Claims keys: of one release, if they were let go.
    pub(super) fn claim(&mut self, keys: &[Key], released_by: Option<(NodeId, Incarnation, u64)>) {
        self.note(Transition::Claimed);
        self.claims.nonce = self.claims.nonce.wrapping_add(1);
        let nonce = self.claims.nonce;
        let attempt = Attempt {
            nonce,
            keys: keys.iter().map(|key| (*key, Default::default())).collect(),
            wanted: keys.iter().copied().collect(),
            answered: BTreeSet::new(),
            released_by,
            begun: self.now,
            next: self.now + REPEAT,
            repeats: 0,
            over: false,
        };
        let claim = Claim {
            nonce,
            keys: keys.to_vec(),
            released_by,
        };
        self.claims.attempts.push(attempt);
        self.put_to_voters(&claim);
    }

    /// Asks all voters, this node among them. A claim that is repeated with fewer keys than before
    /// leaves the others to whoever wants them.
    fn put_to_voters(&mut self, claim: &Claim) {
        self.tell_all(Body::Claim(claim.clone()));
        if self.is_awake()
            && let Some(grant) = self.judge_claim(self.me, self.incarnation, claim)
        {
            self.note_grant(self.me, &grant);
        }
    }

    /// Takes a grant in.
    pub(super) fn hear_grant(&mut self, message: &Message, grant: &Grant) {
        let counts = message.generation == self.voter_sets.current.generation
            || !self.rules().one_generation_at_a_time();
        if grant.to == self.me && grant.incarnation == self.incarnation && counts {
            self.note_grant(message.from, grant);
        }
    }

    /// Counts a grant.
    pub(super) fn note_grant(&mut self, voter: NodeId, grant: &Grant) {
        if !self.voter_sets.has_voter(voter) {
            return;
        }
        let Some(attempt) = self
            .claims
            .attempts
            .iter_mut()
            .find(|attempt| attempt.nonce == grant.nonce)
        else {
            return;
        };
        attempt.answered.insert(voter);
        for key in &grant.granted {
            if let Some((granted, refused)) = attempt.keys.get_mut(key) {
                granted.insert(voter);
                refused.remove(&voter);
            }
        }
        for (key, _) in &grant.refused {
            if let Some((granted, refused)) = attempt.keys.get_mut(key) {
                refused.insert(voter);
                granted.remove(&voter);
            }
        }
        self.count_grants();
    }

    /// Takes what enough voters have granted, and gives up what they cannot grant any more.
    fn count_grants(&mut self) {
        let majority = self.voter_sets.current.majority();
        let able: Vec<NodeId> = self.able_voters().collect();
        let mut won = Vec::new();
        let mut lost = Vec::new();
        for attempt in &self.claims.attempts {
            for (key, (granted, refused)) in &attempt.keys {
                let votes: usize = granted.iter().map(|node| self.weight_of_vote(*node)).sum();
                if votes >= majority {
                    won.push(*key);
                    continue;
                }
                // Nor can those that do not hear this node, although it hears them.
                let possible: usize = able
                    .iter()
                    .filter(|voter| !refused.contains(voter))
                    .filter(|voter| !attempt.over || attempt.answered.contains(voter))
                    .filter(|voter| granted.contains(voter) || self.may_hear(**voter))
                    .map(|voter| self.weight_of_vote(*voter))
                    .sum();
                if possible < majority {
                    lost.push(*key);
                }
            }
        }
        if !won.is_empty() {
            self.note(Transition::ClaimWon);
            for attempt in &mut self.claims.attempts {
                attempt.keys.retain(|key, _| !won.contains(key));
            }
        }
        for key in won {
            if !self.win(key) {
                lost.push(key);
            }
        }
        if !lost.is_empty() {
            self.lose(&lost);
        }
        self.claims
            .attempts
            .retain(|attempt| !attempt.keys.is_empty());
    }

    /// Holds a key that was granted; whether it can.
    fn win(&mut self, key: Key) -> bool {
        let wanted = self
            .view
            .as_ref()
            .is_some_and(|view| view.keys.contains_key(&key));
        if !wanted || !self.may_hold() || self.owners.contains_key(&key) {
            return false;
        }
        let was_mine = self.membership.lost.remove(&key).is_some();
        let former = if was_mine {
            Some(self.me)
        } else {
            self.quiet.last_speaker(key)
        };
        let cause = if former.is_some() {
            Cause::TakenOver
        } else {
            Cause::Unclaimed
        };
        self.gain(key, cause, former, AnnounceMode::Unsolicited);
        self.claims.was_taken(key);
        true
    }

    /// Gives keys up, and tells the voters: what some have reserved is free for others at once.
    pub(super) fn lose(&mut self, keys: &[Key]) {
        self.note(Transition::ClaimLost);
        self.put_off(keys);
        let mut narrowed = Vec::new();
        for attempt in &mut self.claims.attempts {
            let before = attempt.wanted.len();
            attempt.keys.retain(|key, _| !keys.contains(key));
            attempt.wanted.retain(|key| !keys.contains(key));
            if attempt.wanted.len() < before {
                narrowed.push(attempt.message());
            }
        }
        self.claims
            .attempts
            .retain(|attempt| !attempt.keys.is_empty());
        for claim in narrowed {
            self.put_to_voters(&claim);
        }
    }

    /// The voters that can grant: those that live, and this node itself.
    pub(super) fn able_voters(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.voter_sets
            .current
            .voters
            .iter()
            .copied()
            .filter(|voter| {
                *voter == self.me || self.peers.get(voter).is_some_and(|peer| !peer.suspected)
            })
    }

    /// Whether a voter may have heard what this node sent.
    fn may_hear(&self, voter: NodeId) -> bool {
        voter == self.me || self.is_reporting(voter)
    }

    /// Gives up all claims on their way, and tells the voters: what they have reserved, or would
    /// once a promise ends, is for others.
    pub(super) fn abandon_claims(&mut self) {
        self.claims.replan = true;
        for attempt in std::mem::take(&mut self.claims.attempts) {
            let withdrawal = Claim {
                nonce: attempt.nonce,
                keys: Vec::new(),
                released_by: None,
            };
            self.put_to_voters(&withdrawal);
        }
    }

    /// Repeats claims, and gives up those that take too long.
    pub(super) fn tick_claims(&mut self) {
        let now = self.now;
        if now < self.claims.due {
            return;
        }
        let awaited: BTreeSet<NodeId> = self
            .able_voters()
            .filter(|voter| *voter != self.me || self.votes())
            .collect();
        let mut repeats = Vec::new();
        let mut late = Vec::new();
        for attempt in &mut self.claims.attempts {
            if attempt.begun + CLAIM_TIMEOUT <= now {
                late.extend(attempt.keys.keys().copied());
                continue;
            }
            if attempt.next > now {
                continue;
            }
            let answered = awaited.is_subset(&attempt.answered);
            if attempt.repeats >= REPEATS || attempt.is_decided_by(&awaited) {
                attempt.over |= !answered;
                attempt.next = attempt.begun + CLAIM_TIMEOUT;
            } else {
                attempt.repeats += 1;
                attempt.next = now + if answered { REMIND } else { REPEAT };
                repeats.push(attempt.message());
            }
        }
        for claim in repeats {
            self.put_to_voters(&claim);
        }
        self.count_grants();
        if !late.is_empty() {
            self.lose(&late);
        }
        self.claims.reschedule();
    }
}
