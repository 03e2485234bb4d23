//! The life of Nodes (LC-…): deletion by two proofs, and the shutdown taint.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use http::StatusCode;
use kube::api::DeleteParams;
use mooring_common::names::taints::SHUTDOWN;
use mooring_common::names::{labels, reasons};
use mooring_tests::arena::{MARKER_LIMIT, addresses, has_taint, label};
use mooring_tests::cloud_sim::world::Server;
use mooring_tests::objects::{NodeBuilder, unique};
use mooring_tests::wait::{eventually, never};
use serde_json::json;

use super::CLOUD;
use super::stage::{Gone, Stage};

const NO_GUARD: &str = "--max-node-deletions-percent=100";

/// A Node with this Ready condition, or none, whose machine is gone, is deleted with an Event.
async fn is_deleted(ready: Option<&str>) {
    let stage = Stage::enter().await;
    let name = unique("n");
    let id = stage.world.add(Server::named(&name).private("10.1.0.1"));
    let node = stage.known(&name, &id);
    let node = ready
        .into_iter()
        .fold(node, |node, status| node.condition("Ready", status));
    let node = node.create(&stage.admin).await.unwrap();
    let uid = node.metadata.uid.unwrap();
    stage.world.remove(&id);
    let _central = stage.for_cloud().try_start().await;
    stage.is_gone(&name).await;

    let note = stage.told(&name, reasons::DELETING_NODE).await;
    assert!(note.contains(&id), "{note}");
    let deletions = stage.written_on(&name).await.with_verb("delete");
    assert_eq!(deletions.len(), 1, "{}", deletions.summary());
    let body = deletions[0].body.as_ref().expect("the options are kept");
    assert_eq!(body["preconditions"]["uid"], json!(uid));
    let asked = stage.world.lookups().answered(CLOUD.absence());
    assert!(!asked.is_empty(), "{}", stage.world.calls().summary());
    // An answer that a machine may not be seen is no proof: two listings without it are.
    if CLOUD.absence() != StatusCode::NOT_FOUND {
        let listings = stage.world.listings();
        assert!(listings.len() >= 2, "{}", stage.world.calls().summary());
    }
    stage.leave().await;
}

#[tokio::test]
async fn lc_01_a_node_that_is_not_ready_and_has_no_machine_is_deleted() {
    is_deleted(Some("False")).await;
}

#[tokio::test]
async fn lc_02_a_node_of_which_nothing_is_heard_and_that_has_no_machine_is_deleted() {
    is_deleted(Some("Unknown")).await;
}

#[tokio::test]
async fn lc_03_a_node_without_a_condition_and_without_a_machine_is_deleted() {
    is_deleted(None).await;
}

#[tokio::test]
async fn lc_04_a_ready_node_is_kept_whatever_the_cloud_says() {
    let stage = Stage::enter().await;
    let (name, marker) = (unique("n"), Gone::new());
    let id = stage.member(&name, "10.1.0.1").await;
    stage.world.remove(&id);
    let _central = stage.for_cloud().flag(NO_GUARD).try_start().await;
    marker.passes(&stage, 3).await;
    stage.is_kept(&name).await;
    stage.leave().await;
}

#[tokio::test]
async fn lc_05_a_node_whose_machine_runs_is_kept_without_a_taint() {
    let stage = Stage::enter().await;
    let (name, marker) = (unique("n"), Gone::new());
    stage.member(&name, "10.1.0.1").await;
    stage.set_ready(&name, "Unknown").await;
    let _central = stage.for_cloud().flag(NO_GUARD).try_start().await;
    marker.passes(&stage, 3).await;
    stage.is_kept(&name).await;
    assert!(!has_taint(&stage.node(&name).await.unwrap(), SHUTDOWN));
    stage.leave().await;
}

/// A Node that is tainted since its machine is stopped.
async fn stopped(stage: &Stage, name: &str) -> String {
    let id = stage.member(name, "10.1.0.1").await;
    stage.world.stop(&id);
    stage.set_ready(name, "Unknown").await;
    let is_shut_down = |node: &_| has_taint(node, SHUTDOWN);
    stage.is(name, "shut down", is_shut_down).await;
    id
}

