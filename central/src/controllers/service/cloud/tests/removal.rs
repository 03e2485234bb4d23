//! Services that are deleted, or want no load balancer any more.

use mooring_common::engine::Outcome;
use mooring_common::names::{annotations, finalizers, reasons};
use serde_json::json;

use super::*;
use crate::cloud_api::{CloudError, ErrorKind};

const DELETED: [&str; 2] = [
    reasons::DELETING_LOAD_BALANCER,
    reasons::DELETED_LOAD_BALANCER,
];

fn delete(world: &World) {
    world.cluster.edit(&key("web"), |service| {
        service["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
}

#[tokio::test(start_paused = true)]
async fn sd_02_load_balancer_goes_before_service() {
    let world = World::served().await;
    delete(&world);
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert!(world.cloud.members("web").is_none());
    assert!(world.cluster.service(&key("web")).is_none());
    assert_eq!(world.cluster.reasons(), DELETED);
    assert_eq!(world.cloud.state.lock().unwrap().forgotten, ["web"]);
}

#[tokio::test(start_paused = true)]
async fn sd_03_missing_load_balancer_does_not_block_deletion() {
    let world = World::served().await;
    world.cloud.state.lock().unwrap().balancers.clear();
    delete(&world);
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.cluster.reasons(), DELETED[1..]);
}

#[tokio::test(start_paused = true)]
async fn sd_04_finalizer_stays_until_cloud_confirms() {
    let world = World::served().await;
    delete(&world);
    let after = Duration::from_secs(7);
    let error = CloudError::new("fake", ErrorKind::Busy, "busy");
    let later = CloudError {
        retry_after: Some(after),
        ..error.clone()
    };
    world.cloud.state.lock().unwrap().failures = vec![later.into(), error.into()];
    assert!(matches!(world.pass("web").await, Outcome::Backoff(_)));
    assert_eq!(world.pass("web").await, Outcome::RetryAfter(after));
    assert!(world.cluster.service(&key("web")).unwrap().has_finalizer());
    assert_eq!(world.pass("web").await, Outcome::Done);
    let failed = reasons::SYNC_LOAD_BALANCER_FAILED;
    let told = world.cluster.reasons();
    assert_eq!(told, [failed, failed, DELETED[0], DELETED[1]]);
}

#[tokio::test(start_paused = true)]
async fn sd_07_removes_only_own_finalizer() {
    let world = World::served().await;
    world.cluster.edit(&key("web"), |service| {
        service["metadata"]["finalizers"] = json!(["a/b", finalizers::SERVICE, "c/d"]);
    });
    delete(&world);
    assert_eq!(world.pass("web").await, Outcome::Done);
    let left = &world.cluster.json(&key("web"))["metadata"]["finalizers"];
    assert_eq!(*left, json!(["a/b", "c/d"]));
}

#[tokio::test(start_paused = true)]
async fn sd_08_type_change_removes_load_balancer_and_finalizer() {
    let world = World::served().await;
    world.cluster.edit(&key("web"), |service| {
        service["spec"]["type"] = json!("ClusterIP");
        service["status"] = json!({"loadBalancer": {}});
    });
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert!(world.cloud.members("web").is_none());
    assert!(!world.cluster.service(&key("web")).unwrap().has_finalizer());
    // And again: it is ensured as if it were new.
    world.cluster.edit(&key("web"), |service| {
        service["spec"]["type"] = json!("LoadBalancer");
    });
    world.cluster.reasons();
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.cluster.reasons(), ENSURED);
}

#[tokio::test(start_paused = true)]
async fn moving_to_l2_network_leaves_nothing_in_cloud() {
    let world = World::served().await;
    world.cluster.edit(&key("web"), |service| {
        service["metadata"]["annotations"][annotations::L2_NETWORK_REQUEST] = json!("lan");
    });
    let service = world.cluster.service(&key("web")).unwrap();
    assert!(world.services.hand_over(&service).await.is_none());
    assert!(world.cloud.members("web").is_none());
    let plans = world.cloud.plans.load(Ordering::SeqCst);
    assert!(world.services.hand_over(&service).await.is_none());
    assert_eq!(world.cloud.plans.load(Ordering::SeqCst), plans);
}

/// What another cloud notes on a Service that it serves from the beginning is not taken for this one's.
#[tokio::test(start_paused = true)]
async fn nothing_is_looked_for_of_a_service_that_begins_in_another_cloud() {
    let world = World::new();
    world.add("web");
    let new = world.cluster.service(&key("web")).unwrap();
    assert!(world.services.hand_over(&new).await.is_none());
    world.cluster.edit(&key("web"), |service| {
        service["metadata"]["finalizers"] = json!([finalizers::SERVICE]);
        service["metadata"]["annotations"] = json!({ "noted": "by another cloud" });
    });
    let begun = world.cluster.service(&key("web")).unwrap();
    assert!(world.services.hand_over(&begun).await.is_none());
    assert_eq!(world.cloud.plans.load(Ordering::SeqCst), 0);

    // Since it has come here, it may have something here.
    assert_eq!(world.pass("web").await, Outcome::Done);
    world.cluster.edit(&key("web"), |service| {
        service["metadata"]["annotations"][annotations::L2_NETWORK_REQUEST] = json!("lan");
    });
    let moved = world.cluster.service(&key("web")).unwrap();
    assert!(world.services.hand_over(&moved).await.is_none());
    assert!(world.cloud.members("web").is_none());
}
