//! Nodes whose machines are switched off.

use k8s_openapi::api::core::v1::Node;
use mooring_common::names::taints::SHUTDOWN;
use mooring_tests::arena::{Arena, has_taint};
use mooring_tests::machines_file::{Machine, Machines, MachinesFile};
use mooring_tests::objects::{NodeBuilder, unique};
use mooring_tests::process::Process;

use crate::node_lifecycle::{Marker, file, node, running};

fn stopped(name: &str) -> Machine {
    Machine::named(name).state("shutdown")
}

fn is_shut_down(node: &Node) -> bool {
    has_taint(node, SHUTDOWN)
}

/// A Node that is tainted since its machine is stopped.
async fn tainted(arena: &Arena, name: &str, marker: &Marker) -> (MachinesFile, Process) {
    let machines = file(&Machines::of([stopped(name), marker.machine()]));
    let central = arena.central().machines(&machines).start().await;
    let node = node(name).taint("example.com/x", "1", "NoSchedule");
    node.not_ready().create(&arena.admin).await.unwrap();
    let node = arena.is(name, "shut down", is_shut_down).await;
    let taints = node.spec.unwrap().taints.unwrap();
    let taint = taints.iter().find(|taint| taint.key == SHUTDOWN).unwrap();
    assert_eq!(
        (taint.effect.as_str(), taint.value.as_deref()),
        ("NoSchedule", None)
    );
    assert!(taints.iter().any(|taint| taint.key == "example.com/x"));
    (machines, central)
}

#[tokio::test]
async fn lc_09_the_taint_goes_when_the_node_is_ready_again() {
    let arena = Arena::enter().await;
    let (name, marker) = (unique("n"), Marker::new());
    let (machines, _central) = tainted(&arena, &name, &marker).await;
    let started = Machines::of([running(&name), marker.machine()]);
    machines.replace(&started).unwrap();
    NodeBuilder::set_condition(&arena.admin, &name, "Ready", "True")
        .await
        .unwrap();
    let node = arena
        .is(&name, "ready for pods", |node| !is_shut_down(node))
        .await;
    assert!(has_taint(&node, "example.com/x"));
    arena.leave().await;
}

#[tokio::test]
async fn lc_10_the_taint_stays_while_the_node_is_not_ready() {
    let arena = Arena::enter().await;
    let (name, marker) = (unique("n"), Marker::new());
    let (machines, central) = tainted(&arena, &name, &marker).await;
    let started = Machines::of([running(&name), marker.machine()]);
    machines.replace(&started).unwrap();
    mooring_tests::arena::logged(&central, "machines file reloaded").await;
    marker.passes(&arena, 3).await;
    assert!(is_shut_down(&arena.node(&name).await.unwrap()));
    assert_eq!(arena.written_on(&name).await.len(), 1);
    arena.leave().await;
}

#[tokio::test]
async fn lc_21_a_node_that_has_the_taint_costs_no_request_per_period() {
    let arena = Arena::enter().await;
    let (name, marker) = (unique("n"), Marker::new());
    let (_machines, _central) = tainted(&arena, &name, &marker).await;
    marker.passes(&arena, 10).await;
    let asked = arena.asked_about(&name).await;
    assert_eq!(asked.len(), 1, "{}", asked.summary());
    arena.leave().await;
}
