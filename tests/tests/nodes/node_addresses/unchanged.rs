//! Periods that pass without a write.

use mooring_common::names::reasons;
use mooring_test_cluster::cluster::{Cluster, addresses};
use mooring_test_cluster::machines_file::{Machine, Machines};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use serde_json::json;

use crate::node_addresses::{Marker, file};

/// A Node that has been initialised from this machine, beside a marker; then the change, three
/// periods, and not one more write on it.
async fn left_alone(
    describe: impl Fn(Machine) -> Machine,
    change: impl AsyncFnOnce(&Cluster, &str),
    changed: Option<&dyn Fn(Machine) -> Machine>,
) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (name, marker) = (unique("n"), Marker::new());
    let machines = file([describe(Machine::named(&name)), marker.machine()]);
    let _central = cluster.central().machines(&machines).start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    let before = addresses(&cluster.initialized(&name).await);
    marker.create(&cluster).await;

    change(&cluster, &name).await;
    if let Some(changed) = changed {
        // The marker's new address shows that the new file is in use.
        let moved = Machine::named(marker.name()).internal("10.9.9.1");
        let content = Machines::of([changed(Machine::named(&name)), moved]);
        machines.replace(&content).unwrap();
        let in_use = crate::node_addresses::has(&["InternalIP 10.9.9.1"]);
        cluster.is(marker.name(), "updated", in_use).await;
        machines
            .replace(&Machines::of([
                changed(Machine::named(&name)),
                marker.machine(),
            ]))
            .unwrap();
        marker.corrected(&cluster).await;
    }
    let written = cluster.written_on(&name).await.len();
    marker.periods(&cluster, 3).await;
    let writes = cluster.written_on(&name).await;
    assert_eq!((written, writes.len()), (2, 2), "{}", writes.summary());
    assert_eq!(addresses(&cluster.node(&name).await.unwrap()), before);
    cluster.finish().await;
}

async fn nothing(_: &Cluster, _: &str) {}

#[tokio::test]
async fn ad_04_a_machine_without_addresses_leaves_the_old_ones() {
    left_alone(
        |machine| machine.internal("10.1.0.1"),
        nothing,
        Some(&|machine| machine),
    )
    .await;
}

#[tokio::test]
async fn ad_11_a_node_ip_that_becomes_wrong_changes_nothing() {
    left_alone(
        |machine| machine.internal("10.1.0.1"),
        async |cluster, name| {
            let annotation = json!({ "alpha.kubernetes.io/provided-node-ip": "10.8.8.8" });
            let patch = json!({ "metadata": { "annotations": annotation } });
            cluster.patch(name, &patch).await;
            cluster.told(name, reasons::INITIALIZATION_REFUSED).await;
        },
        None,
    )
    .await;
}

#[tokio::test]
async fn ad_15_two_addresses_of_one_type_are_not_written_again() {
    left_alone(
        |machine| machine.internal("10.1.0.1").internal("fd00::1"),
        nothing,
        None,
    )
    .await;
}

#[tokio::test]
async fn ad_16_the_same_addresses_in_another_order_are_not_written_again() {
    left_alone(
        |machine| {
            machine
                .internal("10.1.0.1")
                .internal("10.1.0.2")
                .address("ExternalIP", "192.0.2.1")
        },
        nothing,
        Some(&|machine: Machine| {
            machine
                .address("ExternalIP", "192.0.2.1")
                .internal("10.1.0.2")
                .internal("10.1.0.1")
        }),
    )
    .await;
}
