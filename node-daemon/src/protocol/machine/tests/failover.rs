//! Nodes that die, fall silent or do not hear.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;

#[test]
fn three_nodes_share_keys() {
    let world = World::settled(9);
    let shares: BTreeSet<u64> = world.speakers().into_values().collect();
    assert_eq!(shares.len(), 3, "{:?}", world.speakers());
    assert_eq!(world.api_voters.voters.len(), 3);
}

#[test]
fn replaces_crashed_node_in_half_a_second() {
    let mut world = World::settled(9);
    let lost = world.keys_of(1);
    assert!(!lost.is_empty());
    world.crash(1);
    world.run(ms(1000));
    world.expect_all_spoken();
    assert!(world.gap() < ms(500), "{:?}", world.gap());
    assert!(world.gap() > ms(290), "{:?}", world.gap());
    for node in [2, 3] {
        assert!(
            world
                .begun(node)
                .is_subset(&BTreeSet::from([(true, Cause::TakenOver)]))
        );
    }
}

#[test]
fn repeats_lost_grant() {
    let mut world = World::settled(9);
    // Of each voter the first that grants anything.
    let mut lost: BTreeMap<NodeId, u64> = BTreeMap::new();
    world.loss = Box::new(move |message| match &message.body {
        Body::Grant(grant) if !grant.granted.is_empty() => {
            *lost.entry(message.from).or_insert(message.seq) == message.seq
        }
        _ => false,
    });
    world.crash(1);
    world.run(ms(1000));
    world.expect_all_spoken();
    assert!(world.gap() < ms(550), "{:?}", world.gap());
}

#[test]
fn refused_key_does_not_delay_rest_of_claim() {
    let mut world = World::settled(30);
    let sent: Rc<RefCell<Option<Claim>>> = Rc::default();
    let seen = Rc::clone(&sent);
    world.loss = Box::new(move |message| {
        if let Body::Claim(claim) = &message.body
            && message.from == NodeId(2)
        {
            seen.borrow_mut().get_or_insert_with(|| claim.clone());
        }
        false
    });
    world.crash(1);
    let Claim {
        nonce,
        keys: mut granted,
        ..
    } = loop {
        world.run(ms(1));
        if let Some(claim) = sent.take() {
            break claim;
        }
    };
    let claimant = &world.hosts[&2].machine;
    let (me, incarnation) = (claimant.me, claimant.incarnation);
    let taken = granted.pop().unwrap();
    assert!(!granted.is_empty());
    // The own promise has ended, but nothing has been done about it yet.
    let now = claimant.waiting.due;
    let voter = &mut world.hosts.get_mut(&3).unwrap().machine;
    voter.seq += 1;
    let grant = voter.message(Body::Grant(Grant {
        to: me,
        incarnation,
        nonce,
        granted: granted.clone(),
        refused: vec![(taken, NodeId(3))],
    }));
    let claimant = &mut world.hosts.get_mut(&2).unwrap().machine;
    claimant.receive(&grant, Path::Segment, now);
    let held = claimant.held();
    assert!(granted.iter().all(|key| held.contains(key)), "{held:?}");
}

#[test]
fn isolated_holder_stops_before_another_speaks() {
    let mut world = World::settled(9);
    world.dead_kernels.insert(NodeId(1));
    world.cut = Box::new(|from, to, _| from == 1 || to == 1);
    world.gateway_down.insert(1);
    world.run(ms(1500));
    world.expect_all_spoken();
    assert!(world.keys_of(1).is_empty());
    assert!(world.gap() < ms(500), "{:?}", world.gap());
    world.cut = Box::new(|_, _, _| false);
    world.forget_gaps();
    world.run(ms(2000));
    world.expect_all_spoken();
    assert!(world.hosts[&1].machine.epoch() > Epoch(1));
    assert_eq!(world.gap(), Duration::ZERO);
}

#[test]
fn deaf_holder_releases_keys() {
    let mut world = World::settled(9);
    world.cut = Box::new(|_, to, _| to == 1);
    world.gateway_down.insert(1);
    world.run(ms(2000));
    world.expect_all_spoken();
    assert!(world.keys_of(1).is_empty());
    assert!(world.gap() < ms(600), "{:?}", world.gap());
}

#[test]
fn mute_holder_releases_keys() {
    let mut world = World::settled(9);
    world.cut = Box::new(|from, _, _| from == 1);
    world.gateway_down.insert(1);
    world.run(ms(2000));
    world.expect_all_spoken();
    assert!(world.keys_of(1).is_empty());
    assert!(world.gap() < ms(500), "{:?}", world.gap());
}

