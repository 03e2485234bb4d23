//! Keys that belong together, and members whose views of that differ.

use super::*;

/// The addresses of two Services with two each: 0 and 1, 2 and 3.
fn address(number: u64) -> Key {
    Key(mix(number))
}

impl World {
    /// So many groups of two keys.
    fn pairs(nodes: &[u64], pairs: u64) -> Self {
        let mut world = Self::new(nodes, 0);
        for pair in 0..pairs {
            world.group(pair, &[2 * pair, 2 * pair + 1]);
        }
        world.change_view();
        world.run(ms(4000));
        world.expect_all_spoken();
        world.forget_gaps();
        world
    }

    /// Makes a group of these addresses, for all that see changes.
    fn group(&mut self, name: u64, addresses: &[u64]) {
        for number in addresses {
            let alone = Wanted::alone(address(*number), Candidates::All);
            let group = Group(mix(name));
            self.keys
                .insert(address(*number), Wanted { group, ..alone });
        }
    }

    fn expect_together(&self, pairs: u64) {
        for pair in 0..pairs {
            let speakers = [2 * pair, 2 * pair + 1].map(|number| self.speaker(address(number)));
            assert!(speakers[0].is_some());
            assert_eq!(speakers[0], speakers[1], "pair {pair}");
        }
    }

    /// Who holds both of a pair.
    fn holder(&self, pair: u64) -> u64 {
        self.speaker(address(2 * pair)).unwrap()
    }
}

#[test]
fn group_stays_together_through_failures() {
    let mut world = World::pairs(&[1, 2, 3], 10);
    world.expect_together(10);
    world.crash(1);
    world.run(ms(1500));
    world.expect_together(10);
    world.change_local(2, |local| local.draining = true);
    world.run(ms(1000));
    world.expect_together(10);
    assert!(world.keys_of(2).is_empty());
    world.change_local(2, |local| local.draining = false);
    world.run(ms(150_000));
    world.expect_together(10);
    assert!(!world.keys_of(2).is_empty(), "it was evened out by groups");
}

/// The daemon of the crashed holder is back before anybody has taken over, and drained while it does not know
/// whether it can serve anything.
#[test]
fn group_of_holder_that_is_back_at_once_stays_together() {
    for back in (240..400).step_by(20) {
        for ready in (60..260).step_by(20) {
            let mut world = World::pairs(&[1, 2, 3], 1);
            let holder = world.holder(0);
            world.kill(holder);
            world.run(ms(back));
            world.start(holder);
            world.change_local(holder, |local| local.draining = true);
            world.run(ms(ready));
            world.change_local(holder, |local| local.draining = false);
            world.run(ms(2000));
            world.expect_all_spoken();
            world.expect_together(1);
            let began = world.log.iter().filter_map(|(at, _, decision)| {
                let cause = Cause::TakenOver;
                matches!(decision, Decision::Begin { cause: why, .. } if *why == cause)
                    .then_some(*at)
            });
            let began: BTreeSet<Moment> = began.collect();
            assert!(began.len() <= 1, "claimed apart: {back} {ready}");
        }
    }
}

/// A pair of whose holder another has taken one key; the other one nobody can serve yet. The daemon of the holder is
/// back, but has no epoch yet. Gives the holder and the successor.
fn half_taken(is_dead: bool, is_drained: bool) -> (World, u64, u64) {
    let mut world = World::pairs(&[1, 2, 3], 1);
    let holder = world.holder(0);
    let mut view = world.view();
    if let Some(wanted) = view.keys.get_mut(&address(1)) {
        wanted.ready = false;
    }
    for node in (1..=3).filter(|node| *node != holder) {
        let view = view.clone();
        world.act(node, |machine, now| machine.set_view(view, now));
    }
    world.kill(holder);
    if is_dead {
        world.dead_kernels.insert(NodeId(holder));
    }
    world.run(ms(1000));
    assert_eq!(world.speaker(address(1)), None);
    let successor = world.holder(0);
    world.dead_kernels.clear();
    world.start(holder);
    world.change_local(holder, |local| local.draining = is_drained);
    world.run(ms(100));
    (world, holder, successor)
}

#[test]
fn what_follows_an_announced_key_of_its_group_is_announced() {
    let (mut world, _, successor) = half_taken(true, false);
    world.change_view();
    world.run(ms(3000));
    world.expect_together(1);
    assert_eq!(world.holder(0), successor);
    assert_eq!(world.bursts(successor), 1);
}

