//! `make bench-brightbox` in small: the counts hold for few Services and Nodes as for many. How long things
//! take, and how much memory, is for the bench itself to say.

use mooring_bench::bench_brightbox::{Scale, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_requests_that_load_balancers_cost_are_as_wanted() {
    let scale = Scale {
        services: 3,
        nodes: vec![4],
        qps: Some(1000),
        resync: 5,
        is_as_upstream: false,
    };
    let report = run(&scale).await.unwrap();
    report.assert_counts(&[
        "create-all-writes",
        "one-joins-reads",
        "restart-reads",
        "resync-writes",
        "delete-all-reads",
    ]);
}
