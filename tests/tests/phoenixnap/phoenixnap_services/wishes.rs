//! Addresses that users ask for.

use mooring_common::names::{annotations, reasons};
use mooring_tests::cloud_sim::phoenixnap::Kind;
use mooring_tests::objects::unique;
use mooring_tests::wait::eventually;
use serde_json::json;

use crate::phoenixnap_services::stage::{Stage, address, assert_none, requested};

#[tokio::test]
async fn lb_06_for_an_address_of_the_users_own_nothing_is_bought() {
    let stage = Stage::enter().await;
    let _central = stage.central_with(stage.unshared()).await;
    let service = stage.service("own").requested_address("192.0.2.77");
    service.create(&stage.admin).await.unwrap();
    stage
        .told("own", reasons::ADDRESS_NOT_OURS, "192.0.2.77")
        .await;
    assert_none(&stage.sim().writes());
    // kube-vip writes the status itself, and that is left alone.
    let entry = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.77" }] } });
    stage.patch_status("own", &entry).await;
    stage.marker().await;
    let service = stage.get("own").await;
    assert_eq!(address(&service).as_deref(), Some("192.0.2.77"));
    assert_eq!(requested(&service).as_deref(), Some("192.0.2.77"));
    assert_eq!(stage.purchases().len(), 1, "for the marker");
    stage.delete("own").await;
    stage.gone("own").await;
    stage.leave().await;
}

#[tokio::test]
async fn an_address_of_a_block_that_we_hold_is_given_to_whoever_asks_for_it() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.provide("first").await;
    assert_eq!(stage.living_blocks()[0]["cidr"], "203.0.113.16/28");
    let service = stage.service("asks").requested_address("203.0.113.25");
    service.create(&stage.admin).await.unwrap();
    assert_eq!(stage.provided("asks").await, "203.0.113.25");
    let service = stage.service("too-late").requested_address("203.0.113.25");
    service.create(&stage.admin).await.unwrap();
    stage
        .told("too-late", reasons::SYNC_LOAD_BALANCER_FAILED, "asks")
        .await;
    assert_eq!(stage.purchases().len(), 1);
    stage.leave().await;
}

/// Its status goes on showing it: traffic comes there.
#[tokio::test]
async fn the_address_of_a_service_that_asks_for_another_is_nobody_elses() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let had = stage.provide("web").await;
    for (wish, reason) in [
        ("192.0.2.77", reasons::ADDRESS_NOT_OURS),
        // The router's own.
        ("203.0.113.17", reasons::SYNC_LOAD_BALANCER_FAILED),
    ] {
        let patch = json!({ "spec": { "loadBalancerIP": wish } });
        stage.patch("web", &patch).await;
        stage.told("web", reason, wish).await;
        assert_ne!(stage.provide(&unique("new")).await, had);
        let envious = unique("envious");
        let service = stage.service(&envious).requested_address(&had);
        service.create(&stage.admin).await.unwrap();
        stage
            .told(&envious, reasons::SYNC_LOAD_BALANCER_FAILED, "web")
            .await;
        assert_eq!(address(&stage.get("web").await), Some(had.clone()));
    }
    stage.leave().await;
}

#[tokio::test]
async fn an_address_of_the_own_block_that_a_user_writes_is_taken_over() {
    let stage = Stage::enter().await;
    let _central = stage.central_with(stage.unshared()).await;
    assert_eq!(stage.provide("web").await, "203.0.113.10");
    let ask = async |address: &str| {
        let patch = json!({ "spec": { "loadBalancerIP": address } });
        stage.patch("web", &patch).await;
    };
    ask("203.0.113.12").await;
    eventually(
        "it has moved",
        crate::phoenixnap_services::stage::SOON,
        async || address(&stage.get("web").await).as_deref() == Some("203.0.113.12"),
    )
    .await;
    // The router's own.
    ask("203.0.113.9").await;
    stage
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, "203.0.113.9")
        .await;
    assert_eq!(stage.purchases().len(), 1);
    assert_eq!(stage.sim().blocks_on(&stage.network).len(), 1);
    stage.leave().await;
}

/// E19: whatever the key begins with that the configuration names.
#[tokio::test]
async fn a_location_that_a_service_asks_for_is_read_from_the_annotation_that_is_configured() {
    let stage = Stage::enter().await;
    let key = "where.example.com/location";
    let flags = stage
        .flags()
        .environment("PNAP_ANNOTATION_IP_LOCATION", key);
    let _central = stage.central_with(flags).await;
    let service = stage.service("elsewhere").annotation(key, "ASH");
    service.create(&stage.admin).await.unwrap();
    let told = stage
        .told("elsewhere", reasons::SYNC_LOAD_BALANCER_FAILED, key)
        .await;
    assert!(
        told.note.contains("ASH") && told.note.contains("PHX"),
        "{told:?}"
    );
    let service = stage.service("here").annotation(key, "phx");
    service.create(&stage.admin).await.unwrap();
    stage.provided("here").await;
    assert_eq!(stage.purchases().len(), 1);
    stage.leave().await;
}

/// A2: an annotation is a wish, and the status a record.
#[tokio::test]
async fn an_address_of_somebody_elses_block_is_not_had_by_writing_it_into_an_annotation() {
    let stage = Stage::enter().await;
    let theirs = json!({ "cidr": "203.0.113.64/29", "assignedResourceId": stage.network });
    stage.sim().put(Kind::Block, theirs);
    let central = stage.central().await;
    let service = stage.service("thief");
    let service = service.annotation(annotations::ALLOCATED_ADDRESSES, "203.0.113.66");
    service.create(&stage.admin).await.unwrap();
    let reason = reasons::SYNC_LOAD_BALANCER_FAILED;
    let told = stage.told("thief", reason, "203.0.113.66").await;
    for words in [
        "--take-over-namespaces",
        "takeOverNamespaces",
        &stage.namespace,
    ] {
        assert!(told.note.contains(words), "{words}: {told:?}");
    }
    assert_eq!(address(&stage.get("thief").await), None);
    assert_none(&stage.sim().writes());
    drop(central);
    let flags = stage.flags().with("--take-over-namespaces=*");
    let _central = stage.central_with(flags).await;
    assert_eq!(stage.provided("thief").await, "203.0.113.66");
    stage.leave().await;
}
