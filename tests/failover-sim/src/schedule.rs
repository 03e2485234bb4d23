//! What is to happen in one simulation: who is in it, and what goes wrong when. All of it follows from
//! a seed.

use fastrand::Rng;
use mooring_node::protocol::{Parameters, Weight};

use super::clock::{Instant, MICROSECOND, MILLISECOND, SECOND};
use super::faults::{Fault, FaultKind, Steps};
use super::network::{Manners, Nodes};
use super::whole::{Off, WHOLE};

/// Who is in a simulation, and how it behaves where no fault is.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Nodes that are on the segment: those of the lowest numbers.
    pub members: usize,
    /// Nodes that only vote, over the node network: the next ones.
    pub witnesses: usize,
    /// Nodes on the segment that are not there from the beginning: the last ones.
    pub late: usize,
    /// The keys, each with who may hold it; `None`: all.
    pub keys: Vec<Option<Nodes>>,
    /// The voters that the API server has from the beginning; `None`: nobody was ever named.
    pub voters: Option<Nodes>,
    /// Whether there is a gateway.
    pub gateway: bool,
    /// Nodes' weights, of those that have not the usual one.
    pub weights: Vec<(usize, Weight)>,
    /// The network's manners.
    pub manners: Manners,
    /// How much clocks drift at most, in parts of a billion.
    pub drift_ppb: i64,
    /// How late a daemon may be with what it wanted to do.
    pub lateness: Instant,
    /// What the machines are told.
    pub parameters: Parameters,
    /// Whether whole daemons run, and not machines alone.
    pub whole: bool,
    /// Of another cluster on the same segment, with the same names: so many daemons.
    pub strangers: usize,
    /// An interface loses its address with its carrier.
    pub drops_addresses: bool,
    /// The Services that have two addresses from the beginning.
    pub dual: Nodes,
}

/// What machines are told where a fail-over is judged: it asks nothing on the wire first, and the bounds know of
/// no first use.
#[must_use]
pub fn fail_over() -> Parameters {
    Parameters {
        probe_addresses: false,
        ..Parameters::default()
    }
}

impl Shape {
    /// A simulation for schedules that are written: everything is exact.
    #[must_use]
    pub fn exact(members: usize, keys: usize) -> Self {
        Self {
            members,
            witnesses: 0,
            late: 0,
            keys: vec![None; keys],
            voters: Some((1 << members) - 1),
            gateway: true,
            weights: Vec::new(),
            manners: Manners::EXACT,
            drift_ppb: 0,
            lateness: 0,
            parameters: fail_over(),
            whole: false,
            strangers: 0,
            drops_addresses: false,
            dual: 0,
        }
    }

    /// How many nodes there are from the beginning.
    #[must_use]
    pub const fn first(&self) -> usize {
        self.members + self.witnesses
    }

    /// How many nodes there are in the end.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.first() + self.late
    }

    /// All nodes.
    #[must_use]
    pub const fn all(&self) -> Nodes {
        (1 << self.total()) - 1
    }

    /// Whether a node is on the segment.
    #[must_use]
    pub const fn is_on_segment(&self, node: usize) -> bool {
        node < self.members || node >= self.first()
    }

    /// Some of the members, or `None` for all.
    pub fn some_members(&self, chance: &mut Rng) -> Option<Nodes> {
        if chance.u8(0..3) == 0 {
            return None;
        }
        let nodes = chance.u16(..) & ((1 << self.members) - 1);
        Some(nodes)
    }

    fn random(chance: &mut Rng, parameters: Parameters) -> Self {
        // Small segments are where one vote decides; what happens in a simulation grows with their square.
        let total = chance.usize(3..10).min(chance.usize(3..10));
        let (members, witnesses, late) = match chance.u8(0..10) {
            0 => (2, 0, total - 2),
            1 => (1, 0, total - 1),
            2 => (2, 1, total - 3),
            3 if total > 3 => (total - 2, 2, 0),
            4 | 5 if total > 3 => (total - 1, 0, 1),
            6 if total > 4 => (total - 2, 1, 1),
            _ => (total, 0, 0),
        };
        let mut shape = Self {
            members,
            witnesses,
            late,
            keys: Vec::new(),
            voters: None,
            gateway: chance.u8(0..5) > 0,
            weights: Vec::new(),
            manners: Manners {
                loss: [0, 0, 1, 10][chance.usize(0..4)],
                least: 100 * MICROSECOND,
                most: MILLISECOND,
                odd: chance.u16(0..30),
            },
            drift_ppb: 200_000,
            lateness: chance.u64(20 * MICROSECOND..2 * MILLISECOND),
            parameters,
            whole: false,
            strangers: 0,
            drops_addresses: false,
            dual: 0,
        };
        for _ in 0..chance.usize(1..13) {
            let all = chance.u8(0..4) > 0;
            let some = if all {
                None
            } else {
                shape.some_members(chance)
            };
            shape.keys.push(some);
        }
        if chance.u8(0..3) > 0 {
            shape.voters = Some(shape.random_voters(chance));
        }
        if chance.u8(0..5) == 0 {
            let weight = weight(chance.u16(30..300));
            shape.weights.push((chance.usize(0..shape.first()), weight));
        }
        shape
    }

    /// At most seven of those that are there from the beginning, nearly always all.
    fn random_voters(&self, chance: &mut Rng) -> Nodes {
        let mut voters: Nodes = (1 << self.first()) - 1;
        let few = chance.u8(0..8) == 0;
        while voters.count_ones() > 7 || (few && voters.count_ones() > 2) {
            voters &= !(1 << chance.usize(0..self.first()));
            if few && chance.bool() {
                break;
            }
        }
        while voters.count_ones() > 7 {
            voters &= !(1 << chance.usize(0..self.first()));
        }
        voters
    }
}

