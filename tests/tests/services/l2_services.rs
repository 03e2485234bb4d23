//! Services of type LoadBalancer, as one `mooring-central` serves them on a real API server under
//! the shipped permissions. What takes stopping and starting central is in `services_alone`.

mod life;
mod ownership;
mod requests;
mod sharing;

use std::sync::OnceLock;

use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_cluster::shipped::{Central, CentralFlags};
use mooring_test_cluster::test_namespace::{MARKER_LIMIT, TestNamespace, is_served};
use mooring_test_support::wait::never;
use tokio::sync::OnceCell;

/// The shared cluster with two Nodes and one central for all tests of this suite. It has one worker, so
/// that it works off Services in the order of their creation: that makes a later Service a marker.
async fn cluster_with_central() -> Cluster {
    static CENTRAL: OnceCell<Central> = OnceCell::const_new();
    let cluster = Cluster::shared().await;
    CENTRAL
        .get_or_init(async || {
            for name in ["n1", "n2"] {
                let node = NodeBuilder::new(name).ready().create(&cluster.admin).await;
                node.expect("a Node");
            }
            let flags = CentralFlags::alone().with("--concurrent-service-syncs=1");
            cluster.start_central(flags).await
        })
        .await;
    cluster
}

/// A namespace of one test, whose network has this many IPv4 addresses.
async fn ready_namespace(cluster: &Cluster, addresses: u16) -> TestNamespace {
    let namespace = cluster.namespace_with_network(addresses).await;
    namespace.network_is(&namespace.network, true).await;
    namespace
}

/// Asserts that something does not happen in a namespace, until central has served a Service that was
/// made later, in a namespace of its own.
async fn never_meanwhile(
    what: &str,
    cluster: &Cluster,
    violation: impl AsyncFnMut() -> Option<String>,
) {
    static MARKERS: OnceLock<OnceCell<TestNamespace>> = OnceLock::new();
    let namespaces = MARKERS.get_or_init(OnceCell::new);
    // The client belongs to this test's runtime, the network to all tests.
    let shared = namespaces
        .get_or_init(|| ready_namespace(cluster, 200))
        .await;
    let mut namespace = shared.clone();
    namespace.client = cluster.admin.clone();
    let marker = mooring_test_cluster::objects::unique("marker");
    namespace.create(&marker).await;
    let reached = async || is_served(&namespace.get(&marker).await).is_ok();
    never(what, MARKER_LIMIT, reached, violation).await;
}
