//! Blocks that are there already, and where they are.

use std::time::Instant;

use http::Method;
use mooring_cloud_sim::phoenixnap::Kind;
use mooring_common::names::reasons;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::phoenixnap_services::blocks::{AFTER_A_WHILE, address, has_tag, requested};
use crate::phoenixnap_services::cluster::{
    AFTER_RETRIES, CloudCluster, assert_none, has_finalizer,
};

/// A block of a Service that is on something else.
fn elsewhere(cluster: &CloudCluster, kind: &str, holder: &str) -> String {
    let block = json!({
        "cidr": "203.0.113.64/29", "tags": cluster.tags_of("web"), "assignedResourceType": kind,
        "assignedResourceId": holder,
    });
    cluster.sim().put(Kind::Block, block)
}

#[tokio::test]
async fn lb_03_a_block_that_is_on_a_server_or_another_network_is_left_there_and_none_is_bought() {
    for kind in ["server", "public network"] {
        let cluster = CloudCluster::start().await;
        let holder = match kind {
            "server" => "60473c2500000000000000aa".to_owned(),
            _ => cluster.sim().add_network("somebody-elses", "PHX"),
        };
        let block = elsewhere(&cluster, kind, &holder);
        let before = cluster.sim().get(Kind::Block, &block);
        let _central = cluster.central().await;
        cluster.create("web").await;
        cluster
            .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, &holder)
            .await;
        assert_none(&cluster.sim().writes());
        assert_eq!(cluster.sim().get(Kind::Block, &block), before);
        cluster.finish().await;
    }
}

/// The one that is on our network and has the Service's address stays, whatever its age and id.
#[tokio::test]
async fn lb_07_of_two_blocks_the_one_in_use_survives_and_the_other_is_given_back() {
    let cluster = CloudCluster::start().await;
    let older = json!({
        "cidr": "203.0.113.64/29", "tags": cluster.tags_of("web"), "createdOn": "2020-01-01T00:00:00Z",
    });
    let older = cluster.sim().put(Kind::Block, older);
    let used = cluster.block_of("web", "203.0.113.72/29");
    cluster.left_by_go("web", "203.0.113.74").await;
    let _central = cluster.central().await;
    cluster.released_within(&older, AFTER_A_WHILE).await;
    assert_eq!(cluster.sim().blocks_on(&cluster.cloud.network), [used]);
    assert_eq!(
        address(&cluster.get("web").await).as_deref(),
        Some("203.0.113.74")
    );
    assert_none(&cluster.purchases());
    cluster.finish().await;
}

#[tokio::test]
async fn lb_14_where_tags_widen_a_listing_foreign_blocks_are_untouched() {
    let cluster = CloudCluster::start().await;
    cluster
        .sim()
        .adjust(|behaviour| behaviour.tags_widen = true);
    let put = |cidr: &str, tags: Value, network: &Value| {
        let block = json!({ "cidr": cidr, "tags": tags, "assignedResourceId": network });
        cluster.sim().put(Kind::Block, block)
    };
    let mut other_cluster = cluster.tags_of("web");
    other_cluster["cluster"] = json!("11111111-2222-4333-8444-555555555555");
    let mut other_usage = cluster.tags_of("web");
    other_usage["usage"] = json!("somebody-elses");
    let mut dying = cluster.dying_tags();
    dying["cluster"] = json!("11111111-2222-4333-8444-555555555555");
    let network = cluster.sim().add_network("theirs", "PHX");
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
    let show = || {
        foreign
            .clone()
            .map(|id| cluster.sim().get(Kind::Block, &id))
    };
    let before = show();
    let _central = cluster.central().await;
    assert_eq!(cluster.provide_address("web").await, "203.0.113.10");
    let block = cluster.living_blocks();
    let block = block
        .iter()
        .find(|block| block["cidr"] == "203.0.113.8/29")
        .unwrap();
    let block = block["id"].as_str().unwrap().to_owned();
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.released(&block).await;
    assert_eq!(show(), before);
    cluster.finish().await;
}

