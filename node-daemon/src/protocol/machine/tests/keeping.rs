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

fn drain(prepares_in: Option<Duration>) -> World {
    let mut world = keeping();
    let moving = world.keys_of(1).len();
    world.prepares_in = prepares_in;
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
        assert!((ms(150)..ms(200)).contains(&waited), "{waited:?}");
    }
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
