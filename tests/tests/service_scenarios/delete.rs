//! Deleting load balancers and letting Services go (SD-…).

use http::StatusCode;
use mooring_common::names::{finalizers, reasons};
use mooring_tests::cloud_sim::Fault;
use mooring_tests::wait::eventually;
use serde_json::json;

use super::cloud;
use super::stage::{AFTER_RETRIES, SOON, Stage, assert_none, has_finalizer, ingress};

#[tokio::test]
async fn sd_01_deletion_takes_the_load_balancer_away_and_tells_so() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.provide("web").await;
    stage.delete("web").await;
    stage.gone("web").await;
    stage.nothing_is_left().await;
    stage.told("web", reasons::DELETING_LOAD_BALANCER, "").await;
    stage.told("web", reasons::DELETED_LOAD_BALANCER, "").await;
    assert_none(&stage.warnings("web").await);
    stage.leave().await;
}

#[tokio::test]
async fn sd_02_a_service_that_was_deleted_before_the_start_goes_after_its_load_balancer() {
    let stage = Stage::enter().await;
    let central = stage.central().await;
    let service = stage.provide("web").await;
    let id = stage.balancer(&service).unwrap().id;
    drop(central);
    stage.delete("web").await;
    let held = stage
        .world
        .faults()
        .inject(cloud::deletion(&id), Fault::hang());
    let _central = stage.central().await;
    held.struck(1).await;
    assert!(
        has_finalizer(&stage.get("web").await),
        "before the deletion"
    );
    held.lift();
    stage.gone_within("web", AFTER_RETRIES).await;
    stage.nothing_is_left().await;
    stage.told("web", reasons::DELETING_LOAD_BALANCER, "").await;
    stage.told("web", reasons::DELETED_LOAD_BALANCER, "").await;
    stage.leave().await;
}

#[tokio::test]
async fn sd_03_a_load_balancer_that_is_gone_already_holds_nothing_up() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let service = stage.provide("web").await;
    cloud::delete_by_hand(&stage.world, &stage.balancer(&service).unwrap().id);
    stage.delete("web").await;
    stage.gone("web").await;
    assert_none(&stage.warnings("web").await);
    stage.leave().await;
}

#[tokio::test]
async fn sd_04_a_deletion_that_fails_twice_keeps_the_finalizer_and_succeeds_at_last() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let service = stage.provide("web").await;
    let id = stage.balancer(&service).unwrap().id;
    let failure = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let failing = cloud::deletion(&id).times(2);
    let failing = stage.world.faults().inject(failing, failure);
    stage.delete("web").await;
    stage.failed("web").await;
    assert!(has_finalizer(&stage.get("web").await));
    stage.gone_within("web", AFTER_RETRIES).await;
    assert_eq!(failing.hits(), 2);
    stage.nothing_is_left().await;
    stage.leave().await;
}

#[tokio::test]
async fn sd_07_only_our_finalizer_is_removed() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.provide("web").await;
    let others = ["example.org/first", finalizers::SERVICE, "example.org/last"];
    let patch = json!({ "metadata": { "finalizers": others } });
    stage.patch("web", &patch).await;
    stage.delete("web").await;
    let kept = stage
        .is("web", "is let go", |service| !has_finalizer(service))
        .await;
    let left = kept.metadata.finalizers.clone().unwrap_or_default();
    assert_eq!(left, ["example.org/first", "example.org/last"]);
    stage.nothing_is_left().await;
    let none = json!({ "metadata": { "finalizers": null } });
    stage.patch("web", &none).await;
    stage.leave().await;
}

#[tokio::test]
async fn sd_08_a_finalizer_that_another_type_has_left_over_is_removed_at_the_start() {
    let stage = Stage::enter().await;
    let service = stage.service("web").kind("ClusterIP");
    stage.make(service).await;
    let ours = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    stage.patch("web", &ours).await;
    let _central = stage.central().await;
    stage
        .is("web", "is let go", |service| !has_finalizer(service))
        .await;
    assert_none(&stage.writes());
    stage.leave().await;
}

