//! Changing what a Service asks for (SV-…): load balancers with listeners follow, and keep serving.

use std::collections::BTreeSet;

use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::cloud::SuiteCloud;
use super::cluster::{CloudCluster, LoadBalancerCloud as _, SOON, assert_none};
use super::forwarding::{ForwardingCloud as _, node_port, ports};

async fn with_two_ports(cluster: &CloudCluster) -> String {
    let service = ServiceBuilder::load_balancer(&cluster.namespace, "web");
    cluster.make(service.port(80, 8080).port(443, 8443)).await;
    cluster.provided("web").await;
    cluster.serves("web", &[1, 2]).await.id
}

#[tokio::test]
async fn sv_08_listeners_follow_the_ports_and_the_others_keep_serving() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let id = with_two_ports(&cluster).await;
    let service = cluster.get("web").await;
    let (first, second) = (&ports(&service)[0], &ports(&service)[1]);
    let third = json!({ "name": "third", "port": 8443, "protocol": "TCP" });
    cluster
        .respecify("web", json!({ "ports": [first, second, third] }))
        .await;
    cluster.serves("web", &[1, 2]).await;
    let mut moved = json!(second);
    moved["port"] = json!(444);
    cluster
        .respecify("web", json!({ "ports": [first, moved] }))
        .await;
    cluster.serves("web", &[1, 2]).await;
    let gone_for_good = ["tcp/443", "tcp/8443"];
    assert_none(&cluster.cloud.outages_but(&id, &gone_for_good));
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}

#[tokio::test]
async fn sv_09_members_follow_the_node_port() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    let mut port = json!(ports(&service)[0]);
    let other = if node_port(&service) == 30100 {
        30101
    } else {
        30100
    };
    port["nodePort"] = json!(other);
    cluster.respecify("web", json!({ "ports": [port] })).await;
    let balancer = cluster.serves("web", &[1, 2]).await;
    assert_eq!(balancer.id, id);
    assert_none(&cluster.cloud.outages(&id));
    cluster.finish().await;
}

#[tokio::test]
async fn sv_14_a_changed_annotation_is_taken_up() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    assert!(!cluster.cloud.shows_harmless(&service));
    let (key, value) = SuiteCloud::HARMLESS;
    cluster.annotate("web", key, Some(value)).await;
    eventually("it is in the cloud", SOON, async || {
        cluster.cloud.shows_harmless(&service)
    })
    .await;
    cluster.annotate("web", key, None).await;
    eventually("the default is back", SOON, async || {
        !cluster.cloud.shows_harmless(&service)
    })
    .await;
    cluster.finish().await;
}

#[tokio::test]
async fn sv_17_sv_18_the_health_check_follows_the_traffic_policy_there_and_back() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    let before = cluster.serves("web", &[1, 2]).await;
    let node_port = node_port(&service).to_string();
    assert!(
        before
            .checks
            .iter()
            .all(|check| check.ends_with(&node_port))
    );

    cluster
        .respecify("web", json!({ "externalTrafficPolicy": "Local" }))
        .await;
    let local = cluster.get("web").await;
    let wanted = BTreeSet::from([SuiteCloud::local_check(&local)]);
    cluster
        .balanced(&service, "checked for endpoints", |balancer| {
            balancer.checks == wanted
        })
        .await;
    cluster.serves("web", &[1, 2]).await;

    cluster
        .respecify("web", json!({ "externalTrafficPolicy": "Cluster" }))
        .await;
    cluster
        .balanced(&service, "checked as before", |balancer| {
            balancer.checks == before.checks
        })
        .await;
    cluster.serves("web", &[1, 2]).await;
    assert_none(&cluster.cloud.outages(&before.id));
    cluster.finish().await;
}

#[tokio::test]
async fn sv_29_after_twenty_quick_edits_the_last_one_holds() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    let mut port = json!(ports(&service)[0]);
    for n in 1..=20 {
        port["port"] = json!(8000 + (n * 7) % 20);
        cluster.respecify("web", json!({ "ports": [port] })).await;
    }
    cluster.serves("web", &[1, 2]).await;
    cluster.marker().await;
    cluster.serves("web", &[1, 2]).await;
    assert_eq!(cluster.cloud.balancers().len(), 2);
    cluster.finish().await;
}

/// Somebody takes a member away by hand: the cloud is looked at now and then.
#[tokio::test]
async fn what_was_changed_by_hand_is_repaired() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    let service = cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    cluster.cloud.take_a_member(&id);
    assert_eq!(
        cluster.balancer(&service).unwrap().served["tcp/80"].len(),
        1
    );
    cluster.serves("web", &[1, 2]).await;
    cluster.finish().await;
}
