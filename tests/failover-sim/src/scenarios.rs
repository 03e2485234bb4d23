//! For each rule the schedule that it forbids, written down.
//!
//! A scenario is a few schedules that differ in when things happen to one another: in none of them may
//! anything go wrong, and without the rule something must in at least one.

use mooring_node::protocol::{Parameters, Path, Weight};

use super::clock::{Instant, MILLISECOND, SECOND};
use super::faults::Steps;
use super::invariants::Violation;
use super::network::Nodes;
use super::schedule::{Schedule, Shape};
use super::simulation::{self, lowest};
use super::steps::{Kind, Step};

#[cfg(test)]
mod node_network;

/// The schedules of one scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// They differ in when things happen to one another.
    pub schedules: Vec<Schedule>,
}

/// One schedule, as it is written.
#[derive(Clone, Debug)]
struct Script {
    shape: Shape,
    steps: Steps,
    seed: u64,
}

/// The one key of most scenarios.
const KEY: usize = 0;

impl Script {
    /// So many members, and one key that node 0 holds from before the fourth second on; then any
    /// other may hold it, too.
    fn held_by_the_first(members: usize) -> Self {
        let mut shape = Shape::exact(members, 1);
        shape.keys[KEY] = Some(1);
        let mut script = Self {
            shape,
            steps: Vec::new(),
            seed: 1,
        };
        script.at(
            4 * SECOND,
            Step::Candidates {
                key: KEY,
                nodes: None,
            },
        );
        script
    }

    fn at(&mut self, at: Instant, step: Step) {
        self.steps.push((at, step));
    }

    /// On both paths.
    fn deafen(&mut self, at: Instant, from: Nodes, to: Nodes, on: bool) {
        for path in [Path::Segment, Path::NodeNetwork] {
            self.at(at, Step::Blind { from, to, path, on });
        }
    }

    /// On both paths, for both.
    fn part(&mut self, at: Instant, one: Nodes, other: Nodes, on: bool) {
        self.deafen(at, one, other, on);
        self.deafen(at, other, one, on);
    }

    fn isolate(&mut self, at: Instant, nodes: Nodes, on: bool) {
        self.at(at, Step::CutSegment { nodes, on });
        self.at(at, Step::CutNodeNetwork { nodes, on });
    }

    fn delay(&mut self, at: Instant, from: usize, to: usize, delay: Instant) {
        for path in [Path::Segment, Path::NodeNetwork] {
            self.at(
                at,
                Step::Delay {
                    from,
                    to,
                    path,
                    delay,
                },
            );
        }
    }

    fn until(self, ends_at: Instant) -> Schedule {
        let mut steps = self.steps;
        steps.sort_by_key(|(at, _)| *at);
        Schedule {
            seed: self.seed,
            shape: self.shape,
            faults: Vec::new(),
            steps,
            healed_at: ends_at,
            ends_at,
        }
    }
}

impl Scenario {
    fn of(schedules: impl Iterator<Item = Schedule>) -> Self {
        Self {
            schedules: schedules.collect(),
        }
    }

    /// The scenario of a mutation, by its name.
    #[must_use]
    pub fn of_mutation(name: &str) -> Option<Self> {
        Some(match name {
            "mandate" => mandate(),
            "release" => release(),
            "A" => rule_a(),
            "B" => rule_b(),
            "C" => rule_c(),
            "D" => rule_d(),
            "E" => rule_e(),
            "F" => rule_f(),
            "primary" => primary(),
            "G" => rule_g(),
            "H" => rule_h(),
            "I" => rule_i(),
            "J" => rule_j(),
            _ => return None,
        })
    }

    /// What must never be, and is under these parameters, with the schedule in which it is.
    #[must_use]
    pub fn violation(&self, parameters: Parameters) -> Option<(Schedule, Violation)> {
        let mut schedule = self.schedules[self.first_violation(parameters)?].clone();
        schedule.shape.parameters = parameters;
        let violation = simulation::run(&schedule, None).violation?;
        Some((schedule, violation))
    }

