//! Keys that move while their holders live.

use super::*;

#[test]
fn drained_node_hands_over_without_gap() {
    let mut world = World::settled(9);
    world.change_local(1, |local| local.draining = true);
    world.run(ms(1000));
    world.expect_all_spoken();
    assert!(world.keys_of(1).is_empty());
    assert!(world.gap() < ms(5), "{:?}", world.gap());
    for node in [2, 3] {
        assert!(
            world
                .begun(node)
                .is_subset(&BTreeSet::from([(true, Cause::HandedOver)]))
        );
    }
}

#[test]
fn node_whose_service_proxy_fails_for_three_seconds_hands_over() {
    let mut world = World::settled(9);
    let before = world.keys_of(1);
    world.change_local(1, |local| local.service_proxy_works = false);
    world.run(ms(2900));
    world.change_local(1, |local| local.service_proxy_works = true);
    world.run(ms(3000));
    world.change_local(1, |local| local.service_proxy_works = false);
    world.run(ms(2900));
    assert_eq!(world.keys_of(1), before);
    world.run(ms(200));
    world.expect_all_spoken();
    assert!(world.keys_of(1).is_empty());
    assert!(world.gap() < ms(5), "{:?}", world.gap());
}

#[test]
fn ending_daemon_hands_over_unannounced_and_gets_keys_back() {
    let mut world = World::settled(9);
    let before = world.keys_of(1);
    world.change_local(1, |local| local.ending = true);
    world.run(ms(500));
    assert!(world.hosts[&1].machine.has_ended());
    world.expect_all_spoken();
    assert!(world.gap() < ms(5), "{:?}", world.gap());
    for node in [2, 3] {
        assert!(
            world
                .begun(node)
                .is_subset(&BTreeSet::from([(false, Cause::HandedOver)]))
        );
    }
    world.kill(1);
    world.run(ms(2000));
    world.start(1);
    world.run(ms(3000));
    world.expect_all_spoken();
    assert_eq!(world.keys_of(1), before);
    assert_eq!(world.begun(1), BTreeSet::from([(false, Cause::GivenBack)]));
    assert!(world.gap() < ms(5), "{:?}", world.gap());
    assert_eq!(world.bursts(2) + world.bursts(3), 0);
}

#[test]
fn successor_only_answers_until_killed_daemons_node_dies() {
    let mut world = World::settled(9);
    let lost = world.keys_of(1).len();
    world.kill(1);
    world.run(ms(5000));
    world.expect_all_spoken();
    for node in [2, 3] {
        assert!(
            world
                .begun(node)
                .is_subset(&BTreeSet::from([(false, Cause::TakenOver)]))
        );
    }
    assert_eq!(world.bursts(2) + world.bursts(3), 0);
    world.dead_kernels.insert(NodeId(1));
    world.run(ms(500));
    assert_eq!(world.bursts(2) + world.bursts(3), lost);
}

#[test]
fn announces_after_a_minute_of_answering() {
    let mut world = World::settled(9);
    let lost = world.keys_of(1).len();
    world.kill(1);
    world.run(ms(59_000));
    assert_eq!(world.bursts(2) + world.bursts(3), 0);
    world.run(ms(3000));
    assert_eq!(world.bursts(2) + world.bursts(3), lost);
}

#[test]
fn upgrade_changes_nothing() {
    let mut world = World::settled(9);
    let before = world.speakers();
    let state = world.hosts[&1].machine.export();
    let text = serde_json::to_string(&state).unwrap();
    let state = serde_json::from_str(&text).unwrap();
    world.run(Duration::ZERO);
    let host = world.hosts.get_mut(&1).unwrap();
    host.spoken.clear();
    host.machine = Machine::inherit(state, world.now);
    world.drain(1);
    assert_eq!(world.begun(1), BTreeSet::from([(false, Cause::Inherited)]));
    world.run(ms(3000));
    world.expect_all_spoken();
    assert_eq!(world.speakers(), before);
    assert_eq!(world.gap(), Duration::ZERO);
    for node in [1, 2, 3] {
        assert_eq!(world.count(node, Transition::Lapsed), 0);
        assert_eq!(world.count(node, Transition::Joined), 0);
    }
}

