//! Who votes: how a set of voters comes about, grows and shrinks.
//!
//! Sets are written to the API server by compare-and-swap only, so that of one generation there is
//! one set. Two that follow each other differ by one voter, so that their majorities have a voter
//! in common; and the next one is written only once a majority of the present one has served it for
//! longer than a promise, so that nothing older than the last two can count. And only if that
//! majority approves it: [`super::consent`].
//!
//! A primary of two goes on by itself, and shares no voter with a majority that it does not know of.
//! So it is named by a generation of its own, once both serve the set of the two, and named no more
//! by another one before anybody else votes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use super::speaking_lease::Confirmed;
use crate::protocol::decision::{Consent, Decision, Request, Transition};
use crate::protocol::message::{NodeId, VoterSet};
use crate::protocol::time::Moment;
use crate::protocol::view::ApiAnswer;

/// How often this is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// And so soon after something has changed.
const SOON: Duration = Duration::from_millis(1);
/// The first voters are proposed that long after the start.
const BOOTSTRAP: Duration = Duration::from_secs(1);
/// A member becomes a voter after having been heard for so long.
pub(super) const STEADY: Duration = Duration::from_secs(3);
/// A voter that is silent for so long is one no more.
pub(super) const REPLACED: Duration = Duration::from_secs(30);
/// An answer of the API server is waited for so long.
pub(super) const ANSWER: Duration = Duration::from_secs(2);
/// Between two attempts that fail.
const AGAIN: Duration = Duration::from_millis(500);
/// How much longer than a promise a generation is served before the next one.
const SETTLING: Duration = Duration::from_millis(100);
/// Of two voters, the primary goes on alone for so long after the start of a reading that names it.
const ALONE: Duration = Duration::from_millis(1200);
/// The other begins that long after it became the primary (rule F).
const SECOND: Duration = Duration::from_millis(1600);
/// Of two voters, the primary asks once the other has not echoed for so long, and so often.
const UNECHOED: Duration = Duration::from_millis(250);
const READ_AGAIN: Duration = Duration::from_millis(300);
/// And if that failed, so soon after.
const FAILED_READ: Duration = Duration::from_millis(100);

/// The voters, and what is under way to change them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct VoterSets {
    pub(super) current: VoterSet,
    pub(super) adopted_at: Moment,
    /// When something was last asked of the API server that is not answered yet.
    asked: Option<Moment>,
    /// Nothing is asked before.
    pub(super) next_try: Moment,
    /// The start of the last reading that showed the present set.
    pub(super) read_at: Option<Moment>,
    /// Since when no majority has been heard.
    pub(super) lost_since: Option<Moment>,
    /// Another took the place of this node as the primary of two.
    deposed: bool,
    /// What is proposed is the survivors.
    pub(super) surviving: bool,
    /// What the API server has in the place of the present set: it has gone back.
    #[serde(default)]
    pub(super) stored: Option<VoterSet>,
    /// What is proposed and waits for others to approve it, and since when.
    #[serde(default)]
    pub(super) awaited: Option<(VoterSet, Moment)>,
    /// What another has proposed and this node has approved, and when.
    #[serde(default)]
    pub(super) approved: Option<(VoterSet, Moment)>,
    pub(super) due: Moment,
}

impl VoterSets {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            current: VoterSet::default(),
            adopted_at: now,
            asked: None,
            next_try: now,
            read_at: None,
            lost_since: None,
            deposed: false,
            surviving: false,
            stored: None,
            awaited: None,
            approved: None,
            due: now + LOOK,
        }
    }

    pub(super) fn exists(&self) -> bool {
        !self.current.voters.is_empty()
    }

    pub(super) fn has_voter(&self, node: NodeId) -> bool {
        self.current.voters.contains(&node)
    }

    /// Whether majorities of this set and of that one have a voter in common, and of whatever may
    /// have been between them.
    fn overlaps(&self, next: &VoterSet) -> bool {
        let difference = self.current.voters.symmetric_difference(&next.voters);
        match next.generation - self.current.generation {
            1 => difference.count() <= 1,
            // The API server had gone back, and the same voters are named once more.
            2 => difference.count() == 0,
            _ => false,
        }
    }
}

