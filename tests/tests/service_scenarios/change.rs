//! Changing what a Service asks for (SV-…): load balancers follow, and keep serving.

use std::collections::BTreeSet;

use mooring_common::names::reasons;
use mooring_tests::objects::ServiceBuilder;
use mooring_tests::wait::eventually;
use serde_json::json;

use super::cloud;
use super::cluster::{
    AFTER_RETRIES, CloudCluster, SOON, assert_none, ingress, node_port, ports, uid,
};

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
    let outages = cloud::outages(&cluster.cloud, &id);
    let gone_for_good = ["tcp/443", "tcp/8443"];
    let hurt = outages
        .iter()
        .filter(|outage| outage.over || !gone_for_good.contains(&outage.listener.as_str()));
    assert_none(&hurt.collect::<Vec<_>>());
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
    assert_none(&cloud::outages(&cluster.cloud, &id));
    cluster.finish().await;
}

#[tokio::test]
async fn sv_11_rules_follow_the_source_ranges_and_none_means_open() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    for ranges in [
        vec!["10.0.0.0/8", "192.0.2.0/24"],
        vec!["192.0.2.0/24"],
        vec![],
    ] {
        cluster
            .respecify("web", json!({ "loadBalancerSourceRanges": ranges }))
            .await;
        let wanted: BTreeSet<String> = ranges.iter().map(ToString::to_string).collect();
        cluster
            .balanced(&service, &format!("open to {wanted:?}"), |balancer| {
                balancer.sources == wanted
            })
            .await;
    }
    cluster.finish().await;
}

#[tokio::test]
async fn sv_14_a_changed_annotation_is_taken_up() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    assert!(!cloud::shows_harmless(&cluster.cloud, &uid(&service)));
    let (key, value) = cloud::HARMLESS;
    cluster.annotate("web", key, Some(value)).await;
    eventually("it is in the cloud", SOON, async || {
        cloud::shows_harmless(&cluster.cloud, &uid(&service))
    })
    .await;
    cluster.annotate("web", key, None).await;
    eventually("the default is back", SOON, async || {
        !cloud::shows_harmless(&cluster.cloud, &uid(&service))
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
    let port = local.spec.unwrap().health_check_node_port.unwrap();
    let wanted = BTreeSet::from([format!("http {port}")]);
    cluster
        .balanced(&service, "checked at the health port", |balancer| {
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
    assert_none(&cloud::outages(&cluster.cloud, &before.id));
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
    assert_eq!(cloud::balancers(&cluster.cloud).len(), 2);
    cluster.finish().await;
}

#[tokio::test]
async fn sv_35_a_load_balancer_that_was_deleted_by_hand_comes_back() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    let service = cluster.provide("web").await;
    let before = ingress(&service);
    cloud::delete_by_hand(&cluster.cloud, &cluster.balancer(&service).unwrap().id);
    eventually(
        "it is back, and the status tells its address",
        AFTER_RETRIES,
        async || {
            let status = ingress(&cluster.get("web").await);
            cluster.balancer(&service).is_some() && status != before && !status.is_empty()
        },
    )
    .await;
    cluster.serves("web", &[1, 2]).await;
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
    cloud::take_a_member(&cluster.cloud, &id);
    assert_eq!(
        cluster.balancer(&service).unwrap().served["tcp/80"].len(),
        1
    );
    cluster.serves("web", &[1, 2]).await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_service_that_becomes_another_type_is_cleaned_up_and_can_come_back() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster
        .respecify("web", json!({ "type": "ClusterIP" }))
        .await;
    cluster
        .is("web", "is let go", |service| {
            !super::cluster::has_finalizer(service) && ingress(service).is_empty()
        })
        .await;
    cluster.nothing_is_left().await;
    cluster
        .told("web", reasons::DELETED_LOAD_BALANCER, "")
        .await;
    cluster
        .respecify("web", json!({ "type": "LoadBalancer" }))
        .await;
    cluster.provided("web").await;
    cluster.serves("web", &[1, 2]).await;
    cluster.finish().await;
}
