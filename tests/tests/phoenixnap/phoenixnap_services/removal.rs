//! Services go, and their blocks with them.

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use mooring_cloud_sim::phoenixnap::{Behaviour, Kind, Pace};
use mooring_common::names::reasons;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::phoenixnap_services::blocks::{AFTER_A_WHILE, address};
use crate::phoenixnap_services::cluster::{
    AFTER_RETRIES, CloudCluster, SOON, assert_none, has_finalizer,
};

#[tokio::test]
async fn lb_10_a_block_in_error_or_elsewhere_keeps_no_service_from_going() {
    let cluster = CloudCluster::start().await;
    let elsewhere = cluster.sim().add_network("elsewhere", "PHX");
    let failed = cluster.block_of("failed", "203.0.113.64/29");
    cluster.left_by_go("failed", "203.0.113.66").await;
    cluster
        .sim()
        .set_in(Kind::Block, &failed, "status", "error unassigning");
    let moved = cluster.sim().put(
        Kind::Block,
        json!({
            "cidr": "203.0.113.72/29", "tags": cluster.tags_of("moved"),
            "assignedResourceId": elsewhere,
        }),
    );
    cluster.left_by_go("moved", "203.0.113.74").await;
    for name in ["failed", "moved"] {
        cluster.delete(name).await;
    }
    let _central = cluster.central().await;
    for name in ["failed", "moved"] {
        cluster.gone(name).await;
    }
    for block in [failed, moved] {
        cluster.released(&block).await;
    }
    assert_none(&cluster.purchases());
    cluster.finish().await;
}

/// A block whose assignment has failed is on the network's list, and on nothing by its own word.
#[tokio::test]
async fn a_block_whose_assignment_has_failed_is_given_back_too() {
    let cluster = CloudCluster::start().await;
    cluster
        .sim()
        .adjust(|behaviour| behaviour.failing_assignments = u32::MAX);
    let _central = cluster.central().await;
    cluster.create("web").await;
    cluster.told("web", reasons::IP_BLOCK_FAILED, "").await;
    let block = cluster.living_block();
    cluster.delete("web").await;
    cluster.gone_within("web", AFTER_RETRIES).await;
    cluster.released_within(&block, AFTER_RETRIES).await;
    cluster.finish().await;
}

#[tokio::test]
async fn lb_11_all_marked_blocks_are_taken_off_and_given_back_in_one_pass() {
    let cluster = CloudCluster::start().await;
    let blocks: Vec<String> = (0..3)
        .map(|n| {
            let block = json!({
                "cidr": format!("203.0.113.{}/29", 64 + n * 8), "tags": cluster.dying_tags(),
                "assignedResourceId": cluster.cloud.network,
            });
            cluster.sim().put(Kind::Block, block)
        })
        .collect();
    let begin = Instant::now();
    let _central = cluster.central().await;
    for block in &blocks {
        cluster.released(block).await;
    }
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    let detached = cluster.sim().calls().method(&Method::DELETE);
    for block in &blocks {
        let path = format!(
            "{}/{}/ip-blocks/{block}",
            Kind::Network.path(),
            cluster.cloud.network
        );
        assert_eq!(detached.to(&path).len(), 1, "{}", detached.summary());
    }
    assert_none(&cluster.purchases());
    cluster.finish().await;
}

/// Somebody has given a server an address of it, and the cloud refuses to take it off the network.
#[tokio::test]
async fn a_block_with_an_address_of_a_server_holds_up_no_other() {
    let cluster = CloudCluster::start().await;
    let marked = |cidr: &str| {
        let block = json!({
            "cidr": cidr, "tags": cluster.dying_tags(), "assignedResourceId": cluster.cloud.network,
        });
        cluster.sim().put(Kind::Block, block)
    };
    let (used, free) = (marked("203.0.113.64/29"), marked("203.0.113.72/29"));
    let joins = |members: Value| {
        let network = &cluster.cloud.network;
        cluster
            .sim()
            .set_in(Kind::Network, network, "memberships", members);
    };
    joins(json!([{ "resourceId": "s", "resourceType": "server", "ips": ["203.0.113.66"] }]));
    let _central = cluster.central().await;
    cluster.released(&free).await;
    cluster
        .told_of_the_cluster(reasons::IP_BLOCK_STUCK, "in use by a member")
        .await;
    cluster.provide("web").await;
    assert!(cluster.sim().get(Kind::Block, &used).is_some());
    joins(json!([]));
    cluster.released_within(&used, AFTER_A_WHILE).await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_service_that_stays_and_wants_no_address_any_more_loses_its_fields_last() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    let block = cluster.living_block();
    let patch = json!({ "spec": { "type": "ClusterIP", "loadBalancerIP": null } });
    cluster.patch("web", &patch).await;
    eventually("nothing of it is left", SOON, async || {
        let service = cluster.get("web").await;
        let annotations = service.metadata.annotations.clone().unwrap_or_default();
        let ours = annotations
            .keys()
            .any(|key| key.starts_with("mooring.dev/"));
        !has_finalizer(&service) && address(&service).is_none() && !ours
    })
    .await;
    cluster.released(&block).await;
    cluster.finish().await;
}

/// Upstream: three writes too, and 56 s.
#[tokio::test]
async fn a_deletion_costs_three_writes_and_a_few_seconds() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    let block = cluster.living_block();
    let start = Instant::now();
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.released(&block).await;
    let took = start.elapsed();
    let writes = cluster.writes_since(start);
    assert_eq!(writes.len(), 3, "{}", writes.summary());
    assert!(took < Duration::from_secs(10), "{took:?}");
    cluster.finish().await;
}

/// Upstream manages about one block a minute.
#[tokio::test]
async fn ten_services_that_go_at_once_give_their_blocks_back_within_a_minute() {
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour {
        unassigning: Pace::Looks(1),
        ..Behaviour::default()
    });
    let blocks: Vec<String> = (0..10)
        .map(|n| cluster.block_of(&format!("web-{n}"), &format!("203.0.113.{}/29", 64 + n * 8)))
        .collect();
    for n in 0..10 {
        let address = format!("203.0.113.{}", 66 + n * 8);
        cluster.left_by_go(&format!("web-{n}"), &address).await;
    }
    let _central = cluster.central().await;
    cluster.told_when_settled().await;
    for n in 0..10 {
        cluster.delete(&format!("web-{n}")).await;
    }
    for n in 0..10 {
        cluster
            .gone_within(&format!("web-{n}"), AFTER_RETRIES)
            .await;
    }
    for block in blocks {
        cluster.released_within(&block, AFTER_RETRIES).await;
    }
    assert_none(&cluster.purchases());
    cluster.finish().await;
}

impl CloudCluster {
    /// Waits until central has looked at the blocks for the first time.
    async fn told_when_settled(&self) {
        eventually("central has begun", SOON, async || {
            let listings = self.sim().calls().to(Kind::Block.path());
            !listings.answered(StatusCode::OK).is_empty()
        })
        .await;
    }
}
