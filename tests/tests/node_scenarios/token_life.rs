//! OAuth2 tokens that end, are revoked or cannot be had: none of that costs a Node.

use std::time::{Duration, Instant};

use http::StatusCode;
use mooring_test_cluster::cluster::MARKER_LIMIT;
use mooring_test_cluster::objects::unique;
use mooring_test_support::wait::eventually;

use super::cluster::CloudCluster;

const AT_LAST: Duration = Duration::from_secs(60);

#[tokio::test]
async fn one_token_serves_all_requests() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.for_cloud().try_start().await;
    cluster.listings_since(Instant::now(), 3).await;
    let asked = cluster.cloud.token_requests();
    assert_eq!(asked.len(), 1, "{}", asked.summary());
    cluster.finish().await;
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends() {
    let cluster = CloudCluster::start().await;
    cluster.cloud.tokens_last(Duration::from_secs(4));
    let _central = cluster.for_cloud().try_start().await;
    eventually("four tokens were got", AT_LAST, async || {
        cluster.cloud.token_requests().len() >= 4
    })
    .await;
    let refused = cluster.cloud.calls().answered(StatusCode::UNAUTHORIZED);
    assert!(refused.is_empty(), "{}", refused.summary());
    cluster.finish().await;
}

/// Upstream never gets another one, or goes on with it until it ends.
#[tokio::test]
async fn a_revoked_token_is_exchanged_at_once() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.for_cloud().try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    cluster.cloud.revoke_tokens();
    let since = Instant::now();
    cluster.listings_since(since, 3).await;
    let calls = cluster.cloud.calls().since(since);
    let refused = calls.answered(StatusCode::UNAUTHORIZED);
    assert_eq!(refused.len(), 1, "{}", calls.summary());
    let asked = cluster.cloud.token_requests();
    assert_eq!(asked.len(), 2, "{}", calls.summary());
    cluster.finish().await;
}

/// The client itself is not known any more, and later is again.
#[tokio::test]
async fn lc_07_a_client_that_is_refused_costs_no_node() {
    let cluster = CloudCluster::start().await;
    let (gone, stays) = (unique("gone"), unique("stays"));
    let id = cluster.member(&gone, "10.1.0.1").await;
    cluster.member(&stays, "10.1.0.2").await;
    let flag = "--max-node-deletions-percent=100";
    let central = cluster.for_cloud().flag(flag).try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    cluster.cloud.revoke_token(true);
    cluster.cloud.remove(&id);
    for name in [&gone, &stays] {
        cluster.set_ready(name, "False").await;
    }
    let since = Instant::now();
    eventually("three tokens were refused", AT_LAST, async || {
        let asked = cluster.cloud.token_requests().since(since);
        asked.answered(StatusCode::UNAUTHORIZED).len() >= 3
    })
    .await;
    for name in [&gone, &stays] {
        cluster.is_kept(name).await;
    }
    assert!(central.is_running());
    let (log, secret) = (central.log(), cluster.cloud.secret());
    let variable = secret.0;
    assert!(log.contains(variable), "the remedy is missing:\n{log}");
    assert!(!log.contains(&secret.1), "{log}");
    cluster.cloud.revoke_token(false);
    eventually("what is gone is gone", MARKER_LIMIT, async || {
        cluster.node(&gone).await.is_none()
    })
    .await;
    cluster.is_kept(&stays).await;
    cluster.finish().await;
}
