//! What another host has is left to it.

use super::*;

const OTHER: Mac = Mac::new([2, 0, 0, 0, 9, 9]);

/// Three nodes that are to share so many keys, of which another host has the first.
fn beside_another(keys: u64, station: Mac) -> (World, Key) {
    let mut world = World::new(&[1, 2, 3], keys);
    let key = *world.keys.keys().next().unwrap();
    world.others.insert(key, station);
    (world, key)
}

fn conflicts(world: &World, key: Key) -> Vec<Option<Mac>> {
    let said = world
        .log
        .iter()
        .filter_map(|(_, _, decision)| match decision {
            Decision::Conflict { key: of, station } if *of == key => Some(*station),
            _ => None,
        });
    said.collect()
}

fn questions(world: &World, since: Moment) -> usize {
    let asks = |decision: &Decision| {
        matches!(
            decision,
            Decision::ProbeSegment { .. } | Decision::ProbeAddress { .. }
        )
    };
    let log = world.log.iter();
    log.filter(|(at, _, decision)| *at >= since && asks(decision))
        .count()
}

#[test]
fn address_of_another_host_is_left_to_it_until_it_is_gone() {
    let (mut world, key) = beside_another(6, OTHER);
    world.run(ms(8000));
    assert_eq!(world.speakers().len(), 5);
    assert!(!world.speakers().contains_key(&key));
    assert_eq!(conflicts(&world, key), [Some(OTHER)]);
    // One member asks five times a second, the others now and then.
    let since = world.now;
    world.run(ms(10_000));
    let asked = questions(&world, since);
    assert!((40..=60).contains(&asked), "{asked}");
    world.others.clear();
    world.run(ms(1000));
    world.expect_all_spoken();
    assert_eq!(conflicts(&world, key), [Some(OTHER), None]);
}

#[test]
fn another_member_goes_on_asking_when_the_first_is_gone() {
    let (mut world, key) = beside_another(1, OTHER);
    world.run(ms(8000));
    let told = |(_, node, decision): &(Moment, u64, Decision)| {
        matches!(decision, Decision::Conflict { .. }).then_some(*node)
    };
    let first = world.log.iter().find_map(told).unwrap();
    world.crash(first);
    world.run(ms(7000));
    assert_eq!(conflicts(&world, key), [Some(OTHER); 2]);
    world.others.clear();
    world.run(ms(1000));
    assert_eq!(world.speakers().len(), 1);
}

#[test]
fn fabric_that_answers_for_the_dead_is_not_believed() {
    let mut world = World::new(&[1, 2, 3], 3);
    let key = *world.keys.keys().next().unwrap();
    world.fabric.insert(key, OTHER);
    world.run(ms(4000));
    world.expect_all_spoken();
    assert_eq!(conflicts(&world, key), []);
}

/// Another implementation runs on the same nodes: neighbours keep the MAC address that they know.
#[test]
fn node_of_the_other_speaker_takes_the_address() {
    for station in 1..=3 {
        let (mut world, key) = beside_another(1, contact(station).mac.unwrap());
        world.run(ms(5000));
        assert_eq!(world.speakers().get(&key), Some(&station));
        assert_eq!(conflicts(&world, key), []);
    }
}

#[test]
fn fail_over_asks_nothing() {
    let mut world = World::new(&[1, 2, 3], 9);
    world.run(ms(4000));
    assert!(questions(&world, Moment::default()) >= 27);
    let since = world.now;
    world.crash(1);
    world.run(ms(3000));
    world.expect_others(1);
    assert_eq!(questions(&world, since), 0);
}

/// All daemons are killed at once, and started again: who has spoken for an address goes on.
#[test]
fn address_that_was_spoken_for_before_the_start_is_not_asked_about() {
    let mut world = World::new(&[1, 2, 3], 6);
    world.run(ms(4000));
    let speakers = world.speakers();
    for node in [1, 2, 3] {
        world.crash(node);
    }
    let since = world.now;
    for node in [1, 2, 3] {
        for (key, wanted) in &mut world.keys {
            wanted.spoken_here = speakers[key] == node;
        }
        world.start(node);
    }
    world.run(ms(3000));
    assert_eq!(world.speakers(), speakers);
    let begun = world
        .log
        .iter()
        .filter(|(at, _, decision)| *at >= since && matches!(decision, Decision::Begin { .. }));
    let last = begun.map(|(at, ..)| *at).max().unwrap();
    assert!(last.since(since) < ms(1500), "{:?}", last.since(since));
}

#[test]
fn address_that_was_just_spoken_for_is_not_asked_about() {
    let mut world = World::settled(3);
    let keys = std::mem::take(&mut world.keys);
    world.change_view();
    world.run(ms(1000));
    assert!(world.speakers().is_empty());
    let since = world.now;
    world.keys.clone_from(&keys);
    world.change_view();
    world.run(ms(1000));
    world.expect_all_spoken();
    assert_eq!(questions(&world, since), 0);
    world.keys.clear();
    world.change_view();
    world.run(ms(61_000));
    world.change_view();
    let since = world.now;
    world.keys = keys;
    world.change_view();
    world.run(ms(2000));
    world.expect_all_spoken();
    assert!(questions(&world, since) >= 9);
}
