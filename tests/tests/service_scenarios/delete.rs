//! Deleting load balancers and letting Services go (SD-…).

use http::StatusCode;
use mooring_cloud_sim::Fault;
use mooring_common::names::{finalizers, reasons};
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::cloud::SuiteCloud;
use super::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none, has_finalizer, ingress,
};

#[tokio::test]
async fn sd_01_deletion_takes_the_load_balancer_away_and_tells_so() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.nothing_is_left().await;
    cluster
        .told("web", reasons::DELETING_LOAD_BALANCER, "")
        .await;
    cluster
        .told("web", reasons::DELETED_LOAD_BALANCER, "")
        .await;
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}

#[tokio::test]
async fn sd_02_a_service_that_was_deleted_before_the_start_goes_after_its_load_balancer() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let service = cluster.provide("web").await;
    let id = cluster.balancer(&service).unwrap().id;
    drop(central);
    cluster.delete("web").await;
    let held = cluster
        .cloud
        .faults()
        .inject(cluster.cloud.deletion(&id), Fault::hang());
    let _central = cluster.central().await;
    held.struck(1).await;
    assert!(
        has_finalizer(&cluster.get("web").await),
        "before the deletion"
    );
    held.lift();
    cluster.gone_within("web", AFTER_RETRIES).await;
    cluster.nothing_is_left().await;
    cluster
        .told("web", reasons::DELETING_LOAD_BALANCER, "")
        .await;
    cluster
        .told("web", reasons::DELETED_LOAD_BALANCER, "")
        .await;
    cluster.finish().await;
}

#[tokio::test]
async fn sd_03_a_load_balancer_that_is_gone_already_holds_nothing_up() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    cluster
        .cloud
        .delete_by_hand(&cluster.balancer(&service).unwrap().id);
    cluster.delete("web").await;
    cluster.gone("web").await;
    // Where another answer than 404 says that it is gone, it may be doubted once.
    if SuiteCloud::CLOUD.absence() == StatusCode::NOT_FOUND {
        assert_none(&cluster.warnings("web").await);
    }
    cluster.finish().await;
}

#[tokio::test]
async fn sd_04_a_deletion_that_fails_twice_keeps_the_finalizer_and_succeeds_at_last() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    let id = cluster.balancer(&service).unwrap().id;
    let failure = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let failing = cluster.cloud.deletion(&id).times(2);
    let failing = cluster.cloud.faults().inject(failing, failure);
    cluster.delete("web").await;
    cluster.failed("web").await;
    assert!(has_finalizer(&cluster.get("web").await));
    cluster.gone_within("web", AFTER_RETRIES).await;
    assert_eq!(failing.hits(), 2);
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

#[tokio::test]
async fn sd_07_only_our_finalizer_is_removed() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    let others = ["example.org/first", finalizers::SERVICE, "example.org/last"];
    let patch = json!({ "metadata": { "finalizers": others } });
    cluster.patch("web", &patch).await;
    cluster.delete("web").await;
    let kept = cluster
        .is("web", "is let go", |service| !has_finalizer(service))
        .await;
    let left = kept.metadata.finalizers.clone().unwrap_or_default();
    assert_eq!(left, ["example.org/first", "example.org/last"]);
    cluster.nothing_is_left().await;
    let none = json!({ "metadata": { "finalizers": null } });
    cluster.patch("web", &none).await;
    cluster.finish().await;
}

#[tokio::test]
async fn sd_08_a_finalizer_that_another_type_has_left_over_is_removed_at_the_start() {
    let cluster = CloudCluster::start().await;
    let service = cluster.service("web").kind("ClusterIP");
    cluster.make(service).await;
    let ours = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    cluster.patch("web", &ours).await;
    let _central = cluster.central().await;
    cluster
        .is("web", "is let go", |service| !has_finalizer(service))
        .await;
    assert_none(&cluster.writes());
    cluster.finish().await;
}

