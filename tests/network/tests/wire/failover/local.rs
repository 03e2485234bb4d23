//! `externalTrafficPolicy: Local`.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, DeleteParams};
use mooring_test_netlab::failover::faults::until;
use mooring_test_netlab::failover::{APP, FailoverCluster, Seen, Watch};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::failover::alone::{MS, SOON};
use crate::failover::connections::keep;
use crate::failover::operations::assert_lossless;

/// The address follows the endpoint, and connections through the first node are reset.
pub async fn case_27_a_local_service_follows_its_endpoint_without_a_loss(
    cluster: &mut FailoverCluster,
) {
    let seen = follow_endpoint(cluster, "local", 110, 6).await;
    assert_eq!(seen.broken, seen.connections, "{seen}");
}

/// The first node goes on to serve them, as long as the endpoint there ends in good order.
pub async fn with_connections_kept_a_local_service_follows_its_endpoint_and_breaks_none(
    cluster: &mut FailoverCluster,
) {
    keep(cluster, json!("15m")).await;
    let seen = follow_endpoint(cluster, "kept", 115, 8).await;
    assert_eq!(seen.broken, 0, "{seen}");
    keep(cluster, Value::Null).await;
}

/// The Pod on one node ends in good order, serving until the last, while there is one on another.
async fn follow_endpoint(cluster: &mut FailoverCluster, name: &str, number: u8, pod: u8) -> Seen {
    cluster.backend(name, "n1", pod).await.unwrap();
    cluster.service(name, number, true).await.unwrap();
    let mut watch = cluster.watch_number(number).await.unwrap();
    let (first, second) = (cluster.mac_of("n1"), cluster.mac_of("n2"));
    assert_eq!(watch.speaker(200 * MS), Some(first));
    cluster.backend(name, "n2", pod).await.unwrap();
    let answers = eventually("the second node serves it too", SOON, async || {
        let node = cluster.netlab.node("n2");
        let service = Api::<Service>::namespaced(cluster.netlab.admin(), APP);
        let port = service.get(name).await.ok()?.spec?.health_check_node_port?;
        let url = format!("http://{}:{port}/", node.ipv4());
        let answer = cluster.netlab.client.get(&url).await.ok()?;
        (answer.status == 200).then_some(())
    });
    answers.await;

    watch.begin();
    let pods = Api::<Pod>::namespaced(cluster.netlab.admin(), APP);
    let in_good_order = DeleteParams::default().grace_period(30);
    let pod = format!("{name}-n1");
    pods.delete(&pod, &in_good_order).await.unwrap();
    eventually("the second node speaks", SOON, async || {
        watch.speaker(200 * MS) == Some(second)
    })
    .await;
    assert_moved(cluster, watch, name, 2500 * MS).await
}

/// The endpoint moves, and the next node's service proxy is slow: the address waits for it.
pub async fn an_address_does_not_move_before_the_next_service_proxy_has_the_endpoint(
    cluster: &mut FailoverCluster,
) {
    const SLOW: u8 = 114;
    cluster.backend("slow", "n1", 7).await.unwrap();
    cluster.service("slow", SLOW, true).await.unwrap();
    let mut watch = cluster.watch_number(SLOW).await.unwrap();
    let (first, second) = (cluster.mac_of("n1"), cluster.mac_of("n2"));
    assert_eq!(watch.speaker(200 * MS), Some(first));
    let offered = cluster.transitions("n1", "hand_over_begun").await.unwrap();

    watch.begin();
    cluster.proxies["n2"].freeze().unwrap();
    cluster.backend("slow", "n2", 7).await.unwrap();
    let pods = Api::<Pod>::namespaced(cluster.netlab.admin(), APP);
    let in_good_order = DeleteParams::default().grace_period(30);
    pods.delete("slow-n1", &in_good_order).await.unwrap();
    eventually("the first node offers the address", SOON, async || {
        let now = cluster.transitions("n1", "hand_over_begun").await.ok()?;
        (now > offered).then_some(())
    })
    .await;
    let moved = watch.began().elapsed();
    until(watch.began() + moved + 500 * MS).await;
    cluster.proxies["n2"].thaw().unwrap();
    eventually("the second node speaks", SOON, async || {
        watch.speaker(200 * MS) == Some(second)
    })
    .await;
    assert_moved(cluster, watch, "slow", 1500 * MS).await;
}

/// The address has just moved: watches for so much longer, asserts that nothing was lost, and takes the
/// Service of this name and its Pods away.
async fn assert_moved(
    cluster: &mut FailoverCluster,
    watch: Watch,
    name: &str,
    longer: Duration,
) -> Seen {
    let moved = watch.began().elapsed();
    println!("moved after {moved:?}");
    watch.settle(moved + longer, SOON).await;
    let seen = watch.end(cluster);
    println!("{seen}");
    seen.assert_safe();
    if seen.counts() {
        assert_lossless(&seen);
    }
    let pods = Api::<Pod>::namespaced(cluster.netlab.admin(), APP);
    let at_once = DeleteParams::default().grace_period(0);
    for node in ["n1", "n2"] {
        let pod = format!("{name}-{node}");
        pods.delete(&pod, &at_once).await.unwrap();
    }
    let services = Api::<Service>::namespaced(cluster.netlab.admin(), APP);
    let gone = DeleteParams::default();
    services.delete(name, &gone).await.unwrap();
    seen
}
