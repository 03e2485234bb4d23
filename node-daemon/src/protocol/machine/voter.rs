//! What a voter has promised, and to whom.
//!
//! For each key a voter knows at most one holder. Its promise to a node covers all keys of the set
//! that it has accepted for the node, and runs from the last heartbeat that it echoed. Since no key
//! is in two accepted sets, an echo needs no more than a look at the digest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::claims::PREFERENCE;
use super::peers::Released;
use super::speaking_lease::low;
use crate::protocol::message::{Answer, Digest, Epoch, Incarnation, Key, NodeId};
use crate::protocol::parameters::Parameters;
use crate::protocol::rules::Rules;
use crate::protocol::time::Moment;

/// Who has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Hold {
    /// It is in the accepted set of this node, and promised as long as the promise to it runs.
    Accepted(NodeId),
    /// It was promised to an earlier epoch of this node.
    Promised(NodeId, Moment),
    /// It was granted to a claim of this node, or (nonce zero) let go for this node.
    Reserved(NodeId, u32, Moment),
    /// This node lost the right to it, and is preferred. It is no promise.
    Preferred(NodeId, Moment),
}

/// What a voter holds for one node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Ballot {
    incarnation: Incarnation,
    epoch: Epoch,
    revision: u64,
    digest: Digest,
    keys: BTreeSet<Key>,
    /// Until when what is in the set may go to nobody else.
    promised: Moment,
    answer: State,
}

/// The answer to the newest heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    #[default]
    None,
    Accepted {
        seq: u64,
        digest: Digest,
        until: Moment,
    },
    Unknown {
        until: Moment,
    },
    Refused {
        holder: NodeId,
        until: Moment,
    },
}

impl State {
    /// Whether another says the same, but for the number and the time.
    fn says_the_same(self, other: Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) | (Self::Unknown { .. }, Self::Unknown { .. }) => true,
            (Self::Accepted { digest, .. }, Self::Accepted { digest: new, .. }) => digest == new,
            (Self::Refused { holder, .. }, Self::Refused { holder: new, .. }) => holder == new,
            _ => false,
        }
    }
}

/// What a voter says to a claim for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The claimant may hold it.
    Free,
    /// Somebody has it until then, unless promised anew.
    Held(NodeId, Moment),
    /// It is reserved for another claim: one that suits the key better may still have it.
    Reserved(NodeId),
    /// Its last holder is preferred until then.
    Preferred(NodeId, Moment),
}

/// Whose heartbeat, or whose set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
    pub(super) epoch: Epoch,
}

/// A set that a node states.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement<'a> {
    pub(super) revision: u64,
    pub(super) keys: &'a BTreeSet<Key>,
    pub(super) released: &'a Released,
    pub(super) lapsed: bool,
}

/// A voter's book.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Voter {
    /// Before that it may have promised something that it does not know (rule B).
    pub(super) awake_at: Moment,
    promise: Duration,
    #[cfg(feature = "simulator")]
    #[serde(default)]
    rules: Rules,
    ballots: BTreeMap<NodeId, Ballot>,
    holds: BTreeMap<Key, Hold>,
}

impl Voter {
    pub(super) const fn new(awake_at: Moment, parameters: &Parameters) -> Self {
        Self {
            awake_at,
            promise: parameters.promise,
            #[cfg(feature = "simulator")]
            rules: parameters.rules,
            ballots: BTreeMap::new(),
            holds: BTreeMap::new(),
        }
    }

    const fn rules(&self) -> Rules {
        #[cfg(feature = "simulator")]
        {
            self.rules
        }
        #[cfg(not(feature = "simulator"))]
        {
            Rules
        }
    }

    /// Goes over to the run and epoch of a node. What was promised to an earlier one stays promised
    /// to the node until its time has run out.
    fn follow(&mut self, run: Run, now: Moment) {
        let prefers = self.rules().last_holder_is_preferred();
        let ballot = self.ballots.entry(run.node).or_default();
        if (ballot.incarnation, ballot.epoch) == (run.incarnation, run.epoch) {
            return;
        }
        // The same run has given its former epoch up, and holds to that (rule D). Of another run
        // nobody knows.
        let hold = if ballot.incarnation == run.incarnation && prefers {
            Hold::Preferred(run.node, now + PREFERENCE)
        } else {
            Hold::Promised(run.node, ballot.promised)
        };
        for key in std::mem::take(&mut ballot.keys) {
            if self.holds.get(&key) == Some(&Hold::Accepted(run.node)) {
                self.holds.insert(key, hold);
            }
        }
        *ballot = Ballot {
            incarnation: run.incarnation,
            epoch: run.epoch,
            ..Ballot::default()
        };
    }