#[test]
fn mute_holder_releases_keys_once_other_stops_draining() {
    let mut world = World::settled(9);
    let key = *world.keys_of(3).first().unwrap();
    world.keys.insert(key, wanted(key, &[2, 3]));
    world.change_view();
    world.change_local(2, |local| local.draining = true);
    world.run(ms(1000));
    world.cut = Box::new(|from, to, path| match path {
        Path::Segment => from == 3,
        Path::NodeNetwork => from == 2 || to == 2,
    });
    world.gateway_down.insert(3);
    world.run(ms(2000));
    assert_eq!(world.keys_of(3), BTreeSet::from([key]), "nobody takes it");
    world.change_local(2, |local| local.draining = false);
    world.run(ms(1000));
    assert!(world.keys_of(2).contains(&key));
}

#[test]
fn mute_holder_releases_keys_despite_deaf_voter() {
    let mut world = World::settled(9);
    let deaf_to_it = |from: u64, to: u64| (from, to) == (3, 2);
    world.cut = Box::new(move |from, to, _| deaf_to_it(from, to));
    world.run(ms(4000));
    assert!(
        !world.keys_of(3).is_empty(),
        "one alone sets nothing in motion"
    );
    world.forget_gaps();
    world.cut = Box::new(move |from, to, path| {
        deaf_to_it(from, to) || (from == 3 && path == Path::Segment)
    });
    world.gateway_down.insert(3);
    world.run(ms(1500));
    world.expect_all_spoken();
    assert!(
        world.keys_of(3).is_empty(),
        "nobody hears what it says there"
    );
}

#[test]
fn isolated_claimant_frees_its_claims() {
    // Nodes 3 and 4 are in a part of the segment of their own. When 3 dies, 4 claims, and then
    // notices that it hears nobody.
    let mut world = World::new(&[1, 2, 3, 4, 5], 12);
    world.run(ms(4000));
    let taken_by_four = |key: &&Key| {
        let both = [2, 4].map(|node| (NodeId(node), Weight::USUAL));
        placement::best(Group::alone(**key), both) == Some(NodeId(4))
    };
    let held = world.keys_of(3);
    let key = *held.iter().find(taken_by_four).unwrap();
    world.keys = BTreeMap::from([(key, wanted(key, &[2, 3, 4]))]);
    world.change_view();
    world.cut = Box::new(|from, to, path| {
        path == Path::Segment && [3, 4].contains(&from) != [3, 4].contains(&to)
    });
    world.gateway_down.extend([3, 4]);
    world.run(ms(1000));
    assert_eq!(world.keys_of(3), BTreeSet::from([key]), "node 4 hears it");
    world.forget_gaps();
    world.crash(3);
    world.run(ms(1500));
    assert!(world.count(4, Transition::Claimed) > 0, "node 4 is first");
    assert_eq!(world.keys_of(2), BTreeSet::from([key]));
    assert!(world.gap() < ms(750), "{:?}", world.gap());
}

#[test]
fn one_broken_link_moves_nothing() {
    let mut world = World::settled(9);
    let before = world.speakers();
    world.cut = Box::new(|from, to, _| from + to == 3);
    world.run(ms(5000));
    assert_eq!(world.speakers(), before);
    assert_eq!(world.gap(), Duration::ZERO);
    let suspected = world.count(1, Transition::Suspected(NodeId(2)));
    assert!(suspected > 0, "the cut must have been noticed");
}

#[test]
fn paused_node_sends_nothing_when_resumed() {
    let mut world = World::settled(9);
    world.stop(1);
    world.run(ms(10_000));
    world.expect_others(1);
    world.forget_gaps();
    world.resume(1);
    world.check();
    assert!(world.keys_of(1).is_empty());
    assert_eq!(world.count(1, Transition::Lapsed), 1);
    world.run(ms(2000));
    assert_eq!(world.speakers().len(), world.keys.len());
}

impl World {
    pub(super) fn expect_others(&self, node: u64) {
        let speakers = self.speakers();
        assert_eq!(speakers.len(), self.keys.len());
        assert!(!speakers.values().any(|speaker| *speaker == node));
    }
}

