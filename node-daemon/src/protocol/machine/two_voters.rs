//! Two voters: which of them goes on when the other is silent.

use std::time::Duration;

use super::Machine;
use super::speaking_lease::Confirmed;
use super::voter_sets::{ANSWER, BOOTSTRAP, LOOK, REPLACED};
use crate::protocol::decision::{Consent, Request};
use crate::protocol::message::VoterSet;

/// Of two voters, the primary asks once the other has not echoed for so long, and so often.
const UNECHOED: Duration = Duration::from_millis(250);
const READ_AGAIN: Duration = Duration::from_millis(300);

impl Machine {
    /// Of two voters: the primary asks whether it may go on alone, the other takes its place.
    pub(super) fn watch_second(&mut self) {
        let now = self.now;
        let VoterSet {
            voters, primary, ..
        } = &self.voter_sets.current;
        if voters.len() != 2 || !self.votes() {
            return;
        }
        let Some(other) = voters.iter().copied().find(|voter| *voter != self.me) else {
            return;
        };
        if *primary == Some(self.me) {
            let end = self
                .speaking_lease
                .confirmed
                .map(|Confirmed { until, .. }| until);
            let renewed = end.map(|end| end - self.parameters.speaking_lease);
            let due = renewed.map_or(now, |renewed| renewed + UNECHOED);
            if due > now {
                self.voter_sets.due = self.voter_sets.due.min(due);
                return;
            }
            self.voter_sets.due = now + LOOK / 4;
            let lately = self
                .voter_sets
                .asked
                .or(self.voter_sets.read_at)
                .is_some_and(|at| now < at + READ_AGAIN);
            // A set that the API server has lost does not come back by being read: once the other has been
            // silent for long, the survivors' turn comes.
            let is_lost = self.voter_sets.stored.is_some() && self.has_lost_majority_for_long();
            if !lately && !is_lost && now >= self.voter_sets.next_try {
                self.ask(Request::ReadVoters);
                self.voter_sets.next_try = now + LOOK;
            }
            if self.alone_until().is_some() {
                self.count_echoes();
            }
            return;
        }
        self.voter_sets.due = now + LOOK / 4;
        // Two that do not hear each other would else depose each other without end: whoever was
        // deposed waits until it has heard the other, or for long.
        let settled = self.voter_sets.adopted_at + REPLACED <= now;
        let fallen_silent = match self.peers.get(&other) {
            Some(peer) => {
                let heard = peer.last_heard() >= self.voter_sets.adopted_at;
                peer.suspected && (heard || !self.voter_sets.deposed || settled)
            }
            None => self.started + BOOTSTRAP <= now && (!self.voter_sets.deposed || settled),
        };
        // While no primary is named, the other may still serve voters of before.
        let serves = self
            .peers
            .get(&other)
            .is_some_and(|peer| peer.last.voters.voters == self.voter_sets.current.voters);
        let may = self.voter_sets.current.primary.is_some() || serves;
        if !may || !fallen_silent || !self.is_heard_on_segment() || !self.reaches_gateway() {
            // If it is this one that is cut off, the primary is not to be disturbed.
            return;
        }
        let asked = self.voter_sets.asked.is_some_and(|at| now < at + ANSWER);
        // Where the API server has gone back, the set of the two comes first.
        let has_gone_back = self.voter_sets.stored.is_some();
        if !asked && !has_gone_back && now >= self.voter_sets.next_try {
            let both = self.voter_sets.current.voters.clone();
            self.propose_with(both, Some(self.me), Consent::Own);
        }
    }
}
