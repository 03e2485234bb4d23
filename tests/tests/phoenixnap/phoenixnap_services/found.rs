//! Blocks that are there already, and where they are.

use std::time::Instant;

use http::Method;
use mooring_common::names::reasons;
use mooring_tests::cloud_sim::phoenixnap::Kind;
use mooring_tests::wait::eventually;
use serde_json::{Value, json};

use crate::phoenixnap_services::stage::{
    AFTER_A_WHILE, AFTER_RETRIES, Stage, address, assert_none, has_finalizer, has_tag, requested,
};

/// A block of a Service that is on something else.
fn elsewhere(stage: &Stage, kind: &str, holder: &str) -> String {
    let block = json!({
        "cidr": "203.0.113.64/29", "tags": stage.tags_of("web"), "assignedResourceType": kind,
        "assignedResourceId": holder,
    });
    stage.sim().put(Kind::Block, block)
}

#[tokio::test]
async fn lb_03_a_block_that_is_on_a_server_or_another_network_is_left_there_and_none_is_bought() {
    for kind in ["server", "public network"] {
        let stage = Stage::enter().await;
        let holder = match kind {
            "server" => "60473c2500000000000000aa".to_owned(),
            _ => stage.sim().add_network("somebody-elses", "PHX"),
        };
        let block = elsewhere(&stage, kind, &holder);
        let before = stage.sim().get(Kind::Block, &block);
        let _central = stage.central_with(stage.unshared()).await;
        stage.create("web").await;
        stage
            .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, &holder)
            .await;
        assert_none(&stage.sim().writes());
        assert_eq!(stage.sim().get(Kind::Block, &block), before);
        stage.leave().await;
    }
}

/// The one that is on our network and has the Service's address stays, whatever its age and id.
#[tokio::test]
async fn lb_07_of_two_blocks_the_one_in_use_survives_and_the_other_is_given_back() {
    let stage = Stage::enter().await;
    let older = json!({
        "cidr": "203.0.113.64/29", "tags": stage.tags_of("web"), "createdOn": "2020-01-01T00:00:00Z",
    });
    let older = stage.sim().put(Kind::Block, older);
    let used = stage.block_of("web", "203.0.113.72/29");
    stage.left_by_go("web", "203.0.113.74").await;
    let _central = stage.central_with(stage.unshared()).await;
    stage.released_within(&older, AFTER_A_WHILE).await;
    assert_eq!(stage.sim().blocks_on(&stage.network), [used]);
    assert_eq!(
        address(&stage.get("web").await).as_deref(),
        Some("203.0.113.74")
    );
    assert_none(&stage.purchases());
    stage.leave().await;
}

#[tokio::test]
async fn lb_14_where_tags_widen_a_listing_foreign_blocks_are_untouched() {
    let stage = Stage::enter().await;
    stage.sim().adjust(|behaviour| behaviour.tags_widen = true);
    let put = |cidr: &str, tags: Value, network: &Value| {
        let block = json!({ "cidr": cidr, "tags": tags, "assignedResourceId": network });
        stage.sim().put(Kind::Block, block)
    };
    let mut other_cluster = stage.tags_of("web");
    other_cluster["cluster"] = json!("11111111-2222-4333-8444-555555555555");
    let mut other_usage = stage.tags_of("web");
    other_usage["usage"] = json!("somebody-elses");
    let mut dying = stage.dying_tags();
    dying["cluster"] = json!("11111111-2222-4333-8444-555555555555");
    let network = stage.sim().add_network("theirs", "PHX");
    let foreign = [
        put("198.51.100.0/29", other_cluster, &json!(network)),
        put("198.51.100.8/29", other_usage, &Value::Null),
        put("198.51.100.16/29", dying, &json!(network)),
        put(
            "198.51.100.24/29",
            json!({ "delete": "true" }),
            &Value::Null,
        ),
    ];
    let show = || foreign.clone().map(|id| stage.sim().get(Kind::Block, &id));
    let before = show();
    let _central = stage.central_with(stage.unshared()).await;
    assert_eq!(stage.provide("web").await, "203.0.113.10");
    let block = stage.living_blocks();
    let block = block
        .iter()
        .find(|block| block["cidr"] == "203.0.113.8/29")
        .unwrap();
    let block = block["id"].as_str().unwrap().to_owned();
    stage.delete("web").await;
    stage.gone("web").await;
    stage.released(&block).await;
    assert_eq!(show(), before);
    stage.leave().await;
}