#[test]
fn restarted_voter_keeps_earlier_promises() {
    // Node 3 does not hear node 1, and would take its keys; node 2, which does, is restarted just
    // when node 1 is cut off.
    for phase in 0..20 {
        let mut world = World::settled(9);
        world.cut = Box::new(|from, to, _| from == 1 && to == 3);
        world.run(ms(500 + phase * 5));
        world.cut = Box::new(|from, to, _| from == 1 || to == 1);
        world.run(ms(10));
        world.kill(2);
        world.run(ms(50));
        world.start(2);
        world.run(ms(3000));
        world.expect_all_spoken();
        assert!(world.keys_of(1).is_empty());
    }
}

/// Another one has spoken meanwhile and is dead, and this one has heard nothing of it.
#[test]
fn announces_what_it_takes_back_after_a_lapse() {
    let mut world = World::settled(9);
    let own = Candidates::Only([NodeId(1), NodeId(2)].into());
    for wanted in world.keys.values_mut() {
        wanted.candidates = own.clone();
    }
    world.change_view();
    world.run(ms(1000));
    let before = world.keys_of(1);
    assert!(!before.is_empty());
    world.cut = Box::new(|from, to, _| from == 1 || to == 1);
    world.dead_kernels.insert(NodeId(1));
    world.run(ms(5000));
    world.expect_others(1);
    assert_eq!(world.count(1, Transition::Lapsed), 1);
    world.crash(2);
    world.log.clear();
    world.cut = Box::new(|_, _, _| false);
    world.run(ms(3000));
    world.expect_all_spoken();
    assert!(before.is_subset(&world.keys_of(1)));
    for (_, _, decision) in world.log.iter().filter(|(_, by, _)| *by == 1) {
        if let Decision::Begin { key, mode, .. } = decision {
            let is_announced = *mode == AnnounceMode::Unsolicited;
            assert!(is_announced || !before.contains(key), "{decision:?}");
        }
    }
}

#[test]
fn leaves_lost_vlan_at_once() {
    let mut world = World::settled(9);
    world.dead_kernels.insert(NodeId(1));
    world.cut = Box::new(|from, to, path| path == Path::Segment && (from == 1 || to == 1));
    world.gateway_down.insert(1);
    world.run(ms(2000));
    world.expect_all_spoken();
    assert!(world.keys_of(1).is_empty());
    assert_eq!(world.count(1, Transition::SegmentLost), 1);
    assert_eq!(world.count(1, Transition::Lapsed), 0);
    assert!(world.gap() < ms(20), "{:?}", world.gap());
}

#[test]
fn leaves_link_that_is_down_at_once() {
    let mut world = World::settled(9);
    world.dead_kernels.insert(NodeId(1));
    world.cut = Box::new(|from, to, path| path == Path::Segment && (from == 1 || to == 1));
    world.change_local(1, |local| local.link_up = false);
    world.run(ms(1000));
    world.expect_all_spoken();
    assert!(world.keys_of(1).is_empty());
    assert!(world.gap() < ms(20), "{:?}", world.gap());
}

impl World {
    /// Pulls the cable of a node three times, and plugs it in again.
    fn flap(&mut self, node: u64) {
        for _ in 0..3 {
            self.change_local(node, |local| local.link_up = false);
            self.run(ms(500));
            self.change_local(node, |local| local.link_up = true);
            self.run(ms(500));
        }
        assert_eq!(self.count(node, Transition::Damped), 1);
    }
}

#[test]
fn avoids_flapping_link_for_a_minute() {
    let mut world = World::settled(9);
    world.flap(1);
    assert!(world.hosts[&1].machine.flags().vlan_down);
    world.run(ms(61_000));
    assert!(!world.hosts[&1].machine.flags().vlan_down);
    world.expect_all_spoken();
}

#[test]
fn a_link_that_flaps_is_used_at_once_for_what_nobody_else_could_speak_for() {
    let mut world = World::settled(9);
    let key = *world.keys.keys().next().unwrap();
    world.keys.insert(key, wanted(key, &[1]));
    world.change_view();
    world.run(ms(2000));
    world.flap(1);
    assert_eq!(world.speaker(key), Some(1));
    world.expect_all_spoken();

    let mut world = World::new(&[1], 3);
    world.run(ms(4000));
    world.flap(1);
    world.expect_all_spoken();
}

/// Makes what node 1 has leave it.
type Leave = fn(&mut World);

