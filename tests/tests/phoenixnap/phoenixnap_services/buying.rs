//! A block is bought, put on the network, and its address published.

use std::time::{Duration, Instant};

use http::StatusCode;
use mooring_common::names::reasons;
use mooring_tests::cloud_sim::Fault;
use mooring_tests::cloud_sim::phoenixnap::{Behaviour, Kind, Pace, Spelling};
use mooring_tests::wait::eventually;
use serde_json::json;

use crate::phoenixnap_services::stage::{
    SOON, Stage, address, assert_none, attachment, has_finalizer, lines, requested, tags,
};

#[tokio::test]
async fn lb_01_a_new_service_costs_the_writes_of_the_go_controller_and_gets_the_third_address() {
    let stage = Stage::enter().await;
    let _central = stage.central_with(stage.unshared()).await;
    let address = stage.provide("web").await;
    assert_eq!(address, "203.0.113.10");
    let service = stage.get("web").await;
    assert_eq!(requested(&service).as_deref(), Some("203.0.113.10"));
    assert!(has_finalizer(&service));

    let writes = stage.sim().writes();
    let attached = format!("POST {}/{}/ip-blocks", Kind::Network.path(), stage.network);
    let mut wanted = vec![format!("POST {}", Kind::Tag.path()); 5];
    wanted.extend([format!("POST {}", Kind::Block.path()), attached]);
    assert_eq!(lines(&writes), wanted);
    let bodies = writes.bodies();
    let bought = &bodies[5];
    assert_eq!(
        (&bought["location"], &bought["cidrBlockSize"]),
        (&json!("PHX"), &json!("/29"))
    );
    let block = stage.living_blocks().remove(0);
    let wanted = stage.tags_of("web");
    let wanted: std::collections::BTreeSet<_> = wanted
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(tags(&block), wanted);
    assert_eq!(
        stage.sim().purchases()[0].block["tags"],
        block["tags"],
        "from the first"
    );
    let reads = stage.sim().calls().filter(|call| !call.is_write());
    assert!(reads.len() <= 20, "{}", reads.summary());

    // The names are there: a further one costs two writes.
    let start = Instant::now();
    assert_eq!(stage.provide("db").await, "203.0.113.18");
    assert_eq!(stage.writes_since(start).len(), 2);
    stage.leave().await;
}

#[tokio::test]
async fn lb_02_a_block_that_is_there_and_on_no_network_is_used() {
    let stage = Stage::enter().await;
    let block = json!({ "cidr": "203.0.113.64/29", "tags": stage.tags_of("web") });
    let block = stage.sim().put(Kind::Block, block);
    let _central = stage.central_with(stage.unshared()).await;
    assert_eq!(stage.provide("web").await, "203.0.113.66");
    assert_none(&stage.purchases());
    assert_eq!(stage.sim().blocks_on(&stage.network), [block]);
    stage.leave().await;
}

#[tokio::test]
async fn lb_04_a_busy_network_is_asked_again_within_seconds_and_one_block_is_bought() {
    let stage = Stage::enter().await;
    let busy = Fault::status(StatusCode::CONFLICT);
    let busy = stage.sim().faults().inject(attachment().times(3), busy);
    let _central = stage.central_with(stage.unshared()).await;
    let start = Instant::now();
    stage.provide("web").await;
    let took = start.elapsed();
    assert_eq!(busy.hits(), 3);
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(stage.purchases().len(), 1);
    assert_eq!(stage.sim().purchases().len(), 1);
    stage.leave().await;
}

#[tokio::test]
async fn lb_05_both_spellings_of_what_a_block_is_on_are_understood() {
    for spelling in [Spelling::Words, Spelling::Constants] {
        let stage = Stage::enter().await;
        stage.sim().behave(Behaviour {
            resource_type: spelling,
            status: spelling,
            ..Behaviour::default()
        });
        let block = stage.block_of("old", "203.0.113.64/29");
        stage.left_by_go("old", "203.0.113.66").await;
        let _central = stage.central_with(stage.unshared()).await;
        stage.provide("new").await;
        assert_eq!(
            address(&stage.get("old").await).as_deref(),
            Some("203.0.113.66")
        );
        assert!(stage.sim().blocks_on(&stage.network).contains(&block));
        assert_eq!(stage.purchases().len(), 1, "for the new one");
        stage.delete("old").await;
        stage.gone("old").await;
        stage.released(&block).await;
        stage.leave().await;
    }
}

#[tokio::test]
async fn an_address_is_published_when_it_works_and_never_an_empty_entry() {
    let stage = Stage::enter().await;
    stage.sim().behave(Behaviour::paced(Pace::Held));
    let _central = stage.central_with(stage.unshared()).await;
    stage.create("web").await;
    let under_way = async |status: &str| {
        eventually(&format!("a block is {status}"), SOON, async || {
            let blocks = stage.sim().all(Kind::Block);
            blocks.iter().any(|block| block["status"] == status)
        })
        .await;
        // It is looked at once more, and still nothing is published.
        let start = Instant::now();
        stage.listings_or_looks_since(start).await;
        let service = stage.get("web").await;
        let status = serde_json::to_value(&service.status).unwrap();
        assert_eq!(status["loadBalancer"]["ingress"], json!(null));
    };
    under_way("creating").await;
    stage.sim().finish();
    under_way("assigning").await;
    stage.sim().finish();
    assert_eq!(stage.provided("web").await, "203.0.113.10");
    stage.leave().await;
}

impl Stage {
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
    let stage = Stage::enter().await;
    stage
        .sim()
        .adjust(|behaviour| behaviour.failing_assignments = 1);
    let _central = stage.central_with(stage.unshared()).await;
    stage.create("web").await;
    stage.told("web", reasons::IP_BLOCK_FAILED, "").await;
    assert_eq!(stage.provided("web").await, "203.0.113.10");
    assert_eq!(stage.purchases().len(), 1);
    stage.leave().await;
}

#[tokio::test]
async fn lb_18_for_the_eleventh_service_on_a_full_network_nothing_is_bought_and_that_is_told() {
    let stage = Stage::enter().await;
    for n in 0..10 {
        let cidr = format!("198.51.100.{}/29", n * 8);
        let block = json!({ "cidr": cidr, "assignedResourceId": stage.network });
        stage.sim().put(Kind::Block, block);
    }
    let _central = stage.central_with(stage.unshared()).await;
    stage.create("web").await;
    let told = stage
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, "10 IP blocks")
        .await;
    assert!(told.note.contains(&stage.network), "{told:?}");
    assert_none(&stage.purchases());
    assert_none(&stage.sim().writes());
    stage.leave().await;
}

#[tokio::test]
async fn the_spending_guard_bites_and_says_so() {
    let stage = Stage::enter().await;
    let flags = stage.unshared().with("--max-ip-blocks=1");
    let _central = stage.central_with(flags).await;
    stage.provide("one").await;
    stage.create("two").await;
    stage
        .told(
            "two",
            reasons::SYNC_LOAD_BALANCER_FAILED,
            "--max-ip-blocks=1",
        )
        .await;
    assert_eq!(stage.purchases().len(), 1);
    let block = stage.living_block();
    stage.delete("one").await;
    stage.gone("one").await;
    stage.released(&block).await;
    stage
        .provided_within("two", crate::phoenixnap_services::stage::AFTER_RETRIES)
        .await;
    stage.leave().await;
}
