//! A block is bought, put on the network, and its address published.

use std::time::{Duration, Instant};

use http::StatusCode;
use mooring_cloud_sim::Fault;
use mooring_cloud_sim::phoenixnap::{Behaviour, Kind, Pace, Spelling};
use mooring_common::names::reasons;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::phoenixnap_services::blocks::{address, attachment, lines, requested, tags};
use crate::phoenixnap_services::cluster::{CloudCluster, SOON, assert_none, has_finalizer};

#[tokio::test]
async fn lb_01_a_new_service_costs_the_writes_of_the_go_controller_and_gets_the_third_address() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let address = cluster.provide_address("web").await;
    assert_eq!(address, "203.0.113.10");
    let service = cluster.get("web").await;
    assert_eq!(requested(&service).as_deref(), Some("203.0.113.10"));
    assert!(has_finalizer(&service));

    let writes = cluster.sim().writes();
    let attached = format!(
        "POST {}/{}/ip-blocks",
        Kind::Network.path(),
        cluster.cloud.network
    );
    let mut wanted = vec![format!("POST {}", Kind::Tag.path()); 5];
    wanted.extend([format!("POST {}", Kind::Block.path()), attached]);
    assert_eq!(lines(&writes), wanted);
    let bodies = writes.bodies();
    let bought = &bodies[5];
    assert_eq!(
        (&bought["location"], &bought["cidrBlockSize"]),
        (&json!("PHX"), &json!("/29"))
    );
    let block = cluster.living_blocks().remove(0);
    let wanted = cluster.tags_of("web");
    let wanted: std::collections::BTreeSet<_> = wanted
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(tags(&block), wanted);
    assert_eq!(
        cluster.sim().purchases()[0].block["tags"],
        block["tags"],
        "from the first"
    );
    let reads = cluster.sim().calls().filter(|call| !call.is_write());
    assert!(reads.len() <= 20, "{}", reads.summary());

    // The names are there: a further one costs two writes.
    let start = Instant::now();
    assert_eq!(cluster.provide_address("db").await, "203.0.113.18");
    assert_eq!(cluster.writes_since(start).len(), 2);
    cluster.finish().await;
}

#[tokio::test]
async fn lb_02_a_block_that_is_there_and_on_no_network_is_used() {
    let cluster = CloudCluster::start().await;
    let block = json!({ "cidr": "203.0.113.64/29", "tags": cluster.tags_of("web") });
    let block = cluster.sim().put(Kind::Block, block);
    let _central = cluster.central().await;
    assert_eq!(cluster.provide_address("web").await, "203.0.113.66");
    assert_none(&cluster.purchases());
    assert_eq!(cluster.sim().blocks_on(&cluster.cloud.network), [block]);
    cluster.finish().await;
}

#[tokio::test]
async fn lb_04_a_busy_network_is_asked_again_within_seconds_and_one_block_is_bought() {
    let cluster = CloudCluster::start().await;
    let busy = Fault::status(StatusCode::CONFLICT);
    let busy = cluster.sim().faults().inject(attachment().times(3), busy);
    let _central = cluster.central().await;
    let start = Instant::now();
    cluster.provide("web").await;
    let took = start.elapsed();
    assert_eq!(busy.hits(), 3);
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(cluster.purchases().len(), 1);
    assert_eq!(cluster.sim().purchases().len(), 1);
    cluster.finish().await;
}

#[tokio::test]
async fn lb_05_both_spellings_of_what_a_block_is_on_are_understood() {
    for spelling in [Spelling::Words, Spelling::Constants] {
        let cluster = CloudCluster::start().await;
        cluster.sim().behave(Behaviour {
            resource_type: spelling,
            status: spelling,
            ..Behaviour::default()
        });
        let block = cluster.block_of("old", "203.0.113.64/29");
        cluster.left_by_go("old", "203.0.113.66").await;
        let _central = cluster.central().await;
        cluster.provide("new").await;
        assert_eq!(
            address(&cluster.get("old").await).as_deref(),
            Some("203.0.113.66")
        );
        assert!(
            cluster
                .sim()
                .blocks_on(&cluster.cloud.network)
                .contains(&block)
        );
        assert_eq!(cluster.purchases().len(), 1, "for the new one");
        cluster.delete("old").await;
        cluster.gone("old").await;
        cluster.released(&block).await;
        cluster.finish().await;
    }
}

