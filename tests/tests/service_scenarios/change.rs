//! Changing what a Service asks for (SV-…): load balancers follow, and keep serving.

use std::collections::BTreeSet;

use mooring_common::names::reasons;
use mooring_tests::objects::ServiceBuilder;
use mooring_tests::wait::eventually;
use serde_json::json;

use super::cloud;
use super::stage::{AFTER_RETRIES, SOON, Stage, assert_none, ingress, node_port, ports, uid};

async fn with_two_ports(stage: &Stage) -> String {
    let service = ServiceBuilder::load_balancer(&stage.namespace, "web");
    stage.make(service.port(80, 8080).port(443, 8443)).await;
    stage.provided("web").await;
    stage.serves("web", &[1, 2]).await.id
}

#[tokio::test]
async fn sv_08_listeners_follow_the_ports_and_the_others_keep_serving() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let id = with_two_ports(&stage).await;
    let service = stage.get("web").await;
    let (first, second) = (&ports(&service)[0], &ports(&service)[1]);
    let third = json!({ "name": "third", "port": 8443, "protocol": "TCP" });
    stage
        .respecify("web", json!({ "ports": [first, second, third] }))
        .await;
    stage.serves("web", &[1, 2]).await;
    let mut moved = json!(second);
    moved["port"] = json!(444);
    stage
        .respecify("web", json!({ "ports": [first, moved] }))
        .await;
    stage.serves("web", &[1, 2]).await;
    let outages = cloud::outages(&stage.world, &id);
    let gone_for_good = ["tcp/443", "tcp/8443"];
    let hurt = outages
        .iter()
        .filter(|outage| outage.over || !gone_for_good.contains(&outage.listener.as_str()));
    assert_none(&hurt.collect::<Vec<_>>());
    assert_none(&stage.warnings("web").await);
    stage.leave().await;
}

#[tokio::test]
async fn sv_09_members_follow_the_node_port() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let service = stage.provide("web").await;
    let id = stage.serves("web", &[1, 2]).await.id;
    let mut port = json!(ports(&service)[0]);
    let other = if node_port(&service) == 30100 {
        30101
    } else {
        30100
    };
    port["nodePort"] = json!(other);
    stage.respecify("web", json!({ "ports": [port] })).await;
    let balancer = stage.serves("web", &[1, 2]).await;
    assert_eq!(balancer.id, id);
    assert_none(&cloud::outages(&stage.world, &id));
    stage.leave().await;
}

#[tokio::test]
async fn sv_11_rules_follow_the_source_ranges_and_none_means_open() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let service = stage.provide("web").await;
    for ranges in [
        vec!["10.0.0.0/8", "192.0.2.0/24"],
        vec!["192.0.2.0/24"],
        vec![],
    ] {
        stage
            .respecify("web", json!({ "loadBalancerSourceRanges": ranges }))
            .await;
        let wanted: BTreeSet<String> = ranges.iter().map(ToString::to_string).collect();
        stage
            .balanced(&service, &format!("open to {wanted:?}"), |balancer| {
                balancer.sources == wanted
            })
            .await;
    }
    stage.leave().await;
}

#[tokio::test]
async fn sv_14_a_changed_annotation_is_taken_up() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let service = stage.provide("web").await;
    assert!(!cloud::shows_harmless(&stage.world, &uid(&service)));
    let (key, value) = cloud::HARMLESS;
    stage.annotate("web", key, Some(value)).await;
    eventually("it is in the cloud", SOON, async || {
        cloud::shows_harmless(&stage.world, &uid(&service))
    })
    .await;
    stage.annotate("web", key, None).await;
    eventually("the default is back", SOON, async || {
        !cloud::shows_harmless(&stage.world, &uid(&service))
    })
    .await;
    stage.leave().await;
}

#[tokio::test]
async fn sv_17_sv_18_the_health_check_follows_the_traffic_policy_there_and_back() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let service = stage.provide("web").await;
    let before = stage.serves("web", &[1, 2]).await;
    let node_port = node_port(&service).to_string();
    assert!(
        before
            .checks
            .iter()
            .all(|check| check.ends_with(&node_port))
    );

    stage
        .respecify("web", json!({ "externalTrafficPolicy": "Local" }))
        .await;
    let local = stage.get("web").await;
    let port = local.spec.unwrap().health_check_node_port.unwrap();
    let wanted = BTreeSet::from([format!("http {port}")]);
    stage
        .balanced(&service, "checked at the health port", |balancer| {
            balancer.checks == wanted
        })
        .await;
    stage.serves("web", &[1, 2]).await;

    stage
        .respecify("web", json!({ "externalTrafficPolicy": "Cluster" }))
        .await;
    stage
        .balanced(&service, "checked as before", |balancer| {
            balancer.checks == before.checks
        })
        .await;
    stage.serves("web", &[1, 2]).await;
    assert_none(&cloud::outages(&stage.world, &before.id));
    stage.leave().await;
}

#[tokio::test]
async fn sv_29_after_twenty_quick_edits_the_last_one_holds() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let service = stage.provide("web").await;
    let mut port = json!(ports(&service)[0]);
    for n in 1..=20 {
        port["port"] = json!(8000 + (n * 7) % 20);
        stage.respecify("web", json!({ "ports": [port] })).await;
    }
    stage.serves("web", &[1, 2]).await;
    stage.marker().await;
    stage.serves("web", &[1, 2]).await;
    assert_eq!(cloud::balancers(&stage.world).len(), 2);
    stage.leave().await;
}

#[tokio::test]
async fn sv_35_a_load_balancer_that_was_deleted_by_hand_comes_back() {
    let stage = Stage::enter().await;
    let flags = stage.flags().with("--load-balancer-resync-period=1s");
    let _central = stage.central_with(flags).await;
    let service = stage.provide("web").await;
    let before = ingress(&service);
    cloud::delete_by_hand(&stage.world, &stage.balancer(&service).unwrap().id);
    eventually(
        "it is back, and the status tells its address",
        AFTER_RETRIES,
        async || {
            let status = ingress(&stage.get("web").await);
            stage.balancer(&service).is_some() && status != before && !status.is_empty()
        },
    )
    .await;
    stage.serves("web", &[1, 2]).await;
    stage.leave().await;
}

/// Somebody takes a member away by hand: the cloud is looked at now and then.
#[tokio::test]
async fn what_was_changed_by_hand_is_repaired() {
    let stage = Stage::enter().await;
    let flags = stage.flags().with("--load-balancer-resync-period=1s");
    let _central = stage.central_with(flags).await;
    let service = stage.provide("web").await;
    let id = stage.serves("web", &[1, 2]).await.id;
    cloud::take_a_member(&stage.world, &id);
    assert_eq!(stage.balancer(&service).unwrap().served["tcp/80"].len(), 1);
    stage.serves("web", &[1, 2]).await;
    stage.leave().await;
}

#[tokio::test]
async fn a_service_that_becomes_another_type_is_cleaned_up_and_can_come_back() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.provide("web").await;
    stage.respecify("web", json!({ "type": "ClusterIP" })).await;
    stage
        .is("web", "is let go", |service| {
            !super::stage::has_finalizer(service) && ingress(service).is_empty()
        })
        .await;
    stage.nothing_is_left().await;
    stage.told("web", reasons::DELETED_LOAD_BALANCER, "").await;
    stage
        .respecify("web", json!({ "type": "LoadBalancer" }))
        .await;
    stage.provided("web").await;
    stage.serves("web", &[1, 2]).await;
    stage.leave().await;
}
