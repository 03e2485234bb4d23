//! Tokens that end, clouds that are down, answers that are lost.

use std::time::Duration;

use http::StatusCode;
use mooring_cloud_sim::phoenixnap::{Behaviour, TOKEN_PATH};
use mooring_cloud_sim::{Fault, When};
use mooring_common::names::reasons;
use mooring_test_support::wait::eventually;

use crate::phoenixnap_services::blocks::purchase;
use crate::phoenixnap_services::cluster::{AFTER_RETRIES, CloudCluster, SOON};

#[tokio::test]
async fn lb_15_a_token_that_is_refused_is_renewed_and_the_request_repeated_once() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    cluster.provide("one").await;
    let tokens = || cluster.sim().calls().to(TOKEN_PATH).len();
    let before = tokens();
    cluster.sim().revoke_tokens();
    cluster.provide("two").await;
    assert_eq!(tokens(), before + 1);
    let refused = cluster.sim().calls().answered(StatusCode::UNAUTHORIZED);
    assert!(
        (1..=2).contains(&refused.len()),
        "{}",
        cluster.sim().calls().summary()
    );
    assert!(central.process.is_running());
    cluster.finish().await;
}

/// A token is renewed before it ends: nobody is ever refused.
#[tokio::test]
async fn a_token_is_renewed_before_it_ends() {
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour {
        token_lifetime: Duration::from_secs(32),
        ..Behaviour::default()
    });
    let _central = cluster.central_with(cluster.sharing()).await;
    cluster.provide("one").await;
    let first = cluster.sim().calls().to(TOKEN_PATH).len();
    eventually("it has another token", SOON, async || {
        cluster.marker().await;
        cluster.sim().calls().to(TOKEN_PATH).len() > first
    })
    .await;
    let refused = cluster.sim().calls().answered(StatusCode::UNAUTHORIZED);
    assert_eq!(refused.len(), 0, "{}", refused.summary());
    cluster.finish().await;
}

/// Upstream's process ends at each of these.
#[tokio::test]
async fn a_token_endpoint_that_fails_ends_nothing() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    cluster.provide("one").await;
    for fault in [
        Fault::status(StatusCode::SERVICE_UNAVAILABLE),
        Fault::reset(),
        Fault::html(StatusCode::OK),
    ] {
        let fault = cluster.sim().faults().inject(When::any(TOKEN_PATH), fault);
        cluster.sim().revoke_tokens();
        let name = mooring_test_cluster::objects::unique("web");
        cluster.create(&name).await;
        fault.struck(1).await;
        assert!(central.process.is_running());
        fault.lift();
        cluster.provided_within(&name, AFTER_RETRIES).await;
    }
    cluster.finish().await;
}

/// It shows in the next listing: neither its Service nor the next purchase waits for what may take a cloud
/// 90 s to show.
#[tokio::test]
async fn a_purchase_whose_answer_is_lost_is_found_within_seconds_and_holds_up_no_other() {
    let cluster = CloudCluster::start().await;
    let lost = Fault::reset().executed();
    let lost = cluster.sim().faults().inject(purchase().times(1), lost);
    let flags = cluster.flags().with("--creation-settle-time=90s");
    let _central = cluster.central_with(flags).await;
    cluster.create("web").await;
    lost.struck(1).await;
    let soon = Duration::from_secs(10);
    cluster.provided_within("web", soon).await;
    cluster.create("next").await;
    cluster.provided_within("next", soon).await;
    assert_eq!(cluster.sim().purchases().len(), 2);
    cluster.finish().await;
}

#[tokio::test]
async fn a_purchase_that_is_answered_429_keeps_its_claim_until_it_is_made() {
    let cluster = CloudCluster::start().await;
    let limited = Fault::status(StatusCode::TOO_MANY_REQUESTS).retry_after(Duration::from_secs(7));
    let limited = cluster.sim().faults().inject(purchase().times(1), limited);
    let _central = cluster.central().await;
    cluster.create("web").await;
    limited.struck(1).await;
    cluster
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, "429")
        .await;
    assert!(cluster.claim().await.is_some(), "nobody else may buy");
    cluster.provided("web").await;
    assert_eq!(cluster.purchases().len(), 2);
    assert_eq!(cluster.sim().purchases().len(), 1);
    eventually("the next may buy", SOON, async || {
        cluster.claim().await.is_none()
    })
    .await;
    cluster.finish().await;
}