#[tokio::test]
async fn sd_09_a_deletion_during_the_creation_leaves_nothing() {
    let stage = Stage::enter().await;
    let held = stage
        .world
        .faults()
        .inject(cloud::additions(), Fault::hang());
    let _central = stage.central().await;
    stage.create("web").await;
    held.struck(1).await;
    stage.delete("web").await;
    held.lift();
    stage.gone_within("web", AFTER_RETRIES).await;
    stage.nothing_is_left().await;
    stage.leave().await;
}

#[tokio::test]
async fn sd_13_a_foreign_class_is_never_touched_not_even_its_finalizer() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let theirs = stage.service("theirs").class("example.org/theirs");
    let theirs = stage.make(theirs).await;
    let same = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    stage.patch("theirs", &same).await;
    stage.marker().await;
    assert!(stage.balancer(&theirs).is_none());
    stage.delete("theirs").await;
    stage.marker().await;
    let theirs = stage.get("theirs").await;
    assert!(has_finalizer(&theirs) && ingress(&theirs).is_empty());
    assert_none(&stage.written("theirs").await);
    assert_none(&stage.events("theirs").await);
    stage.leave().await;
}

/// What was begun is found by its marks, and goes with the Service.
#[tokio::test]
async fn sd_14_a_half_made_load_balancer_is_removed() {
    let stage = Stage::enter().await;
    let failure = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    stage.world.faults().inject(cloud::additions(), failure);
    let central = stage.central().await;
    let service = stage.create("web").await;
    stage.failed("web").await;
    let half = stage.balancer(&service).expect("half a load balancer");
    assert!(ingress(&stage.get("web").await).is_empty());
    cloud::rename_by_hand(&stage.world, &half.id, "renamed-by-hand");
    drop(central);
    stage.world.faults().clear();
    stage.delete("web").await;
    let _central = stage.central().await;
    stage.gone("web").await;
    stage.nothing_is_left().await;
    stage.leave().await;
}

#[tokio::test]
async fn sd_17_the_load_balancer_of_a_service_that_vanished_is_reported_and_removed_if_allowed() {
    let stage = Stage::enter().await;
    let central = stage.central().await;
    let service = stage.provide("web").await;
    let id = stage.balancer(&service).unwrap().id;
    drop(central);
    let none = json!({ "metadata": { "finalizers": null } });
    stage.patch("web", &none).await;
    stage.delete("web").await;
    stage.gone("web").await;
    let theirs = cloud::lookalikes(&stage.world, &id);

    let flags = stage.flags().with("--load-balancer-resync-period=1s");
    let central = stage.central_with(flags.clone()).await;
    let told = eventually("the orphan is told of", AFTER_RETRIES, async || {
        stage.orphans_told().await.into_iter().next()
    })
    .await;
    assert!(told.contains(&id), "{told}");
    stage.marker().await;
    assert!(cloud::has(&stage.world, &id), "only reported");
    drop(central);

    let _central = stage.central_with(flags.with("--delete-orphans")).await;
    eventually("the orphan is removed", AFTER_RETRIES, async || {
        !cloud::has(&stage.world, &id)
    })
    .await;
    for other in theirs {
        assert!(cloud::has(&stage.world, &other), "{other} was not ours");
    }
    stage.leave().await;
}

/// Its finalizer is stripped while central runs: central sees the Service go, and need not wait for
/// the next look at everything.
#[tokio::test]
async fn a_service_that_goes_without_its_finalizer_leaves_an_orphan_that_is_seen_at_once() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let service = stage.provide("web").await;
    let id = stage.balancer(&service).unwrap().id;
    let none = json!({ "metadata": { "finalizers": null } });
    stage.patch("web", &none).await;
    stage.delete("web").await;
    stage.gone("web").await;
    eventually("the orphan is told of", SOON, async || {
        let told = stage.orphans_told().await;
        told.iter().any(|note| note.contains(&id))
    })
    .await;
    assert!(cloud::has(&stage.world, &id));
    stage.leave().await;
}