/// The former version knew nothing of the node network.
#[test]
fn state_of_the_former_version_is_read() {
    let world = World::settled(3);
    let mut state = serde_json::to_value(world.hosts[&1].machine.export()).unwrap();
    state.as_object_mut().unwrap().remove("node_network");
    let mut removed = 0;
    for peer in state["peers"].as_object_mut().unwrap().values_mut() {
        let flags = peer["last"]["flags"].as_object_mut().unwrap();
        removed += usize::from(flags.remove("node_network_down").is_some());
    }
    assert_eq!(removed, 2);
    serde_json::from_value::<MachineState>(state).unwrap();
}

/// Another version of the daemon may read it.
#[test]
fn exported_state_keeps_its_field_names() {
    let world = World::settled(3);
    let state = serde_json::to_value(world.hosts[&1].machine.export()).unwrap();
    for path in [
        "/beat/next",
        "/estate/keys",
        "/mandate/sent",
        "/parameters/mandate",
        "/quiet/quietly",
        "/registry/current",
        "/senses/filtered",
        "/standing/epoch",
        "/together/apart",
    ] {
        assert!(state.pointer(path).is_some(), "{path}");
    }
}

#[test]
fn key_moves_to_node_that_serves_it() {
    let mut world = World::settled(3);
    let key = *world.keys.keys().next().unwrap();
    let speaker = world.speaker(key).unwrap();
    let other = speaker % 3 + 1;
    world.keys.insert(key, wanted(key, &[other]));
    world.change_view();
    world.run(ms(500));
    assert_eq!(world.speaker(key), Some(other));
    assert!(world.gap() < ms(5), "{:?}", world.gap());
}

#[test]
fn key_moves_only_to_ready_node() {
    let mut world = World::settled(3);
    let key = *world.keys.keys().next().unwrap();
    let speaker = world.speaker(key).unwrap();
    let other = speaker % 3 + 1;
    world.keys.insert(key, wanted(key, &[other]));
    let mut unready = world.view();
    unready.keys.get_mut(&key).unwrap().ready = false;
    world.act(other, |machine, now| machine.set_view(unready, now));
    world.blind.insert(other);
    world.change_view();
    world.run(ms(3000));
    assert_eq!(
        world.speaker(key),
        Some(speaker),
        "nobody else can serve it"
    );
    assert!(
        world.count(speaker, Transition::HandOverBegun) > 3,
        "it was offered"
    );
    world.blind.clear();
    world.change_view();
    world.run(ms(300));
    assert_eq!(world.speaker(key), Some(other));
    assert!(world.gap() < ms(5), "{:?}", world.gap());
}

#[test]
fn node_claims_no_key_before_it_is_ready() {
    let mut world = World::settled(3);
    let key = Key(mix(77));
    world.keys.insert(key, wanted(key, &[1]));
    let mut unready = world.view();
    unready.keys.get_mut(&key).unwrap().ready = false;
    world.act(1, |machine, now| machine.set_view(unready, now));
    world.run(ms(1000));
    assert_eq!(world.speaker(key), None);
    world.change_view();
    world.run(ms(610));
    assert_eq!(world.speaker(key), Some(1));
}

#[test]
fn releases_unwanted_key() {
    let mut world = World::settled(3);
    let key = *world.keys.keys().next().unwrap();
    let speaker = world.speaker(key).unwrap();
    world.keys.remove(&key);
    world.change_view();
    world.run(ms(500));
    assert_eq!(world.speaker(key), None);
    let stopped = world.log.iter().any(|(_, node, decision)| {
        let cause = Cause::Withdrawn;
        *node == speaker && *decision == Decision::Stop { key, cause }
    });
    assert!(stopped);
}

#[test]
fn rebalances_slowly() {
    let mut world = World::new(&[1], 12);
    world.run(ms(4000));
    assert_eq!(world.keys_of(1).len(), 12);
    world.start(2);
    world.start(3);
    world.forget_gaps();
    world.run(ms(40_000));
    assert_eq!(world.keys_of(1).len(), 12, "not at once");
    world.run(ms(60_000));
    world.expect_all_spoken();
    for node in [1, 2, 3] {
        let share = world.keys_of(node).len();
        assert!((3..=5).contains(&share), "{node} has {share}");
    }
    assert!(world.gap() < ms(5), "{:?}", world.gap());
}

/// That would break connections and leave the members as uneven as they were.
#[test]
fn never_rebalances_only_key() {
    let mut world = World::new(&[1], 1);
    world.run(ms(4000));
    let key = *world.keys.keys().next().unwrap();
    for node in 2..=5 {
        world.start(node);
    }
    world.run(ms(100_000));
    assert_eq!(world.speaker(key), Some(1));
}

