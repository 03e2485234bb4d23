//! A segment with more members than fit one heartbeat.

use std::sync::Arc;

use super::*;
use crate::protocol::message::Heartbeat;

const MEMBERS: u64 = 50;

/// Fifty nodes that have shared a few keys.
fn crowd() -> World {
    let nodes: Vec<u64> = (1..=MEMBERS).collect();
    let mut world = World::new(&nodes, 3);
    world.run(ms(2500));
    world.expect_all_spoken();
    assert_eq!(world.api_voters.voters.len(), VoterSet::MOST);
    world.forget_gaps();
    world.sent.clear();
    world
}

/// Of voters, and of others: how many messages and bytes one of them sends in a second, on a path.
fn rates(world: &World, path: Path, seconds: usize) -> [(usize, usize); 2] {
    [true, false].map(|votes| {
        let is_asked = |node: &u64| world.api_voters.voters.contains(&NodeId(*node)) == votes;
        let nodes: Vec<u64> = world.hosts.keys().copied().filter(is_asked).collect();
        let sent = nodes
            .iter()
            .filter_map(|node| world.sent.get(&(*node, path)));
        let (messages, bytes) = sent.fold((0, 0), |(messages, bytes), (more, longer)| {
            (messages + more, bytes + longer)
        });
        let share = nodes.len() * seconds;
        (messages / share, bytes / share)
    })
}

#[test]
fn fifty_members_get_own_echo_and_a_few_others() {
    let mut world = crowd();
    world.run(ms(1000));
    assert_eq!(world.gap(), Duration::ZERO);
    // Ten beats a second. On the segment a voter needs two messages for 49 echoes, everybody else
    // one; on the node network a voter sends one to each of 49, everybody else one to each voter.
    let [voter, other] = rates(&world, Path::Segment, 1);
    assert!((18..=22).contains(&voter.0), "{voter:?}");
    assert!((9..=11).contains(&other.0), "{other:?}");
    assert!(voter.1 < 25_000, "{voter:?}");
    let [voter, other] = rates(&world, Path::NodeNetwork, 1);
    assert!((440..=540).contains(&voter.0), "{voter:?}");
    assert!((63..=77).contains(&other.0), "{other:?}");
    assert!(voter.1 < 600 * voter.0, "{voter:?}");
    assert!(other.1 < 350 * other.0, "{other:?}");
}

#[test]
fn fifty_members_need_one_path() {
    let mut world = crowd();
    let before = world.speakers();
    for dead in [Path::Segment, Path::NodeNetwork] {
        world.cut = Box::new(move |_, _, path| path == dead);
        world.run(ms(1000));
        assert_eq!(world.speakers(), before, "{dead:?} is dead for all");
        assert_eq!(world.gap(), Duration::ZERO);
        world.cut = Box::new(|_, _, _| false);
        world.run(ms(500));
    }
    let holder = *before.values().next().unwrap();
    world.cut =
        Box::new(move |from, to, path| path == Path::Segment && (from == holder || to == holder));
    world.gateway_down.insert(holder);
    world.dead_kernels.insert(NodeId(holder));
    world.run(ms(1500));
    world.expect_all_spoken();
    assert!(world.keys_of(holder).is_empty());
    assert_eq!(
        world.count(holder, Transition::Lapsed),
        0,
        "it let go by itself"
    );
    // Only voters are told at once: whom it suits best may be none.
    assert!(world.gap() < ms(250), "{:?}", world.gap());
}

/// A heartbeat of node 2 for all, without echoes, and one with them, for one.
fn two_heartbeats(world: &mut World, overtaken: bool) -> (Message, Message) {
    let voter = &mut world.hosts.get_mut(&2).unwrap().machine;
    let to_one = Heartbeat {
        echoes: voter.echoes(),
        ..voter.compose()
    };
    let to_all = voter.compose();
    voter.seq += 1;
    let to_one = voter.message(Body::Heartbeat(Arc::new(to_one)));
    voter.seq += u64::from(overtaken);
    let to_all = voter.message(Body::Heartbeat(Arc::new(to_all)));
    (to_all, to_one)
}

#[test]
fn counts_echo_in_copy_and_in_overtaken_heartbeat() {
    for overtaken in [false, true] {
        let mut world = World::settled(9);
        let key = *world.keys_of(1).first().unwrap();
        world.cut = Box::new(|_, to, _| to == 1);
        world.run(ms(150));
        let (to_all, to_one) = two_heartbeats(&mut world, overtaken);
        let now = world.now;
        let holder = &mut world.hosts.get_mut(&1).unwrap().machine;
        holder.receive(&to_all, Path::Segment, now);
        let before = holder.permitted_until(key);
        holder.receive(&to_one, Path::NodeNetwork, now);
        assert!(before.is_some() && holder.permitted_until(key) > before);
    }
}

#[test]
fn counts_being_heard_in_overtaken_heartbeat() {
    for overtaken in [false, true] {
        let mut world = World::settled(9);
        world.cut = Box::new(|_, to, _| to == 1);
        world.run(ms(320));
        let (to_all, to_one) = two_heartbeats(&mut world, overtaken);
        let now = world.now;
        let holder = &mut world.hosts.get_mut(&1).unwrap().machine;
        holder.receive(&to_all, Path::Segment, now);
        assert!(!holder.hears_quorum(), "nobody has said so yet");
        holder.receive(&to_one, Path::NodeNetwork, now);
        assert!(holder.hears_quorum(), "overtaken: {overtaken}");
    }
}

/// A segment may see many Nodes come and go.
#[test]
fn node_that_is_long_gone_is_forgotten() {
    let mut world = World::new(&[1, 2, 3, 4], 4);
    world.run(ms(4000));
    let voters = &world.api_voters.voters;
    let gone = (1..=4).find(|node| !voters.contains(&NodeId(*node)));
    let gone = gone.expect("one of four does not vote");
    world.crash(gone);
    let knows = |world: &World| {
        let mut hosts = world.hosts.values();
        hosts.any(|host| host.machine.peers.contains_key(&NodeId(gone)))
    };
    world.run(Duration::from_secs(700));
    assert!(knows(&world), "its Node is still there");
    world.known.remove(&gone);
    world.change_view();
    world.run(Duration::from_secs(120));
    assert!(!knows(&world));
    world.start(gone);
    world.run(ms(3000));
    assert!(knows(&world));
    world.expect_all_spoken();
}
