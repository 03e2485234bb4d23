//! Addresses that are announced by BGP: blocks without a network, and what Nodes are told.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use mooring_cloud_sim::phoenixnap::Kind;
use mooring_common::names::reasons;
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_cluster::shipped::CentralFlags;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::phoenixnap_services::blocks::{AFTER_A_WHILE, lines, requested, tags};
use crate::phoenixnap_services::cluster::{AFTER_RETRIES, CloudCluster, SOON};

/// What is written on Nodes begins so.
const PREFIX: &str = "phoenixnap.com/bgp-peers-";

/// The peer group of the location.
fn bgp(cluster: &CloudCluster) -> CentralFlags {
    let flags = cluster
        .sharing()
        .environment("PNAP_LOAD_BALANCER", "bgp://");
    flags.environment("PNAP_LOCATION", "PHX")
}

/// A Node with an address of this kind.
async fn node(cluster: &CloudCluster, name: &str, kind: &str, address: &str) {
    let node = NodeBuilder::new(name).address(kind, address).ready();
    node.create(&cluster.admin).await.unwrap();
}

/// What a Node has been told, without the prefix.
async fn told_to(cluster: &CloudCluster, name: &str) -> BTreeMap<String, String> {
    let nodes = Api::<Node>::all(cluster.admin.clone());
    let annotations = nodes.get(name).await.unwrap().metadata.annotations;
    let all = annotations.into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?.to_owned(), value)))
        .collect()
}

/// Waits until a Node has been told of both routers.
async fn is_told(cluster: &CloudCluster, name: &str) -> BTreeMap<String, String> {
    eventually(&format!("{name} is told"), AFTER_A_WHILE, async || {
        let told = told_to(cluster, name).await;
        if told.len() == 10 {
            Ok(told)
        } else {
            Err(told)
        }
    })
    .await
}

#[tokio::test]
async fn with_bgp_a_block_is_assigned_to_no_network_and_given_back_as_it_is() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central_with(bgp(&cluster)).await;
    cluster.provide("web").await;
    let block = cluster.living_blocks().remove(0);
    assert_eq!(block["status"], "unassigned");
    assert!(tags(&block).contains(&("pool".to_owned(), "bgp".to_owned())));
    // Whoever speaks BGP goes by the status.
    assert_eq!(requested(&cluster.get("web").await), None);
    cluster.delete("web").await;
    cluster.gone("web").await;
    let id = block["id"].as_str().unwrap();
    cluster.released(id).await;
    let writes = cluster.sim().writes();
    let writes = writes.filter(|call| call.path != Kind::Tag.path());
    let expected = [
        "POST /ips/v1/ip-blocks".to_owned(),
        format!("PUT /ips/v1/ip-blocks/{id}/tags"),
        format!("DELETE /ips/v1/ip-blocks/{id}"),
    ];
    assert_eq!(lines(&writes), expected);
    let about_networks = cluster.sim().calls();
    let about_networks = about_networks.filter(|call| call.path.contains("public-networks"));
    assert!(about_networks.is_empty(), "{}", about_networks.summary());
    cluster.finish().await;
}

/// A network takes ten.
#[tokio::test]
async fn with_bgp_eleven_services_have_blocks_of_their_own() {
    let cluster = CloudCluster::start().await;
    let flags = bgp(&cluster).with("--ip-block-sharing=false");
    let _central = cluster.central_with(flags.with("--max-ip-blocks=11")).await;
    let names: Vec<String> = (1..=11).map(|n| format!("web-{n}")).collect();
    for name in &names {
        cluster.create(name).await;
    }
    let mut addresses = BTreeSet::new();
    for name in &names {
        addresses.insert(cluster.address_within(name, AFTER_RETRIES).await);
    }
    assert_eq!((addresses.len(), cluster.sim().purchases().len()), (11, 11));
    cluster.finish().await;
}

