//! Whether this member agrees with what another proposes about the voters.
//!
//! Other voters are written only once most of those that are served approve exactly that set. Each
//! writes what it approves itself, so that nobody can approve in its name. Of all that is proposed a
//! member looks only at what the lowest voter proposes that lives to its own eyes, and judges that
//! by what it hears itself: a voter that is taken out must have been silent to it too.
//!
//! # Where the API server has gone back
//!
//! It may know an older set than the one that is served, if it was restored from a backup. Then the
//! same voters are named once more, two generations on. The one between may have been written and
//! lost; it differs from the present one by one voter, and so from its repetition. A later one
//! cannot: before it is written most voters serve the one between for longer than a promise, and of
//! those that approve the repetition, most serve the present one. So of one generation there is one
//! set still.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Machine;
use super::survival::SURVIVE;
use super::voter_sets::{REPLACED, STEADY};
use crate::protocol::decision::Request;
use crate::protocol::message::{NodeId, VoterSet};

/// Two members do not notice the same thing at the same time: so much sooner is soon enough.
const SLACK: Duration = Duration::from_secs(5);
/// So long after an approval that does not show up it is given once more, and a proposal made again.
const APPROVAL_TIMEOUT: Duration = Duration::from_secs(2);
/// The API objects may show an older set for so long without having gone back.
const LATE: Duration = Duration::from_secs(5);

impl Machine {
    /// Approves what the lowest voter proposes, if it is right.
    pub(super) fn consent(&mut self) {
        let Some(set) = self.acceptable() else {
            return;
        };
        let view = self.view.as_ref();
        let is_there = view.is_some_and(|view| view.approvals.get(&self.me) == Some(&set));
        let lately = self
            .voter_sets
            .approved
            .as_ref()
            .is_some_and(|(known, at)| *known == set && self.now < *at + APPROVAL_TIMEOUT);
        if is_there || lately {
            return;
        }
        self.voter_sets.approved = Some((set.clone(), self.now));
        self.ask(Request::Approve(set));
    }

    /// What the lowest voter that lives proposes, if it is another and right.
    fn acceptable(&self) -> Option<VoterSet> {
        let view = self.view.as_ref()?;
        let current = &self.voter_sets.current;
        let lives = |voter: &&NodeId| {
            **voter == self.me || self.peers.get(voter).is_some_and(|peer| !peer.suspected)
        };
        let lowest = current.voters.iter().find(lives)?;
        let set = view.approvals.get(lowest).filter(|_| *lowest != self.me)?;
        let unnamed = set.primary.is_none() || !self.rules().primary_by_itself();
        let is_next = set.generation == current.generation + 1;
        let repeats = set.generation == current.generation + 2
            && view
                .voters
                .as_ref()
                .is_some_and(|stored| stored.generation < current.generation);
        let is_right = (is_next && self.votes() && self.is_step(set))
            || (repeats && set.voters == current.voters)
            || ((is_next || repeats) && self.are_survivors(set));
        (unnamed && is_right).then(|| set.clone())
    }

    /// Whether a set is one step on from the one that is served.
    fn is_step(&self, set: &VoterSet) -> bool {
        let current = &self.voter_sets.current;
        let settled = self.settled() >= current.generation;
        if !settled && self.rules().one_generation_at_a_time() {
            return false;
        }
        let mut joining = set.voters.difference(&current.voters);
        let mut leaving = current.voters.difference(&set.voters);
        match (joining.next(), leaving.next()) {
            (None, None) => current.primary.is_some(),
            (Some(node), None) => {
                let alone = current.primary.is_some() && self.rules().primary_by_itself();
                joining.next().is_none() && !alone && self.is_steady(*node)
            }
            (None, Some(node)) => {
                leaving.next().is_none() && (self.is_lost(*node) || self.is_spare(*node))
            }
            (Some(_), Some(_)) => false,
        }
    }

