//! Services go, and their blocks with them.

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use mooring_common::names::reasons;
use mooring_tests::cloud_sim::Fault;
use mooring_tests::cloud_sim::phoenixnap::{Behaviour, Kind, Pace};
use mooring_tests::wait::eventually;
use serde_json::json;

use crate::phoenixnap_services::stage::{
    AFTER_RETRIES, SOON, Stage, address, assert_none, attachment, has_finalizer, id, tagging,
};

#[tokio::test]
async fn lb_08_a_failure_while_a_block_is_marked_strands_nothing() {
    let stage = Stage::enter().await;
    let _central = stage.central_with(stage.unshared()).await;
    stage.provide("web").await;
    let block = stage.living_block();
    let failure = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let failing = stage.sim().faults().inject(tagging().times(2), failure);
    stage.delete("web").await;
    failing.struck(1).await;
    assert!(
        has_finalizer(&stage.get("web").await),
        "it stays until its block is marked"
    );
    stage.gone_within("web", AFTER_RETRIES).await;
    stage.released(&block).await;
    stage.nothing_is_left().await;
    stage.leave().await;
}

#[tokio::test]
async fn lb_09_a_service_that_goes_before_it_has_an_address_strands_nothing() {
    let stage = Stage::enter().await;
    let failure = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let failing = stage.sim().faults().inject(attachment(), failure);
    let _central = stage.central_with(stage.unshared()).await;
    stage.create("web").await;
    failing.struck(1).await;
    let block = stage.living_block();
    assert_eq!(address(&stage.get("web").await), None);
    stage.delete("web").await;
    stage.gone_within("web", AFTER_RETRIES).await;
    stage.released(&block).await;
    stage.leave().await;
}

#[tokio::test]
async fn lb_10_a_block_in_error_or_elsewhere_keeps_no_service_from_going() {
    let stage = Stage::enter().await;
    let elsewhere = stage.sim().add_network("elsewhere", "PHX");
    let failed = stage.block_of("failed", "203.0.113.64/29");
    stage.left_by_go("failed", "203.0.113.66").await;
    stage
        .sim()
        .set_in(Kind::Block, &failed, "status", "error unassigning");
    let moved = stage.sim().put(
        Kind::Block,
        json!({
            "cidr": "203.0.113.72/29", "tags": stage.tags_of("moved"),
            "assignedResourceId": elsewhere,
        }),
    );
    stage.left_by_go("moved", "203.0.113.74").await;
    for name in ["failed", "moved"] {
        stage.delete(name).await;
    }
    let _central = stage.central_with(stage.unshared()).await;
    for name in ["failed", "moved"] {
        stage.gone(name).await;
    }
    for block in [failed, moved] {
        stage.released(&block).await;
    }
    assert_none(&stage.purchases());
    stage.leave().await;
}

/// A block whose assignment has failed is on the network's list, and on nothing by its own word.
#[tokio::test]
async fn a_block_whose_assignment_has_failed_is_given_back_too() {
    let stage = Stage::enter().await;
    stage
        .sim()
        .adjust(|behaviour| behaviour.failing_assignments = u32::MAX);
    let _central = stage.central_with(stage.unshared()).await;
    stage.create("web").await;
    stage.told("web", reasons::IP_BLOCK_FAILED, "").await;
    let block = stage.living_block();
    stage.delete("web").await;
    stage.gone_within("web", AFTER_RETRIES).await;
    stage.released_within(&block, AFTER_RETRIES).await;
    stage.leave().await;
}

#[tokio::test]
async fn lb_11_all_marked_blocks_are_taken_off_and_given_back_in_one_pass() {
    let stage = Stage::enter().await;
    let blocks: Vec<String> = (0..3)
        .map(|n| {
            let block = json!({
                "cidr": format!("203.0.113.{}/29", 64 + n * 8), "tags": stage.dying_tags(),
                "assignedResourceId": stage.network,
            });
            stage.sim().put(Kind::Block, block)
        })
        .collect();
    let begin = Instant::now();
    let _central = stage.central_with(stage.unshared()).await;
    for block in &blocks {
        stage.released(block).await;
    }
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    let detached = stage.sim().calls().method(&Method::DELETE);
    for block in &blocks {
        let path = format!(
            "{}/{}/ip-blocks/{block}",
            Kind::Network.path(),
            stage.network
        );
        assert_eq!(detached.to(&path).len(), 1, "{}", detached.summary());
    }
    assert_none(&stage.purchases());
    stage.leave().await;
}