#[tokio::test]
async fn sd_09_a_deletion_during_the_creation_leaves_nothing() {
    let cluster = CloudCluster::start().await;
    let held = cluster
        .cloud
        .faults()
        .inject(cluster.cloud.completion(), Fault::hang());
    let _central = cluster.central().await;
    cluster.create("web").await;
    held.struck(1).await;
    cluster.delete("web").await;
    held.lift();
    cluster.gone_within("web", AFTER_RETRIES).await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

#[tokio::test]
async fn sd_13_a_foreign_class_is_never_touched_not_even_its_finalizer() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let theirs = cluster.service("theirs").class("example.org/theirs");
    let theirs = cluster.make(theirs).await;
    let same = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    cluster.patch("theirs", &same).await;
    cluster.marker().await;
    assert!(cluster.balancer(&theirs).is_none());
    cluster.delete("theirs").await;
    cluster.marker().await;
    let theirs = cluster.get("theirs").await;
    assert!(has_finalizer(&theirs) && ingress(&theirs).is_empty());
    assert_none(&cluster.written("theirs").await);
    assert_none(&cluster.events("theirs").await);
    cluster.finish().await;
}

/// What was begun is found by its marks, and goes with the Service.
#[tokio::test]
async fn sd_14_a_half_made_load_balancer_is_removed() {
    let cluster = CloudCluster::start().await;
    let failure = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    cluster
        .cloud
        .faults()
        .inject(cluster.cloud.completion(), failure);
    let central = cluster.central().await;
    let service = cluster.create("web").await;
    cluster.failed("web").await;
    let half = cluster.balancer(&service).expect("half a load balancer");
    assert!(ingress(&cluster.get("web").await).is_empty());
    cluster.cloud.rename_by_hand(&half.id);
    drop(central);
    cluster.cloud.faults().clear();
    cluster.delete("web").await;
    let _central = cluster.central().await;
    cluster.gone("web").await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

#[tokio::test]
async fn sd_17_the_load_balancer_of_a_service_that_vanished_is_reported_and_removed_if_allowed() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let service = cluster.provide("web").await;
    let id = cluster.balancer(&service).unwrap().id;
    let called = cluster.cloud.called(&id);
    drop(central);
    let none = json!({ "metadata": { "finalizers": null } });
    cluster.patch("web", &none).await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    let theirs = cluster.cloud.lookalikes(&id);

    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let central = cluster.central_with(flags.clone()).await;
    let told = eventually("the orphan is told of", AFTER_RETRIES, async || {
        cluster.orphans_told().await.into_iter().next()
    })
    .await;
    assert!(told.contains(&called), "{told}");
    cluster.marker().await;
    assert!(cluster.cloud.has(&id), "only reported");
    drop(central);

    let _central = cluster.central_with(flags.with("--delete-orphans")).await;
    eventually("the orphan is removed", AFTER_RETRIES, async || {
        !cluster.cloud.has(&id)
    })
    .await;
    for other in theirs {
        assert!(cluster.cloud.has(&other), "{other} was not ours");
    }
    cluster.finish().await;
}

/// Its finalizer is stripped while central runs: central sees the Service go, and need not wait for
/// the next look at everything.
#[tokio::test]
async fn a_service_that_goes_without_its_finalizer_leaves_an_orphan_that_is_seen_at_once() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let service = cluster.provide("web").await;
    let id = cluster.balancer(&service).unwrap().id;
    let none = json!({ "metadata": { "finalizers": null } });
    // Central must not put it back in between.
    central.process.freeze().unwrap();
    cluster.patch("web", &none).await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    central.process.thaw().unwrap();
    eventually("the orphan is told of", SOON, async || {
        let told = cluster.orphans_told().await;
        told.iter()
            .any(|note| note.contains(&cluster.cloud.called(&id)))
    })
    .await;
    assert!(cluster.cloud.has(&id));
    cluster.finish().await;
}
