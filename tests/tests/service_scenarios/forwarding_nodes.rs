//! Load balancers with members follow the Nodes (NS-…).

use std::time::{Duration, Instant};

use futures::future::join_all;
use http::StatusCode;
use mooring_cloud_sim::Fault;
use mooring_common::names::reasons;
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::cloud::SuiteCloud;
use super::cluster::{AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none};
use super::forwarding::ForwardingCloud as _;

const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const AUTOSCALER: &str = "ToBeDeletedByClusterAutoscaler";

#[tokio::test]
async fn ns_01_a_third_node_becomes_a_member_and_an_event_tells_so() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    cluster.settle().await;
    cluster.join(3).await;
    cluster.serves("web", &[1, 2, 3]).await;
    cluster
        .told("web", reasons::UPDATED_LOAD_BALANCER, "")
        .await;
    assert_none(&cluster.cloud.outages(&id));
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}

#[tokio::test]
async fn ns_02_a_deleted_node_is_no_member_any_more() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster.settle().await;
    cluster.remove_node("n2").await;
    cluster.serves("web", &[1]).await;
    cluster
        .told("web", reasons::UPDATED_LOAD_BALANCER, "")
        .await;
    cluster.finish().await;
}

#[tokio::test]
async fn ns_03_ns_05_the_exclusion_label_takes_members_out_and_its_removal_brings_them_back() {
    let cluster = CloudCluster::start().await;
    for n in [3, 4, 5] {
        cluster.join(n).await;
    }
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2, 3, 4, 5]).await;
    for (node, value) in [("n1", ""), ("n2", "true"), ("n3", "abc"), ("n4", "false")] {
        cluster.label_node(node, EXCLUDED, Some(value)).await;
    }
    cluster.serves("web", &[4, 5]).await;
    for node in ["n1", "n2", "n3"] {
        cluster.label_node(node, EXCLUDED, None).await;
    }
    cluster.serves("web", &[1, 2, 3, 4, 5]).await;
    cluster.finish().await;
}

/// The marker: another Node joins, and all that happened before has been looked at by then.
#[tokio::test]
async fn ns_06_ns_07_readiness_and_cordons_cost_no_write() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    let start = Instant::now();
    NodeBuilder::set_condition(&cluster.admin, "n1", "Ready", "Unknown")
        .await
        .unwrap();
    let cordon = json!({ "spec": { "unschedulable": true } });
    cluster.patch_node("n2", &cordon).await;
    cluster.join(3).await;
    cluster.serves("web", &[1, 2, 3]).await;
    let writes = cluster.writes().since(start);
    let wanted = SuiteCloud::WRITES_FOR_A_MEMBER;
    assert_eq!(writes.len(), wanted, "one member: {}", writes.summary());
    cluster.finish().await;
}

#[tokio::test]
async fn ns_08_ns_09_the_autoscalers_taint_counts_when_something_else_changes() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    cluster.settle().await;
    let start = Instant::now();
    let taint = json!([{ "key": AUTOSCALER, "value": "1", "effect": "NoSchedule" }]);
    let patch = json!({ "spec": { "taints": taint } });
    cluster.patch_node("n1", &patch).await;
    // The Node's taints are of no consequence to a Service that was not touched.
    cluster.provide("later").await;
    let service = cluster.get("web").await;
    let balancer = cluster.balancer(&service).unwrap();
    assert_eq!(balancer.served["tcp/80"].len(), 2);
    cluster.serves("later", &[2]).await;
    let of_web = cluster.cloud.writes_on(&balancer.id).since(start);
    assert_none(&of_web);
    cluster.join(3).await;
    cluster.serves("web", &[2, 3]).await;
    cluster.finish().await;
}

#[tokio::test]
async fn ns_10_a_node_that_gets_its_provider_id_later_becomes_a_member_then() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    let fresh = SuiteCloud::node(NodeBuilder::new("fresh"), 4).ready();
    fresh.create(&cluster.admin).await.unwrap();
    cluster.join(3).await;
    cluster.serves("web", &[1, 2, 3]).await;
    let id = cluster.machine(4);
    let patch = json!({ "spec": { "providerID": id } });
    cluster.patch_node("fresh", &patch).await;
    cluster.serves("web", &[1, 2, 3, 4]).await;
    cluster.finish().await;
}

#[tokio::test]
async fn ns_12_a_failed_update_is_told_and_repaired() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    let failure = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let failing = cluster.cloud.additions().times(1);
    let failing = cluster.cloud.faults().inject(failing, failure);
    cluster.join(3).await;
    cluster
        .told("web", reasons::UPDATE_LOAD_BALANCER_FAILED, "")
        .await;
    cluster.serves("web", &[1, 2, 3]).await;
    assert_eq!(failing.hits(), 1);
    cluster.finish().await;
}

/// The Service's own sync makes it anew; the Nodes' need not complain.
#[tokio::test]
async fn ns_13_a_load_balancer_that_is_gone_is_no_failure_of_the_nodes_round() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    cluster
        .cloud
        .delete_by_hand(&cluster.balancer(&service).unwrap().id);
    cluster.join(3).await;
    eventually(
        "it is there again, with all Nodes",
        AFTER_RETRIES,
        async || {
            let served = cluster.balancer(&service)?.served;
            (served.get("tcp/80")?.len() == 3).then_some(())
        },
    )
    .await;
    let told = cluster.warnings("web").await;
    assert!(
        told.iter().map(|event| event.count).sum::<i32>() <= 1,
        "{told:?}"
    );
    cluster.finish().await;
}

