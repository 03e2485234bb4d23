//! Initialisation while the API server fails, hangs, or others write at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use mooring_common::names::annotations::OWNED_LABELS;
use mooring_common::names::taints::UNINITIALIZED;
use mooring_common::work_queue::Backoff;
use mooring_test_cluster::api_proxy::ApiProxy;
use mooring_test_cluster::cluster::{
    ADDITIONAL_LABEL, Cluster, Initializer, SOON, addresses, has_taint, label, provider_id,
};
use mooring_test_cluster::machines_file::Machines;
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::node_init::{by_either_program, file, file_of, machine, taints};

by_either_program! {
    ni_04_three_failures_are_retried_with_growing_gaps
    ni_11_what_others_write_meanwhile_survives
    ni_12_a_node_that_is_deleted_meanwhile_is_let_go
    ni_18_the_taint_stays_until_the_addresses_are_set
    ni_19_a_label_that_a_policy_refuses_holds_up_nothing_else
}

/// The shipped policies list one of two labels of the machine.
async fn ni_19_a_label_that_a_policy_refuses_holds_up_nothing_else(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    let described = machine(&name)
        .label(ADDITIONAL_LABEL, "r7")
        .label("example.com/row", "4");
    let machines = file_of(described);
    let program = cluster.initializer(by, &name).machines(&machines);
    let _program = program.start().await;

    let node = cluster.initialized(&name).await;
    assert!(provider_id(&node).is_some());
    assert_eq!(label(&node, ADDITIONAL_LABEL), Some("r7"));
    assert_eq!(label(&node, "example.com/row"), None);
    let noted = node.metadata.annotations.unwrap();
    assert_eq!(noted[OWNED_LABELS], format!("{ADDITIONAL_LABEL}=r7"));
    let told = cluster.told(&name, "LabelsRefused").await;
    assert!(told.contains("example.com/row"), "{told}");
    assert!(!told.contains(ADDITIONAL_LABEL), "{told}");
    assert!(told.contains("nodeDaemon.additionalLabelKeys"), "{told}");
    // Both programs were refused one write, which is the point here: nobody asserts that none was.
}

/// The cloud of this provider is a file, of which the last good content counts. What can fail in
/// the middle is the API server.
async fn ni_04_three_failures_are_retried_with_growing_gaps(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let proxy = ApiProxy::start(&cluster).await.unwrap();
    let name = unique("n");
    let status = format!("/nodes/{name}/status");
    proxy.fail(Method::PATCH, &status, 3, StatusCode::INTERNAL_SERVER_ERROR);
    let machines = file_of(machine(&name));
    let program = cluster.initializer(by, &name).machines(&machines);
    let _program = program.by_way_of(&proxy).start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();

    cluster.initialized(&name).await;
    let tries = proxy.asked(&Method::PATCH, &status);
    assert_eq!(tries.len(), 4, "{tries:?}");
    let gaps: Vec<Duration> = tries.windows(2).map(|w| w[1].at - w[0].at).collect();
    // No less than the delay: how much more depends on the machine. What others write on a new Node
    // is a reason to try once more at once.
    for (failures, gap) in (1..).zip(&gaps).skip(1) {
        let delay = Backoff::NODES.after(failures);
        assert!(*gap >= delay, "the gaps do not grow: {gaps:?}");
    }
    cluster.finish().await;
}

/// Somebody else writes between each read and write: a label and a taint, which moves all others.
async fn ni_11_what_others_write_meanwhile_survives(by: Initializer) {
    const WRITES: u32 = 4;
    let cluster = Cluster::exclusive_with_controllers().await;
    let proxy = ApiProxy::start(&cluster).await.unwrap();
    let name = unique("n");
    let (client, count, node) = (
        cluster.admin.clone(),
        Arc::new(AtomicU32::new(0)),
        name.clone(),
    );
    let interfere = move || {
        let turn = count.fetch_add(1, Ordering::Relaxed);
        let (client, node) = (client.clone(), node.clone());
        async move { interfere(client, &node, turn).await }
    };
    let times = usize::try_from(WRITES).unwrap() - 1;
    proxy.first(
        Method::PATCH,
        &format!("/nodes/{name}/status"),
        1,
        interfere.clone(),
    );
    proxy.first(Method::PATCH, &format!("/nodes/{name}"), times, interfere);
    let machines = file_of(machine(&name).placed("m.large", "attic", "home"));
    let program = cluster.initializer(by, &name).machines(&machines);
    let _program = program.by_way_of(&proxy).start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();

    let node = cluster.initialized(&name).await;
    assert_eq!(label(&node, "topology.kubernetes.io/zone"), Some("attic"));
    for turn in 0..WRITES {
        assert_eq!(label(&node, &format!("foreign-{turn}")), Some("kept"));
        let foreign = format!("example.com/foreign-{turn}=:NoSchedule");
        assert!(
            taints(&node).contains(&foreign),
            "{foreign} is lost: {:?}",
            taints(&node)
        );
    }
    cluster.finish().await;
}