impl Machine {
    /// Serves a newer generation of voters from now on.
    pub(super) fn adopt(&mut self, voters: VoterSet) {
        if voters.generation <= self.voter_sets.current.generation {
            return;
        }
        if self.voter_sets.exists() && !self.voter_sets.overlaps(&voters) {
            // Others may have gone on without this one: what it has counts no more.
            self.speaking_lease.void();
        }
        if self.rules().one_generation_at_a_time() {
            // Who is the only voter from now on has no other to fear.
            let is_only = voters.voters.iter().eq([&self.me]);
            self.speaking_lease.change_voters(is_only);
        }
        self.membership.change_voters();
        if self.has_lost_majority_for_long() {
            self.ask_before_taking();
        }
        let was_primary = self.voter_sets.current.primary == Some(self.me);
        self.voter_sets.deposed = was_primary && voters.primary.is_some_and(|node| node != self.me);
        self.voter_sets.current = voters;
        self.voter_sets.adopted_at = self.now;
        self.voter_sets.read_at = None;
        self.voter_sets.lost_since = None;
        self.voter_sets.stored = None;
        self.voter_sets.awaited = None;
        self.voter_sets.approved = None;
        self.voter_sets.due = self.now + SOON;
        self.held_keys.acknowledged.clear();
        self.held_keys.refusals.clear();
        self.abandon_claims();
        self.heartbeat_timer.hurry = true;
        self.note(Transition::GenerationAdopted);
        self.count_suspicions();
        self.check_lapse();
    }

    /// The newest generation that is served for long enough that nothing older can count.
    pub(super) fn settled(&self) -> u64 {
        let generation = self.voter_sets.current.generation;
        let flipped = self.voter_sets.current.primary.is_some();
        let wait = if flipped {
            SECOND.max(self.parameters.promise) + SETTLING
        } else {
            self.parameters.promise + SETTLING
        };
        if self.voter_sets.adopted_at + wait <= self.now {
            generation
        } else {
            generation.saturating_sub(1)
        }
    }

    /// Until when this node counts twice, as the primary of two voters that the API server has
    /// named lately (rule F).
    pub(super) fn alone_until(&self) -> Option<Moment> {
        let voter_sets = &self.voter_sets;
        if voter_sets.current.voters.len() != 2 || voter_sets.current.primary != Some(self.me) {
            return None;
        }
        let begins = if self.rules().second_voter_waits() {
            voter_sets.adopted_at + SECOND
        } else {
            voter_sets.adopted_at
        };
        let ends = voter_sets.read_at? + ALONE;
        (begins <= self.now && self.now < ends).then_some(ends)
    }

    /// How much a voter counts.
    pub(super) fn weight_of_vote(&self, voter: NodeId) -> usize {
        if voter == self.me && self.alone_until().is_some() {
            2
        } else {
            1
        }
    }

    /// Takes in what the API server has answered.
    pub(super) fn note_api(&mut self, answer: ApiAnswer, asked: Moment) {
        self.voter_sets.asked = None;
        let surviving = std::mem::take(&mut self.voter_sets.surviving);
        match answer {
            ApiAnswer::Unreachable => {
                let is_primary = self.voter_sets.current.primary == Some(self.me);
                let pause = if is_primary { FAILED_READ } else { AGAIN };
                self.voter_sets.next_try = self.now + pause;
                self.voter_sets.approved = None;
            }
            ApiAnswer::Awaiting(voters) => {
                self.voter_sets.awaited = Some((voters, self.now));
            }
            ApiAnswer::Approved => {}
            ApiAnswer::LeasesUnchanged(unchanged) => self.survive(&unchanged),
            ApiAnswer::Voters(voters) | ApiAnswer::Conflict(voters) => {
                self.note_voters(&voters, asked);
            }
            ApiAnswer::Written(voters) => {
                if surviving {
                    self.note(Transition::SurvivedViaApi);
                }
                self.note_voters(&voters, asked);
            }
        }
        self.voter_sets.due = self.now + SOON;
    }

    fn note_voters(&mut self, voters: &VoterSet, asked: Moment) {
        self.adopt(voters.clone());
        if *voters == self.voter_sets.current {
            self.voter_sets.read_at = self.voter_sets.read_at.max(Some(asked));
            self.voter_sets.stored = None;
            self.count_echoes();
        } else if self.voter_sets.exists() && asked >= self.voter_sets.adopted_at {
            // What is served was written before this reading began, and is not there any more.
            self.voter_sets.stored = Some(voters.clone());
        }
    }