#[test]
fn what_was_not_announced_follows_an_announced_key_of_its_group() {
    let (mut world, holder, successor) = half_taken(false, true);
    world.change_view();
    world.run(ms(100));
    assert_eq!(world.bursts(successor), 1);
    world.change_local(holder, |local| local.draining = false);
    world.run(ms(3000));
    world.expect_together(1);
    assert_eq!(world.holder(0), successor);
}

#[test]
fn new_key_joins_its_group() {
    for name in 0..6 {
        let mut world = World::new(&[1, 2, 3], 0);
        world.group(0, &[0]);
        world.change_view();
        world.run(ms(4000));
        // Its place would be elsewhere by now, but it stays.
        world.group(name, &[0, 1]);
        world.change_view();
        world.run(ms(650));
        world.expect_together(1);
    }
}

/// The owner is cut off from the API server. The Service gets another first address: for the others it
/// is another pair.
#[test]
fn one_speaker_while_views_differ() {
    for owner_is_blind in [true, false] {
        let mut world = World::pairs(&[1, 2, 3], 1);
        let owner = world.holder(0);
        world.blind = (1..=3)
            .filter(|n| (*n == owner) == owner_is_blind)
            .collect();
        world.keys.remove(&address(0));
        world.group(0, &[1, 7]);
        world.change_view();
        for _ in 0..100 {
            world.run(ms(50));
            // Not more than one.
            for number in [0, 1, 7] {
                world.speaker(address(number));
            }
        }
        assert_eq!(world.speaker(address(1)), Some(owner), "it stays");
        assert!(world.speaker(address(7)).is_some(), "somebody takes it");
        world.run(ms(300_000));
        let moved: usize = (1..=3)
            .map(|n| world.count(n, Transition::HandOverDone))
            .sum();
        assert!(moved <= 4, "{moved} moves in five minutes");
        world.crash(owner);
        world.run(ms(1500));
        assert!(world.speaker(address(1)).is_some_and(|node| node != owner));
    }
}

#[test]
fn split_group_reunites_after_a_minute() {
    let mut world = World::pairs(&[1, 2, 3], 1);
    let owner = world.holder(0);
    world.blind = BTreeSet::from([owner]);
    world.group(0, &[5]);
    world.change_view();
    world.run(ms(2000));
    assert_ne!(
        world.speaker(address(5)),
        Some(owner),
        "it does not know it"
    );
    world.blind.clear();
    world.change_view();
    world.forget_gaps();
    world.run(ms(50_000));
    assert_eq!(world.speaker(address(0)), Some(owner), "not at once");
    world.run(ms(30_000));
    let speakers = [0, 1, 5].map(|number| world.speaker(address(number)));
    assert!(
        speakers.iter().all(|speaker| *speaker == speakers[0]),
        "{speakers:?}"
    );
    assert!(world.gap() < ms(5), "{:?}", world.gap());
    world.forget_gaps();
    world.run(ms(300_000));
    let moved: usize = (1..=3)
        .map(|n| world.count(n, Transition::HandOverBegun))
        .sum();
    assert_eq!(moved, 0, "it stays");
}

/// Each of two sees the key in a group with what the other holds.
#[test]
fn differing_views_do_not_make_key_flap() {
    let both = [1, 2].map(|node| (NodeId(node), Weight::USUAL));
    let suits = |node: u64, nth: usize| {
        let mut groups = (0..).map(Group);
        let is_best = |group: &Group| placement::best(*group, both) == Some(NodeId(node));
        groups.by_ref().filter(is_best).nth(nth).unwrap()
    };
    let mut world = World::new(&[1, 2, 3], 0);
    world.change_local(3, |local| local.draining = true);
    for (number, node) in [(0, 2), (1, 1), (2, 1)] {
        world
            .keys
            .insert(address(number), wanted(address(number), &[node]));
    }
    world.change_view();
    world.run(ms(4000));
    world.expect_all_spoken();
    for (node, groups) in [
        (1, [suits(2, 0), suits(1, 0), suits(2, 0)]),
        (2, [suits(2, 0), suits(1, 0), suits(1, 0)]),
    ] {
        for (number, group) in (0..).zip(groups) {
            let alone = Wanted::alone(address(number), Candidates::All);
            world
                .keys
                .insert(address(number), Wanted { group, ..alone });
        }
        let view = world.view();
        world.act(node, |machine, now| machine.set_view(view, now));
    }
    world.forget_gaps();
    world.run(ms(600_000));
    world.expect_all_spoken();
    let moved = [1, 2].map(|node| world.count(node, Transition::HandOverDone));
    assert!(moved[0] > 0 && moved[1] > 0, "{moved:?}");
    assert!(moved[0] + moved[1] < 10, "{moved:?} moves in ten minutes");
    assert!(world.gap() < ms(5), "{:?}", world.gap());
}
