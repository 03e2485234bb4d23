//! Written schedules for whole daemons: what lies between the machine, the views and the segment.
//!
//! In none of them may anything go wrong. Each was seen to go wrong before what it is about was done, unless it
//! says otherwise.

use super::clock::{Instant, MILLISECOND, SECOND};
use super::faults::Steps;
use super::schedule::{Schedule, Shape};
use super::simulation;
use super::steps::Step;

/// The schedules of this name, which differ in when things happen to one another.
#[must_use]
pub fn named(name: &str) -> Option<Vec<Schedule>> {
    Some(match name {
        "reopened" => vec![reopened()],
        "unplugged" => vec![unplugged()],
        "flapping-alone" => vec![flapping_alone()],
        "relabelled" => vec![relabelled()],
        "readdressed" => vec![readdressed()],
        "restored" => vec![restored()],
        "restored-alone" => vec![restored_alone()],
        "made-anew" => vec![made_anew()],
        "strangers" => (1..=20).map(strangers).collect(),
        _ => return None,
    })
}

/// The first of the schedules in which something goes wrong, or else the first.
#[must_use]
pub fn worst(schedules: &[Schedule]) -> Option<&Schedule> {
    let is_wrong = |schedule: &&Schedule| simulation::run(schedule, None).violation.is_some();
    schedules.iter().find(is_wrong).or(schedules.first())
}

fn daemons(members: usize) -> Shape {
    Shape {
        whole: true,
        ..Shape::exact(members, 1)
    }
}

fn schedule(shape: Shape, steps: Steps, healed_at: Instant, ends_at: Instant) -> Schedule {
    Schedule {
        seed: 1,
        shape,
        faults: Vec::new(),
        steps,
        healed_at,
        ends_at,
    }
}

/// Two of three nodes are unplugged and plugged in again, one after the other. Their addresses go with
/// the carrier, so that the segment is closed there and opened again.
fn reopened() -> Schedule {
    let shape = Shape {
        drops_addresses: true,
        ..daemons(3)
    };
    let unplugged = |node, on| Step::LinkDown { node, on };
    let steps = vec![
        (20 * SECOND, unplugged(1, true)),
        (27 * SECOND, unplugged(1, false)),
        (30 * SECOND, unplugged(2, true)),
        (37 * SECOND, unplugged(2, false)),
    ];
    schedule(shape, steps, 40 * SECOND, 52 * SECOND)
}

/// Of nine nodes seven vote. The two others, to which a Service is bound, are unplugged and plugged in again, one
/// after the other: the one that is left hears by the node network alone that the other let go.
fn unplugged() -> Schedule {
    let mut shape = daemons(9);
    shape.voters = Some(0b0_0111_1111);
    shape.keys = vec![Some(0b1_1000_0000)];
    let unplugged = |node, on| Step::LinkDown { node, on };
    let steps = vec![
        (10 * SECOND, unplugged(7, true)),
        (16 * SECOND, unplugged(7, false)),
        (20 * SECOND, unplugged(8, true)),
        (26 * SECOND, unplugged(8, false)),
    ];
    schedule(shape, steps, 27 * SECOND, 37 * SECOND)
}

/// The link of the only node that may speak for a Service comes and goes, and the others' do not.
/// What was wrong before is in the machine's tests (`a_link_that_flaps_is_used_at_once_for_what_nobody_else_could_speak_for`).
fn flapping_alone() -> Schedule {
    let mut shape = daemons(3);
    shape.keys = vec![Some(1)];
    let unplugged = |on| Step::LinkDown { node: 0, on };
    let steps = (10..14).flat_map(|second| {
        let at = second * SECOND;
        [
            (at, unplugged(true)),
            (at + 500 * MILLISECOND, unplugged(false)),
        ]
    });
    schedule(shape, steps.collect(), 15 * SECOND, 25 * SECOND)
}

/// Two of three lose the label that the L2Network selects and get it back, one after the other.
fn relabelled() -> Schedule {
    let without = |node, on| Step::Unlabel { node, on };
    let steps = vec![
        (20 * SECOND, without(1, true)),
        (27 * SECOND, without(1, false)),
        (30 * SECOND, without(2, true)),
        (37 * SECOND, without(2, false)),
    ];
    schedule(daemons(3), steps, 40 * SECOND, 52 * SECOND)
}

/// A Service with two addresses changes the lower one, while the node that speaks for both does not
/// reach the API server.
fn readdressed() -> Schedule {
    let mut shape = daemons(3);
    shape.dual = 1;
    shape.keys = vec![Some(1)];
    let anywhere = Step::Candidates {
        key: 0,
        nodes: None,
    };
    let away = |on| Step::ApiAway { nodes: 1, on };
    let spots = 0b101;
    let steps = vec![
        (4 * SECOND, anywhere),
        (5 * SECOND, away(true)),
        (6 * SECOND, Step::Readdress { service: 0, spots }),
        (9 * SECOND, away(false)),
    ];
    schedule(shape, steps, 10 * SECOND, 20 * SECOND)
}

/// The voters become three, and the API server is restored to when they were two.
fn restored() -> Schedule {
    let mut shape = daemons(3);
    shape.voters = Some(0b11);
    let steps = vec![(14 * SECOND, Step::Restore { back: 13 * SECOND })];
    schedule(shape, steps, 15 * SECOND, 60 * SECOND)
}

/// The only voter of the beginning leaves for good, and the API server is restored to when it was the only
/// one: none of the voters that it names lives, and the one that is left has lost its majority.
fn restored_alone() -> Schedule {
    let mut shape = daemons(2);
    shape.voters = Some(0b1);
    let steps = vec![
        (14 * SECOND, Step::Leave { node: 0 }),
        (16 * SECOND, Step::Restore { back: 15 * SECOND }),
    ];
    schedule(shape, steps, 17 * SECOND, 70 * SECOND)
}

/// The L2Network is deleted and made again, while one of three does not reach the API server, and so
/// knows of the voters of before.
fn made_anew() -> Schedule {
    let mut shape = daemons(3);
    shape.voters = Some(0b11);
    let away = |on| Step::ApiAway { nodes: 0b100, on };
    let steps = vec![
        (14 * SECOND, away(true)),
        (15 * SECOND, Step::Network { uid: None }),
        (16 * SECOND, Step::Network { uid: Some(7) }),
        (22 * SECOND, away(false)),
    ];
    schedule(shape, steps, 23 * SECOND, 60 * SECOND)
}

/// Another cluster is on the segment, whose L2Network and Nodes have the same names; daemons start one
/// after the other, in another order each time.
fn strangers(seed: u64) -> Schedule {
    let mut shape = Shape {
        strangers: 3,
        lateness: 2 * MILLISECOND,
        ..daemons(4)
    };
    shape.keys = vec![None; 2];
    let mut schedule = schedule(shape, Vec::new(), 10 * SECOND, 20 * SECOND);
    schedule.seed = seed;
    schedule
}
