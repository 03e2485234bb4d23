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

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::protocol::decision::{Decision, Request, Transition};
use crate::protocol::message::{NodeId, VoterSet};
use crate::protocol::time::Moment;
use crate::protocol::view::ApiAnswer;

/// How often this is looked at.
pub(super) const LOOK: Duration = Duration::from_millis(200);
/// And so soon after something has changed.
const SOON: Duration = Duration::from_millis(1);
/// The first voters are proposed that long after the start.
pub(super) const BOOTSTRAP: Duration = Duration::from_secs(1);
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
/// And if that failed, so soon after.
const FAILED_READ: Duration = Duration::from_millis(100);

/// The voters, and what is under way to change them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct VoterSets {
    pub(super) current: VoterSet,
    pub(super) adopted_at: Moment,
    /// When something was last asked of the API server that is not answered yet.
    pub(super) asked: Option<Moment>,
    /// Nothing is asked before.
    pub(super) next_try: Moment,
    /// The start of the last reading that showed the present set.
    pub(super) read_at: Option<Moment>,
    /// Since when no majority has been heard.
    pub(super) lost_since: Option<Moment>,
    /// Another took the place of this node as the primary of two.
    pub(super) deposed: bool,
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
        if self.has_voters_from_file() {
            self.note_majority();
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

    /// Whether who votes is decided outside of the machine.
    pub(super) fn has_voters_from_file(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.voters_from_file)
    }

    pub(super) fn ask(&mut self, request: Request) {
        self.voter_sets.asked = Some(self.now);
        self.voter_sets.next_try = self.now + AGAIN;
        self.decide(Decision::Ask(request));
    }
}