#[tokio::test]
async fn lc_09_the_taint_goes_when_the_node_is_ready_again() {
    let stage = Stage::enter().await;
    let name = unique("n");
    let _central = stage.for_cloud().try_start().await;
    let id = stopped(&stage, &name).await;
    stage.world.boot(&id);
    stage.set_ready(&name, "True").await;
    let runs = |node: &_| !has_taint(node, SHUTDOWN);
    stage.is(&name, "ready for pods", runs).await;
    stage.is_kept(&name).await;
    stage.leave().await;
}

#[tokio::test]
async fn lc_10_the_taint_stays_while_the_node_is_not_ready() {
    let stage = Stage::enter().await;
    let (name, marker) = (unique("n"), Gone::new());
    let _central = stage.for_cloud().flag(NO_GUARD).try_start().await;
    let id = stopped(&stage, &name).await;
    stage.world.boot(&id);
    marker.passes(&stage, 3).await;
    assert!(has_taint(&stage.node(&name).await.unwrap(), SHUTDOWN));
    stage.leave().await;
}

#[tokio::test]
async fn lc_14_a_node_that_is_being_deleted_is_left_to_it() {
    let stage = Stage::enter().await;
    let (name, marker) = (unique("n"), Gone::new());
    let id = stage.member(&name, "10.1.0.1").await;
    let _central = stage.for_cloud().flag(NO_GUARD).try_start().await;
    let finalizers = json!({ "metadata": { "finalizers": ["example.com/not-yet"] } });
    stage.patch(&name, &finalizers).await;
    let params = DeleteParams::default();
    stage.nodes().delete(&name, &params).await.unwrap();
    stage.world.remove(&id);
    stage.set_ready(&name, "False").await;
    marker.passes(&stage, 5).await;
    stage.is_kept(&name).await;
    stage.leave().await;
}

#[tokio::test]
async fn lc_15_a_node_of_another_provider_is_never_deleted() {
    let stage = Stage::enter().await;
    let marker = Gone::new();
    let _central = stage.for_cloud().flag(NO_GUARD).try_start().await;
    let lookalike = format!("{}x://1", CLOUD.name());
    let nonsense = format!("{}://no/machine/is/called/this", CLOUD.name());
    let ids = ["aws:///eu/i-1", &lookalike, &nonsense];
    let names = ids.map(|_| unique("other"));
    for (name, id) in names.iter().zip(ids) {
        let node = NodeBuilder::new(name).provider_id(id).not_ready();
        node.create(&stage.admin).await.unwrap();
    }
    marker.passes(&stage, 3).await;
    for name in &names {
        stage.is_kept(name).await;
        let writes = stage.written_on(name).await;
        assert!(writes.is_empty(), "{}", writes.summary());
        let events = stage.event_writes(name).await;
        assert!(events.len() <= 1, "{}", events.summary());
    }
    stage.leave().await;
}

#[tokio::test]
async fn lc_16_too_many_machines_gone_at_once_cost_no_node() {
    let stage = Stage::enter().await;
    let names: Vec<String> = (0..5).map(|_| unique("n")).collect();
    let mut ids = Vec::new();
    for name in &names {
        ids.push(stage.member(name, "10.1.0.1").await);
    }
    let endpoints = stage.endpoints();
    let central = stage.for_cloud();
    let central = central.flag(&format!("--secure-port={}", endpoints.port()));
    let central = central.flag(&format!("--bind-address={}", Ipv4Addr::LOCALHOST));
    let central = central.flag("--authorization-always-allow-paths=/metrics");
    let _central = central.try_start().await;
    stage.listings_since(Instant::now(), 1).await;
    for (name, id) in names.iter().zip(&ids).take(3) {
        stage.world.remove(id);
        stage.set_ready(name, "Unknown").await;
    }
    for name in &names[..3] {
        stage.told(name, reasons::NODE_DELETION_HELD).await;
    }
    let (_, metrics) = endpoints.get("/metrics", None).await.unwrap();
    let held = "mooring_node_deletions_held 3";
    assert!(metrics.contains(held), "{metrics}");
    stage.listings_since(Instant::now(), 3).await;
    for name in &names {
        stage.is_kept(name).await;
    }

    // Two machines come back: one in five may go.
    for (name, id) in names.iter().zip(&ids).take(3).skip(1) {
        stage
            .world
            .restore(id, Server::named(name).private("10.1.0.1"));
    }
    eventually("the first is gone", MARKER_LIMIT, async || {
        stage.node(&names[0]).await.is_none()
    })
    .await;
    for name in &names[1..] {
        stage.is_kept(name).await;
    }
    stage.leave().await;
}