#[tokio::test]
async fn lb_12_what_is_deleted_while_nobody_looks_is_given_back_later() {
    let stage = Stage::enter().await;
    let central = stage.central_with(stage.unshared()).await;
    stage.provide("web").await;
    let block = stage.living_block();
    drop(central);
    stage.delete("web").await;
    assert!(has_finalizer(&stage.get("web").await));
    let _central = stage.central_with(stage.unshared()).await;
    stage.gone("web").await;
    stage.released(&block).await;
    stage.leave().await;
}

#[tokio::test]
async fn lb_13_a_block_whose_service_was_forced_away_is_found_and_given_back() {
    let stage = Stage::enter().await;
    let central = stage.central_with(stage.unshared()).await;
    stage.provide("web").await;
    stage.provide("stays").await;
    let blocks = stage.living_blocks();
    let of = |cidr: &str| id(blocks.iter().find(|block| block["cidr"] == cidr).unwrap());
    let (block, stays) = (of("203.0.113.8/29"), of("203.0.113.16/29"));
    drop(central);
    stage.delete("web").await;
    let stripped = json!({ "metadata": { "finalizers": null } });
    stage.patch("web", &stripped).await;
    stage.gone("web").await;
    // Unless it is asked for, it is only told of.
    let central = stage.central_with(stage.unshared()).await;
    stage
        .told_of_the_cluster(reasons::ORPHANED_LOAD_BALANCER, &block)
        .await;
    assert!(stage.sim().releases().is_empty());
    drop(central);
    let flags = stage.unshared().with("--delete-orphans");
    let _central = stage.central_with(flags).await;
    stage.released_within(&block, AFTER_RETRIES).await;
    assert_eq!(stage.sim().blocks_on(&stage.network), [stays]);
    stage.leave().await;
}

#[tokio::test]
async fn a_service_that_stays_and_wants_no_address_any_more_loses_its_fields_last() {
    let stage = Stage::enter().await;
    let _central = stage.central_with(stage.unshared()).await;
    stage.provide("web").await;
    let block = stage.living_block();
    let patch = json!({ "spec": { "type": "ClusterIP", "loadBalancerIP": null } });
    stage.patch("web", &patch).await;
    eventually("nothing of it is left", SOON, async || {
        let service = stage.get("web").await;
        let annotations = service.metadata.annotations.clone().unwrap_or_default();
        let ours = annotations
            .keys()
            .any(|key| key.starts_with("mooring.dev/"));
        !has_finalizer(&service) && address(&service).is_none() && !ours
    })
    .await;
    stage.released(&block).await;
    stage.leave().await;
}

/// Upstream: three writes too, and 56 s.
#[tokio::test]
async fn a_deletion_costs_three_writes_and_a_few_seconds() {
    let stage = Stage::enter().await;
    let _central = stage.central_with(stage.unshared()).await;
    stage.provide("web").await;
    let block = stage.living_block();
    let start = Instant::now();
    stage.delete("web").await;
    stage.gone("web").await;
    stage.released(&block).await;
    let took = start.elapsed();
    let writes = stage.writes_since(start);
    assert_eq!(writes.len(), 3, "{}", writes.summary());
    assert!(took < Duration::from_secs(10), "{took:?}");
    stage.leave().await;
}

/// Upstream manages about one block a minute.
#[tokio::test]
async fn ten_services_that_go_at_once_give_their_blocks_back_within_a_minute() {
    let stage = Stage::enter().await;
    stage.sim().behave(Behaviour {
        unassigning: Pace::Looks(1),
        ..Behaviour::default()
    });
    let blocks: Vec<String> = (0..10)
        .map(|n| stage.block_of(&format!("web-{n}"), &format!("203.0.113.{}/29", 64 + n * 8)))
        .collect();
    for n in 0..10 {
        let address = format!("203.0.113.{}", 66 + n * 8);
        stage.left_by_go(&format!("web-{n}"), &address).await;
    }
    let _central = stage.central_with(stage.unshared()).await;
    stage.told_when_settled().await;
    for n in 0..10 {
        stage.delete(&format!("web-{n}")).await;
    }
    for n in 0..10 {
        stage.gone_within(&format!("web-{n}"), AFTER_RETRIES).await;
    }
    for block in blocks {
        stage.released_within(&block, AFTER_RETRIES).await;
    }
    assert_none(&stage.purchases());
    stage.leave().await;
}

impl Stage {
    /// Waits until central has looked at the blocks for the first time.
    async fn told_when_settled(&self) {
        eventually("central has begun", SOON, async || {
            let listings = self.sim().calls().to(Kind::Block.path());
            !listings.answered(StatusCode::OK).is_empty()
        })
        .await;
    }
}
