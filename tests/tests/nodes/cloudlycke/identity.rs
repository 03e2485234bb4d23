//! Section 6: how a Node finds its machine, and what is refused.

use mooring_common::names::{reasons, taints};
use mooring_test_cluster::cluster::{Cluster, addresses, has_taint, label, provider_id};
use mooring_test_cluster::machines_file::{Machine, Machines};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use serde_json::json;

use crate::cloudlycke::{file, left_alone};

const UUID: &str = "4C4C4544-0031-4810-8036-B4C04F4E3232";
const MACHINE_ID: &str = "a37e5b7c0d1f4e2a9b8c7d6e5f4a3b2c";

/// A machine that is known by what the kubelet reports of the hardware is found under any name.
async fn found_by(key: &str, value: &str) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let node = NodeBuilder::new(&name)
        .tainted()
        .ready()
        .system(MACHINE_ID, UUID);
    let node = node.provided_node_ip("10.2.0.1").create(&cluster.admin);
    node.await.unwrap();
    let others = [
        Machine::matching("systemUUID", "11111111-2222-4333-8444-555555555555").id("other-1"),
        Machine::matching("machineID", "b37e5b7c0d1f4e2a9b8c7d6e5f4a3b2d").id("other-2"),
    ];
    let it = Machine::matching(key, value).id("it").internal("10.2.0.1");
    let machines = file(&Machines::of(others.into_iter().chain([it])));
    let _central = cluster.central().machines(&machines).start().await;
    let node = cluster.initialized(&name).await;
    assert_eq!(provider_id(&node), Some("cloudlycke://it"));
    assert_eq!(addresses(&node), ["InternalIP 10.2.0.1"]);
    cluster.finish().await;
}

#[tokio::test]
async fn cl_6_4_a_machine_is_found_by_its_system_uuid_in_any_case_of_letters() {
    found_by("systemUUID", &UUID.to_lowercase()).await;
}

#[tokio::test]
async fn cl_6_4_a_machine_is_found_by_its_machine_id() {
    found_by("machineID", MACHINE_ID).await;
}

#[tokio::test]
async fn cl_6_4_a_machine_is_found_by_an_address() {
    found_by("ip", "10.2.0.1").await;
}

/// Central cannot see network cards; the Node is not unknown for that, even if all unknown ones
/// are to be held for gone.
#[tokio::test]
async fn cl_6_4_a_machine_known_by_a_network_card_is_neither_chosen_nor_held_for_gone() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let card = Machine::matching("mac", "08:00:27:12:34:56").id("card");
    let machines = file(&Machines::of([card.internal("10.2.0.1")]).unknown("missing"));
    let node = NodeBuilder::new(&name).tainted().not_ready();
    node.create(&cluster.admin).await.unwrap();
    let _central = cluster.central().machines(&machines).start().await;
    let note = cluster.told(&name, reasons::INITIALIZATION_REFUSED).await;
    assert!(note.contains("mac"), "{note}");
    left_alone(&cluster, &name).await;
    cluster.finish().await;
}

/// 6.3: a machine of nominally 1 GiB reports less.
#[tokio::test]
async fn cl_6_3_a_node_can_be_described_from_what_it_says_of_itself() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let node = NodeBuilder::new(&name)
        .tainted()
        .ready()
        .system(MACHINE_ID, UUID);
    let node = node
        .address("InternalIP", "10.2.0.9")
        .address("Hostname", &name);
    node.create(&cluster.admin).await.unwrap();
    let capacity = json!({ "cpu": "2", "memory": "1009000Ki" });
    cluster
        .patch_status(&name, &json!({ "status": { "capacity": capacity } }))
        .await;
    let content = Machines::of([]).unknown("derive").scheme("cloudlycke");
    let machines = file(&content);
    let _central = cluster.central().machines(&machines).start().await;
    let node = cluster.initialized(&name).await;
    let expected = format!("cloudlycke://{}", UUID.to_lowercase());
    assert_eq!(provider_id(&node), Some(&*expected));
    assert_eq!(
        label(&node, "node.kubernetes.io/instance-type"),
        Some("vbox.vm.1g.2cpu")
    );
    assert_eq!(label(&node, "topology.kubernetes.io/zone"), None);
    assert_eq!(
        addresses(&node),
        ["InternalIP 10.2.0.9", &format!("Hostname {name}")]
    );
    cluster.finish().await;
}

/// 6.5 rule 4: hybrid clusters.
#[tokio::test]
async fn cl_6_5_4_a_node_of_another_scheme_is_left_alone() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let node = NodeBuilder::new(&name)
        .tainted()
        .ready()
        .provider_id("aws:///eu/i-1");
    node.create(&cluster.admin).await.unwrap();
    let machines = file(&Machines::of([Machine::named(&name).internal("10.2.0.1")]));
    let _central = cluster.central().machines(&machines).start().await;
    let note = cluster.told(&name, reasons::UNKNOWN_PROVIDER_ID).await;
    assert!(note.contains("aws:///eu/i-1"), "{note}");
    assert!(has_taint(
        &cluster.node(&name).await.unwrap(),
        taints::UNINITIALIZED
    ));
    left_alone(&cluster, &name).await;
    cluster.finish().await;
}

/// 6.5 rule 7: the Node's provider ID and the file's contradict each other.
#[tokio::test]
async fn cl_6_5_7_a_provider_id_that_contradicts_the_file_leaves_the_node_untouched() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let node = NodeBuilder::new(&name).tainted().ready();
    let node = node.provider_id("cloudlycke://one").create(&cluster.admin);
    node.await.unwrap();
    let machines = file(&Machines::of([Machine::named(&name)
        .id("two")
        .internal("10.2.0.1")]));
    let _central = cluster.central().machines(&machines).start().await;
    let note = cluster.told(&name, reasons::UNKNOWN_PROVIDER_ID).await;
    for id in ["cloudlycke://one", "cloudlycke://two"] {
        assert!(note.contains(id), "{note}");
    }
    left_alone(&cluster, &name).await;
    cluster.finish().await;
}