    /// Looks whether the voters have to change.
    pub(super) fn tick_voter_sets(&mut self) {
        let now = self.now;
        if now < self.voter_sets.due {
            return;
        }
        self.voter_sets.due = now + LOOK;
        if self.view.is_none() {
            return;
        }
        if self.voter_sets.exists() {
            self.note_majority();
            self.watch_second();
        }
        let busy = self
            .voter_sets
            .asked
            .is_some_and(|asked| now < asked + ANSWER);
        if busy || now < self.voter_sets.next_try {
            return;
        }
        if !self.voter_sets.exists() {
            self.bootstrap();
        } else if self.is_proposer() {
            self.reshape();
        }
        self.seek_survival();
        self.consent();
    }

    pub(super) fn ask(&mut self, request: Request) {
        self.voter_sets.asked = Some(self.now);
        self.voter_sets.next_try = self.now + AGAIN;
        self.decide(Decision::Ask(request));
    }

    /// Proposes other voters. Without the rule, of two one is the primary at once.
    fn propose(&mut self, voters: BTreeSet<NodeId>) {
        let hasty = voters.len() == 2 && !self.rules().primary_by_itself();
        let primary = hasty.then_some(self.me);
        let current = &self.voter_sets.current;
        let is_left = current.primary == Some(self.me) && voters.iter().eq([&self.me]);
        let consent = if current.voters.len() == 2 && is_left {
            Consent::Own
        } else {
            self.most()
        };
        self.propose_with(voters, primary, consent);
    }

    /// The consent of most voters, who serve the present set to give it: without the rule nobody's.
    fn most(&self) -> Consent {
        if !self.rules().one_generation_at_a_time() {
            return Consent::Own;
        }
        Consent::Most(self.voter_sets.current.voters.clone())
    }

    pub(super) fn propose_with(
        &mut self,
        voters: BTreeSet<NodeId>,
        primary: Option<NodeId>,
        consent: Consent,
    ) {
        let generation = self.voter_sets.current.generation;
        let (replacing, generation) = match &self.voter_sets.stored {
            Some(stored) => (stored.generation, generation + 2),
            None => (generation, generation + 1),
        };
        let voters = VoterSet {
            generation,
            voters,
            primary,
        };
        if self.awaits(&voters) {
            return;
        }
        self.note(Transition::Proposed);
        self.ask(Request::Propose {
            replacing,
            voters,
            consent,
        });
    }

    /// Proposes the first voters.
    fn bootstrap(&mut self) {
        if self.now < self.started + BOOTSTRAP || !self.local.link_up {
            return;
        }
        let lowest = self
            .peers
            .iter()
            .filter(|(_, peer)| !peer.suspected && !peer.last.flags.vlan_down)
            .map(|(node, _)| *node)
            .min();
        if lowest.is_some_and(|lowest| lowest < self.me) {
            return;
        }
        let members = self.members(Duration::ZERO);
        let size = ideal_size(&members);
        let mut voters = BTreeSet::new();
        while voters.len() < size
            && let Some(next) = next_voter(&voters, &members)
        {
            voters.insert(next);
        }
        if voters.contains(&self.me) {
            // Nobody has voted before.
            let primary = (voters.len() == 2).then_some(self.me);
            self.propose_with(voters, primary, Consent::Own);
        }
    }

    /// The members that may vote, and have been heard for that long, with zone and whether they are
    /// on the segment.
    pub(super) fn members(&self, steady: Duration) -> BTreeMap<NodeId, (u32, bool)> {
        let now = self.now;
        let mut members: BTreeMap<NodeId, (u32, bool)> = self
            .peers
            .iter()
            .filter(|(_, peer)| !peer.suspected && peer.steady_since + steady <= now)
            .map(|(node, peer)| {
                let contact = &peer.last.contact;
                (*node, (contact.zone, contact.mac.is_some()))
            })
            .collect();
        let contact = &self.local.contact;
        members.insert(self.me, (contact.zone, contact.mac.is_some()));
        members
    }

