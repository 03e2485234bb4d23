//! Small simulations, explored to the end: whatever goes wrong in whatever order, one thing at a time.
//!
//! The states are whole simulations of real machines, as in [`super::simulation`], with exact clocks and
//! networks. At each of a few instants nothing happens, or one of a few things begins or ends; all
//! such histories are explored, breadth first, by `stateright`. Two histories that lead to the same
//! simulation are one state. Time goes on all the while, so that there are not many of those: what is
//! proved is that no history *of this length, of these things, at these instants* shows anything
//! that must never be.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use mooring_node::protocol::{Parameters, Path};
use stateright::{Checker as _, Model, Property};

use super::clock::{Instant, MILLISECOND, SECOND};
use super::engine::Alone;
use super::network::Nodes;
use super::schedule::{Schedule, Shape};
use super::simulation::{Outcome, Simulation};
use super::steps::Step;
use super::trace::Trace;

/// Something that begins or ends, by several steps.
type Thing = fn(on: bool) -> Vec<Step>;

/// A small simulation, and what may go wrong in it.
#[derive(Clone, Debug)]
pub struct Small {
    schedule: Schedule,
    things: &'static [Thing],
    begins: Instant,
    round: Instant,
    /// At how many instants something may begin or end.
    rounds: usize,
}

/// How long the simulation goes on after the last of them.
const AFTERWARDS: Instant = SECOND;

/// A simulation after some rounds.
#[derive(Clone, Debug)]
pub struct State {
    simulation: Arc<Simulation>,
    rounds: usize,
    /// Which of the things are so now.
    on: u8,
    fingerprint: u64,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        (self.rounds, self.on, self.fingerprint) == (other.rounds, other.on, other.fingerprint)
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.rounds, self.on, self.fingerprint).hash(state);
    }
}

/// What happens next: nothing, or this thing begins or ends.
pub type Turn = Option<usize>;

/// How many states there are, and what must never be and was found, with how it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// What must never be, and what happened before.
    pub violation: Option<String>,
}

fn both_ways(from: Nodes, to: Nodes, on: bool) -> Vec<Step> {
    [Path::Segment, Path::NodeNetwork]
        .map(|path| Step::Blind { from, to, path, on })
        .to_vec()
}

fn isolated(nodes: Nodes, on: bool) -> Vec<Step> {
    vec![
        Step::CutSegment { nodes, on },
        Step::CutNodeNetwork { nodes, on },
    ]
}

fn daemon(node: usize, gone: bool) -> Vec<Step> {
    vec![if gone {
        Step::Down { node, power: false }
    } else {
        Step::Up { node, memory: true }
    }]
}

fn delayed(from: usize, to: usize, delay: Instant) -> Vec<Step> {
    [Path::Segment, Path::NodeNetwork]
        .map(|path| Step::Delay {
            from,
            to,
            path,
            delay,
        })
        .to_vec()
}

impl Small {
    fn new(shape: Shape, steps: Vec<(Instant, Step)>, things: &'static [Thing]) -> Self {
        Self {
            schedule: Schedule {
                seed: 2,
                shape,
                faults: Vec::new(),
                steps,
                healed_at: 1_000 * SECOND,
                ends_at: 1_000 * SECOND,
            },
            things,
            begins: 6 * SECOND,
            round: 110 * MILLISECOND,
            rounds: 0,
        }
    }

    /// Three voters, of which the first holds a key, loses its right, starts anew and joins again.
    #[must_use]
    pub fn rejoining(parameters: Parameters, rounds: usize) -> Self {
        let mut shape = Shape::exact(3, 1);
        shape.parameters = parameters;
        shape.keys = vec![Some(1)];
        let all = Step::Candidates {
            key: 0,
            nodes: None,
        };
        let things: &[Thing] = &[
            |on| isolated(1, on),
            |on| both_ways(1, 1 << 1, on),
            |on| daemon(2, on),
            |on| daemon(0, on),
            |on| delayed(2, 0, if on { 300 * MILLISECOND } else { 0 }),
        ];
        Self {
            rounds,
            ..Self::new(shape, vec![(4 * SECOND, all)], things)
        }
    }

