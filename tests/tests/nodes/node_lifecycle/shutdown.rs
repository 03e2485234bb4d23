//! Nodes whose machines are switched off.

use k8s_openapi::api::core::v1::Node;
use mooring_common::names::taints::SHUTDOWN;
use mooring_test_cluster::cluster::{Cluster, has_taint};
use mooring_test_cluster::machines_file::{Machine, Machines, MachinesFile};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_support::process::Process;

use crate::node_lifecycle::{Marker, file, node, running};

fn stopped(name: &str) -> Machine {
    Machine::named(name).state("shutdown")
}

fn is_shut_down(node: &Node) -> bool {
    has_taint(node, SHUTDOWN)
}

/// A Node that is tainted since its machine is stopped.
async fn tainted(cluster: &Cluster, name: &str, marker: &Marker) -> (MachinesFile, Process) {
    let machines = file(&Machines::of([stopped(name), marker.machine()]));
    let central = cluster.central().machines(&machines).start().await;
    let node = node(name).taint("example.com/x", "1", "NoSchedule");
    node.not_ready().create(&cluster.admin).await.unwrap();
    let node = cluster.is(name, "shut down", is_shut_down).await;
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
    let cluster = Cluster::exclusive_with_controllers().await;
    let (name, marker) = (unique("n"), Marker::new());
    let (machines, _central) = tainted(&cluster, &name, &marker).await;
    let started = Machines::of([running(&name), marker.machine()]);
    machines.replace(&started).unwrap();
    NodeBuilder::set_condition(&cluster.admin, &name, "Ready", "True")
        .await
        .unwrap();
    let node = cluster
        .is(&name, "ready for pods", |node| !is_shut_down(node))
        .await;
    assert!(has_taint(&node, "example.com/x"));
    cluster.finish().await;
}

#[tokio::test]
async fn lc_10_the_taint_stays_while_the_node_is_not_ready() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (name, marker) = (unique("n"), Marker::new());
    let (machines, central) = tainted(&cluster, &name, &marker).await;
    let started = Machines::of([running(&name), marker.machine()]);
    machines.replace(&started).unwrap();
    mooring_test_cluster::cluster::logged(&central, "machines file reloaded").await;
    marker.passes(&cluster, 3).await;
    assert!(is_shut_down(&cluster.node(&name).await.unwrap()));
    assert_eq!(cluster.written_on(&name).await.len(), 1);
    cluster.finish().await;
}

#[tokio::test]
async fn lc_21_a_node_that_has_the_taint_costs_no_request_per_period() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (name, marker) = (unique("n"), Marker::new());
    let (_machines, _central) = tainted(&cluster, &name, &marker).await;
    marker.passes(&cluster, 10).await;
    let asked = cluster.asked_about(&name).await;
    assert_eq!(asked.len(), 1, "{}", asked.summary());
    cluster.finish().await;
}
