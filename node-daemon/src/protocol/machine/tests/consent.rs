//! Other voters are written as most of them approve; and as most of them serve, where the API server
//! has gone back.

use super::quorum::voters;
use super::*;

fn set(generation: u64, voters: &[u64]) -> VoterSet {
    VoterSet {
        generation,
        voters: voters.iter().copied().map(NodeId).collect(),
        primary: None,
    }
}

/// Whoever has the token of the lowest voter can propose what it likes.
#[test]
fn approves_only_what_it_observes_itself() {
    for wrong in [
        set(2, &[1]),
        set(2, &[1, 2]),
        set(2, &[1, 2, 3, 9]),
        set(2, &[1, 2, 9]),
        set(3, &[1, 2, 3]),
        set(9, &[1]),
    ] {
        let mut world = World::settled(3);
        world.approve(1, &wrong);
        // Long enough for a node to vote that has just been heard.
        world.run(ms(4000));
        let approving: Vec<u64> = world.approvals.keys().map(|node| node.0).collect();
        assert_eq!(approving, [1], "{wrong:?}");
        assert_eq!(voters(&world), [1, 2, 3]);
    }
}

#[test]
fn considers_only_proposal_of_lowest_voter() {
    let mut world = World::new(&[1, 2, 3, 4], 3);
    world.run(ms(4000));
    world.crash(3);
    world.run(ms(26_000));
    let right = set(2, &[1, 2]);
    world.approve(2, &right);
    world.run(ms(1000));
    assert_eq!(world.approvals.len(), 1, "it is not the lowest");
    world.approvals.clear();
    world.approve(1, &right);
    world.run(ms(1000));
    assert_eq!(world.approvals.get(&NodeId(2)), Some(&right));
    world.run(ms(10_000));
    assert_eq!(voters(&world), [1, 2, 4]);
}

#[test]
fn survivors_go_on_once_all_approve() {
    let mut world = World::new(&[1, 2, 3, 4, 5], 9);
    world.run(ms(4000));
    assert_eq!(voters(&world).len(), 5);
    for node in [3, 4, 5] {
        world.crash(node);
    }
    world.leases_unchanged = [3, 4, 5].map(NodeId).into();
    world.run(ms(25_000));
    assert!(world.speakers().is_empty());
    world.run(ms(15_000));
    world.expect_all_spoken();
    assert_eq!(voters(&world), [1, 2]);
    assert_eq!(world.count(1, Transition::SurvivedViaApi), 1);
}

#[test]
fn restored_backup_costs_nothing() {
    let mut world = World::new(&[1, 2, 3, 4], 9);
    world.run(ms(4000));
    let backup = world.api_voters.clone();
    assert_eq!(voters(&world), [1, 2, 3]);
    world.crash(2);
    world.run(ms(40_000));
    assert_eq!(voters(&world), [1, 3, 4]);
    let served = world.api_voters.generation;
    assert!(served > backup.generation + 1);
    world.forget_gaps();
    world.restore(backup);
    world.run(ms(15_000));
    assert_eq!(voters(&world), [1, 3, 4], "the same once more");
    assert_eq!(world.api_voters.generation, served + 2);
    world.expect_all_spoken();
    assert!(world.gap() < ms(5), "{:?}", world.gap());
    world.start(5);
    world.crash(4);
    world.run(ms(45_000));
    assert_eq!(voters(&world), [1, 3, 5]);
    world.expect_all_spoken();
}

/// What was written last before the backup was restored, one daemon alone has seen.
#[test]
fn restored_backup_never_forks_generation() {
    let mut world = World::settled(9);
    let backup = world.api_voters.clone();
    let lost = set(backup.generation + 1, &[1, 2]);
    world.written.insert(lost.generation, lost.clone());
    let view = View {
        voters: Some(lost),
        ..world.view()
    };
    world.cut = Box::new(|from, to, _| from == 2 || to == 2);
    world.act(2, |machine, now| machine.set_view(view, now));
    world.run(ms(8000));
    world.cut = Box::new(|_, _, _| false);
    world.restore(set(1, &[1, 2, 3]));
    world.run(ms(20_000));
    world.expect_all_spoken();
    for host in world.hosts.values() {
        assert_eq!(host.machine.generation(), world.api_voters.generation);
    }
}

/// Most of those that the backup names are gone: the survivors' way remains.
#[test]
fn voters_missing_in_backup_go_on_if_all_approve() {
    let mut world = World::settled(9);
    let served = world.api_voters.generation;
    world.restore(VoterSet {
        generation: 0,
        ..VoterSet::default()
    });
    world.run(ms(15_000));
    assert_eq!(voters(&world), [1, 2, 3]);
    assert_eq!(world.api_voters.generation, served + 2);
    let later = world.api_voters.generation;
    world.forget_gaps();
    world.restore(set(1, &[7, 8, 9]));
    world.run(ms(15_000));
    assert_eq!(voters(&world), [1, 2, 3]);
    assert_eq!(world.api_voters.generation, later + 2);
    world.expect_all_spoken();
    assert!(world.gap() < ms(5), "{:?}", world.gap());
}

/// The API server does not name the primary any more, which therefore has no right of its own.
#[test]
fn no_primary_goes_on_alone_after_restored_backup() {
    let mut world = World::new(&[1], 6);
    world.run(ms(3000));
    world.start(2);
    world.run(ms(8000));
    let served = world.api_voters.clone();
    assert_eq!((served.generation, served.primary), (3, Some(NodeId(1))));
    let backup = VoterSet {
        generation: 2,
        primary: Some(NodeId(2)),
        ..served
    };
    world.cut = Box::new(|_, _, _| true);
    world.restore(backup);
    world.run(ms(20_000));
    assert!(world.speakers().is_empty());
    world.cut = Box::new(|_, _, _| false);
    world.run(ms(20_000));
    world.expect_all_spoken();
    assert_eq!(voters(&world), [1, 2]);
    assert!(world.api_voters.generation > 5 && world.api_voters.primary.is_some());
}
