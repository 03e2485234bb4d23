//! Nodes that leave: they get no new connections, and go after a while.

use std::time::{Duration, Instant};

use http::Method;
use mooring_cloud_sim::linode::Kind;
use mooring_cloud_sim::{Call, Calls};
use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_support::wait::eventually;
use serde_json::Value;

use crate::linode_services::cloud::SuiteCloud;
use crate::linode_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, assert_none,
};

/// The node of a NodeBalancer at the n-th Node, if it is there.
fn node(cluster: &CloudCluster, id: &str, n: usize) -> Option<Value> {
    let mut nodes = cluster.cloud.parts(id, Kind::Node).into_iter();
    let address = format!("{}:", SuiteCloud::address(n));
    nodes.find(|node| {
        node["address"]
            .as_str()
            .unwrap_or_default()
            .starts_with(&address)
    })
}

/// What was asked to change this node.
fn writes_on(cluster: &CloudCluster, node: &Value) -> Calls {
    let end = format!("/nodes/{}", node["id"]);
    cluster
        .writes()
        .filter(|call: &Call| call.path.ends_with(&end))
}

#[tokio::test]
async fn a_node_that_leaves_gets_no_new_connections_and_stays_for_its_time() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--nodebalancer-drain-period=1h");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    cluster.remove_node("n2").await;
    cluster.serves("web", &[1]).await;
    let leaving = node(&cluster, &id, 2).expect("it is still there");
    assert_eq!(leaving["mode"], "drain");
    // Whatever else happens, it stays as it is.
    cluster.join(3).await;
    cluster.serves("web", &[1, 3]).await;
    cluster.marker().await;
    let writes = writes_on(&cluster, &leaving);
    assert_eq!(writes.len(), 1, "{}", writes.summary());
    // It comes back, and is the same node as before.
    cluster.join(2).await;
    cluster.serves("web", &[1, 2, 3]).await;
    let back = node(&cluster, &id, 2).expect("it is there");
    assert_eq!(
        (&back["id"], &back["mode"]),
        (&leaving["id"], &"accept".into())
    );
    assert_none(&cluster.sim().outages(&id));
    cluster.finish().await;
}

#[tokio::test]
async fn it_is_taken_out_when_its_time_is_over() {
    const PERIOD: Duration = Duration::from_secs(4);
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--nodebalancer-drain-period=4s");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    let leaving = node(&cluster, &id, 2).expect("a node");
    cluster.remove_node("n2").await;
    eventually("it is taken out", AFTER_RETRIES, async || {
        node(&cluster, &id, 2).is_none()
    })
    .await;
    let writes = writes_on(&cluster, &leaving);
    let methods: Vec<&Method> = writes.iter().map(|call| &call.method).collect();
    assert_eq!(
        methods,
        [Method::PUT, Method::DELETE],
        "{}",
        writes.summary()
    );
    let after = writes[1].at - writes[0].at;
    assert!(PERIOD <= after && after < PERIOD * 3, "{after:?}");
    cluster.finish().await;
}

/// Whoever starts does not know since when it drains: it begins anew.
#[tokio::test]
async fn a_restart_lets_it_drain_and_takes_it_out_after_all() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--nodebalancer-drain-period=1h");
    let central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    cluster.remove_node("n2").await;
    cluster.serves("web", &[1]).await;
    drop(central);
    let flags = cluster.flags().with("--nodebalancer-drain-period=2s");
    let _central = cluster.central_with(flags).await;
    eventually("it is taken out", AFTER_RETRIES, async || {
        node(&cluster, &id, 2).is_none()
    })
    .await;
    cluster.serves("web", &[1]).await;
    assert_none(&cluster.sim().outages(&id));
    cluster.finish().await;
}

/// With a period of zero, and where there is no mode to set.
#[tokio::test]
async fn without_a_period_and_for_udp_it_is_taken_out_at_once() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--nodebalancer-drain-period=1h");
    let central = cluster.central_with(flags).await;
    let udp = ServiceBuilder::load_balancer(&cluster.namespace, "udp").port_of("UDP", 53, 5353);
    cluster.make(udp).await;
    cluster.provided("udp").await;
    let udp = cluster.serves("udp", &[1, 2]).await.id;
    cluster.remove_node("n2").await;
    cluster.serves("udp", &[1]).await;
    assert!(node(&cluster, &udp, 2).is_none());
    drop(central);
    let flags = cluster.flags().with("--nodebalancer-drain-period=0");
    let _central = cluster.central_with(flags).await;
    cluster.join(3).await;
    cluster.provide("tcp").await;
    let tcp = cluster.serves("tcp", &[1, 3]).await.id;
    let start = Instant::now();
    cluster.remove_node("n3").await;
    cluster.serves("tcp", &[1]).await;
    let writes = cluster.cloud.writes_on(&tcp).since(start);
    let methods: Vec<&Method> = writes.iter().map(|call| &call.method).collect();
    assert_eq!(methods, [Method::DELETE], "{}", writes.summary());
    cluster.finish().await;
}
