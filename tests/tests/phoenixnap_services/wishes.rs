//! Addresses that users ask for.

use mooring_common::names::reasons;
use mooring_tests::wait::eventually;
use serde_json::json;

use crate::stage::{Stage, address, assert_none, requested};

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
    eventually("it has moved", crate::stage::SOON, async || {
        address(&stage.get("web").await).as_deref() == Some("203.0.113.12")
    })
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
