//! Tokens that end, are revoked or cannot be had: none of that ends the process, or costs a Node.

use std::time::{Duration, Instant};

use http::StatusCode;
use mooring_cloud_sim::cloud::Server;
use mooring_cloud_sim::phoenixnap::{CLIENT_ID, CLIENT_SECRET, TOKEN_PATH};
use mooring_cloud_sim::{Fault, When};
use mooring_common::names::reasons;
use mooring_test_cluster::cluster::{MARKER_LIMIT, provider_id};
use mooring_test_cluster::objects::unique;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::phoenixnap_nodes::cluster::{CloudCluster, Gone};
use crate::phoenixnap_nodes::phoenixnap;

const NO_GUARD: &str = "--max-node-deletions-percent=100";
const AT_LAST: Duration = Duration::from_secs(60);

/// The Secret is mounted, so that its content changes while the program runs.
#[tokio::test]
async fn credentials_that_are_exchanged_in_the_file_are_used_without_a_restart() {
    let cluster = CloudCluster::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cloud-sa.json");
    let write = |secret: &str| {
        let content = json!({"clientID": CLIENT_ID, "clientSecret": secret});
        std::fs::write(&file, content.to_string()).unwrap();
    };
    write(CLIENT_SECRET);
    let central = cluster.for_cloud().env("PNAP_CLIENT_ID", "");
    let central = central.env("PNAP_CLIENT_SECRET", "");
    let config = format!("--cloud-config={}", file.display());
    let central = central.flag(&config).try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    cluster.cloud.revoke_token(true);
    let since = Instant::now();
    eventually("a token was refused", AT_LAST, async || {
        let calls = cluster.cloud.calls().since(since);
        let refused = calls.answered(StatusCode::UNAUTHORIZED);
        !refused.filter(|call| call.path == TOKEN_PATH).is_empty()
    })
    .await;
    write("another");
    let name = unique("n");
    cluster.cloud.add(Server::named(&name).private("10.1.0.1"));
    cluster.tainted(&name).await;
    eventually("it is initialised", AT_LAST, async || {
        let node = cluster.node(&name).await?;
        provider_id(&node).map(ToOwned::to_owned)
    })
    .await;
    assert!(central.log().contains("the credentials were exchanged"));
    cluster.finish().await;
}

/// B1 and 7.8, row 17: upstream crashed 13 times in 20 s.
async fn started_while(fault: Fault, when: When) {
    let cluster = CloudCluster::start().await;
    let (silent, new) = (unique("silent"), unique("new"));
    cluster.member(&silent, "10.1.0.1").await;
    cluster.cloud.add(Server::named(&new).private("10.1.0.2"));
    cluster.set_ready(&silent, "Unknown").await;
    let storm = phoenixnap(&cluster).faults().inject(when, fault);
    let central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    cluster.tainted(&new).await;
    let what = "it was refused four times";
    eventually(what, AT_LAST, async || storm.hits() >= 4).await;
    cluster.is_kept(&silent).await;
    cluster.is_uninitialized(&new).await;
    storm.lift();
    eventually("what is new is initialised", AT_LAST, async || {
        let node = cluster.node(&new).await?;
        provider_id(&node).map(ToOwned::to_owned)
    })
    .await;
    Gone::new().passes(&cluster, 1).await;
    cluster.is_kept(&silent).await;
    assert!(central.is_running());
    cluster.finish().await;
}

#[tokio::test]
async fn b1_a_token_endpoint_that_fails_ends_nothing() {
    let failing = Fault::status(StatusCode::SERVICE_UNAVAILABLE);
    started_while(failing, When::any(TOKEN_PATH)).await;
}

#[tokio::test]
async fn b1_a_token_endpoint_that_hangs_up_ends_nothing() {
    started_while(Fault::reset(), When::any(TOKEN_PATH)).await;
}

#[tokio::test]
async fn b1_a_token_endpoint_that_answers_with_a_page_ends_nothing() {
    started_while(Fault::html(StatusCode::OK), When::any(TOKEN_PATH)).await;
}

#[tokio::test]
async fn b1_an_api_that_hangs_up_ends_nothing() {
    started_while(Fault::reset(), When::everything().but(TOKEN_PATH)).await;
}

/// A Node says what its controller waits for.
#[tokio::test]
async fn a_node_that_waits_for_a_token_says_so() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    cluster.cloud.add(Server::named(&name).private("10.1.0.1"));
    cluster.cloud.revoke_token(true);
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    let note = eventually("an Event says so", MARKER_LIMIT * 2, async || {
        let events = cluster.events(&name, reasons::INITIALIZATION_REFUSED).await;
        events.into_iter().next().map(|event| event.note)
    })
    .await;
    assert!(note.contains("no token from"), "{note}");
    assert!(!note.contains(CLIENT_SECRET), "{note}");
    cluster.finish().await;
}
