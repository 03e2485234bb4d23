//! What is counted over many schedules.

use std::collections::BTreeMap;

use mooring_node::protocol::{Cause, NodeId, Transition};

use super::clock::{Instant, MICROSECOND, MILLISECOND, SECOND};
use super::faults::FaultKind;
use super::invariants::DarkTime;
use super::schedule::Schedule;

/// Counts.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Schedules that were run.
    pub schedules: u64,
    /// Things that happened.
    pub events: u64,
    /// Messages that were sent, one for each receiver.
    pub messages: u64,
    /// True time that has passed in all simulations.
    pub virtual_time: u128,
    /// The largest number of messages that a node sent in a second.
    pub busiest: usize,
    /// Times that somebody began to speak.
    pub begins: u64,
    /// Of these, without telling everybody.
    pub quiet: u64,
    /// Times that everybody was told once more.
    pub bursts: u64,
    /// Daemons that ended as they were told to.
    pub ended_in_order: u64,
    /// Frames that left too late.
    pub late_frames: u64,
    /// The most hops that a client's frame took until it came to rest.
    pub hops: usize,
    /// Faults, by kind.
    pub faults: BTreeMap<FaultKind, u64>,
    /// Transitions of machines, by [`TRANSITIONS`].
    pub transitions: [u64; TRANSITIONS.len()],
    /// Why somebody began to speak.
    pub causes: BTreeMap<Cause, u64>,
    /// How long nobody spoke after a fault of a kind, in microseconds.
    pub take_overs: BTreeMap<FaultKind, Vec<u32>>,
}

macro_rules! transitions {
    ($($name:literal: $pattern:pat => $example:expr,)*) => {
        /// All transitions of machines.
        pub const TRANSITIONS: &[&str] = &[$($name,)*];

        /// Where a transition is in [`TRANSITIONS`].
        fn place(transition: Transition) -> usize {
            const EXAMPLES: &[Transition] = &[$($example,)*];
            // The compiler asks for what is missing here.
            let example = match transition {
                $($pattern => $example,)*
            };
            EXAMPLES.iter().position(|other| *other == example).unwrap_or(0)
        }
    };
}

transitions! {
    "joined": Transition::Joined => Transition::Joined,
    "lapsed": Transition::Lapsed => Transition::Lapsed,
    "segment lost": Transition::SegmentLost => Transition::SegmentLost,
    "suspected": Transition::Suspected(_) => Transition::Suspected(NodeId(0)),
    "claimed": Transition::Claimed => Transition::Claimed,
    "granted": Transition::Granted => Transition::Granted,
    "refused": Transition::Refused => Transition::Refused,
    "claim won": Transition::ClaimWon => Transition::ClaimWon,
    "claim lost": Transition::ClaimLost => Transition::ClaimLost,
    "hand-over begun": Transition::HandOverBegun => Transition::HandOverBegun,
    "hand-over done": Transition::HandOverDone => Transition::HandOverDone,
    "hand-over failed": Transition::HandOverFailed => Transition::HandOverFailed,
    "voter awake": Transition::VoterAwake => Transition::VoterAwake,
    "begun anew": Transition::BegunAnew => Transition::BegunAnew,
    "generation adopted": Transition::GenerationAdopted => Transition::GenerationAdopted,
    "proposed": Transition::Proposed => Transition::Proposed,
    "primary alone": Transition::PrimaryAlone => Transition::PrimaryAlone,
    "survived via API": Transition::SurvivedViaApi => Transition::SurvivedViaApi,
    "keys dropped": Transition::KeysDropped => Transition::KeysDropped,
    "given back": Transition::GivenBack => Transition::GivenBack,
    "rebalanced": Transition::Rebalanced => Transition::Rebalanced,
    "message dropped": Transition::MessageDropped => Transition::MessageDropped,
    "spoke late": Transition::SpokeLate => Transition::SpokeLate,
    "damped": Transition::Damped => Transition::Damped,
}

impl Tally {
    /// Counts a transition.
    pub fn transition(&mut self, transition: Transition) {
        self.transitions[place(transition)] += 1;
    }

    /// How often a transition was counted.
    #[must_use]
    pub fn times(&self, transition: Transition) -> u64 {
        self.transitions[place(transition)]
    }

    /// The same, by its name.
    #[must_use]
    pub fn transitions_of(&self, name: &str) -> u64 {
        let place = TRANSITIONS.iter().position(|known| *known == name);
        place.map_or(0, |place| self.transitions[place])
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.events += other.events;
        self.messages += other.messages;
        self.virtual_time += other.virtual_time;
        self.busiest = self.busiest.max(other.busiest);
        self.begins += other.begins;
        self.quiet += other.quiet;
        self.bursts += other.bursts;
        self.ended_in_order += other.ended_in_order;
        self.late_frames += other.late_frames;
        self.hops = self.hops.max(other.hops);
        for (mine, theirs) in self.transitions.iter_mut().zip(other.transitions) {
            *mine += theirs;
        }
        for (kind, count) in other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (cause, count) in other.causes {
            *self.causes.entry(cause).or_default() += count;
        }
        for (kind, mut times) in other.take_overs {
            self.take_overs.entry(kind).or_default().append(&mut times);
        }
    }

    /// What has never happened: faults and transitions.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let kinds = FaultKind::ALL.iter();
        let faults = kinds.filter(|kind| !self.faults.contains_key(kind));
        let faults = faults.map(|kind| format!("fault: {kind}"));
        let transitions = TRANSITIONS.iter().zip(self.transitions);
        // It takes a machine that was restored from a snapshot, which none is here.
        let transitions = transitions.filter(|(name, _)| **name != "begun anew");
        let transitions = transitions.filter(|(_, count)| *count == 0);
        let transitions = transitions.map(|(name, _)| format!("transition: {name}"));
        faults.chain(transitions).collect()
    }
}

/// How soon after a fault a speaker must have fallen silent for the fault to be the reason.
const BECAUSE: Instant = 500 * MILLISECOND;

/// How long nobody spoke, by the fault that came before; only where one fault alone can have been
/// the reason, and somebody had spoken for a second.
#[must_use]
pub fn take_overs(schedule: &Schedule, dark_times: &[DarkTime]) -> BTreeMap<FaultKind, Vec<u32>> {
    let mut take_overs: BTreeMap<FaultKind, Vec<u32>> = BTreeMap::new();
    for dark in dark_times {
        let calm = dark
            .lit_since
            .is_some_and(|since| since + SECOND < dark.from);
        let going_on = |at: Instant, until: Instant| at <= dark.from && dark.from < until + SECOND;
        let faults = schedule.faults.iter();
        let mut faults = faults.filter(|fault| going_on(fault.at, fault.until));
        let (Some(fault), None) = (faults.next(), faults.next()) else {
            continue;
        };
        if calm && dark.from < fault.at + BECAUSE {
            let lasted = u32::try_from((dark.to - dark.from) / MICROSECOND).unwrap_or(u32::MAX);
            take_overs.entry(fault.kind).or_default().push(lasted);
        }
    }
    take_overs
}
