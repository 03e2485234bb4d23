//! What is asked of the cloud, call by call.

use k8s_openapi::api::core::v1::Node;
use mooring_common::k8s::Slim as _;
use mooring_common::node_view::NodeView;
use serde_json::json;

use super::super::super::api::bgp::Peers;
use super::super::super::api::ip_blocks::BlockStatus;
use super::super::ownership::{self, Owned, Owner};
use super::super::testing::{CLUSTER, block, key};
use super::*;

impl TestCluster {
    /// The calls since the last time.
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.cloud.0.lock().unwrap().calls)
    }
}

fn node(name: &str, address: &str) -> Arc<NodeView> {
    let node = json!({
        "metadata": {"name": name, "uid": name},
        "status": {"addresses": [{"type": "ExternalIP", "address": address}]},
    });
    Arc::new(NodeView::slim(
        serde_json::from_value::<Node>(node).unwrap(),
    ))
}

/// What is looked for before it is bought is looked for once, when the purchase is claimed.
#[tokio::test(start_paused = true)]
async fn looks_once_before_buying_another_block() {
    let cluster = TestCluster::new(false).with(&["a", "b"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "a").await;
    advance(LONG).await;
    cluster.calls();
    cluster.provided(&blocks, "b").await;
    let expected = [
        "list blocks",
        "get network net",
        "buy /29",
        // It has been bought. The network may have changed meanwhile.
        "list blocks",
        "get network net",
        "attach b2 to net",
        // It has arrived.
        "list blocks",
    ];
    assert_eq!(cluster.calls(), expected);
}

#[tokio::test(start_paused = true)]
async fn reports_free_room_without_request() {
    let cluster = TestCluster::new(false).with(&["web"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "web").await;
    cluster.removed(&blocks, "web").await;
    let context = cluster.tended(&blocks).await;
    cluster.calls();
    for _ in 0..3 {
        let pause = blocks.round(&context).await.unwrap();
        advance(pause.min(POLL)).await;
        if *context.freed.lock().unwrap() == 2 {
            assert_eq!(cluster.calls(), Vec::<String>::new());
            assert!(pause > super::super::POLL, "{pause:?}");
            return;
        }
    }
    panic!("it was not told twice");
}

#[tokio::test]
async fn does_not_ask_busy_network_during_transition() {
    let blocks = TestCluster::new(true).start("one");
    let mut state = blocks.lock().await;
    let owner = Owner::Service(key("web"));
    let mut block = block("b1", "203.0.113.8/29");
    block.tags = ownership::of_new(CLUSTER, &owner);
    block.status = BlockStatus::Assigning;
    state.state.blocks = vec![Owned { block, owner }];
    assert!(!state.is_at_work(NETWORK), "it may take several at once");
    state.takes_one_change_at_a_time(NETWORK);
    assert!(state.is_at_work(NETWORK));
    assert!(!state.is_at_work("another"));
    state.state.blocks[0].block.status = BlockStatus::Assigned;
    assert!(!state.is_at_work(NETWORK));
}

#[tokio::test(start_paused = true)]
async fn joining_node_gets_peers_without_block_listing() {
    let mut cluster = TestCluster::new(true);
    cluster.settings.setting = "bgp://".parse().unwrap();
    cluster.settings.location = Some("PHX".to_owned());
    let peers = Peers {
        asn: 65401,
        routers: vec!["169.254.247.0".parse().unwrap()],
        is_multi_hop: true,
        is_ready: true,
        location: Some("PHX".to_owned()),
    };
    cluster.cloud.0.lock().unwrap().peers = Some(peers);
    let blocks = cluster.start("one");
    let mut context = OpenGuard {
        nodes: vec![node("a", "198.51.100.1")],
        ..OpenGuard::default()
    };
    blocks.round(&context).await.unwrap();
    cluster.calls();
    context.nodes.push(node("b", "198.51.100.2"));
    blocks.round_of_nodes(&context).await.unwrap();
    assert_eq!(cluster.calls(), ["get peers"]);
    let told = cluster.cluster.0.lock().unwrap().annotated.clone();
    let names: Vec<_> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    blocks.round_of_nodes(&context).await.unwrap();
    assert_eq!(cluster.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn reports_unready_peer_group_and_retries() {
    let mut cluster = TestCluster::new(true);
    cluster.settings.setting = "bgp://group".parse().unwrap();
    let blocks = cluster.start("one");
    let context = OpenGuard {
        nodes: vec![node("a", "198.51.100.1")],
        ..OpenGuard::default()
    };
    let pause = blocks.round(&context).await.unwrap();
    assert!(pause <= Duration::from_secs(60), "{pause:?}");
    let told = context.told.lock().unwrap().clone();
    assert_eq!(told[0].0, reasons::NO_PEER_GROUP);
    assert!(told[0].1.contains("group"), "{}", told[0].1);
}

#[tokio::test(start_paused = true)]
async fn missing_peer_group_needs_configured_location() {
    let mut cluster = TestCluster::new(true).with(&["web"]);
    cluster.settings.setting = "bgp://group".parse().unwrap();
    let blocks = cluster.start("one");
    match cluster.pass(&blocks, "web").await {
        Err(ReconcileError::Refused(why)) => assert!(why.contains("group"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(cluster.cloud.writes().is_empty());
    cluster.settings.location = Some("PHX".to_owned());
    let blocks = cluster.start("two");
    cluster.provided(&blocks, "web").await;
}
