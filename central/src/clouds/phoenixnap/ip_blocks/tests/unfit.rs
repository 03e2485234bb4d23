//! A block that costs money and gives no address keeps another one from being bought, as long as it is so.

use super::super::super::api::ip_blocks::Block;
use super::super::ownership::{self, Owner};
use super::super::testing::{CLUSTER, block};
use super::*;

/// A cluster that has bought a block, which is shown in this location.
fn with_block_in(location: &str) -> TestCluster {
    let cluster = TestCluster::new(true).with(&["web"]);
    let owner = Owner::Pool(NETWORK.to_owned());
    let block = Block {
        location: location.to_owned(),
        tags: ownership::of_new(CLUSTER, &owner),
        ..block("b", "203.0.113.8/29")
    };
    let mut account = cluster.cloud.0.lock().unwrap();
    account.blocks.insert("b".to_owned(), block);
    drop(account);
    cluster
}

async fn is_refused(cluster: &TestCluster, blocks: &IpBlocks) {
    match cluster.pass(blocks, "web").await {
        Err(ReconcileError::Refused(why)) => assert!(why.contains("of no use"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn refused_service_is_looked_at_again_within_a_minute() {
    let cluster = with_block_in("ASH");
    let blocks = cluster.start("one");
    let context = OpenGuard::default();
    is_refused(&cluster, &blocks).await;
    let told = blocks.lock().await.state.has_garbage.clone();
    let told = tokio::time::timeout(Duration::ZERO, told.notified()).await;
    assert!(told.is_ok(), "a round is to follow at once");
    for _ in 0..3 {
        let pause = blocks.round(&context).await.unwrap();
        assert!(pause <= Duration::from_secs(60), "{pause:?}");
        advance(pause).await;
        cluster.cloud.0.lock().unwrap().calls.clear();
    }
    assert_eq!(*context.freed.lock().unwrap(), 0, "it is as it was");
    {
        let mut account = cluster.cloud.0.lock().unwrap();
        account.blocks.get_mut("b").unwrap().location = "PHX".to_owned();
    }
    blocks.round(&context).await.unwrap();
    assert_eq!(*context.freed.lock().unwrap(), 1);
    let calls = cluster.cloud.0.lock().unwrap().calls.clone();
    assert_eq!(calls, ["list blocks"], "that is all that it costs");
    assert_eq!(cluster.provided(&blocks, "web").await, "203.0.113.10");
    assert_eq!(cluster.bought(), 0);
}
