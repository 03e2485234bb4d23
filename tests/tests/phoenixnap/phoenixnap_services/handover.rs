//! From the Go controller to Mooring: nothing is written to the cloud but what is to be mended.

use std::time::Instant;

use mooring_cloud_sim::phoenixnap::{Behaviour, Kind, Spelling};
use mooring_common::names::finalizers;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::phoenixnap_services::blocks::{address, lines, requested};
use crate::phoenixnap_services::cluster::{AFTER_RETRIES, CloudCluster, SOON, assert_none};

/// Five Services with a block each, as the Go controller leaves them.
async fn seed(cluster: &CloudCluster) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for n in 0..5 {
        let (name, address) = (format!("web-{n}"), format!("203.0.113.{}", 66 + n * 8));
        let block = cluster.block_of(&name, &format!("203.0.113.{}/29", 64 + n * 8));
        cluster.left_by_go(&name, &address).await;
        all.push((name, address, block));
    }
    all
}

/// In both layouts: what is there is kept, whoever has made it.
#[tokio::test]
async fn what_the_go_controller_has_left_in_order_is_not_written_on() {
    for (sharing, spelling) in [(true, Spelling::Words), (false, Spelling::Constants)] {
        let cluster = CloudCluster::start().await;
        cluster.sim().behave(Behaviour {
            resource_type: spelling,
            ..Behaviour::default()
        });
        let all = seed(&cluster).await;
        let before = cluster.sim().all(Kind::Block);
        let flags = cluster
            .sharing()
            .with(format!("--ip-block-sharing={sharing}"));
        let start = Instant::now();
        let _central = cluster.central_with(flags).await;
        // Each has had its turn when our record is on it.
        for (name, address_before, _) in &all {
            eventually(&format!("{name} is taken over"), SOON, async || {
                let service = cluster.get(name).await;
                let annotations = service.metadata.annotations.clone().unwrap_or_default();
                annotations.values().any(|value| value == address_before)
            })
            .await;
        }
        cluster.listings_since(start, 1).await;
        for (name, address_before, _) in &all {
            let service = cluster.get(name).await;
            assert_eq!(address(&service).as_ref(), Some(address_before));
            assert_eq!(requested(&service).as_ref(), Some(address_before));
        }
        assert_none(&cluster.sim().writes());
        assert_eq!(cluster.sim().all(Kind::Block), before);
        // And they go like any other.
        cluster.delete("web-0").await;
        cluster.gone("web-0").await;
        cluster.released(&all[0].2).await;
        assert_eq!(cluster.sim().releases().len(), 1);
        cluster.finish().await;
    }
}

#[tokio::test]
async fn an_empty_entry_that_the_go_controller_has_published_is_mended() {
    let cluster = CloudCluster::start().await;
    let block = cluster.block_of("web", "203.0.113.64/29");
    cluster.left_by_go("web", "203.0.113.66").await;
    cluster
        .patch_status("web", &json!({ "loadBalancer": { "ingress": [{}] } }))
        .await;
    let _central = cluster.central().await;
    assert_eq!(cluster.provided_address("web").await, "203.0.113.66");
    assert_none(&cluster.sim().writes());
    assert_eq!(cluster.sim().blocks_on(&cluster.cloud.network), [block]);
    cluster.finish().await;
}

/// The Go controller was stopped between the purchase and the assignment.
#[tokio::test]
async fn a_block_that_was_bought_and_not_assigned_is_assigned() {
    let cluster = CloudCluster::start().await;
    let block = json!({ "cidr": "203.0.113.64/29", "tags": cluster.tags_of("web") });
    let block = cluster.sim().put(Kind::Block, block);
    cluster.create("web").await;
    let finalizer = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    cluster.patch("web", &finalizer).await;
    let _central = cluster.central().await;
    assert_eq!(cluster.provided_address("web").await, "203.0.113.66");
    let attached = format!(
        "POST {}/{}/ip-blocks",
        Kind::Network.path(),
        cluster.cloud.network
    );
    assert_eq!(lines(&cluster.sim().writes()), [attached]);
    assert_eq!(cluster.sim().blocks_on(&cluster.cloud.network), [block]);
    cluster.finish().await;
}

#[tokio::test]
async fn blocks_that_the_go_controller_has_marked_are_given_back() {
    let cluster = CloudCluster::start().await;
    let all = seed(&cluster).await;
    let marked = |cidr: &str, network: Option<&String>| {
        let block = json!({
            "cidr": cidr, "tags": cluster.dying_tags(), "assignedResourceId": network,
        });
        cluster.sim().put(Kind::Block, block)
    };
    let elsewhere = cluster.sim().add_network("before", "PHX");
    let dying = [
        marked("203.0.113.128/29", Some(&cluster.cloud.network)),
        marked("203.0.113.136/29", None),
        // Upstream can never take this one off, since it looks for it on the network that is named.
        marked("203.0.113.144/29", Some(&elsewhere)),
    ];
    let _central = cluster.central_with(cluster.sharing()).await;
    for block in &dying {
        cluster.released_within(block, AFTER_RETRIES).await;
    }
    assert_eq!(
        cluster.sim().blocks_on(&cluster.cloud.network).len(),
        all.len()
    );
    assert_eq!(
        cluster.sim().writes().len(),
        5,
        "{}",
        cluster.sim().writes().summary()
    );
    cluster.finish().await;
}