    /// Which schedule is the first in which something is that must never be.
    #[must_use]
    pub fn first_violation(&self, parameters: Parameters) -> Option<usize> {
        self.schedules.iter().position(|schedule| {
            let mut schedule = schedule.clone();
            schedule.shape.parameters = parameters;
            simulation::run(&schedule, None).violation.is_some()
        })
    }
}

/// The holder is cut off. Its right must have ended before the voters' promises do.
fn mandate() -> Scenario {
    Scenario::of((0..10).map(|phase| {
        let mut script = Script::held_by_the_first(3);
        script.isolate(6 * SECOND + phase * 10 * MILLISECOND, 1, true);
        script.until(9 * SECOND)
    }))
}

/// The holder hands a key over, while the echo of an earlier heartbeat is still on its way to it.
fn release() -> Scenario {
    Scenario::of((0..20).map(|phase| {
        let mut script = Script::held_by_the_first(3);
        let at = 6 * SECOND + phase * 5 * MILLISECOND;
        // Only now: the hand-over itself must not wait for it.
        script.delay(at, 2, 0, 60 * MILLISECOND);
        script.delay(at, 1, 0, 20 * MILLISECOND);
        script.at(at + 30 * MILLISECOND, Step::Drain { node: 0, on: true });
        script.until(9 * SECOND)
    }))
}

/// A key is handed over, and what the new holder states does not reach voters that hear its
/// heartbeats: they must not echo what they do not know, since they will grant the key to another.
fn rule_a() -> Scenario {
    Scenario::of((0..10).map(|phase| {
        let mut script = Script::held_by_the_first(5);
        // Node 1 is the best to hand over to, and node 2 the next best.
        script.shape.weights = vec![(1, Weight::new(2, 100)), (2, Weight::new(1, 100))];
        script.at(
            5 * SECOND,
            Step::Drop {
                from: 1 << 1,
                to: 0b11100,
                kind: Kind::Owned,
                on: true,
            },
        );
        let at = 6 * SECOND + phase * 10 * MILLISECOND;
        script.at(at, Step::Drain { node: 0, on: true });
        script.until(10 * SECOND)
    }))
}

/// The holder is cut off; the one other voter that has echoed it starts anew, and knows nothing of
/// that. Node 1 has never heard the holder.
fn rule_b() -> Scenario {
    Scenario::of((0..10).map(|phase| {
        let mut script = Script::held_by_the_first(3);
        script.deafen(0, 1, 1 << 1, true);
        let at = 6 * SECOND + phase * 10 * MILLISECOND;
        script.isolate(at, 1, true);
        script.at(
            at + 10 * MILLISECOND,
            Step::Down {
                node: 2,
                power: false,
            },
        );
        script.at(
            at + 110 * MILLISECOND,
            Step::Up {
                node: 2,
                memory: true,
            },
        );
        script.until(9 * SECOND)
    }))
}

/// A voter that has been deaf to the holder for 256 messages still says what it heard last; then the
/// other voter goes deaf, too.
fn rule_c() -> Scenario {
    Scenario::of((0..80).map(|phase| {
        let mut script = Script::held_by_the_first(3);
        script.deafen(5 * SECOND, 1, 1 << 1, true);
        // Until then nobody else claims the key, and all is quiet: heartbeats alone are counted.
        let only = |nodes| Step::Candidates { key: KEY, nodes };
        script.at(4_500 * MILLISECOND, only(Some(1)));
        let at = 29 * SECOND + phase * 30 * MILLISECOND;
        script.at(at - 100 * MILLISECOND, only(None));
        script.deafen(at, 1, 1 << 2, true);
        script.until(at + 2 * SECOND)
    }))
}

/// Echoes reach the holder late. Its right runs out, and it says so; then an echo arrives of a
/// heartbeat that it sent before.
fn rule_d() -> Scenario {
    Scenario::of((0..40).map(|phase| {
        let mut script = Script::held_by_the_first(3);
        let at = 6 * SECOND + (phase % 10) * 10 * MILLISECOND;
        let delay = 250 * MILLISECOND + phase / 10 * 40 * MILLISECOND;
        script.delay(at, 1, 0, delay);
        script.delay(at, 2, 0, delay);
        script.until(9 * SECOND)
    }))
}