#[test]
fn a_link_that_flaps_is_used_at_once_for_what_is_to_leave_its_holder() {
    let ways: [(&str, Leave); 3] = [
        ("drained", |world| {
            world.change_local(1, |local| local.draining = true);
        }),
        ("without a service proxy", |world| {
            world.change_local(1, |local| local.service_proxy_works = false);
        }),
        ("no candidate", |world| {
            let keys = world.keys.iter_mut();
            keys.for_each(|(key, old)| *old = wanted(*key, &[2, 3]));
            world.change_view();
        }),
    ];
    for (how, leave) in ways {
        let mut world = World::settled(9);
        world.flap(2);
        world.flap(3);
        assert_eq!(world.keys_of(1).len(), 9);
        world.forget_gaps();
        leave(&mut world);
        world.run(ms(3700));
        assert!(world.keys_of(1).is_empty(), "{how}: {:?}", world.speakers());
        world.expect_all_spoken();
        assert!(world.gap() < ms(20), "{how}: {:?}", world.gap());
    }
}

#[test]
fn a_holder_that_stays_ends_no_damping() {
    let mut world = World::settled(9);
    world.flap(2);
    world.flap(3);
    world.run(ms(4000));
    for node in [2, 3] {
        assert!(world.hosts[&node].machine.flags().vlan_down, "{node}");
    }
    assert_eq!(world.keys_of(1).len(), 9);
}

#[test]
fn a_holder_that_is_cut_off_learns_it_from_a_node_whose_link_is_left_alone() {
    let mut world = World::settled(9);
    world.flap(1);
    assert!(!world.keys_of(2).is_empty());
    world.forget_gaps();
    // Node 2 hears node 1 by the node network, and nobody else.
    world.cut = Box::new(|from, to, path| {
        let far = path == Path::Segment || from + to == 2 + 3;
        far && (from == 2 || to == 2)
    });
    world.gateway_down.insert(2);
    world.dead_kernels.insert(NodeId(2));
    world.run(ms(1000));
    world.expect_all_spoken();
    assert!(world.keys_of(2).is_empty());
    assert_eq!(world.count(2, Transition::SegmentLost), 1);
}

#[test]
fn works_while_segment_filters_heartbeats() {
    let mut world = World::settled(9);
    world.cut = Box::new(|_, _, path| path == Path::Segment);
    world.run(ms(3000));
    world.expect_all_spoken();
    assert!(world.hosts[&1].machine.flags().segment_filtered);
    let before = world.speakers();
    world.run(ms(3000));
    assert_eq!(before, world.speakers());
}

/// Whoever notices it first hears of the others that they hear each other still, since they have said so lately.
#[test]
fn nothing_moves_when_a_segment_without_a_gateway_begins_to_filter_heartbeats() {
    for phase in (0..100).step_by(5) {
        let mut world = World::settled(9);
        for node in [1, 2, 3] {
            world.change_local(node, |local| local.has_gateway = false);
        }
        world.run(ms(1000 + phase));
        let before = world.speakers();
        world.forget_gaps();
        world.cut = Box::new(|_, _, path| path == Path::Segment);
        world.run(ms(3000));
        for node in [1, 2, 3] {
            let lost = world.count(node, Transition::SegmentLost);
            assert_eq!(lost, 0, "node {node}, cut after {phase} ms");
            assert!(world.hosts[&node].machine.flags().segment_filtered);
        }
        assert_eq!(before, world.speakers());
        assert_eq!(world.gap(), Duration::ZERO);
    }
}

/// Whoever notices it first waits until the others have said so as well.
#[test]
fn nothing_moves_when_the_node_network_is_lost_to_all() {
    for phase in (0..100).step_by(5) {
        let mut world = World::settled(9);
        world.run(ms(phase));
        let before = world.speakers();
        world.cut = Box::new(|_, _, path| path == Path::NodeNetwork);
        world.run(ms(6000));
        for node in [1, 2, 3] {
            assert!(world.hosts[&node].machine.flags().node_network_down);
        }
        assert_eq!(before, world.speakers(), "cut after {phase} ms");
        assert_eq!(world.gap(), Duration::ZERO);
    }
}

#[test]
fn all_restarted_speak_within_two_seconds() {
    let mut world = World::settled(9);
    for node in [1, 2, 3] {
        world.kill(node);
    }
    for node in [1, 2, 3] {
        world.start(node);
    }
    world.run(ms(1500));
    world.expect_all_spoken();
}

#[test]
fn takes_over_a_thousand_keys() {
    let mut world = World::new(&[1, 2, 3], 1000);
    world.run(ms(4000));
    world.expect_all_spoken();
    world.forget_gaps();
    world.crash(2);
    world.run(ms(1000));
    world.expect_all_spoken();
    assert!(world.gap() < ms(500), "{:?}", world.gap());
}
