//! Load balancers follow the Nodes (NS-…).

use std::time::{Duration, Instant};

use http::StatusCode;
use mooring_common::names::reasons;
use mooring_tests::cloud_sim::Fault;
use mooring_tests::objects::NodeBuilder;
use mooring_tests::wait::eventually;
use serde_json::json;

use super::cloud;
use super::stage::{AFTER_RETRIES, Stage, assert_none};

const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const AUTOSCALER: &str = "ToBeDeletedByClusterAutoscaler";

#[tokio::test]
async fn ns_01_a_third_node_becomes_a_member_and_an_event_tells_so() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.provide("web").await;
    let id = stage.serves("web", &[1, 2]).await.id;
    stage.settle().await;
    stage.join(3).await;
    stage.serves("web", &[1, 2, 3]).await;
    stage.told("web", reasons::UPDATED_LOAD_BALANCER, "").await;
    assert_none(&cloud::outages(&stage.world, &id));
    assert_none(&stage.warnings("web").await);
    stage.leave().await;
}

#[tokio::test]
async fn ns_02_a_deleted_node_is_no_member_any_more() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.provide("web").await;
    stage.settle().await;
    stage.remove_node("n2").await;
    stage.serves("web", &[1]).await;
    stage.told("web", reasons::UPDATED_LOAD_BALANCER, "").await;
    stage.leave().await;
}

#[tokio::test]
async fn ns_03_ns_05_the_exclusion_label_takes_members_out_and_its_removal_brings_them_back() {
    let stage = Stage::enter().await;
    for n in [3, 4, 5] {
        stage.join(n).await;
    }
    let _central = stage.central().await;
    stage.provide("web").await;
    stage.serves("web", &[1, 2, 3, 4, 5]).await;
    for (node, value) in [("n1", ""), ("n2", "true"), ("n3", "abc"), ("n4", "false")] {
        stage.label_node(node, EXCLUDED, Some(value)).await;
    }
    stage.serves("web", &[4, 5]).await;
    for node in ["n1", "n2", "n3"] {
        stage.label_node(node, EXCLUDED, None).await;
    }
    stage.serves("web", &[1, 2, 3, 4, 5]).await;
    stage.leave().await;
}

/// The marker: another Node joins, and all that happened before has been looked at by then.
#[tokio::test]
async fn ns_06_ns_07_readiness_and_cordons_cost_no_write() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.provide("web").await;
    stage.serves("web", &[1, 2]).await;
    let start = Instant::now();
    NodeBuilder::set_condition(&stage.admin, "n1", "Ready", "Unknown")
        .await
        .unwrap();
    let cordon = json!({ "spec": { "unschedulable": true } });
    stage.patch_node("n2", &cordon).await;
    stage.join(3).await;
    stage.serves("web", &[1, 2, 3]).await;
    let writes = stage.writes().since(start);
    assert_eq!(writes.len(), 1, "one member: {}", writes.summary());
    stage.leave().await;
}

#[tokio::test]
async fn ns_08_ns_09_the_autoscalers_taint_counts_when_something_else_changes() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.provide("web").await;
    stage.serves("web", &[1, 2]).await;
    let start = Instant::now();
    let taint = json!([{ "key": AUTOSCALER, "value": "1", "effect": "NoSchedule" }]);
    let patch = json!({ "spec": { "taints": taint } });
    stage.patch_node("n1", &patch).await;
    // The Node's taints are of no consequence to a Service that was not touched.
    stage.provide("later").await;
    let service = stage.get("web").await;
    let balancer = stage.balancer(&service).unwrap();
    assert_eq!(balancer.served["tcp/80"].len(), 2);
    stage.serves("later", &[2]).await;
    let of_web = cloud::writes_on(&stage.world, &balancer.id).since(start);
    assert_none(&of_web);
    stage.join(3).await;
    stage.serves("web", &[2, 3]).await;
    stage.leave().await;
}

#[tokio::test]
async fn ns_10_a_node_that_gets_its_provider_id_later_becomes_a_member_then() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.provide("web").await;
    stage.serves("web", &[1, 2]).await;
    let fresh = NodeBuilder::new("fresh").ready().create(&stage.admin);
    fresh.await.unwrap();
    stage.join(3).await;
    stage.serves("web", &[1, 2, 3]).await;
    let id = stage.machine(4);
    let patch = json!({ "spec": { "providerID": id } });
    stage.patch_node("fresh", &patch).await;
    stage.serves("web", &[1, 2, 3, 4]).await;
    stage.leave().await;
}

#[tokio::test]
async fn ns_12_a_failed_update_is_told_and_repaired() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.provide("web").await;
    stage.serves("web", &[1, 2]).await;
    let failure = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let failing = cloud::additions().times(1);
    let failing = stage.world.faults().inject(failing, failure);
    stage.join(3).await;
    stage
        .told("web", reasons::UPDATE_LOAD_BALANCER_FAILED, "")
        .await;
    stage.serves("web", &[1, 2, 3]).await;
    assert_eq!(failing.hits(), 1);
    stage.leave().await;
}