#[tokio::test]
async fn an_address_is_published_when_it_works_and_never_an_empty_entry() {
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour::paced(Pace::Held));
    let _central = cluster.central().await;
    cluster.create("web").await;
    let under_way = async |status: &str| {
        eventually(&format!("a block is {status}"), SOON, async || {
            let blocks = cluster.sim().all(Kind::Block);
            blocks.iter().any(|block| block["status"] == status)
        })
        .await;
        // It is looked at once more, and still nothing is published.
        let start = Instant::now();
        cluster.listings_or_looks_since(start).await;
        let service = cluster.get("web").await;
        let status = serde_json::to_value(&service.status).unwrap();
        assert_eq!(status["loadBalancer"]["ingress"], json!(null));
    };
    under_way("creating").await;
    cluster.sim().finish();
    under_way("assigning").await;
    cluster.sim().finish();
    assert_eq!(cluster.provided_address("web").await, "203.0.113.10");
    cluster.finish().await;
}

impl CloudCluster {
    /// Waits until the cloud has shown a block or the network since then.
    async fn listings_or_looks_since(&self, start: Instant) {
        eventually("the cloud is looked at", SOON, async || {
            let calls = self.sim().calls().since(start);
            let looks = calls.filter(|call| {
                !call.is_write()
                    && call.took.is_some()
                    && call.path.starts_with("/ips/v1/ip-blocks")
            });
            looks.len() >= 2
        })
        .await;
    }
}

#[tokio::test]
async fn an_assignment_that_fails_is_told_and_repeated() {
    let cluster = CloudCluster::start().await;
    cluster
        .sim()
        .adjust(|behaviour| behaviour.failing_assignments = 1);
    let _central = cluster.central().await;
    cluster.create("web").await;
    cluster.told("web", reasons::IP_BLOCK_FAILED, "").await;
    assert_eq!(cluster.provided_address("web").await, "203.0.113.10");
    assert_eq!(cluster.purchases().len(), 1);
    cluster.finish().await;
}

#[tokio::test]
async fn lb_18_for_the_eleventh_service_on_a_full_network_nothing_is_bought_and_that_is_told() {
    let cluster = CloudCluster::start().await;
    for n in 0..10 {
        let cidr = format!("198.51.100.{}/29", n * 8);
        let block = json!({ "cidr": cidr, "assignedResourceId": cluster.cloud.network });
        cluster.sim().put(Kind::Block, block);
    }
    let _central = cluster.central().await;
    cluster.create("web").await;
    let told = cluster
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, "10 IP blocks")
        .await;
    assert!(told.note.contains(&cluster.cloud.network), "{told:?}");
    assert_none(&cluster.purchases());
    assert_none(&cluster.sim().writes());
    cluster.finish().await;
}

#[tokio::test]
async fn the_spending_guard_bites_and_says_so() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--max-ip-blocks=1");
    let _central = cluster.central_with(flags).await;
    cluster.provide("one").await;
    cluster.create("two").await;
    cluster
        .told(
            "two",
            reasons::SYNC_LOAD_BALANCER_FAILED,
            "--max-ip-blocks=1",
        )
        .await;
    assert_eq!(cluster.purchases().len(), 1);
    let block = cluster.living_block();
    cluster.delete("one").await;
    cluster.gone("one").await;
    cluster.released(&block).await;
    cluster
        .provided_within("two", crate::phoenixnap_services::cluster::AFTER_RETRIES)
        .await;
    cluster.finish().await;
}