#[tokio::test]
async fn nodes_with_a_public_address_are_told_of_both_routers_and_of_no_password() {
    const PASSWORD: &str = "password-of-the-peers";
    let cluster = CloudCluster::start().await;
    let number = |asn: u32| json!({ "asn": asn, "isBringYourOwn": true });
    cluster.sim().put(
        Kind::PeerGroup,
        json!({
            "password": PASSWORD,
            "targetAsnDetails": number(65410), "activeAsnDetails": number(65402),
        }),
    );
    node(&cluster, "private", "InternalIP", "10.0.0.9").await;
    node(&cluster, "public", "ExternalIP", "198.51.100.7").await;
    // Of a router that the group had once.
    let former = json!({ format!("{PREFIX}2-peer-ip"): "169.254.247.2" });
    let former = Patch::Merge(json!({ "metadata": { "annotations": former } }));
    let nodes = Api::<Node>::all(cluster.admin.clone());
    let params = PatchParams::default();
    nodes.patch("public", &params, &former).await.unwrap();
    let central = cluster.central_with(bgp(&cluster)).await;
    let expected = |source: &str| -> BTreeMap<String, String> {
        let of_router = |number: u8| {
            let router = format!("169.254.247.{number}");
            [
                ("node-asn", "65402".to_owned()),
                ("peer-asn", "65400".to_owned()),
                ("peer-ip", router),
                ("src-ip", source.to_owned()),
                ("peer-multi-hop", "true".to_owned()),
            ]
            .map(|(key, value)| (format!("{number}-{key}"), value))
        };
        [0, 1].into_iter().flat_map(of_router).collect()
    };
    assert_eq!(is_told(&cluster, "public").await, expected("198.51.100.7"));
    // One that comes later does not wait for the next regular look.
    node(&cluster, "joins", "ExternalIP", "198.51.100.8").await;
    eventually("it is told soon", SOON, async || {
        told_to(&cluster, "joins").await == expected("198.51.100.8")
    })
    .await;
    assert_eq!(told_to(&cluster, "private").await, BTreeMap::new());
    let asked = cluster.sim().calls().to(Kind::PeerGroup.path());
    let elsewhere = asked.filter(|call| call.parameter("location") != Some("PHX"));
    assert!(elsewhere.is_empty(), "{}", elsewhere.summary());
    assert!(asked.method(&Method::GET).len() <= 2, "{}", asked.summary());
    assert!(!central.process.log().contains(PASSWORD));
    cluster.finish().await;
}

/// E19: the same server, installed anew: a Node that knows nothing of what its predecessor was told.
#[tokio::test]
async fn a_node_that_is_made_again_under_its_name_is_told_again() {
    let cluster = CloudCluster::start().await;
    cluster.sim().put(Kind::PeerGroup, json!({}));
    node(&cluster, "public", "ExternalIP", "198.51.100.7").await;
    let _central = cluster.central_with(bgp(&cluster)).await;
    is_told(&cluster, "public").await;
    let nodes = Api::<Node>::all(cluster.admin.clone());
    for address in ["198.51.100.7", "198.51.100.8"] {
        nodes
            .delete("public", &DeleteParams::default())
            .await
            .unwrap();
        node(&cluster, "public", "ExternalIP", address).await;
        let told = is_told(&cluster, "public").await;
        assert_eq!(told["0-src-ip"], address);
    }
    cluster.finish().await;
}

#[tokio::test]
async fn nodes_are_told_when_the_peer_group_gets_ready_and_until_then_that_is_said() {
    let cluster = CloudCluster::start().await;
    let pending = json!({ "status": "PENDING" });
    let group = cluster.sim().put(Kind::PeerGroup, pending);
    node(&cluster, "public", "ExternalIP", "198.51.100.7").await;
    let _central = cluster.central_with(bgp(&cluster)).await;
    cluster
        .told_of_the_cluster(reasons::NO_PEER_GROUP, "PHX")
        .await;
    // Services need not wait for it.
    cluster.provide("web").await;
    assert_eq!(told_to(&cluster, "public").await, BTreeMap::new());
    cluster
        .sim()
        .set_in(Kind::PeerGroup, &group, "status", "READY");
    is_told(&cluster, "public").await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_peer_group_that_is_named_says_where_blocks_are_bought() {
    let cluster = CloudCluster::start().await;
    let elsewhere = json!({ "location": "ASH" });
    let group = cluster.sim().put(Kind::PeerGroup, elsewhere);
    let setting = format!("bgp://{group}");
    let flags = cluster.sharing().environment("PNAP_LOAD_BALANCER", setting);
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    assert_eq!(cluster.living_blocks()[0]["location"], "ASH");
    cluster.finish().await;
}

#[tokio::test]
async fn without_the_peer_group_that_is_named_nothing_is_bought_and_that_is_said() {
    let cluster = CloudCluster::start().await;
    let setting = "bgp://5f1b0c2509268bc77fd06d22";
    let flags = cluster.sharing().environment("PNAP_LOAD_BALANCER", setting);
    let _central = cluster.central_with(flags).await;
    cluster.create("web").await;
    let reason = reasons::SYNC_LOAD_BALANCER_FAILED;
    cluster
        .told("web", reason, "5f1b0c2509268bc77fd06d22")
        .await;
    assert!(cluster.sim().writes().is_empty());
    cluster.finish().await;
}
