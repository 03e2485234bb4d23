//! Changing what a Service asks for, and what becomes of what somebody else changes (SV-…).

use mooring_common::names::reasons;
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::cloud::SuiteCloud;
use super::cluster::{AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, has_finalizer, ingress};

#[tokio::test]
async fn sv_35_a_load_balancer_that_was_deleted_by_hand_comes_back() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    let service = cluster.provide("web").await;
    let before = ingress(&service);
    cluster
        .cloud
        .delete_by_hand(&cluster.balancer(&service).unwrap().id);
    eventually(
        "it is back, and the status tells its address",
        AFTER_RETRIES,
        async || {
            let status = ingress(&cluster.get("web").await);
            let is_as_before = status == before;
            cluster.balancer(&service).is_some()
                && !status.is_empty()
                && is_as_before == SuiteCloud::KEEPS_ADDRESS
        },
    )
    .await;
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
            !has_finalizer(service) && ingress(service).is_empty()
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
