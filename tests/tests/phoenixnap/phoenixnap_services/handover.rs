//! From the Go controller to Mooring: nothing is written to the cloud but what is to be mended.

use std::time::Instant;

use mooring_common::names::finalizers;
use mooring_tests::cloud_sim::phoenixnap::{Behaviour, Kind, Spelling};
use mooring_tests::wait::eventually;
use serde_json::json;

use crate::phoenixnap_services::stage::{
    AFTER_RETRIES, SOON, Stage, address, assert_none, lines, requested,
};

/// Five Services with a block each, as the Go controller leaves them.
async fn seed(stage: &Stage) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for n in 0..5 {
        let (name, address) = (format!("web-{n}"), format!("203.0.113.{}", 66 + n * 8));
        let block = stage.block_of(&name, &format!("203.0.113.{}/29", 64 + n * 8));
        stage.left_by_go(&name, &address).await;
        all.push((name, address, block));
    }
    all
}

/// In both layouts: what is there is kept, whoever has made it.
#[tokio::test]
async fn what_the_go_controller_has_left_in_order_is_not_written_on() {
    for (sharing, spelling) in [(true, Spelling::Words), (false, Spelling::Constants)] {
        let stage = Stage::enter().await;
        stage.sim().behave(Behaviour {
            resource_type: spelling,
            ..Behaviour::default()
        });
        let all = seed(&stage).await;
        let before = stage.sim().all(Kind::Block);
        let flags = stage.flags().with(format!("--ip-block-sharing={sharing}"));
        let start = Instant::now();
        let _central = stage.central_with(flags).await;
        // Each has had its turn when our record is on it.
        for (name, address_before, _) in &all {
            eventually(&format!("{name} is taken over"), SOON, async || {
                let service = stage.get(name).await;
                let annotations = service.metadata.annotations.clone().unwrap_or_default();
                annotations.values().any(|value| value == address_before)
            })
            .await;
        }
        stage.listings_since(start, 1).await;
        for (name, address_before, _) in &all {
            let service = stage.get(name).await;
            assert_eq!(address(&service).as_ref(), Some(address_before));
            assert_eq!(requested(&service).as_ref(), Some(address_before));
        }
        assert_none(&stage.sim().writes());
        assert_eq!(stage.sim().all(Kind::Block), before);
        // And they go like any other.
        stage.delete("web-0").await;
        stage.gone("web-0").await;
        stage.released(&all[0].2).await;
        assert_eq!(stage.sim().releases().len(), 1);
        stage.leave().await;
    }
}

#[tokio::test]
async fn an_empty_entry_that_the_go_controller_has_published_is_mended() {
    let stage = Stage::enter().await;
    let block = stage.block_of("web", "203.0.113.64/29");
    stage.left_by_go("web", "203.0.113.66").await;
    stage
        .patch_status("web", &json!({ "loadBalancer": { "ingress": [{}] } }))
        .await;
    let _central = stage.central_with(stage.unshared()).await;
    assert_eq!(stage.provided("web").await, "203.0.113.66");
    assert_none(&stage.sim().writes());
    assert_eq!(stage.sim().blocks_on(&stage.network), [block]);
    stage.leave().await;
}

/// The Go controller was stopped between the purchase and the assignment.
#[tokio::test]
async fn a_block_that_was_bought_and_not_assigned_is_assigned() {
    let stage = Stage::enter().await;
    let block = json!({ "cidr": "203.0.113.64/29", "tags": stage.tags_of("web") });
    let block = stage.sim().put(Kind::Block, block);
    stage.create("web").await;
    let finalizer = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    stage.patch("web", &finalizer).await;
    let _central = stage.central_with(stage.unshared()).await;
    assert_eq!(stage.provided("web").await, "203.0.113.66");
    let attached = format!("POST {}/{}/ip-blocks", Kind::Network.path(), stage.network);
    assert_eq!(lines(&stage.sim().writes()), [attached]);
    assert_eq!(stage.sim().blocks_on(&stage.network), [block]);
    stage.leave().await;
}

#[tokio::test]
async fn blocks_that_the_go_controller_has_marked_are_given_back() {
    let stage = Stage::enter().await;
    let all = seed(&stage).await;
    let marked = |cidr: &str, network: Option<&String>| {
        let block = json!({
            "cidr": cidr, "tags": stage.dying_tags(), "assignedResourceId": network,
        });
        stage.sim().put(Kind::Block, block)
    };
    let elsewhere = stage.sim().add_network("before", "PHX");
    let dying = [
        marked("203.0.113.128/29", Some(&stage.network)),
        marked("203.0.113.136/29", None),
        // Upstream can never take this one off, since it looks for it on the network that is named.
        marked("203.0.113.144/29", Some(&elsewhere)),
    ];
    let _central = stage.central().await;
    for block in &dying {
        stage.released_within(block, AFTER_RETRIES).await;
    }
    assert_eq!(stage.sim().blocks_on(&stage.network).len(), all.len());
    assert_eq!(
        stage.sim().writes().len(),
        5,
        "{}",
        stage.sim().writes().summary()
    );
    stage.leave().await;
}