/// One Node is silent; that its machine is not the only one that is gone shows in the listing that
/// it is judged by, and in no earlier one.
#[tokio::test]
async fn lc_16_machines_of_ready_nodes_that_are_gone_count_as_well() {
    let stage = Stage::enter().await;
    let names: Vec<String> = ["a", "b", "c", "d", "z"].map(unique).to_vec();
    let mut ids = Vec::new();
    for name in &names {
        ids.push(stage.member(name, "10.1.0.1").await);
    }
    let central = stage.for_cloud().flag("--node-status-update-frequency=1h");
    let _central = central.try_start().await;
    // Nothing is left to be written on them, so that no deletion fails for that.
    for name in &names {
        let described = |node: &_| label(node, labels::REGION).is_some();
        stage.is(name, "described", described).await;
    }
    for id in &ids[2..] {
        stage.world.remove(id);
    }
    stage.set_ready(&names[4], "Unknown").await;
    stage.told(&names[4], reasons::NODE_DELETION_HELD).await;
    for name in &names {
        stage.is_kept(name).await;
    }
    stage.leave().await;
}

#[tokio::test]
async fn lc_21_a_node_that_has_the_taint_costs_no_request_per_period() {
    let stage = Stage::enter().await;
    let (name, marker) = (unique("n"), Gone::new());
    let _central = stage.for_cloud().flag(NO_GUARD).try_start().await;
    let id = stopped(&stage, &name).await;
    let described = |node: &_| label(node, labels::REGION).is_some() && !addresses(node).is_empty();
    stage.is(&name, "described", described).await;
    let asked = stage.asked_about(&name).await.len();
    marker.passes(&stage, 5).await;
    let after = stage.asked_about(&name).await;
    assert_eq!(after.len(), asked, "{}", after.summary());
    let own = stage.world.lookups();
    let own = own.filter(|call| id.ends_with(call.path.rsplit('/').next().unwrap()));
    assert!(own.is_empty(), "{}", own.summary());
    stage.leave().await;
}

/// The kubelet knows the provider ID, the cloud does not know the machine yet.
#[tokio::test]
async fn lc_22_a_new_node_is_given_time_to_appear_in_the_cloud() {
    const GRACE: Duration = Duration::from_secs(5);
    let stage = Stage::enter().await;
    let (name, nameless, marker) = (unique("n"), unique("nameless"), Gone::new());
    let central = stage.for_cloud().flag(NO_GUARD);
    let _central = central.flag("--node-deletion-grace=5s").try_start().await;
    let since = Instant::now();
    let young = NodeBuilder::new(&name).provider_id(CLOUD.nobodys_id());
    young
        .tainted()
        .not_ready()
        .create(&stage.admin)
        .await
        .unwrap();
    // Of a Node without provider ID nobody can prove that its machine is gone.
    let young = NodeBuilder::new(&nameless).tainted().not_ready();
    young.create(&stage.admin).await.unwrap();
    // The marker is not young: it has been initialised.
    never(
        "a deletion during the grace",
        MARKER_LIMIT,
        async || since.elapsed() >= GRACE,
        async || {
            let early = since.elapsed() < GRACE.mul_f64(0.9);
            (stage.node(&name).await.is_none() && early).then(|| "deleted".to_owned())
        },
    )
    .await;
    stage.is_gone(&name).await;
    marker.passes(&stage, 2).await;
    stage.is_kept(&nameless).await;
    stage.leave().await;
}
