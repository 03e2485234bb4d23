//! The API server fails now and then. There is no cloud here that could.

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use mooring_common::names::{annotations, reasons};
use mooring_test_cluster::api_proxy::ApiProxy;
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::shipped::CentralFlags;
use mooring_test_cluster::test_namespace::{SOON, TestNamespace, has_finalizer};
use mooring_test_support::wait::eventually;

/// The delays after the first two failures, as the Go controller has them.
const DELAYS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(10)];
/// Twice failed, and some time for a busy machine.
const BOTH: Duration = Duration::from_secs(25);

fn status_of(namespace: &TestNamespace, name: &str) -> String {
    format!("/namespaces/{}/services/{name}/status", namespace.name)
}

#[tokio::test]
async fn sv_06_sd_04_what_fails_twice_is_told_and_done_at_the_third_time() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(4).await;
    let proxy = ApiProxy::start(&cluster).await.unwrap();
    let start = cluster.start_central_by(&proxy, CentralFlags::alone());
    let _central = start.await;
    for name in ["old", "later"] {
        namespace.create(name).await;
        namespace.served(name).await;
    }
    // What central has written on the old one has been looked at: no pass but that of its deletion
    // is to come.
    for name in ["new", "old"] {
        let failure = StatusCode::INTERNAL_SERVER_ERROR;
        proxy.fail(Method::PATCH, &status_of(&namespace, name), 2, failure);
    }
    let begin = Instant::now();
    namespace.create("new").await;
    namespace.delete("old").await;
    for name in ["new", "old"] {
        let told = namespace
            .told(name, reasons::SYNC_LOAD_BALANCER_FAILED)
            .await;
        assert!(
            told.kind == "Warning" && told.note.starts_with("Error syncing load balancer: "),
            "{told:?}"
        );
    }
    assert!(
        has_finalizer(&namespace.get("old").await),
        "it stays until all is released"
    );
    eventually(
        "the new one is served, the old one gone",
        BOTH,
        async || {
            let new = mooring_test_cluster::test_namespace::is_served(&namespace.get("new").await)
                .is_ok();
            new && namespace.services().get_opt("old").await.unwrap().is_none()
        },
    )
    .await;
    for name in ["new", "old"] {
        let path = status_of(&namespace, name);
        let mut asked = proxy.asked(&Method::PATCH, &path);
        asked.retain(|asked| asked.at >= begin);
        for (pair, delay) in asked.windows(2).zip(DELAYS) {
            let gap = pair[1].at - pair[0].at;
            assert!(
                gap >= delay && gap < delay + Duration::from_secs(3),
                "{name}: {gap:?} instead of {delay:?}"
            );
        }
    }
    cluster.finish().await;
}

#[tokio::test]
async fn an_address_that_a_status_still_shows_is_not_given_to_another() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(2).await;
    let proxy = ApiProxy::start(&cluster).await.unwrap();
    let start = cluster.start_central_by(&proxy, CentralFlags::alone());
    let central = start.await;
    namespace.create("mover").await;
    namespace
        .served_with("mover", &[namespace.address(0)])
        .await;
    // The move to another address does not reach the API server.
    let gate = proxy.hold(Method::PATCH, &status_of(&namespace, "mover"));
    namespace
        .annotate(
            "mover",
            annotations::ADDRESSES_REQUEST,
            Some(&namespace.address(1)),
        )
        .await;
    gate.reached().await;
    namespace.create("waiting").await;
    let told = namespace
        .told("waiting", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert!(told.note.contains("no free IPv4 address"), "{told:?}");
    gate.open();
    namespace
        .served_with("mover", &[namespace.address(1)])
        .await;
    namespace
        .served_with("waiting", &[namespace.address(0)])
        .await;
    assert!(central.process.is_running());
    cluster.finish().await;
}

#[tokio::test]
async fn a_service_that_somebody_else_changes_all_the_time_is_served_without_a_failure() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(2).await;
    let proxy = ApiProxy::start(&cluster).await.unwrap();
    let start = cluster.start_central_by(&proxy, CentralFlags::alone());
    let _central = start.await;
    let meddler = namespace.clone();
    proxy.first(Method::PATCH, &status_of(&namespace, "web"), 2, move || {
        let meddler = meddler.clone();
        async move {
            let now = mooring_test_cluster::objects::unique("now");
            meddler
                .annotate("web", "example.org/touched", Some(&now))
                .await;
        }
    });
    namespace.create("web").await;
    namespace.served("web").await;
    let events = namespace.events("web").await;
    assert!(
        events
            .iter()
            .all(|e| e.reason != reasons::SYNC_LOAD_BALANCER_FAILED),
        "{events:?}"
    );
    cluster.finish().await;
}

#[tokio::test]
async fn sd_09_a_service_deleted_while_it_is_being_served_leaves_nothing() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(1).await;
    let proxy = ApiProxy::start(&cluster).await.unwrap();
    let start = cluster.start_central_by(&proxy, CentralFlags::alone());
    let _central = start.await;
    // Before the finalizer is on: the object goes at once.
    let gate = proxy.hold(Method::PATCH, &status_of(&namespace, "early"));
    namespace.create("early").await;
    gate.reached().await;
    namespace.delete("early").await;
    namespace.gone("early").await;
    gate.open();
    namespace.create("late").await;
    namespace.served("late").await;
    namespace.delete("late").await;
    namespace.gone("late").await;
    // Between the finalizer and the address.
    namespace.create("middle").await;
    eventually("the finalizer is on", SOON, async || {
        has_finalizer(&namespace.get("middle").await)
    })
    .await;
    namespace.delete("middle").await;
    namespace.gone("middle").await;
    namespace.network_uses(&namespace.network, 0).await;
    cluster.finish().await;
}
