//! Addresses that users ask for.

use mooring_cloud_sim::phoenixnap::Kind;
use mooring_common::names::{annotations, reasons};
use mooring_test_cluster::objects::unique;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::phoenixnap_services::blocks::{address, requested};
use crate::phoenixnap_services::cluster::{CloudCluster, assert_none};

#[tokio::test]
async fn lb_06_for_an_address_of_the_users_own_nothing_is_bought() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.service("own").requested_address("192.0.2.77");
    service.create(&cluster.admin).await.unwrap();
    cluster
        .told("own", reasons::ADDRESS_NOT_OURS, "192.0.2.77")
        .await;
    assert_none(&cluster.sim().writes());
    // kube-vip writes the status itself, and that is left alone.
    let entry = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.77" }] } });
    cluster.patch_status("own", &entry).await;
    cluster.marker().await;
    let service = cluster.get("own").await;
    assert_eq!(address(&service).as_deref(), Some("192.0.2.77"));
    assert_eq!(requested(&service).as_deref(), Some("192.0.2.77"));
    assert_eq!(cluster.purchases().len(), 1, "for the marker");
    cluster.delete("own").await;
    cluster.gone("own").await;
    cluster.finish().await;
}

#[tokio::test]
async fn an_address_of_a_block_that_we_hold_is_given_to_whoever_asks_for_it() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central_with(cluster.sharing()).await;
    cluster.provide("first").await;
    assert_eq!(cluster.living_blocks()[0]["cidr"], "203.0.113.16/28");
    let service = cluster.service("asks").requested_address("203.0.113.25");
    service.create(&cluster.admin).await.unwrap();
    assert_eq!(cluster.provided_address("asks").await, "203.0.113.25");
    let service = cluster
        .service("too-late")
        .requested_address("203.0.113.25");
    service.create(&cluster.admin).await.unwrap();
    cluster
        .told("too-late", reasons::SYNC_LOAD_BALANCER_FAILED, "asks")
        .await;
    assert_eq!(cluster.purchases().len(), 1);
    cluster.finish().await;
}

#[tokio::test]
async fn an_address_of_a_server_in_the_network_is_given_to_nobody() {
    let cluster = CloudCluster::start().await;
    let ips = ["203.0.113.18", "203.0.113.19 - 203.0.113.20"];
    let members = json!([{ "resourceId": "s", "resourceType": "server", "ips": ips }]);
    let network = &cluster.cloud.network;
    cluster
        .sim()
        .set_in(Kind::Network, network, "memberships", members);
    let _central = cluster.central_with(cluster.sharing()).await;
    assert_eq!(cluster.provide_address("web").await, "203.0.113.21");
    let service = cluster.service("asks").requested_address("203.0.113.20");
    service.create(&cluster.admin).await.unwrap();
    cluster
        .told("asks", reasons::SYNC_LOAD_BALANCER_FAILED, "of a server")
        .await;
    cluster.finish().await;
}

/// Its status goes on showing it: traffic comes there.
#[tokio::test]
async fn the_address_of_a_service_that_asks_for_another_is_nobody_elses() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central_with(cluster.sharing()).await;
    let had = cluster.provide_address("web").await;
    for (wish, reason) in [
        ("192.0.2.77", reasons::ADDRESS_NOT_OURS),
        // The router's own.
        ("203.0.113.17", reasons::SYNC_LOAD_BALANCER_FAILED),
    ] {
        let patch = json!({ "spec": { "loadBalancerIP": wish } });
        cluster.patch("web", &patch).await;
        cluster.told("web", reason, wish).await;
        assert_ne!(cluster.provide_address(&unique("new")).await, had);
        let envious = unique("envious");
        let service = cluster.service(&envious).requested_address(&had);
        service.create(&cluster.admin).await.unwrap();
        cluster
            .told(&envious, reasons::SYNC_LOAD_BALANCER_FAILED, "web")
            .await;
        assert_eq!(address(&cluster.get("web").await), Some(had.clone()));
    }
    cluster.finish().await;
}

#[tokio::test]
async fn an_address_of_the_own_block_that_a_user_writes_is_taken_over() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    assert_eq!(cluster.provide_address("web").await, "203.0.113.10");
    let ask = async |address: &str| {
        let patch = json!({ "spec": { "loadBalancerIP": address } });
        cluster.patch("web", &patch).await;
    };
    ask("203.0.113.12").await;
    eventually(
        "it has moved",
        crate::phoenixnap_services::cluster::SOON,
        async || address(&cluster.get("web").await).as_deref() == Some("203.0.113.12"),
    )
    .await;
    // The router's own.
    ask("203.0.113.9").await;
    cluster
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, "203.0.113.9")
        .await;
    assert_eq!(cluster.purchases().len(), 1);
    assert_eq!(cluster.sim().blocks_on(&cluster.cloud.network).len(), 1);
    cluster.finish().await;
}

/// E19: whatever the key begins with that the configuration names.
#[tokio::test]
async fn a_location_that_a_service_asks_for_is_read_from_the_annotation_that_is_configured() {
    let cluster = CloudCluster::start().await;
    let key = "where.example.com/location";
    let flags = cluster
        .sharing()
        .environment("PNAP_ANNOTATION_IP_LOCATION", key);
    let _central = cluster.central_with(flags).await;
    let service = cluster.service("elsewhere").annotation(key, "ASH");
    service.create(&cluster.admin).await.unwrap();
    let told = cluster
        .told("elsewhere", reasons::SYNC_LOAD_BALANCER_FAILED, key)
        .await;
    assert!(
        told.note.contains("ASH") && told.note.contains("PHX"),
        "{told:?}"
    );
    let service = cluster.service("here").annotation(key, "phx");
    service.create(&cluster.admin).await.unwrap();
    cluster.provided("here").await;
    assert_eq!(cluster.purchases().len(), 1);
    cluster.finish().await;
}

/// A2: an annotation is a wish, and the status a record.
#[tokio::test]
async fn an_address_of_somebody_elses_block_is_not_had_by_writing_it_into_an_annotation() {
    let cluster = CloudCluster::start().await;
    let theirs = json!({ "cidr": "203.0.113.64/29", "assignedResourceId": cluster.cloud.network });
    cluster.sim().put(Kind::Block, theirs);
    let central = cluster.central_with(cluster.sharing()).await;
    let service = cluster.service("thief");
    let service = service.annotation(annotations::ALLOCATED_ADDRESSES, "203.0.113.66");
    service.create(&cluster.admin).await.unwrap();
    let reason = reasons::SYNC_LOAD_BALANCER_FAILED;
    let told = cluster.told("thief", reason, "203.0.113.66").await;
    for words in [
        "--take-over-namespaces",
        "takeOverNamespaces",
        &cluster.namespace,
    ] {
        assert!(told.note.contains(words), "{words}: {told:?}");
    }
    assert_eq!(address(&cluster.get("thief").await), None);
    assert_none(&cluster.sim().writes());
    drop(central);
    let flags = cluster.sharing().with("--take-over-namespaces=*");
    let _central = cluster.central_with(flags).await;
    assert_eq!(cluster.provided_address("thief").await, "203.0.113.66");
    cluster.finish().await;
}
