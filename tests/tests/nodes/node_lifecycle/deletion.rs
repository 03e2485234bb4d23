//! Nodes whose machines are gone.

use std::time::{Duration, Instant};

use kube::api::DeleteParams;
use mooring_common::names::reasons;
use mooring_test_cluster::cluster::{Cluster, MARKER_LIMIT};
use mooring_test_cluster::machines_file::Machines;
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_support::wait::never;
use serde_json::json;

use crate::node_lifecycle::{Crowd, Marker, file, gone, is_untouched, node, provider_id, running};

/// A Node with this Ready condition, or none, whose machine is gone, is deleted with an Event.
async fn is_deleted(ready: Option<&str>) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let machines = file(&Machines::of([gone(&name)]));
    let node = node(&name);
    let node = ready
        .into_iter()
        .fold(node, |node, status| node.condition("Ready", status));
    let uid = node
        .create(&cluster.admin)
        .await
        .unwrap()
        .metadata
        .uid
        .unwrap();
    let _central = cluster.central().machines(&machines).start().await;
    cluster.is_gone(&name).await;

    let note = cluster.told(&name, reasons::DELETING_NODE).await;
    assert!(note.contains(&provider_id(&name)), "{note}");
    let log = cluster.written_on(&name).await;
    assert_eq!(log.len(), 1, "{}", log.summary());
    let body = log[0].body.as_ref().expect("the options are kept");
    assert_eq!(body["preconditions"]["uid"], json!(uid));
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
    let cluster = Cluster::exclusive_with_controllers().await;
    let (name, marker) = (unique("n"), Marker::new());
    let machines = file(&Machines::of([gone(&name), marker.machine()]));
    node(&name).ready().create(&cluster.admin).await.unwrap();
    let central = cluster.central().machines(&machines);
    let _central = central
        .flag("--max-node-deletions-percent=100")
        .start()
        .await;
    marker.passes(&cluster, 3).await;
    is_untouched(&cluster, &name).await;
    cluster.finish().await;
}

#[tokio::test]
async fn lc_14_a_node_that_is_being_deleted_is_left_to_it() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (name, marker) = (unique("n"), Marker::new());
    let machines = file(&Machines::of([gone(&name), marker.machine()]));
    node(&name).ready().create(&cluster.admin).await.unwrap();
    let central = cluster.central().machines(&machines);
    let _central = central
        .flag("--max-node-deletions-percent=100")
        .start()
        .await;
    let finalizers = json!({ "metadata": { "finalizers": ["example.com/not-yet"] } });
    cluster.patch(&name, &finalizers).await;
    let params = DeleteParams::default();
    cluster.nodes().delete(&name, &params).await.unwrap();
    NodeBuilder::set_condition(&cluster.admin, &name, "Ready", "False")
        .await
        .unwrap();
    marker.passes(&cluster, 10).await;
    is_untouched(&cluster, &name).await;
    cluster.finish().await;
}

#[tokio::test]
async fn lc_15_a_node_of_another_provider_is_never_deleted() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (name, marker) = (unique("n"), Marker::new());
    // Even if the file says of its name that it is gone, and all others are missing.
    let content = Machines::of([gone(&name), marker.machine()]).unknown("missing");
    let machines = file(&content);
    let central = cluster.central().machines(&machines);
    let _central = central
        .flag("--max-node-deletions-percent=100")
        .start()
        .await;
    let foreign = unique("other-cloud");
    for (name, id) in [(&name, "aws:///eu/i-1"), (&foreign, "cloudlyckeX://n")] {
        let node = NodeBuilder::new(name).provider_id(id).not_ready();
        node.create(&cluster.admin).await.unwrap();
    }
    marker.passes(&cluster, 3).await;
    for name in [&name, &foreign] {
        is_untouched(&cluster, name).await;
        let events = cluster.event_writes(name).await;
        assert!(events.len() <= 1, "{}", events.summary());
    }
    cluster.finish().await;
}

#[tokio::test]
async fn lc_16_too_many_machines_gone_at_once_cost_no_node() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (lost, crowd) = (Crowd::of(3), Crowd::of(2));
    let machines: Vec<_> = lost
        .0
        .iter()
        .map(|name| gone(name))
        .chain(crowd.machines())
        .collect();
    let machines = file(&Machines::of(machines));
    let endpoints = cluster.endpoints();
    let central = cluster
        .central()
        .machines(&machines)
        .flag(&format!("--secure-port={}", endpoints.port()))
        .flag("--bind-address=127.0.0.1")
        .flag("--authorization-always-allow-paths=/metrics");
    crowd.create(&cluster).await;
    for name in &lost.0 {
        node(name).not_ready().create(&cluster.admin).await.unwrap();
    }
    let _central = central.start().await;
    for name in &lost.0 {
        let note = cluster.told(name, reasons::NODE_DELETION_HELD).await;
        assert!(note.contains("3 of 5"), "{note}");
    }
    let (_, metrics) = endpoints.get("/metrics", None).await.unwrap();
    assert!(
        metrics.contains("mooring_node_deletions_held 3"),
        "{metrics}"
    );

    // One of them comes up again, and then another: one in five may go.
    for name in &lost.0[1..] {
        NodeBuilder::set_condition(&cluster.admin, name, "Ready", "True")
            .await
            .unwrap();
    }
    let rest: Vec<_> = lost.0[1..].iter().map(|name| running(name)).collect();
    let content = Machines::of(
        [gone(&lost.0[0])]
            .into_iter()
            .chain(rest)
            .chain(crowd.machines()),
    );
    machines.replace(&content).unwrap();
    cluster.is_gone(&lost.0[0]).await;
    for name in lost.0[1..].iter().chain(&crowd.0) {
        is_untouched(&cluster, name).await;
    }
    cluster.finish().await;
}

#[tokio::test]
async fn lc_22_a_new_node_is_given_time_to_appear_in_the_cloud() {
    const GRACE: Duration = Duration::from_secs(3);
    let cluster = Cluster::exclusive_with_controllers().await;
    let (name, marker) = (unique("n"), Marker::new());
    let content = Machines::of([marker.machine()]).unknown("missing");
    let machines = file(&content);
    let _central = cluster
        .central()
        .machines(&machines)
        .flag("--max-node-deletions-percent=100")
        .flag("--node-deletion-grace=3s")
        .start()
        .await;
    let since = Instant::now();
    let young = node(&name).tainted().not_ready();
    young.create(&cluster.admin).await.unwrap();
    marker.create(&cluster).await;
    never(
        "a deletion during the grace",
        MARKER_LIMIT,
        async || cluster.node(&marker.name).await.is_none(),
        async || {
            let early = since.elapsed() < GRACE;
            (cluster.node(&name).await.is_none() && early).then(|| "deleted".to_owned())
        },
    )
    .await;
    cluster.is_gone(&name).await;
    assert!(
        since.elapsed() >= GRACE,
        "deleted after {:?}",
        since.elapsed()
    );
    cluster.finish().await;
}
