//! Tokens that end, clouds that are down, answers that are lost.

use std::time::Duration;

use http::StatusCode;
use mooring_common::names::reasons;
use mooring_tests::cloud_sim::phoenixnap::{Behaviour, TOKEN_PATH};
use mooring_tests::cloud_sim::{Fault, When};
use mooring_tests::wait::eventually;

use crate::phoenixnap_services::stage::{
    AFTER_RETRIES, SOON, Stage, has_finalizer, listing, purchase,
};

#[tokio::test]
async fn lb_15_a_token_that_is_refused_is_renewed_and_the_request_repeated_once() {
    let stage = Stage::enter().await;
    let central = stage.central_with(stage.unshared()).await;
    stage.provide("one").await;
    let tokens = || stage.sim().calls().to(TOKEN_PATH).len();
    let before = tokens();
    stage.sim().revoke_tokens();
    stage.provide("two").await;
    assert_eq!(tokens(), before + 1);
    let refused = stage.sim().calls().answered(StatusCode::UNAUTHORIZED);
    assert!(
        (1..=2).contains(&refused.len()),
        "{}",
        stage.sim().calls().summary()
    );
    assert!(central.process.is_running());
    stage.leave().await;
}

/// A token is renewed before it ends: nobody is ever refused.
#[tokio::test]
async fn a_token_is_renewed_before_it_ends() {
    let stage = Stage::enter().await;
    stage.sim().behave(Behaviour {
        token_lifetime: Duration::from_secs(32),
        ..Behaviour::default()
    });
    let _central = stage.central().await;
    stage.provide("one").await;
    let first = stage.sim().calls().to(TOKEN_PATH).len();
    eventually("it has another token", SOON, async || {
        stage.marker().await;
        stage.sim().calls().to(TOKEN_PATH).len() > first
    })
    .await;
    let refused = stage.sim().calls().answered(StatusCode::UNAUTHORIZED);
    assert_eq!(refused.len(), 0, "{}", refused.summary());
    stage.leave().await;
}

#[tokio::test]
async fn lb_17_a_cloud_that_is_down_ends_nothing_and_all_recovers_alone() {
    let stage = Stage::enter().await;
    let central = stage.central_with(stage.unshared()).await;
    stage.provide("goes").await;
    stage.sim().set_down(true);
    stage.create("comes").await;
    stage.delete("goes").await;
    eventually("it has been asked in vain", AFTER_RETRIES, async || {
        stage.sim().turned_away() > 3
    })
    .await;
    assert!(central.process.is_running());
    assert!(has_finalizer(&stage.get("goes").await));
    stage.sim().set_down(false);
    stage.gone_within("goes", AFTER_RETRIES).await;
    stage.provided_within("comes", AFTER_RETRIES).await;
    assert_eq!(stage.sim().purchases().len(), 2);
    assert!(central.process.is_running());
    stage.leave().await;
}

/// Upstream's process ends at each of these.
#[tokio::test]
async fn a_token_endpoint_that_fails_ends_nothing() {
    let stage = Stage::enter().await;
    let central = stage.central_with(stage.unshared()).await;
    stage.provide("one").await;
    for fault in [
        Fault::status(StatusCode::SERVICE_UNAVAILABLE),
        Fault::reset(),
        Fault::html(StatusCode::OK),
    ] {
        let fault = stage.sim().faults().inject(When::any(TOKEN_PATH), fault);
        stage.sim().revoke_tokens();
        let name = mooring_tests::objects::unique("web");
        stage.create(&name).await;
        fault.struck(1).await;
        assert!(central.process.is_running());
        fault.lift();
        stage.provided_within(&name, AFTER_RETRIES).await;
    }
    stage.leave().await;
}

#[tokio::test]
async fn a_purchase_whose_answer_is_lost_is_not_made_twice() {
    let stage = Stage::enter().await;
    let lost = Fault::reset().executed();
    let lost = stage.sim().faults().inject(purchase().times(1), lost);
    let _central = stage.central_with(stage.unshared()).await;
    stage.create("web").await;
    lost.struck(1).await;
    stage.provided_within("web", AFTER_RETRIES).await;
    assert_eq!(stage.sim().purchases().len(), 1);
    stage.leave().await;
}

/// It shows in the next listing: neither its Service nor the next purchase waits for what may take a cloud
/// 90 s to show.
#[tokio::test]
async fn a_purchase_whose_answer_is_lost_is_found_within_seconds_and_holds_up_no_other() {
    let stage = Stage::enter().await;
    let lost = Fault::reset().executed();
    let lost = stage.sim().faults().inject(purchase().times(1), lost);
    let flags = stage.unshared().with("--creation-settle-time=90s");
    let _central = stage.central_with(flags).await;
    stage.create("web").await;
    lost.struck(1).await;
    let soon = Duration::from_secs(10);
    stage.provided_within("web", soon).await;
    stage.create("next").await;
    stage.provided_within("next", soon).await;
    assert_eq!(stage.sim().purchases().len(), 2);
    stage.leave().await;
}

#[tokio::test]
async fn a_purchase_that_is_answered_429_keeps_its_claim_until_it_is_made() {
    let stage = Stage::enter().await;
    let limited = Fault::status(StatusCode::TOO_MANY_REQUESTS).retry_after(Duration::from_secs(7));
    let limited = stage.sim().faults().inject(purchase().times(1), limited);
    let _central = stage.central_with(stage.unshared()).await;
    stage.create("web").await;
    limited.struck(1).await;
    stage
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, "429")
        .await;
    assert!(stage.claim().await.is_some(), "nobody else may buy");
    stage.provided("web").await;
    assert_eq!(stage.purchases().len(), 2);
    assert_eq!(stage.sim().purchases().len(), 1);
    eventually("the next may buy", SOON, async || {
        stage.claim().await.is_none()
    })
    .await;
    stage.leave().await;
}

/// What cannot be listed is not "nothing": neither bought nor let go.
#[tokio::test]
async fn while_blocks_cannot_be_listed_nothing_is_bought_and_nothing_goes() {
    let stage = Stage::enter().await;
    let central = stage.central_with(stage.unshared()).await;
    stage.provide("old").await;
    drop(central);
    for fault in [
        Fault::status(StatusCode::FORBIDDEN),
        Fault::torn(),
        Fault::html(StatusCode::OK),
    ] {
        let fault = stage.sim().faults().inject(listing(), fault);
        let name = mooring_tests::objects::unique("new");
        stage.create(&name).await;
        stage.delete("old").await;
        let before = stage.sim().purchases().len();
        let central = stage.central_with(stage.unshared()).await;
        fault.struck(2).await;
        assert!(has_finalizer(&stage.get("old").await));
        assert_eq!(stage.sim().purchases().len(), before);
        drop(central);
        fault.lift();
        stage.delete(&name).await;
    }
    let _central = stage.central_with(stage.unshared()).await;
    stage.gone_within("old", AFTER_RETRIES).await;
    stage.leave().await;
}
