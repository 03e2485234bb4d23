//! Nodes whose machines are gone.

use std::time::{Duration, Instant};

use kube::api::DeleteParams;
use mooring_common::names::reasons;
use mooring_tests::arena::{Arena, MARKER_LIMIT};
use mooring_tests::machines_file::Machines;
use mooring_tests::objects::{NodeBuilder, unique};
use mooring_tests::wait::never;
use serde_json::json;

use crate::node_lifecycle::{Crowd, Marker, file, gone, is_untouched, node, provider_id, running};

/// A Node with this Ready condition, or none, whose machine is gone, is deleted with an Event.
async fn is_deleted(ready: Option<&str>) {
    let arena = Arena::enter().await;
    let name = unique("n");
    let machines = file(&Machines::of([gone(&name)]));
    let node = node(&name);
    let node = ready
        .into_iter()
        .fold(node, |node, status| node.condition("Ready", status));
    let uid = node
        .create(&arena.admin)
        .await
        .unwrap()
        .metadata
        .uid
        .unwrap();
    let _central = arena.central().machines(&machines).start().await;
    arena.is_gone(&name).await;

    let note = arena.told(&name, reasons::DELETING_NODE).await;
    assert!(note.contains(&provider_id(&name)), "{note}");
    let log = arena.written_on(&name).await;
    assert_eq!(log.len(), 1, "{}", log.summary());
    let body = log[0].body.as_ref().expect("the options are kept");
    assert_eq!(body["preconditions"]["uid"], json!(uid));
    arena.leave().await;
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
    let arena = Arena::enter().await;
    let (name, marker) = (unique("n"), Marker::new());
    let machines = file(&Machines::of([gone(&name), marker.machine()]));
    node(&name).ready().create(&arena.admin).await.unwrap();
    let central = arena.central().machines(&machines);
    let _central = central
        .flag("--max-node-deletions-percent=100")
        .start()
        .await;
    marker.passes(&arena, 3).await;
    is_untouched(&arena, &name).await;
    arena.leave().await;
}

#[tokio::test]
async fn lc_14_a_node_that_is_being_deleted_is_left_to_it() {
    let arena = Arena::enter().await;
    let (name, marker) = (unique("n"), Marker::new());
    let machines = file(&Machines::of([gone(&name), marker.machine()]));
    node(&name).ready().create(&arena.admin).await.unwrap();
    let central = arena.central().machines(&machines);
    let _central = central
        .flag("--max-node-deletions-percent=100")
        .start()
        .await;
    let finalizers = json!({ "metadata": { "finalizers": ["example.com/not-yet"] } });
    arena.patch(&name, &finalizers).await;
    let params = DeleteParams::default();
    arena.nodes().delete(&name, &params).await.unwrap();
    NodeBuilder::set_condition(&arena.admin, &name, "Ready", "False")
        .await
        .unwrap();
    marker.passes(&arena, 10).await;
    is_untouched(&arena, &name).await;
    arena.leave().await;
}

#[tokio::test]
async fn lc_15_a_node_of_another_provider_is_never_deleted() {
    let arena = Arena::enter().await;
    let (name, marker) = (unique("n"), Marker::new());
    // Even if the file says of its name that it is gone, and all others are missing.
    let content = Machines::of([gone(&name), marker.machine()]).unknown("missing");
    let machines = file(&content);
    let central = arena.central().machines(&machines);
    let _central = central
        .flag("--max-node-deletions-percent=100")
        .start()
        .await;
    let foreign = unique("other-cloud");
    for (name, id) in [(&name, "aws:///eu/i-1"), (&foreign, "cloudlyckeX://n")] {
        let node = NodeBuilder::new(name).provider_id(id).not_ready();
        node.create(&arena.admin).await.unwrap();
    }
    marker.passes(&arena, 3).await;
    for name in [&name, &foreign] {
        is_untouched(&arena, name).await;
        let events = arena.event_writes(name).await;
        assert!(events.len() <= 1, "{}", events.summary());
    }
    arena.leave().await;
}

#[tokio::test]
async fn lc_16_too_many_machines_gone_at_once_cost_no_node() {
    let arena = Arena::enter().await;
    let (lost, crowd) = (Crowd::of(3), Crowd::of(2));
    let machines: Vec<_> = lost
        .0
        .iter()
        .map(|name| gone(name))
        .chain(crowd.machines())
        .collect();
    let machines = file(&Machines::of(machines));
    let endpoints = arena.endpoints();
    let central = arena
        .central()
        .machines(&machines)
        .flag(&format!("--secure-port={}", endpoints.port()))
        .flag("--bind-address=127.0.0.1")
        .flag("--authorization-always-allow-paths=/metrics");
    crowd.create(&arena).await;
    for name in &lost.0 {
        node(name).not_ready().create(&arena.admin).await.unwrap();
    }
    let _central = central.start().await;
    for name in &lost.0 {
        let note = arena.told(name, reasons::NODE_DELETION_HELD).await;
        assert!(note.contains("3 of 5"), "{note}");
    }
    let (_, metrics) = endpoints.get("/metrics", None).await.unwrap();
    assert!(
        metrics.contains("mooring_node_deletions_held 3"),
        "{metrics}"
    );

    // One of them comes up again, and then another: one in five may go.
    for name in &lost.0[1..] {
        NodeBuilder::set_condition(&arena.admin, name, "Ready", "True")
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
    arena.is_gone(&lost.0[0]).await;
    for name in lost.0[1..].iter().chain(&crowd.0) {
        is_untouched(&arena, name).await;
    }
    arena.leave().await;
}

#[tokio::test]
async fn lc_22_a_new_node_is_given_time_to_appear_in_the_cloud() {
    const GRACE: Duration = Duration::from_secs(3);
    let arena = Arena::enter().await;
    let (name, marker) = (unique("n"), Marker::new());
    let content = Machines::of([marker.machine()]).unknown("missing");
    let machines = file(&content);
    let _central = arena
        .central()
        .machines(&machines)
        .flag("--max-node-deletions-percent=100")
        .flag("--node-deletion-grace=3s")
        .start()
        .await;
    let since = Instant::now();
    let young = node(&name).tainted().not_ready();
    young.create(&arena.admin).await.unwrap();
    marker.create(&arena).await;
    never(
        "a deletion during the grace",
        MARKER_LIMIT,
        async || arena.node(&marker.name).await.is_none(),
        async || {
            let early = since.elapsed() < GRACE;
            (arena.node(&name).await.is_none() && early).then(|| "deleted".to_owned())
        },
    )
    .await;
    arena.is_gone(&name).await;
    assert!(
        since.elapsed() >= GRACE,
        "deleted after {:?}",
        since.elapsed()
    );
    arena.leave().await;
}
