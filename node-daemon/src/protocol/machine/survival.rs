//! Going on after a majority of the voters is lost (rule G): when, who acts for those that are left, and
//! with whom. What they ask on the wire first is in [`super::survivors`].

use std::collections::BTreeSet;
use std::time::Duration;

use super::Machine;
use super::voter_sets::ANSWER;
use crate::protocol::decision::{Consent, Request};
use crate::protocol::message::NodeId;

/// A majority that is lost for so long is given up.
pub(super) const SURVIVE: Duration = Duration::from_secs(30);
/// No silent voter may have been heard on the segment for so long.
const UNHEARD: Duration = Duration::from_secs(10);

impl Machine {
    pub(super) fn note_majority(&mut self) {
        if self.hears_quorum() {
            self.voter_sets.lost_since = None;
        } else if self.voter_sets.lost_since.is_none() {
            self.voter_sets.lost_since = Some(self.now);
        }
    }

    pub(super) fn has_lost_majority_for_long(&self) -> bool {
        let lost_since = self.voter_sets.lost_since;
        lost_since.is_some_and(|since| since + SURVIVE <= self.now)
    }

    /// The voters that do not answer this member.
    pub(super) fn silent_voters(&self) -> BTreeSet<NodeId> {
        self.voter_sets
            .current
            .voters
            .iter()
            .copied()
            .filter(|voter| *voter != self.me && !self.is_reporting(*voter))
            .collect()
    }

    /// After a majority has been lost for long: asks whether the silent voters are dead (rule G).
    pub(super) fn seek_survival(&mut self) {
        let lost = self.has_lost_majority_for_long();
        if !lost || !self.parameters.survive_via_api || !self.is_heard_on_segment() {
            return;
        }
        let silent = self.silent_voters();
        if !self.leads_survivors(&silent) || self.are_heard_on_segment(&silent) {
            return;
        }
        self.reaches_gateway();
        self.ask(Request::ReadLeases(silent.into_iter().collect()));
        self.voter_sets.next_try = self.now + ANSWER;
    }

    /// Whether this member is the one that acts for the survivors: the lowest voter among them, or
    /// the lowest member if no voter is left.
    fn leads_survivors(&self, silent: &BTreeSet<NodeId>) -> bool {
        let alive = |node: &NodeId| self.peers.get(node).is_some_and(|peer| !peer.suspected);
        let voters = &self.voter_sets.current.voters;
        let first_voter = voters
            .iter()
            .find(|voter| **voter == self.me || (!silent.contains(voter) && alive(voter)));
        match first_voter {
            Some(first) => *first == self.me,
            None => !self
                .peers
                .iter()
                .any(|(node, peer)| *node < self.me && !peer.suspected),
        }
    }

    pub(super) fn are_heard_on_segment(&self, silent: &BTreeSet<NodeId>) -> bool {
        let since = self.now - UNHEARD;
        self.rules().survivors_listen_first()
            && silent.iter().any(|node| {
                self.peers
                    .get(node)
                    .is_some_and(|peer| peer.heard_on_segment_since(since))
            })
    }

    /// The Leases are read: goes on with those that are left.
    pub(super) fn survive(&mut self, unchanged: &BTreeSet<NodeId>) {
        let silent = self.silent_voters();
        let reaches_gateway = !self.local.has_gateway
            || self
                .link_monitor
                .gateway_answered
                .is_some_and(|at| at + ANSWER > self.now);
        if self.voter_sets.lost_since.is_none()
            || !silent.is_subset(unchanged)
            || !reaches_gateway
            || self.are_heard_on_segment(&silent)
        {
            return;
        }
        // The admission policy permits no others at once; they join one by one.
        let mut voters: BTreeSet<NodeId> = self
            .voter_sets
            .current
            .voters
            .difference(&silent)
            .copied()
            .collect();
        if voters.is_empty() {
            voters.insert(self.me);
        }
        self.propose_with(voters, None, Consent::All);
        self.voter_sets.surviving = true;
    }
}