/// The Service's own sync makes it anew; the Nodes' need not complain.
#[tokio::test]
async fn ns_13_a_load_balancer_that_is_gone_is_no_failure_of_the_nodes_round() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let service = stage.provide("web").await;
    cloud::delete_by_hand(&stage.world, &stage.balancer(&service).unwrap().id);
    stage.join(3).await;
    eventually(
        "it is there again, with all Nodes",
        AFTER_RETRIES,
        async || {
            let served = stage.balancer(&service)?.served;
            (served.get("tcp/80")?.len() == 3).then_some(())
        },
    )
    .await;
    let told = stage.warnings("web").await;
    assert!(
        told.iter().map(|event| event.count).sum::<i32>() <= 1,
        "{told:?}"
    );
    stage.leave().await;
}

#[tokio::test]
async fn ns_14_a_foreign_class_costs_no_call_when_a_node_joins() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let theirs = stage.service("theirs").class("example.org/theirs");
    let theirs = stage.make(theirs).await;
    stage.provide("web").await;
    stage.join(3).await;
    stage.serves("web", &[1, 2, 3]).await;
    assert!(stage.balancer(&theirs).is_none());
    assert_none(&stage.events("theirs").await);
    stage.leave().await;
}

#[tokio::test]
async fn ns_16_a_node_that_joins_while_central_is_down_is_a_member_after_its_start() {
    let stage = Stage::enter().await;
    let central = stage.central().await;
    stage.provide("web").await;
    stage.serves("web", &[1, 2]).await;
    drop(central);
    stage.join(3).await;
    stage.remove_node("n1").await;
    let _central = stage.central().await;
    stage.serves("web", &[2, 3]).await;
    stage.leave().await;
}

/// T8 in small: many Nodes within 10 s, and few rounds for each load balancer.
#[tokio::test]
async fn ns_17_t8_many_nodes_that_join_cost_three_rounds_at_most() {
    const NODES: std::ops::RangeInclusive<usize> = 3..=42;
    const SERVICES: usize = 5;
    // Members that are added with a longer pause in between belong to another round.
    const PAUSE: Duration = Duration::from_millis(800);
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let names: Vec<String> = (0..SERVICES).map(|n| format!("web-{n}")).collect();
    for name in &names {
        stage.create(name).await;
    }
    let mut ids = Vec::new();
    for name in &names {
        stage.provided(name).await;
        ids.push(stage.serves(name, &[1, 2]).await.id);
    }
    let start = Instant::now();
    // As a cloud starts them: one after the other, over several seconds.
    let mut pace = tokio::time::interval(Duration::from_millis(200));
    for n in NODES {
        pace.tick().await;
        stage.join(n).await;
    }
    let all: Vec<usize> = (1..=*NODES.end()).collect();
    for name in &names {
        eventually(
            &format!("{name} has all Nodes"),
            AFTER_RETRIES,
            async || {
                let served = stage.balancer(&stage.get(name).await)?.served;
                (served.get("tcp/80")?.len() == all.len()).then_some(())
            },
        )
        .await;
    }
    for id in ids {
        let added = cloud::members_added(&stage.world, &id).since(start);
        assert_eq!(added.len(), NODES.count(), "each once: {}", added.summary());
        let pauses = added.windows(2).filter(|w| w[1].at - w[0].at > PAUSE);
        let rounds = pauses.count() + 1;
        assert!(rounds <= 3, "{rounds} rounds:\n{}", added.summary());
    }
    stage.leave().await;
}

#[tokio::test]
async fn ns_19_selected_nodes_follow_their_labels() {
    let stage = Stage::enter().await;
    stage.label_node("n1", "pool", Some("edge")).await;
    let _central = stage.central().await;
    let service = stage.service("web");
    let service = service.annotation(cloud::NODE_SELECTOR, "pool=edge");
    stage.make(service).await;
    stage.provided("web").await;
    stage.serves("web", &[1]).await;
    stage.label_node("n2", "pool", Some("edge")).await;
    stage.serves("web", &[1, 2]).await;
    stage.label_node("n1", "pool", Some("inner")).await;
    stage.serves("web", &[2]).await;
    stage.leave().await;
}

#[tokio::test]
async fn no_node_at_all_is_told_and_no_failure() {
    let stage = Stage::without_nodes().await;
    let _central = stage.central().await;
    stage.create("web").await;
    stage
        .told("web", reasons::UNAVAILABLE_LOAD_BALANCER, "")
        .await;
    stage.join(1).await;
    stage.provided_at_last("web").await;
    stage.serves("web", &[1]).await;
    stage.leave().await;
}

/// A Service that is being deleted is never made anything for, whatever the Nodes do.
#[tokio::test]
async fn a_node_that_joins_during_a_deletion_brings_nothing_back() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.provide("web").await;
    stage.provide("other").await;
    let other = json!({ "metadata": { "finalizers": [
        "example.org/slow", mooring_common::names::finalizers::SERVICE,
    ] } });
    stage.patch("web", &other).await;
    stage.delete("web").await;
    let service = stage
        .is("web", "is let go", |service| {
            !super::stage::has_finalizer(service)
        })
        .await;
    stage.join(3).await;
    stage.serves("other", &[1, 2, 3]).await;
    assert!(stage.balancer(&service).is_none());
    let none = json!({ "metadata": { "finalizers": null } });
    stage.patch("web", &none).await;
    stage.leave().await;
}
