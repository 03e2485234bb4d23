//! Two of central.

use mooring_test_support::wait::eventually;

use crate::phoenixnap_services::cluster::{AFTER_RETRIES, CloudCluster};

#[tokio::test]
async fn lb_19_of_two_replicas_one_buys() {
    let cluster = CloudCluster::start().await;
    let flags = || cluster.replica().with("--ip-block-sharing=false");
    let _first = cluster.central_with(flags()).await;
    let _second = cluster.central_with(flags()).await;
    for name in ["one", "two", "three"] {
        cluster.create(name).await;
    }
    for name in ["one", "two", "three"] {
        cluster.provided_within(name, AFTER_RETRIES).await;
    }
    assert_eq!(cluster.sim().purchases().len(), 3);
    cluster.finish().await;
}

/// Neither knows of the other, and both believe to lead: what one has bought the other uses.
#[tokio::test]
async fn two_that_both_believe_to_lead_buy_one_block() {
    let cluster = CloudCluster::start().await;
    let _first = cluster.central_with(cluster.sharing()).await;
    let _second = cluster.central_with(cluster.sharing()).await;
    for n in 0..4 {
        cluster.create(&format!("web-{n}")).await;
    }
    for n in 0..4 {
        cluster
            .provided_within(&format!("web-{n}"), AFTER_RETRIES)
            .await;
    }
    eventually("one block is left", AFTER_RETRIES, async || {
        cluster.living_blocks().len() == 1
    })
    .await;
    assert_eq!(cluster.sim().purchases().len(), 1);
    cluster.finish_both().await;
}