    /// Takes in what a node holds. Keys that it let go are free at once; keys that were promised to
    /// another stay out, so that the digest does not fit until they are free.
    ///
    /// Whether anything has become free.
    pub(super) fn accept(&mut self, run: Run, set: Statement<'_>, now: Moment) -> bool {
        self.follow(run, now);
        let rules = self.rules();
        let Some(ballot) = self.ballots.get_mut(&run.node) else {
            return false;
        };
        if set.revision < ballot.revision {
            return false;
        }
        ballot.revision = set.revision;
        let gone: Vec<Key> = ballot.keys.difference(set.keys).copied().collect();
        for key in &gone {
            ballot.keys.remove(key);
            ballot.digest = ballot.digest.without(*key);
            let target = set
                .released
                .iter()
                .find(|(released, _)| released == key)
                .and_then(|(_, target)| *target);
            let next = match target {
                Some(target) => Some(Hold::Reserved(target, 0, now + self.promise)),
                None if set.lapsed && rules.last_holder_is_preferred() => {
                    Some(Hold::Preferred(run.node, now + PREFERENCE))
                }
                None => None,
            };
            match next {
                Some(hold) => self.holds.insert(*key, hold),
                None => self.holds.remove(key),
            };
        }
        let mut refused = None;
        for key in set.keys {
            if self.is_accepted(*key, run.node) {
                continue;
            }
            match self.blocker(*key, run.node, now) {
                Some(holder) if rules.echo_names_the_set() => refused = Some(holder),
                _ => self.give(*key, run.node),
            }
        }
        if let Some(ballot) = self.ballots.get_mut(&run.node) {
            if let Some(holder) = refused {
                ballot.answer = State::Refused {
                    holder,
                    until: now + self.promise,
                };
            } else {
                // What was granted stays reserved until the heartbeat comes that lists it.
                ballot.promised = ballot.promised.max(now + self.promise);
            }
        }
        !gone.is_empty()
    }

    fn is_accepted(&self, key: Key, node: NodeId) -> bool {
        self.holds.get(&key) == Some(&Hold::Accepted(node))
    }

    /// Who else has a key, by a promise or a reservation that runs.
    fn blocker(&self, key: Key, node: NodeId, now: Moment) -> Option<NodeId> {
        let (holder, until) = match *self.holds.get(&key)? {
            Hold::Accepted(holder) => (holder, self.promised_until(holder)),
            Hold::Promised(holder, until) | Hold::Reserved(holder, _, until) => (holder, until),
            Hold::Preferred(..) => return None,
        };
        (holder != node && now < until).then_some(holder)
    }

    fn promised_until(&self, node: NodeId) -> Moment {
        self.ballots
            .get(&node)
            .map_or_else(Moment::default, |ballot| ballot.promised)
    }

    /// Puts a key into the accepted set of a node, and takes it out of any other's.
    fn give(&mut self, key: Key, node: NodeId) {
        let before = match self.holds.get(&key) {
            Some(Hold::Promised(_, until)) => *until,
            _ => Moment::default(),
        };
        self.take_out(key);
        if let Some(ballot) = self.ballots.get_mut(&node)
            && ballot.keys.insert(key)
        {
            // What was promised to an earlier epoch lasts.
            ballot.promised = ballot.promised.max(before);
            ballot.digest = ballot.digest.with(key);
        }
        self.holds.insert(key, Hold::Accepted(node));
    }

    fn take_out(&mut self, key: Key) {
        if let Some(Hold::Accepted(other)) = self.holds.remove(&key)
            && let Some(ballot) = self.ballots.get_mut(&other)
            && ballot.keys.remove(&key)
        {
            ballot.digest = ballot.digest.without(key);
        }
    }

    /// Answers a heartbeat. `stated`: the set that the node has stated with this digest, if it is
    /// known. Whether the answer is another than before, but for the number.
    pub(super) fn hear(
        &mut self,
        run: Run,
        seq: u64,
        digest: Digest,
        stated: Option<Statement<'_>>,
        now: Moment,
    ) -> bool {
        self.follow(run, now);
        let before = self
            .ballots
            .get(&run.node)
            .map_or(State::None, |ballot| ballot.answer);
        let fits = |voter: &Self| {
            !voter.rules().echo_names_the_set()
                || voter
                    .ballots
                    .get(&run.node)
                    .is_some_and(|ballot| ballot.digest == digest)
        };
        if !fits(self)
            && let Some(stated) = stated
        {
            self.accept(run, stated, now);
        }
        let fits = fits(self);
        let promise = self.promise;
        let Some(ballot) = self.ballots.get_mut(&run.node) else {
            return false;
        };
        if fits {
            // The set is this one as of now: what was stated before is history.
            ballot.revision = ballot.revision.max(seq);
            ballot.promised = ballot.promised.max(now + promise);
            ballot.answer = State::Accepted {
                seq,
                digest,
                until: now + promise,
            };
        } else if stated.is_none() {
            ballot.answer = State::Unknown {
                until: now + promise,
            };
        }
        !before.says_the_same(ballot.answer)
    }

    /// What is echoed about a node.
    pub(super) fn answer(&self, node: NodeId, now: Moment) -> Answer {
        let Some(ballot) = self.ballots.get(&node) else {
            return Answer::None;
        };
        match ballot.answer {
            State::Accepted { seq, digest, until }
                if now < until || !self.rules().echo_is_exact() =>
            {
                Answer::Accepted {
                    seq: low(seq),
                    digest,
                }
            }
            State::Unknown { until } if now < until => Answer::Unknown,
            State::Refused { holder, until } if now < until => Answer::Refused { holder },
            _ => Answer::None,
        }
    }

