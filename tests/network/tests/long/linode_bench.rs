//! `make bench-linode` in small: the counts hold for few Services and Nodes as for many. How long things
//! take, and how much memory, is for the bench itself to say.

use mooring_bench::bench_linode::{Scale, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_requests_that_node_balancers_cost_are_as_wanted() {
    let scale = Scale {
        services: 4,
        nodes: vec![3, 6],
        qps: Some(1000),
        resync: 5,
        is_as_upstream: false,
    };
    let report = run(&scale).await.unwrap();
    report.assert_counts(&[
        "3-nodes-create-all-writes",
        "6-nodes-one-joins-reads",
        "6-nodes-restart-reads",
        "6-nodes-resync-writes",
        "6-nodes-delete-all-reads",
    ]);
}
