//! Voters: how they come and go, and what is left when they are lost.

use super::*;
use crate::protocol::machine::voter::Verdict;
use crate::protocol::message::Claim;

pub(super) fn voters(world: &World) -> Vec<u64> {
    world.api_voters.voters.iter().map(|node| node.0).collect()
}

#[test]
fn lone_node_speaks() {
    let mut world = World::new(&[1], 3);
    world.run(ms(2000));
    world.expect_all_spoken();
    assert_eq!(voters(&world), [1]);
}

#[test]
fn voter_set_grows_with_segment() {
    let mut world = World::new(&[1], 3);
    world.run(ms(3000));
    world.forget_gaps();
    world.start(2);
    world.run(ms(6000));
    assert_eq!(voters(&world), [1, 2]);
    world.start(3);
    world.run(ms(6000));
    assert_eq!(voters(&world), [1, 2, 3]);
    world.start(4);
    world.run(ms(6000));
    assert_eq!(voters(&world), [1, 2, 3], "an even number helps nobody");
    world.start(5);
    world.run(ms(10_000));
    assert_eq!(voters(&world), [1, 2, 3, 4, 5]);
    world.expect_all_spoken();
    for host in world.hosts.values() {
        assert_eq!(host.machine.generation(), world.api_voters.generation);
    }
    assert!(world.gap() < ms(5), "{:?}", world.gap());
}

#[test]
fn removes_silent_voter() {
    let mut world = World::new(&[1, 2, 3, 4], 9);
    world.run(ms(4000));
    assert_eq!(voters(&world), [1, 2, 3]);
    world.crash(2);
    world.run(ms(2000));
    world.forget_gaps();
    world.run(ms(40_000));
    assert_eq!(voters(&world), [1, 3, 4]);
    world.expect_all_spoken();
    assert!(world.gap() < ms(5), "{:?}", world.gap());
}

#[test]
fn primary_of_two_goes_on_alone() {
    let mut world = World::new(&[1, 2], 6);
    world.run(ms(5000));
    assert_eq!(voters(&world), [1, 2]);
    let primary = world.api_voters.primary.unwrap().0;
    let mine = world.keys_of(primary);
    world.forget_gaps();
    world.crash(3 - primary);
    world.run(ms(2000));
    world.expect_all_spoken();
    for key in mine {
        assert!(
            !world.longest_gap.contains_key(&key),
            "{:?}",
            world.longest_gap
        );
    }
    assert!(world.gap() < ms(600), "{:?}", world.gap());
    world.forget_gaps();
    world.run(ms(40_000));
    assert_eq!(voters(&world), [primary]);
    world.expect_all_spoken();
    assert!(world.longest_gap.is_empty(), "{:?}", world.longest_gap);
}

#[test]
fn primary_needs_generation_before_and_after() {
    let mut world = World::new(&[1], 3);
    world.run(ms(3000));
    world.start(2);
    world.run(ms(8000));
    world.start(3);
    world.run(ms(8000));
    let mut proposed: Vec<(Vec<u64>, Option<u64>)> = world
        .log
        .iter()
        .filter_map(|(_, _, decision)| match decision {
            Decision::Ask(Request::Propose { voters, .. }) => Some((
                voters.voters.iter().map(|node| node.0).collect(),
                voters.primary.map(|node| node.0),
            )),
            _ => None,
        })
        .collect();
    // Once to be approved, and once to be written.
    proposed.dedup();
    assert_eq!(
        proposed,
        [
            (vec![1], None),
            (vec![1, 2], None),
            (vec![1, 2], Some(1)),
            (vec![1, 2], None),
            (vec![1, 2, 3], None),
        ]
    );
}

#[test]
fn second_of_two_takes_over_via_api_server() {
    let mut world = World::new(&[1, 2], 6);
    world.run(ms(5000));
    let primary = world.api_voters.primary.unwrap().0;
    world.forget_gaps();
    world.crash(primary);
    world.run(ms(2100));
    world.expect_all_spoken();
    assert!(world.gap() < ms(2000), "{:?}", world.gap());
    assert_ne!(world.api_voters.primary.unwrap().0, primary);
}

#[test]
fn partitioned_pair_never_both_speak() {
    let mut world = World::new(&[1, 2], 6);
    world.run(ms(5000));
    world.forget_gaps();
    world.cut = Box::new(|_, _, _| true);
    world.run(ms(20_000));
    world.expect_all_spoken();
    assert!(
        world.count(1, Transition::PrimaryAlone) + world.count(2, Transition::PrimaryAlone) > 0
    );
    world.cut = Box::new(|_, _, _| false);
    world.run(ms(5000));
    world.expect_all_spoken();
}

#[test]
fn pair_without_api_server_is_silent_after_death() {
    let mut world = World::new(&[1, 2], 6);
    world.run(ms(5000));
    world.api_up = false;
    world.crash(2);
    world.run(ms(5000));
    assert!(world.speakers().is_empty());
}

#[test]
fn api_server_outage_moves_nothing() {
    let mut world = World::settled(9);
    let before = world.speakers();
    world.api_up = false;
    world.run(ms(60_000));
    assert_eq!(world.speakers(), before);
    world.crash(1);
    world.run(ms(1000));
    world.expect_all_spoken();
    assert!(world.gap() < ms(500), "{:?}", world.gap());
}

#[test]
fn halves_of_four_voters_are_silent() {
    let mut world = World::new(&[], 8);
    world.api_voters = VoterSet {
        generation: 1,
        voters: [1, 2, 3, 4].map(NodeId).into(),
        primary: None,
    };
    world.api_up = false;
    for node in 1..=4 {
        world.start(node);
    }
    world.run(ms(3000));
    world.expect_all_spoken();
    world.cut = Box::new(|from, to, _| (from <= 2) != (to <= 2));
    world.run(ms(5000));
    assert!(world.speakers().is_empty());
    world.cut = Box::new(|_, _, _| false);
    world.run(ms(1500));
    world.expect_all_spoken();
}