    /// The set that is accepted for a node, if this is its digest.
    pub(super) fn accepted_set(&self, node: NodeId, digest: Digest) -> Option<&BTreeSet<Key>> {
        self.ballots
            .get(&node)
            .filter(|ballot| ballot.digest == digest)
            .map(|ballot| &ballot.keys)
    }

    /// Whether the set of a node is held back since somebody else has a key of it.
    pub(super) fn refuses(&self, node: NodeId) -> bool {
        self.ballots
            .get(&node)
            .is_some_and(|ballot| matches!(ballot.answer, State::Refused { .. }))
    }

    /// Whether anybody's set is held back.
    pub(super) fn refused(&self) -> Vec<NodeId> {
        self.ballots
            .keys()
            .copied()
            .filter(|node| self.refuses(*node))
            .collect()
    }

    /// Whether a claimant may have a key. `released`: the claimant has heard that this node let it
    /// go in a later message than the one that its set here is of.
    pub(super) fn judge(&self, key: Key, claimant: NodeId, now: Moment) -> Verdict {
        match self.holds.get(&key).copied() {
            Some(Hold::Accepted(holder)) if holder != claimant => {
                let until = self.promised_until(holder);
                if now < until {
                    return Verdict::Held(holder, until);
                }
            }
            Some(Hold::Reserved(holder, nonce, until))
                if holder != claimant && nonce > 0 && now < until =>
            {
                return Verdict::Reserved(holder);
            }
            Some(Hold::Promised(holder, until) | Hold::Reserved(holder, _, until))
                if holder != claimant && now < until =>
            {
                return Verdict::Held(holder, until);
            }
            Some(Hold::Preferred(holder, until)) if holder != claimant && now < until => {
                return Verdict::Preferred(holder, until);
            }
            _ => {}
        }
        Verdict::Free
    }

    /// Reserves a key that is free.
    pub(super) fn grant(&mut self, key: Key, claimant: NodeId, nonce: u32, now: Moment) {
        if self.is_accepted(key, claimant) {
            return;
        }
        if let Some(Hold::Promised(_, until)) = self.holds.get(&key)
            && now < *until
        {
            // It is the claimant's own, of an earlier epoch, and lasts.
            return;
        }
        self.take_out(key);
        self.holds
            .insert(key, Hold::Reserved(claimant, nonce, now + self.promise));
    }

    /// Frees what is reserved for a claim that does not list it any more.
    pub(super) fn narrow(&mut self, claimant: NodeId, nonce: u32, keys: &[Key]) {
        self.holds.retain(|key, hold| {
            let is_of_claim =
                matches!(hold, Hold::Reserved(node, of, _) if (*node, *of) == (claimant, nonce));
            !is_of_claim || keys.contains(key)
        });
    }

    /// Somebody else has heard that a node let these keys go in this message.
    pub(super) fn relay_release(
        &mut self,
        keys: &[Key],
        (node, incarnation, seq): (NodeId, Incarnation, u64),
    ) {
        let known = self
            .ballots
            .get(&node)
            .is_some_and(|ballot| ballot.incarnation == incarnation && ballot.revision < seq);
        if known {
            for key in keys {
                if self.is_accepted(*key, node) {
                    self.take_out(*key);
                }
            }
        }
    }

    /// Forgets keys that nobody has had for long.
    pub(super) fn tidy(&mut self, now: Moment) {
        self.holds.retain(|_, hold| match hold {
            Hold::Accepted(_) => true,
            Hold::Promised(_, until) | Hold::Reserved(_, _, until) | Hold::Preferred(_, until) => {
                now < *until
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voter_answer_expires_with_promise() {
        let promise = Duration::from_millis(400);
        let start = Moment(1_000_000_000);
        let mut voter = Voter::new(start, &Parameters::default());
        let run = |node| Run {
            node: NodeId(node),
            incarnation: Incarnation(1),
            epoch: Epoch(1),
        };
        let keys = BTreeSet::from([Key(7)]);
        let released = Released::new();
        let set = Statement {
            revision: 1,
            keys: &keys,
            released: &released,
            lapsed: false,
        };
        voter.hear(run(1), 1, Digest::of(&keys), Some(set), start);
        voter.hear(run(2), 1, Digest::of(&keys), Some(set), start);
        voter.hear(run(3), 1, Digest(5), None, start);
        let answers = |now| [1, 2, 3].map(|node| voter.answer(NodeId(node), now));
        assert_eq!(
            answers(start),
            [
                Answer::Accepted {
                    seq: 1,
                    digest: Digest::of(&keys)
                },
                Answer::Refused { holder: NodeId(1) },
                Answer::Unknown
            ]
        );
        assert_eq!(answers(start + promise), [Answer::None; 3]);
    }
}