    /// Whether it is this member's turn to propose: it is the lowest of the voters that live, and a
    /// majority serves the present generation for long enough (rule E).
    fn is_proposer(&self) -> bool {
        if !self.votes() || !self.hears_quorum() {
            return false;
        }
        let generation = self.voter_sets.current.generation;
        let mut settled = 0;
        for voter in &self.voter_sets.current.voters {
            if *voter == self.me {
                if self.settled() >= generation || !self.rules().one_generation_at_a_time() {
                    settled += self.weight_of_vote(self.me);
                }
                continue;
            }
            let Some(peer) = self.peers.get(voter).filter(|peer| !peer.suspected) else {
                continue;
            };
            if *voter < self.me {
                return false;
            }
            if peer.last.settled >= generation || !self.rules().one_generation_at_a_time() {
                settled += 1;
            }
        }
        settled >= self.voter_sets.current.majority()
    }

    /// Proposes one voter less or one more, or a primary of two.
    fn reshape(&mut self) {
        let now = self.now;
        if self.voter_sets.stored.is_some() {
            let same = self.voter_sets.current.voters.clone();
            let consent = self.most();
            self.propose_with(same, None, consent);
            return;
        }
        if self.seems_gone_back() {
            self.ask(Request::ReadVoters);
            return;
        }
        let voters = &self.voter_sets.current.voters;
        let oldest = self.voter_sets.adopted_at.max(self.started);
        let dead = voters
            .iter()
            .filter(|voter| **voter != self.me)
            .find(|voter| {
                let heard = self
                    .peers
                    .get(voter)
                    .map_or(oldest, super::peers::Peer::last_heard);
                heard + REPLACED <= now
            })
            .copied();
        if let Some(dead) = dead {
            let mut rest = voters.clone();
            rest.remove(&dead);
            self.propose(rest);
            return;
        }
        let mut members = self.members(STEADY);
        for voter in voters {
            members.entry(*voter).or_insert((0, true));
        }
        let size = ideal_size(&members);
        let next = next_voter(voters, &members);
        // A voter on the segment can tell the others there whether they are heard; a witness cannot.
        let is_here = |node: &NodeId| members.get(node).is_some_and(|(_, here)| *here);
        let witness = voters.iter().find(|voter| !is_here(voter)).copied();
        let swaps = witness.is_some() && next.is_some_and(|next| is_here(&next));
        let full = voters.len() > size || (swaps && voters.len() == VoterSet::MOST);
        if let Some(witness) = witness.filter(|_| full) {
            let mut rest = voters.clone();
            rest.remove(&witness);
            self.propose(rest);
            return;
        }
        let next = next.filter(|_| voters.len() < size || (swaps && voters.len() == size));
        let two = voters.len() == 2 && self.rules().primary_by_itself();
        let named = self.voter_sets.current.primary.is_some();
        match next {
            // Others could be a majority without the primary, which may go on alone.
            Some(_) if two && self.alone_until().is_some() => {}
            Some(_) if two && named => {
                let (both, consent) = (voters.clone(), self.most());
                self.propose_with(both, None, consent);
            }
            Some(next) => {
                let mut more = voters.clone();
                more.insert(next);
                self.propose(more);
            }
            None if two && !named => {
                self.propose_with(voters.clone(), Some(self.me), Consent::Own);
            }
            None => {}
        }
    }

    /// Of two voters: the primary asks whether it may go on alone, the other takes its place.
    fn watch_second(&mut self) {
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

/// How many of these should vote: an odd number, since one more to an even one helps nobody, or two
/// if there are no more. Witnesses make up for members of the segment that are missing to three.
pub(super) fn ideal_size(members: &BTreeMap<NodeId, (u32, bool)>) -> usize {
    let here = members.values().filter(|(_, here)| *here).count();
    let size = members.len().min(here.max(3)).min(VoterSet::MOST);
    match size {
        0..=2 => size,
        size if size % 2 == 0 => size - 1,
        size => size,
    }
}

/// Who should vote next: members of the segment before witnesses, from zones that have the fewest.
fn next_voter(
    voters: &BTreeSet<NodeId>,
    members: &BTreeMap<NodeId, (u32, bool)>,
) -> Option<NodeId> {
    let in_zone = |zone: u32| {
        voters
            .iter()
            .filter(|voter| members.get(voter).is_some_and(|(other, _)| *other == zone))
            .count()
    };
    members
        .iter()
        .filter(|(node, _)| !voters.contains(node))
        .min_by_key(|(node, (zone, here))| (!*here, in_zone(*zone), **node))
        .map(|(node, _)| *node)
}
