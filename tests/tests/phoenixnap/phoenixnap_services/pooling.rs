//! Several Services share a block.

use std::collections::BTreeSet;
use std::time::Instant;

use http::Method;
use mooring_tests::cloud_sim::phoenixnap::Kind;
use mooring_tests::wait::eventually;

use crate::phoenixnap_services::stage::{AFTER_RETRIES, SOON, Stage, address, has_tag, tags};

#[tokio::test]
async fn thirteen_services_share_a_block_and_the_fourteenth_gets_another() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let names: Vec<String> = (0..13).map(|n| format!("web-{n}")).collect();
    for name in &names {
        stage.create(name).await;
    }
    let mut addresses = BTreeSet::new();
    for name in &names {
        addresses.insert(stage.provided_within(name, AFTER_RETRIES).await);
    }
    assert_eq!(addresses.len(), 13, "{addresses:?}");
    assert_eq!(stage.sim().purchases().len(), 1);
    let block = stage.living_blocks().remove(0);
    assert_eq!(block["cidrBlockSize"], "/28");
    assert!(
        has_tag(&block, "pool") && !has_tag(&block, "serviceName"),
        "{:?}",
        tags(&block)
    );
    let start = Instant::now();
    stage.provide("web-13").await;
    assert_eq!(stage.sim().purchases().len(), 2);
    assert_eq!(
        stage.writes_since(start).len(),
        2,
        "bought and put on the network"
    );
    stage.leave().await;
}

#[tokio::test]
async fn a_shared_block_is_given_back_when_the_last_service_goes() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.provide("one").await;
    stage.provide("two").await;
    let block = stage.living_block();
    stage.delete("one").await;
    stage.gone("one").await;
    // Its address is free for another.
    let start = Instant::now();
    stage.provide("three").await;
    assert_eq!(stage.writes_since(start).len(), 0);
    for name in ["two", "three"] {
        stage.delete(name).await;
        stage.gone(name).await;
    }
    stage.released(&block).await;
    assert_eq!(stage.sim().purchases().len(), 1);
    stage.leave().await;
}

/// No address is two Services', however often central starts anew.
#[tokio::test]
async fn a_restart_changes_no_address_and_writes_nothing() {
    let stage = Stage::enter().await;
    let central = stage.central().await;
    let names: Vec<String> = (0..5).map(|n| format!("web-{n}")).collect();
    for name in &names {
        stage.create(name).await;
    }
    let mut before = Vec::new();
    for name in &names {
        before.push(stage.provided_within(name, AFTER_RETRIES).await);
    }
    drop(central);
    let start = Instant::now();
    let _central = stage.central().await;
    stage.create("marker").await;
    let marked = stage.provided("marker").await;
    assert!(!before.contains(&marked), "{marked} {before:?}");
    for (name, before) in names.iter().zip(&before) {
        assert_eq!(address(&stage.get(name).await).as_ref(), Some(before));
    }
    assert_eq!(stage.writes_since(start).len(), 0);
    let listings = stage.sim().calls().since(start).to(Kind::Block.path());
    let listings = listings.method(&Method::GET);
    assert!(listings.len() <= 6, "{}", listings.summary());
    stage.leave().await;
}

#[tokio::test]
async fn many_at_once_buy_one_block() {
    let stage = Stage::enter().await;
    let flags = stage.flags().with("--concurrent-service-syncs=5");
    let _central = stage.central_with(flags).await;
    for n in 0..10 {
        stage.create(&format!("web-{n}")).await;
    }
    eventually("all are provided with", SOON * 3, async || {
        for n in 0..10 {
            if address(&stage.get(&format!("web-{n}")).await).is_none() {
                return Err(format!("web-{n}: {}", stage.sim().calls().summary()));
            }
        }
        Ok(())
    })
    .await;
    assert_eq!(stage.sim().purchases().len(), 1);
    stage.leave().await;
}
