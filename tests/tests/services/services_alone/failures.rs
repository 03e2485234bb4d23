//! The API server fails now and then. There is no cloud here that could.

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use mooring_common::names::{annotations, reasons};
use mooring_tests::api_proxy::ApiProxy;
use mooring_tests::shipped::CentralFlags;
use mooring_tests::stage::{SOON, Stage, has_finalizer};
use mooring_tests::turn::Turn;
use mooring_tests::wait::eventually;

/// The delays after the first two failures, as the Go controller has them.
const DELAYS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(10)];
/// Twice failed, and some time for a busy machine.
const BOTH: Duration = Duration::from_secs(25);

fn status_of(stage: &Stage, name: &str) -> String {
    format!("/namespaces/{}/services/{name}/status", stage.namespace)
}

#[tokio::test]
async fn sv_06_sd_04_what_fails_twice_is_told_and_done_at_the_third_time() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 4).await;
    let proxy = ApiProxy::start(turn.cp).await.unwrap();
    let start = turn
        .shipped
        .start_central_by(turn.cp, &proxy, CentralFlags::alone());
    let _central = start.await.unwrap();
    for name in ["old", "later"] {
        stage.create(name).await;
        stage.served(name).await;
    }
    // What central has written on the old one has been looked at: no pass but that of its deletion
    // is to come.
    for name in ["new", "old"] {
        let failure = StatusCode::INTERNAL_SERVER_ERROR;
        proxy.fail(Method::PATCH, &status_of(&stage, name), 2, failure);
    }
    let begin = Instant::now();
    stage.create("new").await;
    stage.delete("old").await;
    for name in ["new", "old"] {
        let told = stage.told(name, reasons::SYNC_LOAD_BALANCER_FAILED).await;
        assert!(
            told.kind == "Warning" && told.note.starts_with("Error syncing load balancer: "),
            "{told:?}"
        );
    }
    assert!(
        has_finalizer(&stage.get("old").await),
        "it stays until all is released"
    );
    eventually(
        "the new one is served, the old one gone",
        BOTH,
        async || {
            let new = mooring_tests::stage::is_served(&stage.get("new").await).is_ok();
            new && stage.services().get_opt("old").await.unwrap().is_none()
        },
    )
    .await;
    for name in ["new", "old"] {
        let path = status_of(&stage, name);
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
    turn.leave().await;
}

#[tokio::test]
async fn an_address_that_a_status_still_shows_is_not_given_to_another() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 2).await;
    let proxy = ApiProxy::start(turn.cp).await.unwrap();
    let start = turn
        .shipped
        .start_central_by(turn.cp, &proxy, CentralFlags::alone());
    let central = start.await.unwrap();
    stage.create("mover").await;
    stage.served_with("mover", &[stage.address(0)]).await;
    // The move to another address does not reach the API server.
    let gate = proxy.hold(Method::PATCH, &status_of(&stage, "mover"));
    stage
        .annotate(
            "mover",
            annotations::ADDRESSES_REQUEST,
            Some(&stage.address(1)),
        )
        .await;
    gate.reached().await;
    stage.create("waiting").await;
    let told = stage
        .told("waiting", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert!(told.note.contains("no free IPv4 address"), "{told:?}");
    gate.open();
    stage.served_with("mover", &[stage.address(1)]).await;
    stage.served_with("waiting", &[stage.address(0)]).await;
    assert!(central.process.is_running());
    turn.leave().await;
}

#[tokio::test]
async fn a_service_that_somebody_else_changes_all_the_time_is_served_without_a_failure() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 2).await;
    let proxy = ApiProxy::start(turn.cp).await.unwrap();
    let start = turn
        .shipped
        .start_central_by(turn.cp, &proxy, CentralFlags::alone());
    let _central = start.await.unwrap();
    let meddler = stage.clone();
    proxy.first(Method::PATCH, &status_of(&stage, "web"), 2, move || {
        let meddler = meddler.clone();
        async move {
            let now = mooring_tests::objects::unique("now");
            meddler
                .annotate("web", "example.org/touched", Some(&now))
                .await;
        }
    });
    stage.create("web").await;
    stage.served("web").await;
    let events = stage.events("web").await;
    assert!(
        events
            .iter()
            .all(|e| e.reason != reasons::SYNC_LOAD_BALANCER_FAILED),
        "{events:?}"
    );
    turn.leave().await;
}

#[tokio::test]
async fn sd_09_a_service_deleted_while_it_is_being_served_leaves_nothing() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 1).await;
    let proxy = ApiProxy::start(turn.cp).await.unwrap();
    let start = turn
        .shipped
        .start_central_by(turn.cp, &proxy, CentralFlags::alone());
    let _central = start.await.unwrap();
    // Before the finalizer is on: the object goes at once.
    let gate = proxy.hold(Method::PATCH, &status_of(&stage, "early"));
    stage.create("early").await;
    gate.reached().await;
    stage.delete("early").await;
    stage.gone("early").await;
    gate.open();
    stage.create("late").await;
    stage.served("late").await;
    stage.delete("late").await;
    stage.gone("late").await;
    // Between the finalizer and the address.
    stage.create("middle").await;
    eventually("the finalizer is on", SOON, async || {
        has_finalizer(&stage.get("middle").await)
    })
    .await;
    stage.delete("middle").await;
    stage.gone("middle").await;
    stage.network_uses(&stage.network, 0).await;
    turn.leave().await;
}