    /// Three voters that become five, one by one, while some of them are cut off.
    #[must_use]
    pub fn growing(parameters: Parameters, rounds: usize) -> Self {
        let mut shape = Shape::exact(3, 1);
        shape.parameters = parameters;
        shape.late = 2;
        shape.keys = vec![Some(1)];
        let few = 0b11;
        let steps = vec![
            (
                4 * SECOND,
                Step::Candidates {
                    key: 0,
                    nodes: None,
                },
            ),
            (5 * SECOND, Step::Join { node: 3 }),
            (5 * SECOND, Step::Join { node: 4 }),
            (
                5 * SECOND,
                Step::ApiAway {
                    nodes: few,
                    on: true,
                },
            ),
        ];
        let things: &[Thing] = &[
            |on| both_ways(0b11100, 0b11, on),
            |on| both_ways(0b11, 0b11100, on),
            |on| {
                let delay = if on { 230 * MILLISECOND } else { 0 };
                [delayed(0, 2, delay), delayed(1, 2, delay)].concat()
            },
            |on| daemon(3, on),
        ];
        Self {
            rounds,
            begins: 7_850 * MILLISECOND,
            round: 180 * MILLISECOND,
            ..Self::new(shape, steps, things)
        }
    }

    /// Explores all of it.
    #[must_use]
    pub fn explore(self, threads: usize) -> Explored {
        let checker = self.checker().threads(threads).spawn_bfs().join();
        let violation = checker.discovery(NOTHING).map(|path| {
            let end = path.last_state();
            let turns: Vec<String> = path
                .clone()
                .into_actions()
                .iter()
                .map(|turn| turn.map_or(0, |thing| thing + 1).to_string())
                .collect();
            let violation = end.simulation.violation().map(ToString::to_string);
            format!(
                "{} after {}",
                violation.unwrap_or_default(),
                turns.join(" ")
            )
        });
        Explored {
            states: checker.unique_state_count(),
            violation,
        }
    }

    /// Tells what happens in one history: of each round the thing that begins or ends, counted from
    /// 1, or 0.
    #[must_use]
    pub fn tell(&self, turns: &[usize]) -> Outcome {
        let mut simulation = Simulation::<Alone>::new(&self.schedule, Some(Trace::default()));
        simulation.advance(self.begins);
        let mut on = 0_u8;
        for turn in turns {
            if let Some(thing) = turn
                .checked_sub(1)
                .filter(|thing| *thing < self.things.len())
            {
                on ^= 1 << thing;
                for step in (self.things[thing])(on & (1 << thing) != 0) {
                    simulation.interfere(&step);
                }
            }
            let next = simulation.now() + self.round;
            simulation.advance(next);
        }
        let next = simulation.now() + AFTERWARDS;
        simulation.advance(next);
        simulation.outcome()
    }

    fn state(&self, mut simulation: Simulation, rounds: usize, on: u8) -> State {
        let next = simulation.now() + self.round;
        simulation.advance(next);
        if rounds == self.rounds {
            simulation.advance(next + AFTERWARDS);
        }
        State {
            fingerprint: simulation.fingerprint(),
            simulation: Arc::new(simulation),
            rounds,
            on,
        }
    }
}

/// The property.
const NOTHING: &str = "nothing is that must never be";

impl Model for Small {
    type State = State;
    type Action = Turn;

    fn init_states(&self) -> Vec<State> {
        let mut simulation = Simulation::<Alone>::new(&self.schedule, None);
        simulation.advance(self.begins - self.round);
        vec![self.state(simulation, 0, 0)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Turn>) {
        if state.rounds < self.rounds && state.simulation.violation().is_none() {
            actions.push(None);
            actions.extend((0..self.things.len()).map(Some));
        }
    }

    fn next_state(&self, last: &State, turn: Turn) -> Option<State> {
        let mut simulation = last.simulation.as_ref().clone();
        let mut on = last.on;
        if let Some(thing) = turn {
            on ^= 1 << thing;
            let begins = on & (1 << thing) != 0;
            for step in (self.things[thing])(begins) {
                simulation.interfere(&step);
            }
        }
        Some(self.state(simulation, last.rounds + 1, on))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(NOTHING, |_, state: &State| {
            state.simulation.violation().is_none()
        })]
    }
}
