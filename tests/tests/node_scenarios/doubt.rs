//! Answers that prove nothing: no Node may be lost by them (LC-07, LC-18).

use std::time::Instant;

use http::StatusCode;
use mooring_tests::arena::MARKER_LIMIT;
use mooring_tests::cloud_sim::Fault;
use mooring_tests::cloud_sim::world::Cloud;
use mooring_tests::objects::unique;
use mooring_tests::wait::eventually;
use serde_json::json;

use super::CLOUD;
use super::stage::{Gone, Stage};

const NO_GUARD: &str = "--max-node-deletions-percent=100";

/// The machine is gone from the listing, and what is asked for it alone is refused.
async fn a_refused_lookup_proves_nothing(status: StatusCode) {
    let stage = Stage::enter().await;
    let name = unique("n");
    let id = stage.member(&name, "10.1.0.1").await;
    let _central = stage.for_cloud().flag(NO_GUARD).try_start().await;
    stage.listings_since(Instant::now(), 1).await;
    let lookups = stage.world.lookup();
    let refused = stage.world.faults().inject(lookups, Fault::status(status));
    stage.world.remove(&id);
    stage.set_ready(&name, "Unknown").await;
    let what = "it has asked twice";
    eventually(what, MARKER_LIMIT, async || refused.hits() >= 2).await;
    stage.is_kept(&name).await;
    refused.lift();
    eventually("it is gone", MARKER_LIMIT, async || {
        stage.node(&name).await.is_none()
    })
    .await;
    stage.leave().await;
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

/// The token is revoked, for listings and all else. PhoenixNAP's own suite has what follows there,
/// where tokens are got anew.
#[tokio::test]
async fn lc_07_a_revoked_token_costs_no_node() {
    if CLOUD == Cloud::Phoenixnap {
        return;
    }
    let stage = Stage::enter().await;
    let name = unique("n");
    let id = stage.member(&name, "10.1.0.1").await;
    let _central = stage.for_cloud().flag(NO_GUARD).try_start().await;
    stage.listings_since(Instant::now(), 1).await;
    stage.world.revoke_token(true);
    stage.world.remove(&id);
    stage.set_ready(&name, "False").await;
    let start = Instant::now();
    stage.listings_since(start, 2).await;
    let refused = stage.world.listings().answered(StatusCode::UNAUTHORIZED);
    assert!(refused.len() >= 2, "{}", stage.world.calls().summary());
    stage.is_kept(&name).await;
    stage.world.revoke_token(false);
    eventually("it is gone", MARKER_LIMIT, async || {
        stage.node(&name).await.is_none()
    })
    .await;
    stage.leave().await;
}

/// The machine is there when it is asked for.
#[tokio::test]
async fn lc_18_a_machine_that_only_the_listing_lacks_is_kept() {
    let stage = Stage::enter().await;
    let (name, marker) = (unique("n"), Gone::new());
    stage.member(&name, "10.1.0.1").await;
    let _central = stage.for_cloud().flag(NO_GUARD).try_start().await;
    stage.listings_since(Instant::now(), 1).await;
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
    stage.world.faults().inject(stage.world.listing(), without);
    stage.set_ready(&name, "Unknown").await;
    marker.passes(&stage, 3).await;
    stage.is_kept(&name).await;
    let asked = stage.world.lookups().answered(StatusCode::OK);
    assert!(!asked.is_empty(), "{}", stage.world.calls().summary());
    stage.leave().await;
}
