//! Answers that prove nothing: no Node may be lost by them (LC-07, LC-18).

use std::time::Instant;

use http::StatusCode;
use mooring_cloud_sim::Fault;
use mooring_cloud_sim::cloud::Cloud;
use mooring_test_cluster::cluster::MARKER_LIMIT;
use mooring_test_cluster::objects::unique;
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::CLOUD;
use super::cluster::{CloudCluster, Gone};

const NO_GUARD: &str = "--max-node-deletions-percent=100";

/// The machine is gone from the listing, and what is asked for it alone is refused.
async fn a_refused_lookup_proves_nothing(status: StatusCode) {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let id = cluster.member(&name, "10.1.0.1").await;
    let _central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    let lookups = cluster.cloud.lookup();
    let refused = cluster
        .cloud
        .faults()
        .inject(lookups, Fault::status(status));
    cluster.cloud.remove(&id);
    cluster.set_ready(&name, "Unknown").await;
    let what = "it has asked twice";
    eventually(what, MARKER_LIMIT, async || refused.hits() >= 2).await;
    cluster.is_kept(&name).await;
    refused.lift();
    eventually("it is gone", MARKER_LIMIT, async || {
        cluster.node(&name).await.is_none()
    })
    .await;
    cluster.finish().await;
}

#[tokio::test]
async fn lc_07_a_lookup_that_is_unauthorised_proves_nothing() {
    a_refused_lookup_proves_nothing(StatusCode::UNAUTHORIZED).await;
}

#[tokio::test]
async fn lc_07_a_lookup_that_is_forbidden_proves_nothing() {
    // PhoenixNAP says so of every machine that is not there.
    if CLOUD != Cloud::Phoenixnap {
        a_refused_lookup_proves_nothing(StatusCode::FORBIDDEN).await;
    }
}

#[tokio::test]
async fn lc_07_a_lookup_that_fails_proves_nothing() {
    a_refused_lookup_proves_nothing(StatusCode::BAD_GATEWAY).await;
}

/// The token is revoked, for listings and all else. The suites of PhoenixNAP and Brightbox have what
/// follows there, where tokens are got anew.
#[tokio::test]
async fn lc_07_a_revoked_token_costs_no_node() {
    if matches!(CLOUD, Cloud::Phoenixnap | Cloud::Brightbox) {
        return;
    }
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let id = cluster.member(&name, "10.1.0.1").await;
    let _central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    cluster.cloud.revoke_token(true);
    cluster.cloud.remove(&id);
    cluster.set_ready(&name, "False").await;
    let start = Instant::now();
    cluster.listings_since(start, 2).await;
    let refused = cluster.cloud.listings().answered(StatusCode::UNAUTHORIZED);
    assert!(refused.len() >= 2, "{}", cluster.cloud.calls().summary());
    cluster.is_kept(&name).await;
    cluster.cloud.revoke_token(false);
    eventually("it is gone", MARKER_LIMIT, async || {
        cluster.node(&name).await.is_none()
    })
    .await;
    cluster.finish().await;
}

/// The machine is there when it is asked for.
#[tokio::test]
async fn lc_18_a_machine_that_only_the_listing_lacks_is_kept() {
    let cluster = CloudCluster::start().await;
    let (name, marker) = (unique("n"), Gone::new());
    cluster.member(&name, "10.1.0.1").await;
    let _central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    let lacking = name.clone();
    let without = Fault::rewritten(move |listing| {
        let rows = if listing.is_array() {
            &mut *listing
        } else {
            &mut listing["data"]
        };
        let rows = rows.as_array_mut().expect("a listing");
        let names = ["name", "label", "hostname"];
        rows.retain(|row| names.iter().all(|name| row[*name] != *lacking));
        if listing.is_object() {
            let left = listing["data"].as_array().map_or(0, Vec::len);
            listing["results"] = json!(left);
        }
    });
    cluster
        .cloud
        .faults()
        .inject(cluster.cloud.listing(), without);
    cluster.set_ready(&name, "Unknown").await;
    marker.passes(&cluster, 3).await;
    cluster.is_kept(&name).await;
    let asked = cluster.cloud.lookups().answered(StatusCode::OK);
    assert!(!asked.is_empty(), "{}", cluster.cloud.calls().summary());
    cluster.finish().await;
}
