//! `make demo-clouds` in small: each of its steps looks at what it says.

use mooring_demo::clouds::prove;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_cluster_has_nodes_and_load_balancers_of_two_clouds() {
    prove().await.unwrap_or_else(|error| panic!("{error:#}"));
}
