//! Two of central.

use mooring_tests::wait::eventually;

use crate::phoenixnap_services::stage::{AFTER_RETRIES, Stage};

#[tokio::test]
async fn lb_19_of_two_replicas_one_buys() {
    let stage = Stage::enter().await;
    let flags = || stage.replica().with("--ip-block-sharing=false");
    let _first = stage.central_with(flags()).await;
    let _second = stage.central_with(flags()).await;
    for name in ["one", "two", "three"] {
        stage.create(name).await;
    }
    for name in ["one", "two", "three"] {
        stage.provided_within(name, AFTER_RETRIES).await;
    }
    assert_eq!(stage.sim().purchases().len(), 3);
    stage.leave().await;
}

/// Neither knows of the other, and both believe to lead: what one has bought the other uses.
#[tokio::test]
async fn two_that_both_believe_to_lead_buy_one_block() {
    let stage = Stage::enter().await;
    let _first = stage.central().await;
    let _second = stage.central().await;
    for n in 0..4 {
        stage.create(&format!("web-{n}")).await;
    }
    for n in 0..4 {
        stage
            .provided_within(&format!("web-{n}"), AFTER_RETRIES)
            .await;
    }
    eventually("one block is left", AFTER_RETRIES, async || {
        stage.living_blocks().len() == 1
    })
    .await;
    assert_eq!(stage.sim().purchases().len(), 1);
    stage.leave_both().await;
}