#[tokio::test]
async fn lb_20_when_another_network_is_named_blocks_move_from_the_old_one() {
    let mut stage = Stage::enter().await;
    let central = stage.central_with(stage.unshared()).await;
    let address = stage.provide("web").await;
    let block = stage.living_block();
    drop(central);
    let old = stage.network.clone();
    stage.network = stage.sim().add_network("new", "PHX");
    let start = Instant::now();
    let _central = stage.central_with(stage.unshared()).await;
    stage
        .told("web", reasons::IP_BLOCK_MOVED, &stage.network)
        .await;
    eventually("it has moved", AFTER_RETRIES, async || {
        stage.sim().blocks_on(&stage.network) == [block.clone()]
    })
    .await;
    assert_none(&stage.sim().blocks_on(&old));
    assert_eq!(stage.provided("web").await, address);
    let bought = stage.purchases().since(start);
    assert_none(&bought);
    let detached = stage.sim().calls().since(start).method(&Method::DELETE);
    let path = format!("{}/{old}/ip-blocks/{block}", Kind::Network.path());
    assert_eq!(
        detached.to(&path).len(),
        detached.len(),
        "{}",
        detached.summary()
    );
    stage.leave().await;
}

#[tokio::test]
async fn a_block_taken_off_by_hand_is_noticed_and_put_back() {
    let stage = Stage::enter().await;
    let central = stage.central_with(stage.unshared()).await;
    let had = stage.provide("web").await;
    let block = stage.living_block();
    drop(central);
    stage.sim().detach(&block);
    let _central = stage.central_with(stage.unshared()).await;
    stage.told("web", reasons::IP_BLOCK_DETACHED, "").await;
    eventually("it is back", AFTER_RETRIES, async || {
        stage.sim().blocks_on(&stage.network) == [block.clone()]
    })
    .await;
    assert_eq!(address(&stage.get("web").await), Some(had));
    assert_eq!(stage.purchases().len(), 1);
    stage.leave().await;
}

#[tokio::test]
async fn a_block_deleted_by_hand_is_noticed_and_another_address_is_given() {
    let stage = Stage::enter().await;
    let central = stage.central_with(stage.unshared()).await;
    let had = stage.provide("web").await;
    let block = stage.living_block();
    drop(central);
    stage.sim().take(Kind::Block, &block);
    let _central = stage.central_with(stage.unshared()).await;
    stage.told("web", reasons::IP_BLOCK_LOST, &had).await;
    eventually("it has another address", AFTER_RETRIES, async || {
        let service = stage.get("web").await;
        let now = address(&service);
        now.is_some() && now.as_ref() != Some(&had) && requested(&service) == now
    })
    .await;
    assert_eq!(stage.purchases().len(), 2);
    assert!(has_finalizer(&stage.get("web").await));
    stage.leave().await;
}

/// Whoever touches the Service does not wait for the next look at all of them, which is ten minutes away.
#[tokio::test]
async fn a_block_deleted_by_hand_is_replaced_soon_after_its_service_was_touched() {
    let stage = Stage::enter().await;
    let _central = stage.central_with(stage.unshared()).await;
    let had = stage.provide("web").await;
    let block = stage.living_block();
    // What central has written on it has been looked at.
    stage.marker().await;
    stage.sim().take(Kind::Block, &block);
    let touch = json!({ "metadata": { "annotations": { "example.com/touched": "once" } } });
    stage.patch("web", &touch).await;
    eventually("it has another address", AFTER_RETRIES, async || {
        let service = stage.get("web").await;
        let now = address(&service);
        now.is_some() && now.as_ref() != Some(&had) && requested(&service) == now
    })
    .await;
    assert_eq!(stage.purchases().len(), 3, "one for the marker");
    stage.leave().await;
}

/// Somebody tags a block by hand: whose it is cannot be told any more, and it is left alone.
#[tokio::test]
async fn a_tag_delete_by_hand_takes_no_block_from_a_service() {
    let stage = Stage::enter().await;
    let central = stage.central_with(stage.unshared()).await;
    let had = stage.provide("web").await;
    let block = stage.living_block();
    drop(central);
    let mut tags: Vec<(&str, &str)> = vec![
        crate::phoenixnap_services::stage::USAGE,
        ("serviceName", "web"),
        ("delete", "true"),
    ];
    let (namespace, cluster) = (stage.namespace.clone(), stage.cluster.clone());
    tags.push(("serviceNamespace", &namespace));
    tags.push(("cluster", &cluster));
    stage.sim().tag(Kind::Block, &block, &tags);
    let _central = stage.central_with(stage.unshared()).await;
    stage.told("web", reasons::IP_BLOCK_UNTAGGED, &had).await;
    stage.marker().await;
    assert_eq!(address(&stage.get("web").await), Some(had));
    let block = stage.sim().get(Kind::Block, &block).unwrap();
    assert!(
        block["status"] == "assigned" && has_tag(&block, "delete"),
        "{block}"
    );
    stage.leave().await;
}
