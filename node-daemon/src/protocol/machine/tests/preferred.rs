//! Nodes that are preferred: they have what there is while they can, and get it back without a gap.

use super::*;

impl World {
    /// Three nodes that have shared so many keys, of which some were preferred from the beginning.
    fn preferring(nodes: &[(u64, u16)], keys: u64) -> Self {
        let mut world = Self::new(&[], keys);
        world.preferences = nodes.iter().copied().collect();
        for node in 1..=3 {
            world.start(node);
        }
        world.run(ms(4000));
        world.expect_all_spoken();
        world.forget_gaps();
        world
    }

    fn prefer(&mut self, node: u64, preference: u16) {
        self.preferences.insert(node, preference);
        let weight = self.local(node).weight;
        self.change_local(node, |local| local.weight = weight);
    }

    fn loads(&self) -> [usize; 3] {
        [1, 2, 3].map(|node| self.keys_of(node).len())
    }

    fn handovers(&self) -> usize {
        let of = |node| self.count(node, Transition::HandOverDone);
        [1, 2, 3].into_iter().map(of).sum()
    }
}

#[test]
fn preferred_node_has_everything() {
    assert_eq!(World::preferring(&[(2, 1)], 12).loads(), [0, 12, 0]);
}

#[test]
fn equally_preferred_nodes_share() {
    let [one, two, three] = World::preferring(&[(1, 7), (3, 7)], 24).loads();
    assert_eq!((one + three, two), (24, 0));
    assert!((6..=18).contains(&one), "{one} and {three}");
}

#[test]
fn higher_sum_of_weights_wins() {
    assert_eq!(
        World::preferring(&[(1, 100), (3, 101)], 12).loads(),
        [0, 0, 12]
    );
}

#[test]
fn preferred_node_gets_its_keys_back_without_gap() {
    let mut world = World::preferring(&[(2, 50)], 6);
    world.crash(2);
    world.run(ms(2000));
    world.expect_all_spoken();
    assert_eq!(world.keys_of(2).len(), 0);
    world.dead_kernels.clear();
    world.start(2);
    world.run(ms(3000));
    world.forget_gaps();
    world.run(ms(50_000));
    assert_eq!(world.keys_of(2).len(), 0, "it may go again");
    world.run(ms(30_000));
    assert_eq!(world.loads(), [0, 6, 0]);
    assert!(world.gap() < ms(5), "{:?}", world.gap());
    assert_eq!(world.handovers(), 6, "each moves once");
    world.forget_gaps();
    world.run(ms(600_000));
    assert_eq!(world.loads(), [0, 6, 0]);
    assert_eq!(world.handovers(), 0);
}

/// It does not stay long enough to get anything.
#[test]
fn nothing_moves_to_node_that_comes_and_goes() {
    let mut world = World::preferring(&[(2, 50)], 6);
    for _ in 0..5 {
        world.crash(2);
        world.run(ms(3000));
        world.dead_kernels.clear();
        world.start(2);
        world.forget_gaps();
        world.run(ms(40_000));
        assert_eq!(world.loads()[1], 0);
        assert_eq!(world.handovers(), 0);
        assert!(world.gap() < ms(5), "{:?}", world.gap());
    }
}

#[test]
fn keys_follow_preference_that_changes() {
    let mut world = World::preferring(&[(2, 50)], 6);
    world.prefer(3, 51);
    world.run(ms(90_000));
    assert_eq!(world.loads(), [0, 0, 6]);
    world.prefer(3, 0);
    world.run(ms(150_000));
    assert_eq!(world.loads(), [0, 6, 0]);
    world.forget_gaps();
    world.prefer(2, 0);
    world.run(ms(90_000));
    world.expect_all_spoken();
    assert!(world.gap() < ms(5), "{:?}", world.gap());
    assert!(
        world.loads()[1] < 6,
        "the usual shares: {:?}",
        world.loads()
    );
}

/// A preferred node that cannot have a key does not keep it from the others, nor do they send it there.
#[test]
fn preference_counts_among_candidates_only() {
    let mut world = World::preferring(&[(2, 50)], 3);
    let local = *world.keys.keys().next().unwrap();
    world.keys.insert(local, wanted(local, &[1, 3]));
    world.change_view();
    world.run(ms(200_000));
    world.expect_all_spoken();
    assert_ne!(world.speaker(local), Some(2));
    assert_eq!(world.keys_of(2).len(), 2);
}

/// One reads a newer L2Network than another: each goes by what the others state, so nothing goes to and fro.
#[test]
fn stale_views_of_preferences_move_nothing_twice() {
    let mut world = World::preferring(&[(1, 10)], 6);
    // Node 2 reads that it is the preferred one; node 1 still reads that of itself.
    world.prefer(2, 20);
    world.run(ms(90_000));
    assert_eq!(world.loads(), [0, 6, 0]);
    world.prefer(1, 0);
    world.forget_gaps();
    world.run(ms(300_000));
    assert_eq!(world.loads(), [0, 6, 0]);
    assert_eq!(world.handovers(), 0);
}

/// With whatever preferences, changes of them and crashes: the preferred nodes have everything in the end, and
/// nothing moves any more. That no two speak is checked at each step.
#[test]
fn random_preferences_settle() {
    for seed in 0..8_u64 {
        let mut number = seed;
        let mut below = |bound: u64| {
            number = number.wrapping_add(1);
            mix(number ^ seed << 32) % bound
        };
        let preferences = |below: &mut dyn FnMut(u64) -> u64| {
            let one = |node| (node, u16::try_from(below(3)).unwrap() * 40);
            [1, 2, 3].map(one)
        };
        let first = preferences(&mut below);
        let mut world = World::preferring(&first, 5);
        for _ in 0..3 {
            match below(3) {
                0 => {
                    let node = below(3) + 1;
                    world.crash(node);
                    world.run(ms(1000 + below(100_000)));
                    world.dead_kernels.clear();
                    world.start(node);
                }
                1 => {
                    for (node, preference) in preferences(&mut below) {
                        world.prefer(node, preference);
                        world.run(ms(below(3000)));
                    }
                }
                _ => {
                    let node = below(3) + 1;
                    world.change_local(node, |local| local.draining = true);
                    world.run(ms(below(70_000)));
                    world.change_local(node, |local| local.draining = false);
                }
            }
            world.run(ms(below(100_000)));
        }
        // What has moved lately may stay for as long again, several times over.
        world.run(ms(1_500_000));
        world.expect_all_spoken();
        let most = world.preferences.values().max().copied();
        let speakers: BTreeSet<u64> = world.speakers().into_values().collect();
        for node in speakers {
            let own = world.preferences.get(&node).copied();
            assert_eq!(own, most, "seed {seed}: {:?}", world.preferences);
        }
        world.forget_gaps();
        world.run(ms(600_000));
        assert_eq!(world.handovers(), 0, "seed {seed}");
    }
}