#[test]
fn survivors_go_on_after_30_seconds() {
    let mut world = World::settled(9);
    world.crash(2);
    world.crash(3);
    world.run(ms(20_000));
    assert!(world.speakers().is_empty());
    world.leases_unchanged = [2, 3].map(NodeId).into();
    world.run(ms(20_000));
    world.expect_all_spoken();
    assert_eq!(world.count(1, Transition::SurvivedViaApi), 1);
}

#[test]
fn survivors_wait_while_leases_are_renewed() {
    let mut world = World::settled(9);
    world.crash(2);
    world.crash(3);
    world.run(ms(60_000));
    assert!(world.speakers().is_empty());
    let asked = world.log.iter().any(|(_, node, decision)| {
        *node == 1 && matches!(decision, Decision::Ask(Request::ReadLeases(_)))
    });
    assert!(asked, "it must have come to the question");
}

/// Heartbeats are filtered on the segment and the node network is cut; the two that are a majority cannot
/// reach the API server either, but clients reach them.
#[test]
fn survivors_skip_addresses_that_somebody_answers_for() {
    let mut world = World::settled(9);
    world.cut = Box::new(|from, to, _| (from == 1) != (to == 1));
    world.no_api = BTreeSet::from([2, 3]);
    world.leases_unchanged = [2, 3].map(NodeId).into();
    world.run(ms(60_000));
    world.expect_others(1);
    assert_eq!(world.count(1, Transition::SurvivedViaApi), 1);
    let asked = |decision: &Decision| matches!(decision, Decision::ProbeAddress { .. });
    assert!(world.log.iter().any(|(_, node, d)| *node == 1 && asked(d)));
    // Nobody answers any more.
    world.crash(2);
    world.crash(3);
    world.run(ms(8000));
    assert_eq!(world.keys_of(1).len(), 9);
}

#[test]
fn partitioned_claimants_never_both_speak() {
    let mut world = World::new(&[1, 2, 3, 4, 5], 9);
    world.run(ms(4000));
    world.expect_all_spoken();
    for holder in 1..=5 {
        let mut world = World::new(&[1, 2, 3, 4, 5], 9);
        world.run(ms(4000));
        let (one, two) = (holder % 5 + 1, (holder + 1) % 5 + 1);
        world.cut = Box::new(move |from, to, _| {
            from == holder || to == holder || (from, to) == (one, two) || (from, to) == (two, one)
        });
        world.run(ms(5000));
        assert!(world.keys_of(holder).is_empty());
        assert_eq!(world.speakers().len(), 9);
    }
}

#[test]
fn witness_votes_and_holds_nothing() {
    let mut world = World::new(&[1, 2, 3], 6);
    world.cut = Box::new(|from, to, path| path == Path::Segment && (from == 3 || to == 3));
    world.change_local(3, |local| {
        local.link_up = false;
        local.contact.mac = None;
    });
    world.run(ms(4000));
    world.expect_all_spoken();
    assert!(world.keys_of(3).is_empty());
    assert_eq!(voters(&world), [1, 2, 3]);
    world.forget_gaps();
    world.crash(1);
    world.run(ms(1000));
    assert_eq!(world.keys_of(2).len(), 6);
    assert!(world.gap() < ms(500), "{:?}", world.gap());
}

#[test]
fn withdrawn_claim_reserves_nothing() {
    let mut world = World::settled(3);
    let claimant = world.hosts[&1].machine.clone();
    let claim = |nonce, keys: &[Key], later| Message {
        from: claimant.me,
        incarnation: claimant.incarnation,
        epoch: claimant.epoch(),
        seq: claimant.seq + later,
        generation: claimant.generation(),
        body: Body::Claim(Claim {
            nonce,
            keys: keys.to_vec(),
            released_by: None,
        }),
    };
    let (one, other) = (Key(4242), Key(4243));
    for message in [
        claim(98, &[one], 1),
        claim(99, &[], 3),
        claim(99, &[other], 2),
    ] {
        world.act(2, |machine, now| {
            machine.receive(&message, Path::Segment, now);
        });
    }
    let verdict = |key| {
        world.hosts[&2]
            .machine
            .voter
            .judge(key, NodeId(3), world.now)
    };
    assert_eq!(verdict(one), Verdict::Reserved(NodeId(1)));
    assert_eq!(verdict(other), Verdict::Free);
}

#[test]
fn segment_member_replaces_witness_as_voter() {
    let mut world = World::new(&[1, 2, 3], 6);
    world.cut = Box::new(|from, to, path| {
        path == Path::Segment && [from, to].iter().any(|node| [2, 3].contains(node))
    });
    for witness in [2, 3] {
        world.change_local(witness, |local| {
            local.link_up = false;
            local.contact.mac = None;
        });
    }
    world.run(ms(4000));
    assert_eq!(voters(&world), [1, 2, 3]);
    world.start(4);
    world.run(ms(8000));
    let those = voters(&world);
    assert!(those.len() == 3 && those.contains(&4), "{those:?}");
    assert_eq!(world.keys_of(1).len(), 6);
    world.forget_gaps();
    world.gateway_down.insert(1);
    world.cut = Box::new(|from, to, path| {
        path == Path::Segment && (from == 1 || [from, to].iter().any(|node| [2, 3].contains(node)))
    });
    world.run(ms(1000));
    assert_eq!(world.keys_of(4).len(), 6);
}
