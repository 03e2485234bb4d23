//! The life of Nodes (LC-…): deletion by two proofs, and the shutdown taint.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use http::StatusCode;
use kube::api::DeleteParams;
use mooring_cloud_sim::cloud::Server;
use mooring_common::names::taints::SHUTDOWN;
use mooring_common::names::{labels, reasons};
use mooring_test_cluster::cluster::{MARKER_LIMIT, addresses, has_taint, label};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_support::wait::{eventually, never};
use serde_json::json;

use super::CLOUD;
use super::cluster::{CloudCluster, Gone};

const NO_GUARD: &str = "--max-node-deletions-percent=100";

/// A Node with this Ready condition, or none, whose machine is gone, is deleted with an Event.
async fn is_deleted(ready: Option<&str>) {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let id = cluster.cloud.add(Server::named(&name).private("10.1.0.1"));
    let node = cluster.known(&name, &id);
    let node = ready
        .into_iter()
        .fold(node, |node, status| node.condition("Ready", status));
    let node = node.create(&cluster.admin).await.unwrap();
    let uid = node.metadata.uid.unwrap();
    cluster.cloud.remove(&id);
    let _central = cluster.for_cloud().try_start().await;
    cluster.is_gone(&name).await;

    let note = cluster.told(&name, reasons::DELETING_NODE).await;
    assert!(note.contains(&id), "{note}");
    let deletions = cluster.written_on(&name).await.with_verb("delete");
    assert_eq!(deletions.len(), 1, "{}", deletions.summary());
    let body = deletions[0].body.as_ref().expect("the options are kept");
    assert_eq!(body["preconditions"]["uid"], json!(uid));
    let asked = cluster.cloud.lookups().answered(CLOUD.absence());
    assert!(!asked.is_empty(), "{}", cluster.cloud.calls().summary());
    // An answer that a machine may not be seen is no proof: two listings without it are.
    if CLOUD.absence() != StatusCode::NOT_FOUND {
        let listings = cluster.cloud.listings();
        assert!(listings.len() >= 2, "{}", cluster.cloud.calls().summary());
    }
    cluster.finish().await;
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
    let cluster = CloudCluster::start().await;
    let (name, marker) = (unique("n"), Gone::new());
    let id = cluster.member(&name, "10.1.0.1").await;
    cluster.cloud.remove(&id);
    let _central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    marker.passes(&cluster, 3).await;
    cluster.is_kept(&name).await;
    cluster.finish().await;
}

#[tokio::test]
async fn lc_05_a_node_whose_machine_runs_is_kept_without_a_taint() {
    let cluster = CloudCluster::start().await;
    let (name, marker) = (unique("n"), Gone::new());
    cluster.member(&name, "10.1.0.1").await;
    cluster.set_ready(&name, "Unknown").await;
    let _central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    marker.passes(&cluster, 3).await;
    cluster.is_kept(&name).await;
    assert!(!has_taint(&cluster.node(&name).await.unwrap(), SHUTDOWN));
    cluster.finish().await;
}

/// A Node that is tainted since its machine is stopped.
async fn stopped(cluster: &CloudCluster, name: &str) -> String {
    let id = cluster.member(name, "10.1.0.1").await;
    cluster.cloud.stop(&id);
    cluster.set_ready(name, "Unknown").await;
    let is_shut_down = |node: &_| has_taint(node, SHUTDOWN);
    cluster.is(name, "shut down", is_shut_down).await;
    id
}

#[tokio::test]
async fn lc_09_the_taint_goes_when_the_node_is_ready_again() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let _central = cluster.for_cloud().try_start().await;
    let id = stopped(&cluster, &name).await;
    cluster.cloud.boot(&id);
    cluster.set_ready(&name, "True").await;
    let runs = |node: &_| !has_taint(node, SHUTDOWN);
    cluster.is(&name, "ready for pods", runs).await;
    cluster.is_kept(&name).await;
    cluster.finish().await;
}

#[tokio::test]
async fn lc_10_the_taint_stays_while_the_node_is_not_ready() {
    let cluster = CloudCluster::start().await;
    let (name, marker) = (unique("n"), Gone::new());
    let _central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    let id = stopped(&cluster, &name).await;
    cluster.cloud.boot(&id);
    marker.passes(&cluster, 3).await;
    assert!(has_taint(&cluster.node(&name).await.unwrap(), SHUTDOWN));
    cluster.finish().await;
}

#[tokio::test]
async fn lc_14_a_node_that_is_being_deleted_is_left_to_it() {
    let cluster = CloudCluster::start().await;
    let (name, marker) = (unique("n"), Gone::new());
    let id = cluster.member(&name, "10.1.0.1").await;
    let _central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    let finalizers = json!({ "metadata": { "finalizers": ["example.com/not-yet"] } });
    cluster.patch(&name, &finalizers).await;
    let params = DeleteParams::default();
    cluster.nodes().delete(&name, &params).await.unwrap();
    cluster.cloud.remove(&id);
    cluster.set_ready(&name, "False").await;
    marker.passes(&cluster, 5).await;
    cluster.is_kept(&name).await;
    cluster.finish().await;
}

#[tokio::test]
async fn lc_15_a_node_of_another_provider_is_never_deleted() {
    let cluster = CloudCluster::start().await;
    let marker = Gone::new();
    let _central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    let lookalike = format!("{}x://1", CLOUD.name());
    let nonsense = format!("{}://no/machine/is/called/this", CLOUD.name());
    let ids = ["aws:///eu/i-1", &lookalike, &nonsense];
    let names = ids.map(|_| unique("other"));
    for (name, id) in names.iter().zip(ids) {
        let node = NodeBuilder::new(name).provider_id(id).not_ready();
        node.create(&cluster.admin).await.unwrap();
    }
    marker.passes(&cluster, 3).await;
    for name in &names {
        cluster.is_kept(name).await;
        let writes = cluster.written_on(name).await;
        assert!(writes.is_empty(), "{}", writes.summary());
        let events = cluster.event_writes(name).await;
        assert!(events.len() <= 1, "{}", events.summary());
    }
    cluster.finish().await;
}