#[tokio::test]
async fn ns_14_a_foreign_class_costs_no_call_when_a_node_joins() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let theirs = cluster.service("theirs").class("example.org/theirs");
    let theirs = cluster.make(theirs).await;
    cluster.provide("web").await;
    cluster.join(3).await;
    cluster.serves("web", &[1, 2, 3]).await;
    assert!(cluster.balancer(&theirs).is_none());
    assert_none(&cluster.events("theirs").await);
    cluster.finish().await;
}

#[tokio::test]
async fn ns_16_a_node_that_joins_while_central_is_down_is_a_member_after_its_start() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    drop(central);
    cluster.join(3).await;
    cluster.remove_node("n1").await;
    let _central = cluster.central().await;
    cluster.serves("web", &[2, 3]).await;
    cluster.finish().await;
}

/// T8 in small: many Nodes within 10 s, and few rounds for each load balancer.
#[tokio::test]
async fn ns_17_t8_many_nodes_that_join_cost_three_rounds_at_most() {
    const NODES: std::ops::RangeInclusive<usize> = 3..=42;
    const SERVICES: usize = 5;
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let names: Vec<String> = (0..SERVICES).map(|n| format!("web-{n}")).collect();
    for name in &names {
        cluster.create(name).await;
    }
    let mut ids = Vec::new();
    for name in &names {
        cluster.provided(name).await;
        ids.push(cluster.serves(name, &[1, 2]).await.id);
    }
    let start = Instant::now();
    // As a cloud starts them: one after the other, over several seconds.
    let mut pace = tokio::time::interval(Duration::from_millis(200));
    for n in NODES {
        pace.tick().await;
        cluster.join(n).await;
    }
    let all: Vec<usize> = (1..=*NODES.end()).collect();
    for name in &names {
        eventually(
            &format!("{name} has all Nodes"),
            AFTER_RETRIES,
            async || {
                let served = cluster.balancer(&cluster.get(name).await)?.served;
                (served.get("tcp/80")?.len() == all.len()).then_some(())
            },
        )
        .await;
    }
    for id in ids {
        let added = cluster.cloud.members_added(&id).since(start);
        let members: usize = added.iter().map(SuiteCloud::members_in).sum();
        assert_eq!(members, NODES.count(), "each once: {}", added.summary());
        let rounds = SuiteCloud::rounds(&added);
        assert!(rounds <= 3, "{rounds} rounds:\n{}", added.summary());
    }
    cluster.finish().await;
}

#[tokio::test]
async fn no_node_at_all_is_told_and_no_failure() {
    let cluster = CloudCluster::without_nodes().await;
    let _central = cluster.central().await;
    cluster.create("web").await;
    cluster
        .told("web", reasons::UNAVAILABLE_LOAD_BALANCER, "")
        .await;
    cluster.join(1).await;
    cluster.provided_at_last("web").await;
    cluster.serves("web", &[1]).await;
    cluster.finish().await;
}

/// A Service that is being deleted is never made anything for, whatever the Nodes do.
#[tokio::test]
async fn a_node_that_joins_during_a_deletion_brings_nothing_back() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster.provide("other").await;
    let other = json!({ "metadata": { "finalizers": [
        "example.org/slow", mooring_common::names::finalizers::SERVICE,
    ] } });
    cluster.patch("web", &other).await;
    cluster.delete("web").await;
    let service = cluster
        .is("web", "is let go", |service| {
            !super::cluster::has_finalizer(service)
        })
        .await;
    cluster.join(3).await;
    cluster.serves("other", &[1, 2, 3]).await;
    assert!(cluster.balancer(&service).is_none());
    let none = json!({ "metadata": { "finalizers": null } });
    cluster.patch("web", &none).await;
    cluster.finish().await;
}

/// Every call takes 150 ms, so that a round over all load balancers takes several seconds.
#[tokio::test]
async fn t9_a_changed_service_need_not_wait_for_a_round_over_all_load_balancers() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let names = cluster.provide_many().await;
    // Read before, so that the API server has no part in how long a look takes.
    let services = join_all(names.iter().map(|name| cluster.get(name))).await;
    let changed = services[SuiteCloud::MANY - 1].clone();
    cluster.cloud.set_latency(Duration::from_millis(150));
    cluster.join(3).await;
    let behind = || {
        let balancers = services.iter().map(|service| cluster.balancer(service));
        let behind = balancers.filter(|one| one.as_ref().unwrap().served["tcp/80"].len() < 3);
        behind.count()
    };
    eventually("the round has begun", AFTER_RETRIES, async || {
        behind() < SuiteCloud::MANY
    })
    .await;
    let start = Instant::now();
    let (key, value) = SuiteCloud::HARMLESS;
    let name = changed.metadata.name.clone().unwrap();
    cluster.annotate(&name, key, Some(value)).await;
    eventually("the change is in the cloud", SOON, async || {
        cluster.cloud.shows_harmless(&changed)
    })
    .await;
    let (took, left) = (start.elapsed(), behind());
    assert!(
        left > 0,
        "the round was over after {took:?}: this shows nothing"
    );
    assert!(took < Duration::from_secs(3), "{took:?}, {left} left");
    for name in &names {
        cluster.serves(name, &[1, 2, 3]).await;
    }
    cluster.finish().await;
}
