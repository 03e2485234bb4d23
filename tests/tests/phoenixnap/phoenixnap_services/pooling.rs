//! Several Services share a block.

use std::collections::BTreeSet;
use std::time::Instant;

use http::Method;
use mooring_cloud_sim::phoenixnap::Kind;
use mooring_test_support::wait::eventually;

use crate::phoenixnap_services::blocks::{address, has_tag, tags};
use crate::phoenixnap_services::cluster::{AFTER_RETRIES, CloudCluster, SOON};

#[tokio::test]
async fn thirteen_services_share_a_block_and_the_fourteenth_gets_another() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central_with(cluster.sharing()).await;
    let names: Vec<String> = (0..13).map(|n| format!("web-{n}")).collect();
    for name in &names {
        cluster.create(name).await;
    }
    let mut addresses = BTreeSet::new();
    for name in &names {
        addresses.insert(cluster.address_within(name, AFTER_RETRIES).await);
    }
    assert_eq!(addresses.len(), 13, "{addresses:?}");
    assert_eq!(cluster.sim().purchases().len(), 1);
    let block = cluster.living_blocks().remove(0);
    assert_eq!(block["cidrBlockSize"], "/28");
    assert!(
        has_tag(&block, "pool") && !has_tag(&block, "serviceName"),
        "{:?}",
        tags(&block)
    );
    let start = Instant::now();
    cluster.provide("web-13").await;
    assert_eq!(cluster.sim().purchases().len(), 2);
    assert_eq!(
        cluster.writes_since(start).len(),
        2,
        "bought and put on the network"
    );
    cluster.finish().await;
}

#[tokio::test]
async fn a_shared_block_is_given_back_when_the_last_service_goes() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central_with(cluster.sharing()).await;
    cluster.provide("one").await;
    cluster.provide("two").await;
    let block = cluster.living_block();
    cluster.delete("one").await;
    cluster.gone("one").await;
    // Its address is free for another.
    let start = Instant::now();
    cluster.provide("three").await;
    assert_eq!(cluster.writes_since(start).len(), 0);
    for name in ["two", "three"] {
        cluster.delete(name).await;
        cluster.gone(name).await;
    }
    cluster.released(&block).await;
    assert_eq!(cluster.sim().purchases().len(), 1);
    cluster.finish().await;
}

/// No address is two Services', however often central starts anew.
#[tokio::test]
async fn a_restart_changes_no_address_and_writes_nothing() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central_with(cluster.sharing()).await;
    let names: Vec<String> = (0..5).map(|n| format!("web-{n}")).collect();
    for name in &names {
        cluster.create(name).await;
    }
    let mut before = Vec::new();
    for name in &names {
        before.push(cluster.address_within(name, AFTER_RETRIES).await);
    }
    drop(central);
    let start = Instant::now();
    let _central = cluster.central_with(cluster.sharing()).await;
    cluster.create("marker").await;
    let marked = cluster.provided_address("marker").await;
    assert!(!before.contains(&marked), "{marked} {before:?}");
    for (name, before) in names.iter().zip(&before) {
        assert_eq!(address(&cluster.get(name).await).as_ref(), Some(before));
    }
    assert_eq!(cluster.writes_since(start).len(), 0);
    let listings = cluster.sim().calls().since(start).to(Kind::Block.path());
    let listings = listings.method(&Method::GET);
    assert!(listings.len() <= 6, "{}", listings.summary());
    cluster.finish().await;
}

#[tokio::test]
async fn many_at_once_buy_one_block() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.sharing().with("--concurrent-service-syncs=5");
    let _central = cluster.central_with(flags).await;
    for n in 0..10 {
        cluster.create(&format!("web-{n}")).await;
    }
    eventually("all are provided with", SOON * 3, async || {
        for n in 0..10 {
            if address(&cluster.get(&format!("web-{n}")).await).is_none() {
                return Err(format!("web-{n}: {}", cluster.sim().calls().summary()));
            }
        }
        Ok(())
    })
    .await;
    assert_eq!(cluster.sim().purchases().len(), 1);
    cluster.finish().await;
}
