//! The kubelet's `--node-ip`, and what becomes of it at initialisation.

use mooring_common::names::reasons;
use mooring_common::names::taints::UNINITIALIZED;
use mooring_test_cluster::cluster::{Cluster, addresses, has_taint};
use mooring_test_cluster::machines_file::Machine;
use mooring_test_cluster::objects::{NodeBuilder, unique};

use crate::node_addresses::{Marker, file};

/// Initialises a Node with this `--node-ip`, and gives its addresses.
async fn initialized_with(node_ip: &str, describe: impl Fn(Machine) -> Machine) -> Vec<String> {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let machines = file([describe(Machine::named(&name))]);
    let _central = cluster.central().machines(&machines).start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    let node = node.provided_node_ip(node_ip);
    node.create(&cluster.admin).await.unwrap();
    let node = cluster.initialized(&name).await;
    cluster.finish().await;
    addresses(&node)
}

#[tokio::test]
async fn ad_06_the_kubelets_choice_is_the_only_one_of_its_type() {
    let found = initialized_with("10.1.0.2", |machine| {
        machine
            .internal("10.1.0.1")
            .internal("10.1.0.2")
            .address("ExternalIP", "192.0.2.1")
    })
    .await;
    assert_eq!(found, ["InternalIP 10.1.0.2", "ExternalIP 192.0.2.1"]);
}

#[tokio::test]
async fn ad_09_both_families_in_the_kubelets_order() {
    let found = initialized_with("fd00::1,10.1.0.1", |machine| {
        machine
            .internal("10.1.0.1")
            .internal("fd00::1")
            .address("ExternalIP", "192.0.2.1")
    })
    .await;
    let expected = [
        "InternalIP fd00::1",
        "InternalIP 10.1.0.1",
        "ExternalIP 192.0.2.1",
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn ad_12_an_address_that_is_internal_and_external_is_listed_as_both() {
    let found = initialized_with("10.1.0.1", |machine| {
        machine
            .internal("10.1.0.1")
            .internal("10.1.0.2")
            .address("ExternalIP", "10.1.0.1")
            .address("ExternalIP", "192.0.2.1")
    })
    .await;
    assert_eq!(found, ["InternalIP 10.1.0.1", "ExternalIP 10.1.0.1"]);
}

/// A Node whose `--node-ip` cannot be satisfied stays tainted, is told why, and is not written on
/// in later periods either.
async fn refused_with(node_ip: &str, because: &str) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (name, marker) = (unique("n"), Marker::new());
    let described = Machine::named(&name)
        .internal("10.1.0.1")
        .internal("10.1.0.2");
    let machines = file([described, marker.machine()]);
    let _central = cluster.central().machines(&machines).start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    let node = node.provided_node_ip(node_ip).address("Hostname", &name);
    node.create(&cluster.admin).await.unwrap();

    let note = cluster.told(&name, reasons::INITIALIZATION_REFUSED).await;
    assert!(note.contains(because), "{note}");
    marker.create(&cluster).await;
    marker.periods(&cluster, 2).await;
    let node = cluster.node(&name).await.unwrap();
    assert!(has_taint(&node, UNINITIALIZED));
    assert_eq!(addresses(&node), [format!("Hostname {name}")]);
    let writes = cluster.written_on(&name).await;
    assert!(writes.is_empty(), "{}", writes.summary());
    assert_eq!(
        cluster
            .events(&name, reasons::INITIALIZATION_REFUSED)
            .await
            .len(),
        1
    );
    cluster.finish().await;
}

#[tokio::test]
async fn ad_07_ad_13_a_choice_that_the_machine_does_not_have_keeps_the_taint() {
    refused_with("10.8.8.8", "10.8.8.8 is none of the machine's addresses").await;
}

#[tokio::test]
async fn ad_08_a_choice_that_is_no_address_keeps_the_taint() {
    refused_with("garbage", "neither one IP address nor one of each family").await;
}

#[tokio::test]
async fn ad_10_two_addresses_of_one_family_keep_the_taint() {
    refused_with(
        "10.1.0.1,10.1.0.2",
        "neither one IP address nor one of each family",
    )
    .await;
}
