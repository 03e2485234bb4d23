//! `make bench-cloudscale` in small: the counts hold for few Services and Nodes as for many. How long
//! things take, and how much memory, is for the bench itself to say.

use std::time::Duration;

use mooring_bench::bench_cloudscale::{Scale, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_requests_that_load_balancers_cost_are_as_wanted() {
    let scale = Scale {
        services: 4,
        nodes: 6,
        crowd: 6,
        crowd_within: Duration::from_secs(3),
        latency: Duration::ZERO,
        change_time: Duration::ZERO,
        qps: Some(1000),
    };
    let report = run(&scale).await.unwrap();
    report.assert_counts(&[
        "create-all-reads",
        "restart-writes",
        "one-joins-writes",
        "T8-writes",
    ]);
}