async fn interfere(client: kube::Client, node: &str, turn: u32) {
    let nodes = Api::<Node>::all(client);
    let now = nodes.get(node).await.unwrap();
    let mut taints = now.spec.unwrap().taints.unwrap();
    let mut foreign = taints[0].clone();
    foreign.key = format!("example.com/foreign-{turn}");
    foreign.value = None;
    foreign.effect = "NoSchedule".to_owned();
    taints.insert(0, foreign);
    let patch = json!({
        "metadata": { "labels": { format!("foreign-{turn}"): "kept" } },
        "spec": { "taints": taints },
    });
    let params = PatchParams::default();
    nodes
        .patch(node, &params, &Patch::Merge(patch))
        .await
        .unwrap();
}

async fn ni_12_a_node_that_is_deleted_meanwhile_is_let_go(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let proxy = ApiProxy::start(&cluster).await.unwrap();
    let name = unique("n");
    let gate = proxy.hold(Method::PATCH, &format!("/nodes/{name}/status"));
    let machines = file_of(machine(&name));
    let program = cluster.initializer(by, &name).machines(&machines);
    let program = program.by_way_of(&proxy).start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    gate.reached().await;
    let params = DeleteParams::default();
    cluster.nodes().delete(&name, &params).await.unwrap();
    gate.open();

    // The marker: it notices that the machine registers again, under the same name.
    eventually("the write has been answered", SOON, async || {
        cluster
            .written_on(&name)
            .await
            .iter()
            .any(|w| w.code == 404)
    })
    .await;
    assert!(cluster.node(&name).await.is_none(), "the Node is back");
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    cluster.initialized(&name).await;
    assert!(program.is_running());
    let writes = cluster.written_on(&name).await;
    let codes: Vec<u16> = writes.iter().map(|write| write.code).collect();
    // It may have written once more for the first one, before it saw that go. That must fail, too.
    let (failed, written): (Vec<u16>, Vec<u16>) =
        codes.iter().copied().partition(|code| *code != 200);
    assert_eq!(written, [200, 200], "{}", writes.summary());
    assert!(codes.starts_with(&failed), "{}", writes.summary());
    cluster.finish().await;
}

#[tokio::test]
async fn ni_15_a_node_that_hangs_does_not_hold_up_another() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let proxy = ApiProxy::start(&cluster).await.unwrap();
    let (stuck, other) = (unique("stuck"), unique("other"));
    let gate = proxy.hold(Method::PATCH, &format!("/nodes/{stuck}/status"));
    let both = [machine(&stuck), machine(&other).internal("10.1.0.2")];
    let machines = file(&Machines::of(both));
    let central = cluster.central().machines(&machines).by_way_of(&proxy);
    let _central = central.flag("--concurrent-node-syncs=2").start().await;
    for name in [&stuck, &other] {
        let node = NodeBuilder::new(name).tainted().ready();
        node.create(&cluster.admin).await.unwrap();
        if name == &stuck {
            gate.reached().await;
        }
    }
    cluster.initialized(&other).await;
    assert!(has_taint(
        &cluster.node(&stuck).await.unwrap(),
        UNINITIALIZED
    ));
    gate.open();
    cluster.initialized(&stuck).await;
    cluster.finish().await;
}

async fn ni_18_the_taint_stays_until_the_addresses_are_set(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let proxy = ApiProxy::start(&cluster).await.unwrap();
    let name = unique("n");
    let status = format!("/nodes/{name}/status");
    proxy.fail(Method::PATCH, &status, 1, StatusCode::INTERNAL_SERVER_ERROR);
    let second_try = proxy.hold(Method::PATCH, &status);
    let machines = file_of(machine(&name));
    let program = cluster.initializer(by, &name).machines(&machines);
    let _program = program.by_way_of(&proxy).start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();

    second_try.reached().await;
    let node = cluster.node(&name).await.unwrap();
    assert!(has_taint(&node, UNINITIALIZED));
    assert!(addresses(&node).is_empty());
    second_try.open();
    let node = cluster.initialized(&name).await;
    assert_eq!(addresses(&node), ["InternalIP 10.1.0.1"]);
    let untainting = proxy.asked(&Method::PATCH, &format!("/nodes/{name}"));
    let addressing = proxy.asked(&Method::PATCH, &status);
    assert_eq!((addressing.len(), untainting.len()), (2, 1));
    assert!(addressing[1].at < untainting[0].at);
    cluster.finish().await;
}

#[tokio::test]
async fn a_machine_waits_for_the_node_of_the_one_that_had_its_address() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (gone, name) = (unique("gone"), unique("n"));
    let before = NodeBuilder::new(&gone).address("InternalIP", "10.1.0.1");
    before.create(&cluster.admin).await.unwrap();
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    let machines = file_of(machine(&name));
    let _daemon = cluster.daemon(&name).machines(&machines).start().await;

    let told = cluster.told(&name, "InitializationRefused").await;
    let words = format!("the Node {gone} has one of these addresses as its InternalIP");
    assert!(told.contains(&words), "{told}");
    let node = cluster.node(&name).await.unwrap();
    assert!(has_taint(&node, UNINITIALIZED) && addresses(&node).is_empty());
    let params = DeleteParams::default();
    cluster.nodes().delete(&gone, &params).await.unwrap();
    let node = cluster.initialized(&name).await;
    assert_eq!(addresses(&node), ["InternalIP 10.1.0.1"]);
    // The daemon was refused a write, which is the point here: nobody asserts that none was.
}
