//! Runs that begin again, and such as are refused.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;

/// Starts a daemon again as the run that it was: it counts its messages from one again.
fn start_as_before(world: &mut World, node: u64) {
    let (_, run) = world.hosts[&node].machine.identity();
    world.kill(node);
    world.run(ms(600));
    world.start_as(node, run);
}

fn hears_quorum(world: &World, node: u64) -> bool {
    world.hosts[&node].machine.hears_quorum()
}

/// Every heartbeat that is sent from now on.
fn record(world: &mut World) -> Rc<RefCell<Vec<Message>>> {
    let heard: Rc<RefCell<Vec<Message>>> = Rc::default();
    let recorded = Rc::clone(&heard);
    world.loss = Box::new(move |message| {
        if matches!(message.body, Body::Heartbeat(_)) {
            recorded.borrow_mut().push(message.clone());
        }
        false
    });
    heard
}

#[test]
fn refused_run_restarts_within_a_second() {
    let mut world = World::settled(9);
    world.run(ms(20_000));
    world.forget_gaps();
    let before = world.hosts[&1].machine.identity();
    start_as_before(&mut world, 1);
    world.run(ms(1000));
    assert_eq!(world.count(1, Transition::BegunAnew), 1);
    assert_ne!(world.hosts[&1].machine.identity(), before);
    world.run(ms(500));
    assert!(hears_quorum(&world, 1));
    assert!(world.hosts[&1].machine.epoch() > Epoch(1));
    world.run(ms(3000));
    for node in [1, 2, 3] {
        let times = world.count(node, Transition::BegunAnew);
        assert_eq!(times, usize::from(node == 1), "{node}");
    }
    world.expect_all_spoken();
}

#[test]
fn two_refused_runs_leave_no_gap() {
    let mut world = World::settled(9);
    world.run(ms(20_000));
    for node in [1, 2] {
        start_as_before(&mut world, node);
        world.run(ms(100));
    }
    world.run(ms(2000));
    assert!([1, 2, 3].into_iter().all(|node| hears_quorum(&world, node)));
    world.expect_all_spoken();
}

/// As a voter it may have promised something in its earlier run.
#[test]
fn new_run_waits_out_earlier_promises() {
    let mut world = World::settled(9);
    world.run(ms(20_000));
    start_as_before(&mut world, 1);
    while world.count(1, Transition::BegunAnew) == 0 {
        world.run(ms(1));
    }
    let machine = &world.hosts[&1].machine;
    assert!(machine.voter.awake_at > world.now + world.parameters.promise);
    assert!(machine.votes() && !machine.is_awake());
}

#[test]
fn replayed_messages_restart_nobody_with_majority() {
    let mut world = World::settled(9);
    let recorded = record(&mut world);
    world.run(ms(10_000));
    world.forget_gaps();
    let recorded: Vec<Message> = recorded.take();
    for message in recorded {
        for node in [1, 2, 3] {
            if NodeId(node) != message.from {
                world.later(node, DELAY, Event::Message(message.clone(), Path::Segment));
            }
        }
        world.run(ms(3));
    }
    for node in [1, 2, 3] {
        assert_eq!(world.count(node, Transition::BegunAnew), 0, "{node}");
    }
    assert!(world.gap() < ms(5), "{:?}", world.gap());
}

#[test]
fn replayed_messages_do_not_disturb_lone_primary() {
    let mut world = World::new(&[1, 2], 3);
    world.run(ms(8000));
    let primary = world.api_voters.primary.unwrap().0;
    let other = 3 - primary;
    let recorded = record(&mut world);
    world.run(ms(2000));
    world.crash(other);
    world.run(ms(3000));
    world.expect_all_spoken();
    world.forget_gaps();
    let recorded: Vec<Message> = recorded.take();
    for message in recorded {
        if message.from == NodeId(other) {
            let replayed = Event::Message(message, Path::Segment);
            world.later(primary, DELAY, replayed);
            world.run(ms(50));
        }
    }
    assert!(world.count(primary, Transition::MessageDropped) > 10);
    assert_eq!(world.count(primary, Transition::BegunAnew), 0);
    assert!(world.gap() < ms(5), "{:?}", world.gap());
}