/// The voters grow from three by one and by one more. Two of the first three are cut off with the
/// holder among them, and have heard of neither.
fn rule_e() -> Scenario {
    // The third proposes, since it has the lowest name.
    let seeds = (0..).filter(|seed| lowest(*seed, 3) == Some(2));
    let all = seeds
        .take(2)
        .flat_map(|seed| (0..40).map(move |phase| (seed, phase)));
    Scenario::of(all.map(|(seed, phase)| {
        let mut script = Script::held_by_the_first(3);
        script.seed = seed;
        script.shape.late = 2;
        let few = 0b11;
        script.at(5 * SECOND, Step::Join { node: 3 });
        script.at(5 * SECOND, Step::Join { node: 4 });
        script.at(
            5 * SECOND,
            Step::ApiAway {
                nodes: few,
                on: true,
            },
        );
        // What the two last said of the others arrives while these change the voters twice.
        script.delay(6 * SECOND, 0, 2, 230 * MILLISECOND);
        script.delay(6 * SECOND, 1, 2, 230 * MILLISECOND);
        let at = 7_900 * MILLISECOND + phase * 10 * MILLISECOND;
        script.deafen(at, 0b11100, few, true);
        script.deafen(at + 900 * MILLISECOND, few, 0b11100, true);
        script.until(at + 3 * SECOND)
    }))
}

/// Two voters that reach the gateway and the API server, and not each other.
fn rule_f() -> Scenario {
    let all = (0..4).flat_map(|seed| (0..20).map(move |phase| (seed, phase)));
    Scenario::of(all.map(|(seed, phase)| {
        let mut script = Script::held_by_the_first(2);
        script.seed = seed;
        // Neither is told of a change; it learns of one when it asks.
        script.at(
            5 * SECOND,
            Step::StaleView {
                nodes: 0b11,
                on: true,
            },
        );
        script.part(6 * SECOND + phase * 25 * MILLISECOND, 1, 1 << 1, true);
        script.until(12 * SECOND)
    }))
}

/// Others become a majority without the primary of two, or have been one before it, and it does not
/// hear of them.
fn primary() -> Scenario {
    let first_is_lowest = |seed: &u64| lowest(*seed, 2) == Some(0);
    let seeds: Vec<u64> = (0..).filter(first_is_lowest).take(2).collect();
    let all = seeds
        .into_iter()
        .flat_map(|seed| (0..20).map(move |phase| (seed, phase)));
    Scenario::of(all.flat_map(|(seed, phase)| {
        let mut schedules = [left_behind(phase), grown(phase)];
        for schedule in &mut schedules {
            schedule.seed = seed;
        }
        schedules
    }))
}

/// Of three voters one is silent for so long that it is taken out, which the second approves. Before that is
/// written the second loses the first and the API server, and hears the third again: the two serve the
/// three, and know of no primary.
fn left_behind(phase: u64) -> Schedule {
    let mut script = Script::held_by_the_first(3);
    let (one, two, three) = (1, 1 << 1, 1 << 2);
    script.part(5 * SECOND, three, one | two, true);
    // It does not see that its proposal is approved, and makes it again after two seconds.
    script.at(
        30 * SECOND,
        Step::StaleView {
            nodes: one,
            on: true,
        },
    );
    let at = 36_800 * MILLISECOND + phase * 25 * MILLISECOND;
    script.at(
        at,
        Step::ApiAway {
            nodes: two | three,
            on: true,
        },
    );
    script.part(at, three, two, false);
    script.deafen(at, one, two, true);
    script.until(at + 5 * SECOND)
}

