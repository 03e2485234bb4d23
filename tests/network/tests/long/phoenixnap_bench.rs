//! `make bench-phoenixnap` in small: the counts hold for few Services and Nodes as for many. How long
//! things take, and how much memory, is for the bench itself to say.

use std::time::Duration;

use mooring_bench::bench_phoenixnap::{Scale, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_requests_that_addresses_of_services_cost_are_as_wanted() {
    let scale = Scale {
        services: 15,
        nodes: 6,
        steady: Duration::from_secs(4),
        monitor_period: Duration::from_secs(1),
        busy: Duration::from_secs(1),
        latency: Duration::ZERO,
        change_time: Duration::ZERO,
        qps: Some(1000),
    };
    let report = run(&scale).await.unwrap();
    report.assert_counts(&[
        "6-new-nodes-reads",
        "shared-further-service-reads/writes",
        "own-deleted-reads/writes",
        "shared-restart-reads/writes",
        "own-15-created-blocks-bought",
        "requests-that-miss-their-aim",
    ]);
}
