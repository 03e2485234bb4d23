//! Answers that prove nothing: no Node may be lost by them.

use mooring_test_cluster::cluster::{Cluster, SOON, logged};
use mooring_test_cluster::machines_file::{Machines, MachinesFile};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_support::wait::eventually;

use crate::node_lifecycle::{Crowd, Marker, file, gone, is_untouched, node, running};

#[tokio::test]
async fn lc_05_a_node_whose_machine_runs_is_kept_without_a_taint() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (name, marker) = (unique("n"), Marker::new());
    let machines = file(&Machines::of([running(&name), marker.machine()]));
    let _central = cluster.central().machines(&machines).start().await;
    let node = node(&name).condition("Ready", "Unknown");
    node.create(&cluster.admin).await.unwrap();
    marker.passes(&cluster, 3).await;
    is_untouched(&cluster, &name).await;
    cluster.finish().await;
}

/// The machine is called gone, but when asked for the second proof, the file cannot be read. (This
/// provider has no credentials that could be refused.)
#[tokio::test]
async fn lc_07_an_unreadable_file_proves_nothing() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let machines = file(&Machines::of([gone(&name)]));
    node(&name).ready().create(&cluster.admin).await.unwrap();
    // What the marker counts is told once a minute otherwise.
    let central = cluster.central().machines(&machines).flag("--v=4");
    let central = central.start().await;
    machines.take_away().unwrap();
    logged(&central, "cannot read the machines file").await;
    NodeBuilder::set_condition(&cluster.admin, &name, "Ready", "Unknown")
        .await
        .unwrap();
    // The marker: it has asked, more than once.
    eventually("it has asked three times", SOON, async || {
        central.log().matches("cannot be read afresh").count() >= 3
    })
    .await;
    is_untouched(&cluster, &name).await;

    // And it can tell, once the file is back.
    machines.replace(&Machines::of([gone(&name)])).unwrap();
    cluster.is_gone(&name).await;
    cluster.finish().await;
}

/// A content that lacks most machines, is cut off, or is empty, is never believed.
async fn not_believed(spoil: impl FnOnce(&MachinesFile, &Machines), told: &str) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let crowd = Crowd::of(4);
    let marker = Marker::new();
    let content = Machines::of(crowd.machines().chain([marker.machine()])).unknown("missing");
    let machines = file(&content);
    let central = cluster.central().machines(&machines);
    let central = central
        .flag("--max-node-deletions-percent=100")
        .flag("--v=4") // what the marker counts is told once a minute otherwise
        .start()
        .await;
    crowd.create(&cluster).await;
    let first = Machines::of(crowd.machines().take(1)).unknown("missing");
    spoil(&machines, &first);
    logged(&central, told).await;
    for name in &crowd.0 {
        NodeBuilder::set_condition(&cluster.admin, name, "Ready", "Unknown")
            .await
            .unwrap();
    }
    // The marker: a Node whose machine is gone by the content from before. It is judged last, a
    // second proof is asked for in each pass, and there is none.
    marker.create(&cluster).await;
    eventually("three passes are over", SOON, async || {
        central.log().matches("cannot be read afresh").count() >= 4
    })
    .await;
    is_untouched(&cluster, &marker.name).await;
    for name in &crowd.0 {
        is_untouched(&cluster, name).await;
    }
    cluster.finish().await;
}

#[tokio::test]
async fn lc_17_a_file_that_lacks_most_machines_is_not_believed() {
    not_believed(
        |file, first| file.replace(first).unwrap(),
        "would remove or terminate 3 of 4 machines",
    )
    .await;
}

#[tokio::test]
async fn lc_17_a_file_that_is_cut_off_is_not_believed() {
    not_believed(
        |file, first| {
            let text = first.text();
            file.overwrite(&text[..text.len() / 2]).unwrap();
        },
        "this is no YAML",
    )
    .await;
}

#[tokio::test]
async fn lc_17_an_empty_file_is_not_believed() {
    not_believed(|file, _| file.overwrite("").unwrap(), "not taken over").await;
}

/// The data in use say that the machine is gone; the second look, at the file as it is now, finds
/// it.
#[tokio::test]
async fn lc_18_a_machine_that_the_second_look_finds_is_kept() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (name, marker) = (unique("n"), Marker::new());
    let machines = file(&Machines::of([gone(&name), marker.machine()]));
    node(&name).ready().create(&cluster.admin).await.unwrap();
    let _central = cluster.central().machines(&machines).start().await;
    machines
        .replace(&Machines::of([running(&name), marker.machine()]))
        .unwrap();
    // At once, before the file is looked at for changes.
    NodeBuilder::set_condition(&cluster.admin, &name, "Ready", "Unknown")
        .await
        .unwrap();
    marker.passes(&cluster, 3).await;
    is_untouched(&cluster, &name).await;
    cluster.finish().await;
}