/// A weight that follows from a number below 300: in three steps of preference.
#[must_use]
pub const fn weight(number: u16) -> Weight {
    Weight::new(number / 100, 20 + number % 100)
}

/// What is to happen in one simulation.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// What it follows from.
    pub seed: u64,
    /// Who is in it.
    pub shape: Shape,
    /// What goes wrong, in order of time.
    pub faults: Vec<Fault>,
    /// Steps besides.
    pub steps: Steps,
    /// From when on nothing is wrong any more.
    pub healed_at: Instant,
    /// When it ends.
    pub ends_at: Instant,
}

/// How long after the last fault the simulation must have come to rest.
pub const SETTLING: Instant = 6 * SECOND;

/// How long after the last fault the most preferred nodes have everything: they must have been there for a
/// minute, and what has been moved before stays for two.
pub const PREFERRED_AFTER: Instant = 200 * SECOND;

/// In one of so many simulations a heartbeat bears two echoes only, as if the segment had many members.
const FEW: u64 = 5;

impl Schedule {
    /// The schedule of a seed.
    #[must_use]
    pub fn random(seed: u64, parameters: Parameters) -> Self {
        Self::random_without(seed, parameters, Off::default())
    }

    /// The same, without some of what only whole daemons meet.
    #[must_use]
    pub fn random_without(seed: u64, parameters: Parameters, off: Off) -> Self {
        let chance = &mut Rng::with_seed(seed);
        let mut shape = Shape::random(chance, parameters);
        if seed.is_multiple_of(FEW) {
            shape.parameters.echoes = 2;
        }
        // Half of them, if any.
        shape.parameters.keep_connections &= seed.is_multiple_of(2);
        // A few are long: survivors wait for half a minute, and evening out for a whole one.
        let long = chance.u8(0..25) == 0;
        let healed_at = if long {
            chance.u64(60 * SECOND..120 * SECOND)
        } else {
            chance.u64(20 * SECOND..26 * SECOND)
        };
        let mut faults: Vec<Fault> = (0..chance.usize(2..9))
            .map(|_| Self::fault(chance, healed_at, long))
            .collect();
        if shape.parameters.keep_connections {
            // Planned moves time and again, so that connections are passed on over several nodes.
            faults.extend((0..chance.usize(4..12)).map(|_| Fault {
                kind: FaultKind::Drained,
                ..Self::fault(chance, healed_at, long)
            }));
        }
        faults.sort_by_key(|fault| fault.at);
        let prefers = |(_, weight): &(usize, Weight)| weight.preference() > 0;
        let rest = if long && shape.weights.iter().any(prefers) {
            PREFERRED_AFTER
        } else {
            SETTLING + 4 * SECOND
        };
        let schedule = Self {
            seed,
            shape,
            faults,
            steps: Vec::new(),
            healed_at,
            ends_at: healed_at + rest,
        };
        if seed % WHOLE == 1 {
            schedule.of_whole_daemons(off)
        } else {
            schedule
        }
    }

    /// The schedule of a seed with preferences for all nodes, which goes on until the preferred ones must have
    /// everything.
    #[must_use]
    pub fn preferring(seed: u64) -> Self {
        let mut schedule = Self::random(seed, fail_over());
        let chance = &mut Rng::with_seed(seed);
        let nodes = 0..schedule.shape.total();
        let weights = nodes.map(|node| (node, weight(chance.u16(0..300))));
        schedule.shape.weights = weights.collect();
        schedule.ends_at = schedule.healed_at + PREFERRED_AFTER;
        schedule
    }

    fn fault(chance: &mut Rng, healed_at: Instant, long: bool) -> Fault {
        let kind = FaultKind::ALL[chance.usize(0..FaultKind::OF_MACHINES)];
        // Some come at the very beginning, while nobody is sure of anything.
        let first = if chance.u8(0..8) == 0 { 0 } else { 3 * SECOND };
        let at = chance.u64(first..healed_at - 2 * SECOND);
        let lasts = match chance.u8(0..4) {
            0 => chance.u64(20 * MILLISECOND..SECOND),
            1 | 2 => chance.u64(500 * MILLISECOND..8 * SECOND),
            _ if long => chance.u64(10 * SECOND..90 * SECOND),
            _ => chance.u64(5 * SECOND..20 * SECOND),
        };
        Fault {
            kind,
            at,
            until: (at + lasts).min(healed_at),
            salt: chance.u64(..),
        }
    }

    /// All steps, in order of time.
    #[must_use]
    pub fn all_steps(&self) -> Steps {
        let mut steps = self.steps.clone();
        for fault in &self.faults {
            for (at, step) in fault.steps(&self.shape) {
                steps.push((at.min(self.healed_at.max(fault.at)), step));
            }
        }
        steps.sort_by_key(|(at, _)| *at);
        steps
    }

    /// The same without one of its faults.
    #[must_use]
    pub fn without(&self, fault: usize) -> Self {
        let mut fewer = self.clone();
        fewer.faults.remove(fault);
        fewer
    }
}