#[test]
fn speaks_for_new_key_once_nobody_has_answered_for_600_ms() {
    let mut world = World::settled(3);
    let key = Key(mix(77));
    world.keys.insert(key, Wanted::alone(key, Candidates::All));
    world.change_view();
    world.run(ms(590));
    assert_eq!(world.speaker(key), None);
    world.run(ms(20));
    assert!(world.speaker(key).is_some());
}

/// Pods of other nodes cannot be reached through it, though it is on the segment.
#[test]
fn node_that_is_off_the_node_network_for_three_seconds_hands_over() {
    let mut world = World::settled(9);
    assert!(!world.keys_of(1).is_empty());
    let before = world.keys_of(1);
    world.cut = Box::new(|from, to, path| path == Path::NodeNetwork && (from == 1 || to == 1));
    world.run(ms(2800));
    assert_eq!(world.keys_of(1), before);
    world.run(ms(1000));
    world.expect_all_spoken();
    assert!(world.keys_of(1).is_empty());
    assert!(world.gap() < ms(5), "{:?}", world.gap());

    // The one that would take what is free is still off it: another one does.
    world.crash(2);
    world.run(ms(2000));
    world.expect_all_spoken();
    assert!(world.keys_of(1).is_empty());

    // Nobody else is left, so it speaks again.
    world.change_local(3, |local| local.draining = true);
    world.run(ms(1000));
    world.expect_all_spoken();
    assert_eq!(world.keys_of(1).len(), 9);

    // Once the network is back it is like any other.
    world.cut = Box::new(|_, _, _| false);
    world.change_local(3, |local| local.draining = false);
    world.run(ms(10_000));
    world.expect_all_spoken();
    assert!(!world.keys_of(1).is_empty());
}

#[test]
fn where_nobody_hears_anybody_on_the_node_network_nothing_moves() {
    let mut world = World::settled(9);
    let before = world.speakers();
    world.cut = Box::new(|_, _, path| path == Path::NodeNetwork);
    world.run(ms(10_000));
    assert_eq!(world.speakers(), before);
    assert_eq!(world.gap(), Duration::ZERO);
}

/// Whoever hears others first once it is back is not the only one that is connected.
#[test]
fn nothing_moves_when_the_node_network_returns_to_all() {
    for nodes in [vec![1, 2], vec![1, 2, 3]] {
        let mut world = World::new(&nodes, 9);
        world.run(ms(10_000));
        world.expect_all_spoken();
        let before = world.speakers();
        world.cut = Box::new(|_, _, path| path == Path::NodeNetwork);
        world.run(ms(10_000));
        world.cut = Box::new(|_, _, _| false);
        world.run(ms(20_000));
        assert_eq!(world.speakers(), before, "{nodes:?}");
    }
}

/// In ten minutes each key moves three times at most: each node waits longer after each move.
#[test]
fn bad_node_network_moves_little() {
    let mut world = World::settled(9);
    let drawn = std::cell::Cell::new(0);
    world.cut = Box::new(move |_, _, path| {
        drawn.set(drawn.get() + 1);
        path == Path::NodeNetwork && mix(drawn.get()) % 100 < 95
    });
    world.run(ms(600_000));
    world.expect_all_spoken();
    let done = [1, 2, 3].map(|node| world.count(node, Transition::HandOverDone));
    assert!(done.iter().sum::<usize>() <= 3 * 9, "{done:?}");
}

/// A daemon that has just started cannot say yet that it is off the node network.
#[test]
fn nothing_moves_to_restarted_daemon_where_all_are_off_the_node_network() {
    let mut world = World::settled(9);
    world.cut = Box::new(|_, _, path| path == Path::NodeNetwork);
    world.run(ms(5000));
    let before = world.keys_of(2);
    world.kill(2);
    world.run(ms(1000));
    world.start(2);
    world.run(ms(20_000));
    world.expect_all_spoken();
    assert!(world.keys_of(2).is_subset(&before));
}

#[test]
fn node_off_the_node_network_takes_nothing_after_its_restart() {
    let mut world = World::settled(9);
    world.cut = Box::new(|from, to, path| path == Path::NodeNetwork && (from == 1 || to == 1));
    world.run(ms(5000));
    assert!(world.keys_of(1).is_empty());
    world.kill(1);
    world.run(ms(1000));
    world.start(1);
    for _ in 0..180 {
        world.run(ms(1000));
        assert!(world.keys_of(1).is_empty());
    }
}