#[tokio::test]
async fn lc_16_too_many_machines_gone_at_once_cost_no_node() {
    let cluster = CloudCluster::start().await;
    let names: Vec<String> = (0..5).map(|_| unique("n")).collect();
    let mut ids = Vec::new();
    for name in &names {
        ids.push(cluster.member(name, "10.1.0.1").await);
    }
    let endpoints = cluster.endpoints();
    let central = cluster.for_cloud();
    let central = central.flag(&format!("--secure-port={}", endpoints.port()));
    let central = central.flag(&format!("--bind-address={}", Ipv4Addr::LOCALHOST));
    let central = central.flag("--authorization-always-allow-paths=/metrics");
    let _central = central.try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    for (name, id) in names.iter().zip(&ids).take(3) {
        cluster.cloud.remove(id);
        cluster.set_ready(name, "Unknown").await;
    }
    for name in &names[..3] {
        cluster.told(name, reasons::NODE_DELETION_HELD).await;
    }
    let (_, metrics) = endpoints.get("/metrics", None).await.unwrap();
    let held = "mooring_node_deletions_held 3";
    assert!(metrics.contains(held), "{metrics}");
    cluster.listings_since(Instant::now(), 3).await;
    for name in &names {
        cluster.is_kept(name).await;
    }

    // Two machines come back: one in five may go.
    for (name, id) in names.iter().zip(&ids).take(3).skip(1) {
        cluster
            .cloud
            .restore(id, Server::named(name).private("10.1.0.1"));
    }
    eventually("the first is gone", MARKER_LIMIT, async || {
        cluster.node(&names[0]).await.is_none()
    })
    .await;
    for name in &names[1..] {
        cluster.is_kept(name).await;
    }
    cluster.finish().await;
}

/// One Node is silent; that its machine is not the only one that is gone shows in the listing that
/// it is judged by, and in no earlier one.
#[tokio::test]
async fn lc_16_machines_of_ready_nodes_that_are_gone_count_as_well() {
    let cluster = CloudCluster::start().await;
    let names: Vec<String> = ["a", "b", "c", "d", "z"].map(unique).to_vec();
    let mut ids = Vec::new();
    for name in &names {
        ids.push(cluster.member(name, "10.1.0.1").await);
    }
    let central = cluster
        .for_cloud()
        .flag("--node-status-update-frequency=1h");
    let _central = central.try_start().await;
    // Nothing is left to be written on them, so that no deletion fails for that.
    for name in &names {
        let described = |node: &_| label(node, labels::REGION).is_some();
        cluster.is(name, "described", described).await;
    }
    for id in &ids[2..] {
        cluster.cloud.remove(id);
    }
    cluster.set_ready(&names[4], "Unknown").await;
    cluster.told(&names[4], reasons::NODE_DELETION_HELD).await;
    for name in &names {
        cluster.is_kept(name).await;
    }
    cluster.finish().await;
}

#[tokio::test]
async fn lc_21_a_node_that_has_the_taint_costs_no_request_per_period() {
    let cluster = CloudCluster::start().await;
    let (name, marker) = (unique("n"), Gone::new());
    let _central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    let id = stopped(&cluster, &name).await;
    let described = |node: &_| label(node, labels::REGION).is_some() && !addresses(node).is_empty();
    cluster.is(&name, "described", described).await;
    let asked = cluster.asked_about(&name).await.len();
    marker.passes(&cluster, 5).await;
    let after = cluster.asked_about(&name).await;
    assert_eq!(after.len(), asked, "{}", after.summary());
    let own = cluster.cloud.lookups();
    let own = own.filter(|call| id.ends_with(call.path.rsplit('/').next().unwrap()));
    assert!(own.is_empty(), "{}", own.summary());
    cluster.finish().await;
}

/// The kubelet knows the provider ID, the cloud does not know the machine yet.
#[tokio::test]
async fn lc_22_a_new_node_is_given_time_to_appear_in_the_cloud() {
    const GRACE: Duration = Duration::from_secs(5);
    let cluster = CloudCluster::start().await;
    let (name, nameless, marker) = (unique("n"), unique("nameless"), Gone::new());
    let central = cluster.for_cloud().flag(NO_GUARD);
    let _central = central.flag("--node-deletion-grace=5s").try_start().await;
    let since = Instant::now();
    let young = NodeBuilder::new(&name).provider_id(CLOUD.nobodys_id());
    young
        .tainted()
        .not_ready()
        .create(&cluster.admin)
        .await
        .unwrap();
    // Of a Node without provider ID nobody can prove that its machine is gone.
    let young = NodeBuilder::new(&nameless).tainted().not_ready();
    young.create(&cluster.admin).await.unwrap();
    // The marker is not young: it has been initialised.
    never(
        "a deletion during the grace",
        MARKER_LIMIT,
        async || since.elapsed() >= GRACE,
        async || {
            let early = since.elapsed() < GRACE.mul_f64(0.9);
            (cluster.node(&name).await.is_none() && early).then(|| "deleted".to_owned())
        },
    )
    .await;
    cluster.is_gone(&name).await;
    marker.passes(&cluster, 2).await;
    cluster.is_kept(&nameless).await;
    cluster.finish().await;
}
