//! Connections that stay with a former speaker: when a key is taken, and who is told what.

use super::*;

fn keeping() -> World {
    let mut world = World::settled(9);
    for node in [1, 2, 3] {
        world.act(node, |machine, _| machine.set_keep_connections(true));
    }
    world
}

/// When each key was first offered, and when it was begun after that.
fn offers(world: &World) -> Vec<(Moment, Moment)> {
    let mut offered = BTreeMap::new();
    let mut found = Vec::new();
    for (at, _, decision) in &world.log {
        match decision {
            Decision::Connections(ConnectionEvent::Offered { key, .. }) => {
                offered.entry(*key).or_insert(*at);
            }
            Decision::Begin { key, .. } => {
                found.extend(offered.remove(key).map(|from| (from, *at)));
            }
            _ => {}
        }
    }
    found
}

/// When each key that was handed on was last about to be, by the same node for the same node, and when it was.
fn handed_on(world: &World) -> Vec<(Option<Moment>, Moment)> {
    let mut handing_on = BTreeMap::new();
    let mut found = Vec::new();
    for (at, node, decision) in &world.log {
        match decision {
            Decision::Connections(ConnectionEvent::HandingOn { key, to }) => {
                handing_on.insert((*node, *key, *to), *at);
            }
            Decision::Connections(ConnectionEvent::HandedOn { key, to, .. }) => {
                found.push((handing_on.remove(&(*node, *key, *to)), *at));
            }
            _ => {}
        }
    }
    found
}

fn drain(prepares_in: Option<Duration>) -> World {
    drain_with(prepares_in, Some(ms(1)))
}

fn drain_with(prepares_in: Option<Duration>, lets_through_in: Option<Duration>) -> World {
    let mut world = keeping();
    let moving = world.keys_of(1).len();
    world.prepares_in = prepares_in;
    world.lets_through_in = lets_through_in;
    world.change_local(1, |local| local.draining = true);
    world.run(ms(1000));
    world.expect_all_spoken();
    assert!(world.keys_of(1).is_empty());
    assert!(world.gap() < ms(5), "{:?}", world.gap());
    assert!(offers(&world).len() >= moving);
    world
}

#[test]
fn offered_key_is_taken_once_it_is_prepared() {
    let world = drain(Some(ms(20)));
    for (offered, begun) in offers(&world) {
        let waited = begun.since(offered);
        assert!((ms(20)..ms(40)).contains(&waited), "{waited:?}");
    }
}

#[test]
fn offered_key_is_taken_all_the_same_if_it_is_never_prepared() {
    let world = drain(None);
    for (offered, begun) in offers(&world) {
        let waited = begun.since(offered);
        assert!((ms(500)..ms(550)).contains(&waited), "{waited:?}");
    }
}

/// A second move: what the first speaker has is passed on to the second by the third, which that one must let
/// through before the third speaks.
#[test]
fn key_is_let_go_once_what_next_speaker_passes_on_is_let_through() {
    let mut world = drain_with(Some(ms(20)), Some(ms(30)));
    let first = world.keys_of(2);
    assert!(!first.is_empty());
    world.change_local(2, |local| local.draining = true);
    world.run(ms(1000));
    world.expect_all_spoken();
    assert!(world.gap() < ms(5), "{:?}", world.gap());
    assert!(first.is_subset(&world.keys_of(3)));
    let handed_on = handed_on(&world);
    assert!(handed_on.len() > first.len());
    for (begun, done) in handed_on {
        let waited = done.since(begun.unwrap());
        assert!((ms(30)..ms(50)).contains(&waited), "{waited:?}");
    }
}

#[test]
fn key_is_let_go_all_the_same_if_nothing_is_ever_let_through() {
    // The longest that both may take.
    let world = drain_with(Some(ms(490)), None);
    for (begun, done) in handed_on(&world) {
        let waited = done.since(begun.unwrap());
        assert!((ms(300)..ms(320)).contains(&waited), "{waited:?}");
    }
    let failed = Decision::Note(Transition::HandOverFailed);
    assert!(!world.log.iter().any(|(_, _, it)| *it == failed));
}

/// It may still pass on for an older move, and be on a circle.
#[test]
fn nothing_is_let_through_of_next_speaker_that_is_not_prepared() {
    let world = drain_with(None, Some(ms(1)));
    let handed_on = handed_on(&world);
    assert!(!handed_on.is_empty());
    assert!(handed_on.iter().all(|(begun, _)| begun.is_none()));
}

#[test]
fn former_speaker_is_told_whom_it_has_handed_a_key_to() {
    let world = drain(Some(ms(1)));
    let handed = world.log.iter().filter(|(_, node, decision)| {
        let handed = matches!(
            decision,
            Decision::Connections(ConnectionEvent::HandedOn { to, is_announced: true, .. })
                if *to != NodeId(1)
        );
        *node == 1 && handed
    });
    assert_eq!(handed.count(), offers(&world).len());
}

#[test]
fn unannounced_move_prepares_nothing() {
    let mut world = keeping();
    world.change_local(1, |local| local.ending = true);
    world.run(ms(500));
    world.expect_all_spoken();
    assert!(offers(&world).is_empty());
}

#[test]
fn former_speaker_that_dies_is_said_to_be_gone() {
    let mut world = drain(Some(ms(1)));
    let gone = |world: &World| {
        let gone = Decision::Connections(ConnectionEvent::Gone(NodeId(1)));
        world.log.iter().any(|(_, _, decision)| *decision == gone)
    };
    assert!(!gone(&world));
    world.dead_kernels.insert(NodeId(1));
    world.kill(1);
    world.run(ms(1000));
    assert!(gone(&world));
}

#[test]
fn new_speaker_hears_how_many_connections_are_left() {
    let mut world = keeping();
    let counts: Vec<(Key, u32)> = (0..150).map(|key| (Key(key), 7)).collect();
    world.act(1, |machine, now| {
        machine.tell_connections(NodeId(2), &counts, now);
    });
    world.run(ms(50));
    let heard = |node: u64| {
        let counts = world
            .log
            .iter()
            .filter_map(|(_, at, decision)| match decision {
                Decision::Connections(ConnectionEvent::Counted { from, counts })
                    if *at == node && *from == NodeId(1) =>
                {
                    Some(counts.len())
                }
                _ => None,
            });
        counts.sum::<usize>()
    };
    assert_eq!((heard(2), heard(3)), (150, 0));
}
