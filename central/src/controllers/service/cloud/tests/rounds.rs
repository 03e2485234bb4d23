//! Nodes that come and go.

use std::sync::atomic::Ordering;

use mooring_common::engine::Outcome;
use mooring_common::names::reasons;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::cloud_api::{CloudError, ErrorKind};

fn join(world: &World, name: &str) {
    world.cluster.join(name);
    world.services.node_changes.bump();
}

#[tokio::test(start_paused = true)]
async fn ns_01_new_node_becomes_member() {
    let world = World::served().await;
    join(&world, "c");
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.cloud.members("web").unwrap(), ["a", "b", "c"]);
    assert_eq!(world.cluster.reasons(), [reasons::UPDATED_LOAD_BALANCER]);
    assert_eq!(world.services.metrics.updates.get(), 1);
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert!(world.cluster.reasons().is_empty());
}

#[tokio::test(start_paused = true)]
async fn ns_12_reports_and_repairs_failed_node_update() {
    let world = World::served().await;
    join(&world, "c");
    let error = CloudError::new("fake", ErrorKind::Server, "out of order");
    world.cloud.state.lock().unwrap().failures = vec![error.into()];
    assert!(matches!(world.pass("web").await, Outcome::Backoff(_)));
    assert_eq!(
        world.cluster.reasons(),
        [reasons::UPDATE_LOAD_BALANCER_FAILED]
    );
    assert_eq!(world.services.metrics.update_errors.get(), 1);
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.cluster.reasons(), [reasons::UPDATED_LOAD_BALANCER]);
}

#[tokio::test(start_paused = true)]
async fn t9_round_of_nodes_yields_to_changed_service() {
    let world = World::served().await;
    join(&world, "c");
    join(&world, "d");
    world.services.queue.add(key("other"));
    assert_eq!(world.pass("web").await, Outcome::Yield);
    assert_eq!(world.cloud.members("web").unwrap(), ["a", "b", "c"]);
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.cloud.members("web").unwrap(), ["a", "b", "c", "d"]);
    assert_eq!(world.cluster.reasons(), [reasons::UPDATED_LOAD_BALANCER]);
}

/// Runs as the controller does, for this long.
pub(super) async fn work(world: &Arc<World>, time: Duration) {
    let (_told, machines) = watch::channel(0);
    let (queue, stop) = (world.services.queue.clone(), CancellationToken::new());
    let passes = mooring_common::work_queue::work("test", queue, 2, stop.clone(), {
        let world = world.clone();
        move |key| {
            let world = world.clone();
            async move {
                match world.cluster.service(&key) {
                    Some(service) => world.services.pass(service).await,
                    None => Outcome::Done,
                }
            }
        }
    });
    let all = async { tokio::join!(world.services.follow(machines), passes) };
    let _ = tokio::time::timeout(time, all).await;
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn node_changes_reach_only_services_of_the_cloud() {
    let world = Arc::new(World::served().await);
    let plans = world.cloud.plans.load(Ordering::SeqCst);
    let joins = async {
        for number in 0..10 {
            join(&world, &format!("n{number}"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::join!(work(&world, Duration::from_secs(5)), joins);
    assert_eq!(world.cloud.members("web").unwrap().len(), 12);
    assert_eq!(world.cloud.plans.load(Ordering::SeqCst), plans + 1);
}

#[tokio::test(start_paused = true)]
async fn resync_observes_anew() {
    let world = Arc::new(World::with(Options {
        resync: Some(Duration::from_secs(600)),
        delete_orphans: false,
        ..Options::default()
    }));
    world.add("web");
    world.pass("web").await;
    world.cloud.state.lock().unwrap().balancers.clear();
    work(&world, Duration::from_secs(700)).await;
    assert_eq!(world.cloud.anew.load(Ordering::SeqCst), 1);
    assert_eq!(world.cloud.members("web").unwrap(), ["a", "b"]);
}

/// Its backoff has grown to 40 s by then; a round comes after one second of quiet.
#[tokio::test(start_paused = true)]
async fn node_round_wakes_service_in_backoff() {
    let world = Arc::new(World::served().await);
    fails(&world, ErrorKind::Server, 4);
    world.services.queue.add(key("web"));
    let joins = async {
        tokio::time::sleep(Duration::from_secs(40)).await;
        join(&world, "c");
    };
    tokio::join!(work(&world, Duration::from_secs(45)), joins);
    assert_eq!(world.cloud.members("web").unwrap(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn resync_wakes_service_in_backoff() {
    let world = Arc::new(World::with(Options {
        resync: Some(Duration::from_secs(60)),
        ..Options::default()
    }));
    world.add("web");
    // The last of them comes at 35 s, and the next attempt by itself at 75 s.
    fails(&world, ErrorKind::Server, 4);
    world.services.queue.add(key("web"));
    work(&world, Duration::from_secs(70)).await;
    assert!(world.cloud.members("web").is_some());
}

/// The cloud refuses it as long as another has what it asks for.
#[tokio::test(start_paused = true)]
async fn resolved_conflict_wakes_service_in_backoff() {
    let world = Arc::new(World::served().await);
    world.add("next");
    fails(&world, ErrorKind::Invalid, 4);
    world.services.queue.add(key("next"));
    let goes = async {
        tokio::time::sleep(Duration::from_secs(40)).await;
        world.cluster.remove(&key("web"));
        world.services.gone(&key("web"));
    };
    tokio::join!(work(&world, Duration::from_secs(45)), goes);
    assert!(world.cloud.members("next").is_some());
}

fn fails(world: &World, kind: ErrorKind, times: usize) {
    let error = CloudError::new("fake", kind, "not now");
    world.cloud.state.lock().unwrap().failures = vec![error.into(); times];
}