    /// Whether a member has been heard for about as long as one has to be before it votes.
    fn is_steady(&self, node: NodeId) -> bool {
        self.peers
            .get(&node)
            .is_some_and(|peer| !peer.suspected && peer.steady_since + STEADY / 2 <= self.now)
    }

    /// Whether a voter has been silent for about as long as one has to be to be replaced.
    fn is_lost(&self, voter: NodeId) -> bool {
        let oldest = self.voter_sets.adopted_at.max(self.started);
        let heard = self
            .peers
            .get(&voter)
            .map_or(oldest, super::peers::Peer::last_heard);
        voter != self.me && heard + REPLACED <= self.now + SLACK
    }

    /// Whether a voter is a witness in whose place a member of the segment could vote.
    fn is_spare(&self, voter: NodeId) -> bool {
        let members = self.members(STEADY / 2);
        let is_witness = members.get(&voter).is_some_and(|(_, here)| !here);
        let voters = &self.voter_sets.current.voters;
        is_witness
            && (voters.len() > super::proposals::ideal_size(&members)
                || members
                    .iter()
                    .any(|(node, (_, here))| *here && !voters.contains(node)))
    }

    /// Whether a set is that of the survivors of a lost majority (rule G).
    fn are_survivors(&self, set: &VoterSet) -> bool {
        let current = &self.voter_sets.current;
        let lost = self
            .voter_sets
            .lost_since
            .is_some_and(|since| since + SURVIVE <= self.now + SLACK);
        let leaving: BTreeSet<NodeId> = current.voters.difference(&set.voters).copied().collect();
        lost && self.parameters.survive_via_api
            && set.voters.contains(&self.me)
            && set.voters.is_subset(&current.voters)
            && leaving.is_subset(&self.silent_voters())
            && !self.are_heard_on_segment(&leaving)
    }

    /// Whether there is nothing to do about a proposal but to wait until others approve it.
    pub(super) fn awaits(&self, set: &VoterSet) -> bool {
        self.voter_sets.awaited.as_ref().is_some_and(|(known, at)| {
            known == set && self.now < *at + APPROVAL_TIMEOUT && !self.is_approved(set)
        })
    }

    /// Whether enough nodes approve a set, as far as the API objects show.
    fn is_approved(&self, set: &VoterSet) -> bool {
        let approves = |node: &&NodeId| {
            **node == self.me
                || self
                    .view
                    .as_ref()
                    .is_some_and(|view| view.approvals.get(node) == Some(set))
        };
        let most = |of: &BTreeSet<NodeId>| {
            of.is_empty() || of.iter().filter(approves).count() * 2 > of.len()
        };
        let all = set.voters.iter().all(|node| approves(&node));
        let voter_sets = &self.voter_sets;
        let stored = voter_sets.stored.as_ref();
        let by_most = most(&voter_sets.current.voters)
            && (all || stored.is_none_or(|stored| most(&stored.voters)));
        by_most || (all && voter_sets.lost_since.is_some())
    }

    /// The API objects show other approvals.
    pub(super) fn note_approvals(&mut self) {
        self.voter_sets.due = self.voter_sets.due.min(self.now);
        let awaited = self.voter_sets.awaited.as_ref();
        if awaited.is_some_and(|(set, _)| self.is_approved(set)) {
            self.voter_sets.next_try = self.now;
        }
    }

    /// Whether the API objects show an older set than the one that is served, and not only because
    /// they are late.
    pub(super) fn seems_gone_back(&self) -> bool {
        let voter_sets = &self.voter_sets;
        let shown = self.view.as_ref().and_then(|view| view.voters.as_ref());
        let known = voter_sets
            .adopted_at
            .max(voter_sets.read_at.unwrap_or_default());
        voter_sets.stored.is_none()
            && known + LATE <= self.now
            && shown.is_some_and(|shown| shown.generation < voter_sets.current.generation)
    }
}
