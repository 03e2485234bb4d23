//! How soon answers change, and what never changes them.

use std::time::{Duration, Instant};

use kube::api::{Patch, PatchParams};
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_support::figures::figure_time;
use mooring_test_support::wait::{eventually, never};
use serde_json::json;

use super::daemon::{Daemon, SOON, endpoint};

/// How often the change is measured.
const ROUNDS: usize = 20;

/// How soon an answer must have changed half of the time, on a machine that does other things too.
/// (l2.md section 5.4 wants 50 ms from the watch event on.)
const SOON_ENOUGH: Duration = Duration::from_millis(100);

#[tokio::test]
async fn an_answer_follows_its_endpoint_slice() {
    let daemon = Daemon::start().await;
    let slices = daemon.has_web().await;
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let ready = round % 2 == 1;
        let patch = Patch::Merge(json!({ "endpoints": [endpoint(&daemon.node, ready)] }));
        let start = Instant::now();
        slices
            .patch("web-1", &PatchParams::default(), &patch)
            .await
            .unwrap();
        let wanted = if ready { 200 } else { 503 };
        // Asked without a pause, for the figure's sake.
        while daemon.service("web").status != wanted {
            assert!(start.elapsed() < SOON, "round {round}: still not {wanted}");
        }
        times.push(start.elapsed());
    }
    times.sort();
    let (median, worst) = (times[ROUNDS / 2], times[ROUNDS - 1]);
    figure_time("EndpointSlice change to changed answer, p50", median);
    figure_time("EndpointSlice change to changed answer, worst of 20", worst);
    assert!(median < SOON_ENOUGH, "{times:?}");
}

/// Nothing is known yet: that is no 404, which would take the node out for good.
#[tokio::test]
async fn before_anything_is_known_all_is_unhealthy() {
    let nobody = "--master=https://127.0.0.1:1";
    let daemon = Daemon::start_unsynced(ControlPlane::shared(), &[nobody]).await;
    eventually("it listens", SOON, async || {
        daemon.get("/livez").status != 0
    })
    .await;
    for path in ["/livez", "/healthz", "/services/a/b"] {
        let answer = daemon.get(path);
        assert_eq!(answer.status, 503, "{path}: {answer:?}");
        assert!(answer.body.contains("not known yet"), "{answer:?}");
    }
}

/// An outage of the API server is no reason to take a node out.
#[tokio::test]
async fn an_api_server_that_is_away_changes_no_answer() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let daemon = Daemon::start_on(&control_plane, &[]).await;
    daemon.has_web().await;
    control_plane.stop_api_server();
    let age = |daemon: &Daemon| daemon.service("web").json()["viewAgeSeconds"].as_u64();
    never(
        "an answer that changes by age",
        SOON * 2,
        async || age(&daemon) >= Some(6),
        async || {
            let answers = [
                daemon.service("web"),
                daemon.get("/livez"),
                daemon.get("/healthz"),
            ];
            let worse = answers.into_iter().find(|answer| answer.status != 200);
            worse.map(|answer| format!("{answer:?}"))
        },
    )
    .await;
    control_plane.start_api_server().await.unwrap();
    eventually("the API server is heard of again", SOON * 2, async || {
        age(&daemon) < Some(3)
    })
    .await;
    daemon.service_is("web", 200).await;
}