#[tokio::test]
async fn lb_20_when_another_network_is_named_blocks_move_from_the_old_one() {
    let mut cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let address = cluster.provide_address("web").await;
    let block = cluster.living_block();
    drop(central);
    let old = cluster.cloud.network.clone();
    cluster.cloud.network = cluster.sim().add_network("new", "PHX");
    let start = Instant::now();
    let _central = cluster.central().await;
    cluster
        .told("web", reasons::IP_BLOCK_MOVED, &cluster.cloud.network)
        .await;
    eventually("it has moved", AFTER_RETRIES, async || {
        cluster.sim().blocks_on(&cluster.cloud.network) == [block.clone()]
    })
    .await;
    assert_none(&cluster.sim().blocks_on(&old));
    assert_eq!(cluster.provided_address("web").await, address);
    let bought = cluster.purchases().since(start);
    assert_none(&bought);
    let detached = cluster.sim().calls().since(start).method(&Method::DELETE);
    let path = format!("{}/{old}/ip-blocks/{block}", Kind::Network.path());
    assert_eq!(
        detached.to(&path).len(),
        detached.len(),
        "{}",
        detached.summary()
    );
    cluster.finish().await;
}

#[tokio::test]
async fn a_block_taken_off_by_hand_is_noticed_and_put_back() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let had = cluster.provide_address("web").await;
    let block = cluster.living_block();
    drop(central);
    cluster.sim().detach(&block);
    let _central = cluster.central().await;
    cluster.told("web", reasons::IP_BLOCK_DETACHED, "").await;
    eventually("it is back", AFTER_RETRIES, async || {
        cluster.sim().blocks_on(&cluster.cloud.network) == [block.clone()]
    })
    .await;
    assert_eq!(address(&cluster.get("web").await), Some(had));
    assert_eq!(cluster.purchases().len(), 1);
    cluster.finish().await;
}

#[tokio::test]
async fn a_block_deleted_by_hand_is_noticed_and_another_address_is_given() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let had = cluster.provide_address("web").await;
    let block = cluster.living_block();
    drop(central);
    cluster.sim().take(Kind::Block, &block);
    let _central = cluster.central().await;
    cluster.told("web", reasons::IP_BLOCK_LOST, &had).await;
    eventually("it has another address", AFTER_RETRIES, async || {
        let service = cluster.get("web").await;
        let now = address(&service);
        now.is_some() && now.as_ref() != Some(&had) && requested(&service) == now
    })
    .await;
    assert_eq!(cluster.purchases().len(), 2);
    assert!(has_finalizer(&cluster.get("web").await));
    cluster.finish().await;
}

/// Whoever touches the Service does not wait for the next look at all of them, which is ten minutes away.
#[tokio::test]
async fn a_block_deleted_by_hand_is_replaced_soon_after_its_service_was_touched() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let had = cluster.provide_address("web").await;
    let block = cluster.living_block();
    // What central has written on it has been looked at.
    cluster.marker().await;
    cluster.sim().take(Kind::Block, &block);
    let touch = json!({ "metadata": { "annotations": { "example.com/touched": "once" } } });
    cluster.patch("web", &touch).await;
    eventually("it has another address", AFTER_RETRIES, async || {
        let service = cluster.get("web").await;
        let now = address(&service);
        now.is_some() && now.as_ref() != Some(&had) && requested(&service) == now
    })
    .await;
    assert_eq!(cluster.purchases().len(), 3, "one for the marker");
    cluster.finish().await;
}

/// Somebody tags a block by hand: whose it is cannot be told any more, and it is left alone.
#[tokio::test]
async fn a_tag_delete_by_hand_takes_no_block_from_a_service() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let had = cluster.provide_address("web").await;
    let block = cluster.living_block();
    drop(central);
    let mut tags: Vec<(&str, &str)> = vec![
        crate::phoenixnap_services::blocks::USAGE,
        ("serviceName", "web"),
        ("delete", "true"),
    ];
    let (namespace, uid) = (cluster.namespace.clone(), cluster.cloud.cluster_uid.clone());
    tags.push(("serviceNamespace", &namespace));
    tags.push(("cluster", &uid));
    cluster.sim().tag(Kind::Block, &block, &tags);
    let _central = cluster.central().await;
    cluster.told("web", reasons::IP_BLOCK_UNTAGGED, &had).await;
    cluster.marker().await;
    assert_eq!(address(&cluster.get("web").await), Some(had));
    let block = cluster.sim().get(Kind::Block, &block).unwrap();
    assert!(
        block["status"] == "assigned" && has_tag(&block, "delete"),
        "{block}"
    );
    cluster.finish().await;
}
