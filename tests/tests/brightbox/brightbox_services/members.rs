//! Servers behind load balancers: what comes and goes costs little, and none at all is possible.

use std::time::Instant;

use http::Method;
use mooring_cloud_sim::brightbox::{Behaviour, Kind};
use mooring_common::names::reasons;
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::brightbox_services::cloud::{BALANCERS, text, usual};
use crate::brightbox_services::cluster::{CloudCluster, LoadBalancerCloud as _, SOON, assert_none};

impl CloudCluster {
    /// How many servers are in the group of a Service, and behind its load balancer.
    async fn members(&self, name: &str) -> [usize; 2] {
        let groups = self.parts(name, Kind::ServerGroup);
        let grouped = groups[0]["servers"].as_array().map_or(0, Vec::len);
        let shown = self.shown(name).await;
        [grouped, shown["nodes"].as_array().map_or(0, Vec::len)]
    }

    async fn has_members(&self, name: &str, count: usize) {
        eventually(&format!("{name} has {count} members"), SOON, async || {
            let members = self.members(name).await;
            if members == [count; 2] {
                Ok(())
            } else {
                Err(members)
            }
        })
        .await;
    }
}

/// Upstream: thirteen reads and three writes.
#[tokio::test]
async fn a_node_that_comes_or_goes_costs_two_writes_and_no_read() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    cluster.settle().await;
    let others = |call: &mooring_cloud_sim::Call| !call.path.ends_with("/servers");
    for joins in [true, false] {
        let start = Instant::now();
        if joins {
            cluster.join(3).await;
            cluster.serves("web", &[1, 2, 3]).await;
            cluster.has_members("web", 3).await;
        } else {
            cluster.remove_node("n3").await;
            cluster.serves("web", &[1, 2]).await;
            cluster.has_members("web", 2).await;
        }
        let calls = cluster.cloud.calls().since(start);
        let reads = calls.method(&Method::GET).filter(others);
        assert!(reads.is_empty(), "{}", reads.summary());
        let writes = cluster.cloud.writes_on(&id).since(start);
        assert_eq!(writes.len(), 2, "{}", writes.summary());
    }
    assert_none(&cluster.sim().outages(&id));
    cluster.finish().await;
}

/// The Go controller leaves them there, and writes at every pass.
#[tokio::test]
async fn the_last_node_that_goes_leaves_none_behind_and_others_can_come() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    cluster.remove_node("n1").await;
    cluster.serves("web", &[2]).await;
    cluster.remove_node("n2").await;
    cluster.has_members("web", 0).await;
    let start = Instant::now();
    eventually("it was looked at", SOON, async || {
        let calls = cluster.cloud.calls().since(start).to(BALANCERS);
        calls.filter(|call| call.took.is_some()).len() >= 3
    })
    .await;
    assert_none(&cluster.cloud.writes_on(&id).since(start));
    cluster.join(3).await;
    cluster.serves("web", &[3]).await;
    cluster.has_members("web", 1).await;
    assert!(cluster.cloud.has(&id));
    cluster.finish().await;
}

/// The cloud may insist on one.
#[tokio::test]
async fn a_last_server_that_the_cloud_keeps_is_shut_out_and_holds_nothing_up() {
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour {
        keeps_last_node: true,
        ..usual()
    });
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    cluster.remove_node("n1").await;
    cluster.serves("web", &[2]).await;
    cluster.remove_node("n2").await;
    eventually("the firewall shuts it out", SOON, async || {
        let members = cluster.members("web").await;
        if members == [0, 1] {
            Ok(())
        } else {
            Err(members)
        }
    })
    .await;
    cluster.note("web", "policy", Some("round-robin")).await;
    cluster
        .shows("web", "all else is done", |shown| {
            shown["policy"] == "round-robin"
        })
        .await;
    let complaints = cluster.complaints("web").await;
    let mut told = complaints.iter().map(|event| event.reason.as_str());
    assert!(
        told.all(|reason| reason == reasons::NO_VALID_NODES),
        "{complaints:?}"
    );
    cluster.join(3).await;
    cluster.serves("web", &[3]).await;
    cluster.has_members("web", 1).await;
    cluster.finish().await;
}

/// In the API's order or any other, they are the same.
#[tokio::test]
async fn the_order_of_nodes_and_listeners_costs_no_write() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster.join(3).await;
    cluster.make(cluster.service("web").port(81, 8080)).await;
    cluster.provided("web").await;
    let id = cluster.serves("web", &[1, 2, 3]).await.id;
    cluster
        .sim()
        .change_in(Kind::LoadBalancer, &id, |balancer| {
            for list in ["nodes", "listeners"] {
                balancer[list].as_array_mut().unwrap().reverse();
            }
        });
    let start = Instant::now();
    eventually("it was looked at", SOON, async || {
        let calls = cluster.cloud.calls().since(start).to(BALANCERS);
        calls.filter(|call| call.took.is_some()).len() >= 3
    })
    .await;
    assert_none(&cluster.cloud.writes_on(&id).since(start));
    cluster.finish().await;
}

/// Nodes of another cloud are none of ours, and the Go controller deletes them.
#[tokio::test]
async fn nodes_of_another_provider_are_no_members() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let theirs = NodeBuilder::new("theirs").provider_id("k3s://theirs");
    theirs.ready().create(&cluster.admin).await.unwrap();
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    let body = cluster.cloud.creations().bodies().remove(0);
    assert_eq!(body["nodes"].as_array().map(Vec::len), Some(2), "{body}");
    cluster.finish().await;
}

/// Servers leave a group after a while: until then it cannot be deleted.
#[tokio::test]
async fn a_group_that_is_emptied_late_goes_with_its_service() {
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour {
        emptying: std::time::Duration::from_secs(4),
        deleting: std::time::Duration::from_secs(2),
        ..usual()
    });
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.nothing_is_left().await;
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}

/// A server is gone from the cloud while its Node is still there.
#[tokio::test]
async fn a_server_that_is_gone_keeps_nobody_else_from_being_a_member() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let lost = cluster.machine(7);
    let node = NodeBuilder::new("n7").provider_id(&lost).ready();
    node.create(&cluster.admin).await.unwrap();
    cluster.cloud.remove(&lost);
    cluster.create("web").await;
    cluster.provided_at_last("web").await;
    cluster.serves("web", &[1, 2]).await;
    let lost = lost.strip_prefix("brightbox://").unwrap();
    let named = cluster
        .writes()
        .bodies()
        .into_iter()
        .map(|body| body.to_string());
    let named: Vec<String> = named.filter(|body| body.contains(lost)).collect();
    // By the listing that was made before it went; then all machines are listed anew.
    assert!(named.len() <= 1, "{named:?}");
    cluster.finish().await;
}

/// The same server twice is one member.
#[tokio::test]
async fn two_nodes_of_one_server_are_one_member() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let id = cluster.machine(5);
    for name in ["twin-a", "twin-b"] {
        let node = NodeBuilder::new(name).provider_id(&id).ready();
        node.create(&cluster.admin).await.unwrap();
    }
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2, 5]).await;
    let shown = cluster.shown("web").await;
    let nodes = shown["nodes"].as_array().unwrap().iter();
    let ids: Vec<String> = nodes.map(|node: &Value| text(&node["id"])).collect();
    assert_eq!(ids.len(), 3, "{}", json!(ids));
    cluster.finish().await;
}
