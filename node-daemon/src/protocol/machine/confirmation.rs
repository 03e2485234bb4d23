//! Whether the voters agree with what is held: only what most of them echo may be spoken for.

use std::time::Duration;

use super::Machine;
use super::held_keys::Holding;
use crate::protocol::decision::{Cause, Transition};
use crate::protocol::message::{Answer, Key, NodeId};

/// Keys that most voters have refused for so long are let go again: reordered messages cause
/// refusals for a moment.
const REFUSED: Duration = Duration::from_millis(50);
/// Keys that were not confirmed by then are let go again.
const UNCONFIRMED: Duration = Duration::from_millis(600);
/// If a set is refused, what was added last is let go while there is that much left of the right
/// to speak for the rest.
const LAST_CHANCE: Duration = Duration::from_millis(195);

impl Machine {
    /// Takes in what somebody says about the own set.
    pub(super) fn note_answer(&mut self, node: NodeId, answer: Answer, same_generation: bool) {
        let votes = same_generation && self.voter_sets.has_voter(node);
        match answer {
            Answer::None | Answer::Stale => {}
            Answer::Unknown => self.tell_set_again(node),
            Answer::Refused { holder } if votes => {
                let now = self.now;
                self.held_keys.refusals.entry(node).or_insert((holder, now));
            }
            Answer::Refused { .. } => {}
            Answer::Accepted { seq, digest } if votes => {
                if digest == self.held_keys.digest && !self.held_keys.dirty {
                    self.held_keys.acknowledged.insert(node);
                    self.held_keys.refusals.remove(&node);
                }
                let exactness = self.exactness();
                if self.speaking_lease.note_echo(node, seq, digest, exactness) {
                    self.count_echoes();
                }
            }
            Answer::Accepted { .. } => {}
        }
    }

    /// Counts the echoes of the own heartbeats.
    pub(super) fn count_echoes(&mut self) {
        let speaking_lease = self.parameters.speaking_lease;
        self.speaking_lease
            .count(&self.voter_sets.current, speaking_lease);
        if let Some(limit) = self.alone_until() {
            if self.speaking_lease.alone.is_none() {
                self.note(Transition::PrimaryAlone);
            }
            self.speaking_lease
                .count_alone(self.me, limit, speaking_lease);
        } else if self
            .speaking_lease
            .alone
            .is_some_and(|alone| alone.until <= self.now)
        {
            self.speaking_lease.alone = None;
        }
        #[cfg(feature = "simulator")]
        self.revive();
    }

    /// Whether all voters that live have the set as it is, or have refused it.
    pub(super) fn is_known_to_voters(&self) -> bool {
        self.voter_sets.current.voters.iter().all(|voter| {
            *voter == self.me
                || self.held_keys.acknowledged.contains(voter)
                || self.held_keys.refusals.contains_key(voter)
                || self.peers.get(voter).is_none_or(|peer| peer.suspected)
        })
    }

    /// Lets go of what was added, if the voters do not accept it.
    pub(super) fn drop_hopeless(&mut self) {
        if self.held_keys.unconfirmed.is_empty() || self.held_keys.dirty {
            return;
        }
        let now = self.now;
        let refusals = &self.held_keys.refusals;
        let refuses = |voter: &NodeId| {
            refusals
                .get(voter)
                .is_some_and(|(_, since)| *since + REFUSED <= now)
        };
        let willing: usize = self
            .able_voters()
            .filter(|voter| !refuses(voter))
            .map(|voter| self.weight_of_vote(voter))
            .sum();
        let refused = !refusals.is_empty() && willing < self.voter_sets.current.majority();
        let ends_soon = !refusals.is_empty()
            && self.held_keys.speaks()
            && self
                .speaking_lease
                .end()
                .is_some_and(|end| end <= now + LAST_CHANCE);
        let late = |holding: &Holding| holding.since + UNCONFIRMED <= now;
        let hopeless: Vec<Key> = self
            .held_keys
            .unconfirmed
            .iter()
            .copied()
            .filter(|key| refused || ends_soon || self.held_keys.keys.get(key).is_some_and(late))
            .collect();
        if hopeless.is_empty() {
            return;
        }
        self.note(Transition::KeysDropped);
        for key in &hopeless {
            self.release(*key, None, Cause::Lapsed);
        }
        self.put_off(&hopeless);
    }
}
