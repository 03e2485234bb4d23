//! Load balancers of Services that are no more.

use mooring_common::names::reasons;

use super::*;

async fn follow(world: &World, time: Duration) {
    let (_told, machines) = watch::channel(0);
    let _ = tokio::time::timeout(time, world.services.follow(machines)).await;
}

fn leave_behind(world: &World, uid: &str) {
    let mut state = world.cloud.state.lock().unwrap();
    state.balancers.insert(uid.to_owned(), vec![]);
}

#[tokio::test(start_paused = true)]
async fn sd_17_reports_orphan_after_all_services_were_seen() {
    let world = World::new();
    world.add("web");
    leave_behind(&world, "gone");
    world.services.expect_first_passes();
    follow(&world, Duration::from_secs(100)).await;
    assert!(world.cluster.reasons().is_empty());
    world.pass("web").await;
    world.cluster.reasons();
    follow(&world, Duration::from_secs(100)).await;
    assert_eq!(world.cluster.reasons(), [reasons::ORPHANED_LOAD_BALANCER]);
    assert_eq!(world.services.metrics.orphans.get(), 1);
    assert!(world.cloud.members("gone").is_some());
    world.services.orphans.look();
    follow(&world, Duration::from_secs(100)).await;
    assert!(world.cluster.reasons().is_empty());
}

#[tokio::test(start_paused = true)]
async fn sd_17_deletes_permitted_orphan_seen_twice() {
    let world = World::with(Options {
        resync: None,
        delete_orphans: true,
        ..Options::default()
    });
    leave_behind(&world, "gone");
    world.services.expect_first_passes();
    follow(&world, Duration::from_secs(29)).await;
    assert!(world.cloud.members("gone").is_some());
    world.services.orphans.look();
    follow(&world, Duration::from_secs(100)).await;
    assert!(world.cloud.members("gone").is_none());
    let told = [reasons::ORPHANED_LOAD_BALANCER, reasons::DELETED_ORPHAN];
    assert_eq!(world.cluster.reasons(), told);
}

#[tokio::test(start_paused = true)]
async fn finds_leftovers_of_vanished_service() {
    let world = World::served().await;
    world.cluster.remove(&key("web"));
    world.services.gone(&key("web"));
    assert_eq!(world.cloud.state.lock().unwrap().forgotten, ["web"]);
    follow(&world, Duration::from_secs(5)).await;
    assert_eq!(world.cluster.reasons(), [reasons::ORPHANED_LOAD_BALANCER]);
}

#[tokio::test(start_paused = true)]
async fn former_leader_deletes_nothing() {
    let world = World::with(Options {
        resync: None,
        delete_orphans: true,
        ..Options::default()
    });
    leave_behind(&world, "gone");
    world.cluster.deposed.store(true, Ordering::SeqCst);
    world.services.expect_first_passes();
    follow(&world, Duration::from_secs(300)).await;
    assert!(world.cloud.members("gone").is_some());
}