/// The primary of two does not hear the other, goes on alone, and has a third added, which the other
/// approves. It is not told that this is done, and the two others hear each other.
fn grown(phase: u64) -> Schedule {
    let mut script = Script::held_by_the_first(2);
    script.shape.late = 1;
    let (one, two, three) = (1, 1 << 1, 1 << 2);
    script.at(5 * SECOND, Step::Join { node: 2 });
    script.deafen(6 * SECOND, two, one, true);
    script.at(
        6 * SECOND,
        Step::StaleView {
            nodes: one,
            on: true,
        },
    );
    let at = 9_800 * MILLISECOND + phase * 25 * MILLISECOND;
    script.at(
        at,
        Step::AnswersLost {
            nodes: one,
            on: true,
        },
    );
    script.deafen(at, three, one, true);
    script.deafen(at, one, two | three, true);
    script.until(at + 4 * SECOND)
}

/// Three of five lose the API server and the node network, and do not hear the other two on the
/// segment, which hear them there. The two must not go on as if the three were dead.
fn rule_g() -> Scenario {
    Scenario::of((0..3).map(|seed| {
        let mut script = Script::held_by_the_first(5);
        script.seed = seed;
        let (few, many) = (0b11, 0b11100);
        script.at(
            6 * SECOND,
            Step::ApiAway {
                nodes: many,
                on: true,
            },
        );
        script.at(
            6 * SECOND,
            Step::CutNodeNetwork {
                nodes: many,
                on: true,
            },
        );
        script.at(
            6 * SECOND,
            Step::Blind {
                from: few,
                to: many,
                path: Path::Segment,
                on: true,
            },
        );
        script.at(
            6 * SECOND,
            Step::Drop {
                from: many,
                to: few,
                kind: Kind::Owned,
                on: true,
            },
        );
        script.until(90 * SECOND)
    }))
}

/// The holder and a voter die, the voter starts anew, and somebody plays it what the holder once
/// said. The other two must not take the holder for alive.
fn rule_h() -> Scenario {
    Scenario::of((0..60).map(|phase| {
        let mut script = Script::held_by_the_first(3);
        // The recording begins with the whole set of the holder, since that changes then.
        script.shape.keys.push(Some(1));
        script.at(0, Step::KeyThere { key: 1, on: false });
        script.at(4 * SECOND, Step::KeyThere { key: 1, on: true });
        let at = 8 * SECOND;
        script.at(
            at,
            Step::Down {
                node: 0,
                power: true,
            },
        );
        script.at(
            at,
            Step::Down {
                node: 2,
                power: false,
            },
        );
        script.at(
            at + 100 * MILLISECOND,
            Step::Up {
                node: 2,
                memory: true,
            },
        );
        script.at(
            at + 100 * MILLISECOND + phase * 2 * MILLISECOND,
            Step::PlayBack {
                from: 0,
                to: 2,
                since: 3_800 * MILLISECOND,
                until: at,
            },
        );
        script.until(at + 5 * SECOND)
    }))
}

/// What the holder sends on the segment is lost; all else works.
fn rule_i() -> Scenario {
    Scenario::of((0..5).map(|phase| {
        let mut script = Script::held_by_the_first(3);
        let at = 6 * SECOND + phase * 20 * MILLISECOND;
        script.at(at, Step::TransmitDead { node: 0, on: true });
        script.until(12 * SECOND)
    }))
}

/// While the API server is away, a holder starts anew, or loses its right; nobody else may hold its
/// key.
fn rule_j() -> Scenario {
    Scenario::of((0..2).map(|kind| {
        let mut shape = Shape::exact(3, 1);
        shape.keys[KEY] = Some(1);
        let mut script = Script {
            shape,
            steps: Vec::new(),
            seed: 1,
        };
        script.at(
            5 * SECOND,
            Step::ApiAway {
                nodes: 0b111,
                on: true,
            },
        );
        if kind == 0 {
            script.at(
                6 * SECOND,
                Step::Down {
                    node: 0,
                    power: false,
                },
            );
            script.at(
                7 * SECOND,
                Step::Up {
                    node: 0,
                    memory: true,
                },
            );
        } else {
            script.isolate(6 * SECOND, 1, true);
            script.isolate(7 * SECOND, 1, false);
        }
        script.until(14 * SECOND)
    }))
}
