//! The node network fails for all at once: it is no reason to move keys, not even when it returns.

use mooring_node::protocol::{Cause, Path};

use super::{Instant, Nodes, SECOND, Schedule, Script, Step, simulation};

/// Nobody hears anybody on the node network.
fn cut_all(script: &mut Script, nodes: Nodes, on: bool, at: Instant) {
    let path = Path::NodeNetwork;
    let (from, to) = (nodes, nodes);
    script.at(at, Step::Blind { from, to, path, on });
}

/// How often a key was handed over.
fn handed_over(schedule: &Schedule) -> u64 {
    let outcome = simulation::run(schedule, None);
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    let count = outcome.tally.causes.get(&Cause::HandedOver);
    count.copied().unwrap_or_default()
}

/// In different phases, some node is the first that hears another.
#[test]
fn nothing_moves_when_it_returns() {
    for (members, all) in [(2, 0b11), (3, 0b111)] {
        for phase in 0..20 {
            let mut script = Script::held_by_the_first(members);
            script.seed = phase;
            cut_all(&mut script, all, true, 10 * SECOND);
            let back = 20 * SECOND + phase * SECOND / 100;
            cut_all(&mut script, all, false, back);
            assert_eq!(
                handed_over(&script.until(50 * SECOND)),
                0,
                "{members} {phase}"
            );
        }
    }
}

/// It comes and goes for all: for half a second in each four.
#[test]
fn nothing_moves_while_it_comes_and_goes() {
    for phase in 0..5 {
        let mut script = Script::held_by_the_first(3);
        script.seed = phase;
        for round in 0..30 {
            let at = 10 * SECOND + round * 4 * SECOND;
            cut_all(&mut script, 0b111, true, at);
            cut_all(&mut script, 0b111, false, at + 7 * SECOND / 2);
        }
        assert_eq!(handed_over(&script.until(140 * SECOND)), 0, "{phase}");
    }
}
