//! Section 5, the acceptance list: the machines that are built in, without any configuration.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams};
use mooring_common::names::{reasons, taints};
use mooring_test_cluster::cluster::{Cluster, MARKER_LIMIT, addresses, has_taint, provider_id};
use mooring_test_cluster::machines_file::{Machine, Machines};
use mooring_test_cluster::objects::{NodeBuilder, ServiceBuilder, events_for, unique};
use mooring_test_support::wait::{eventually, never};

use crate::cloudlycke::{file, left_alone};

/// A Node of the Go provider's laboratory, as its kubelet registers.
fn lab_node(name: &str, id: &str, ip: &str) -> NodeBuilder {
    NodeBuilder::new(name)
        .tainted()
        .ready()
        .provider_id(id)
        .provided_node_ip(ip)
}

async fn ends_with_six_labels(name: &str, id: &str, ip: &str, instance_type: &str) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let before = lab_node(name, id, ip).create(&cluster.admin).await.unwrap();
    let _central = cluster.central().start().await;
    let node = cluster.initialized(name).await;
    cluster.told(name, reasons::SYNCED).await;

    let before = before.metadata.labels.unwrap();
    let mut added = node.metadata.labels.clone().unwrap();
    added.retain(|key, _| !before.contains_key(key));
    let expected: BTreeMap<String, String> = [
        ("beta.kubernetes.io/instance-type", instance_type),
        ("node.kubernetes.io/instance-type", instance_type),
        ("failure-domain.beta.kubernetes.io/region", "virtualbox"),
        ("failure-domain.beta.kubernetes.io/zone", "virtualbox"),
        ("topology.kubernetes.io/region", "virtualbox"),
        ("topology.kubernetes.io/zone", "virtualbox"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    assert_eq!(added, expected);
    let (internal, external) = (format!("InternalIP {ip}"), format!("ExternalIP {ip}"));
    assert_eq!(
        addresses(&node),
        [internal, external, format!("Hostname {name}")]
    );
    assert_eq!(provider_id(&node), Some(id));
    cluster.finish().await;
}

#[tokio::test]
async fn cl_5_1_5_2_the_worker_ends_with_six_labels_and_three_addresses() {
    let (id, ip) = ("cloudlycke://n-c2-1", "192.168.20.11");
    ends_with_six_labels("node-c2-1", id, ip, "vbox.vm.1g.2cpu").await;
}

#[tokio::test]
async fn cl_5_3_the_master_ends_with_six_labels_and_three_addresses() {
    let (id, ip) = ("cloudlycke://m-c2-1", "192.168.20.10");
    ends_with_six_labels("master-c2-1", id, ip, "vbox.vm.512mb.1cpu").await;
}

#[tokio::test]
async fn cl_5_4_a_missing_provider_id_is_set_with_a_single_scheme() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let node = NodeBuilder::new("node-c2-1").tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    let _central = cluster.central().start().await;
    let node = cluster.initialized("node-c2-1").await;
    assert_eq!(provider_id(&node), Some("cloudlycke://n-c2-1"));
    cluster.finish().await;
}

/// The Go provider wrote such IDs where the kubelet had none, and they cannot be corrected.
#[tokio::test]
async fn cl_4_2_a_scheme_that_was_written_twice_is_understood() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let id = "cloudlycke://cloudlycke://n-c2-1";
    lab_node("node-c2-1", id, "192.168.20.11")
        .create(&cluster.admin)
        .await
        .unwrap();
    let _central = cluster.central().start().await;
    let node = cluster.initialized("node-c2-1").await;
    assert_eq!(provider_id(&node), Some(id));
    assert_eq!(addresses(&node).len(), 3);
    cluster.finish().await;
}

#[tokio::test]
async fn cl_5_5_the_worker_has_the_shutdown_taint_while_it_is_not_ready() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = "node-c2-1";
    let id = "cloudlycke://n-c2-1";
    NodeBuilder::new(name)
        .provider_id(id)
        .ready()
        .create(&cluster.admin)
        .await
        .unwrap();
    let _central = cluster.central().start().await;
    for _ in 0..2 {
        NodeBuilder::set_condition(&cluster.admin, name, "Ready", "False")
            .await
            .unwrap();
        cluster
            .is(name, "shut down", |node| has_taint(node, taints::SHUTDOWN))
            .await;
        NodeBuilder::set_condition(&cluster.admin, name, "Ready", "True")
            .await
            .unwrap();
        cluster
            .is(name, "up again", |node| !has_taint(node, taints::SHUTDOWN))
            .await;
    }
    cluster.finish().await;
}

/// The default: nothing is known of a third Node, so nothing is done to it.
#[tokio::test]
async fn cl_5_6_an_unknown_node_is_neither_initialised_nor_deleted() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (young, old) = (unique("young"), unique("old"));
    let _central = cluster.central().start().await;
    let node = NodeBuilder::new(&young).tainted().not_ready();
    node.create(&cluster.admin).await.unwrap();
    let node = NodeBuilder::new(&old)
        .provider_id("cloudlycke://x-c2-1")
        .not_ready();
    node.create(&cluster.admin).await.unwrap();
    cluster.told(&young, reasons::INITIALIZATION_REFUSED).await;

    // The marker: a Node that is stopped is tainted, and then the taint goes, by two passes over all
    // Nodes.
    let (marker, id) = ("node-c2-1", "cloudlycke://n-c2-1");
    NodeBuilder::new(marker)
        .provider_id(id)
        .not_ready()
        .create(&cluster.admin)
        .await
        .unwrap();
    let is_tainted = async || {
        let node = cluster.node(marker).await;
        node.is_some_and(|node| has_taint(&node, taints::SHUTDOWN))
    };
    never(
        "a deletion of an unknown Node",
        MARKER_LIMIT,
        is_tainted,
        async || {
            let all = [cluster.node(&young).await, cluster.node(&old).await];
            all.iter()
                .any(Option::is_none)
                .then(|| "deleted".to_owned())
        },
    )
    .await;
    assert!(has_taint(
        &cluster.node(&young).await.unwrap(),
        taints::UNINITIALIZED
    ));
    left_alone(&cluster, &young).await;
    left_alone(&cluster, &old).await;
    cluster.finish().await;
}

/// Parity: as the Go provider, which held every third Node for gone.
#[tokio::test]
async fn cl_5_6_with_the_policy_missing_an_unknown_node_is_deleted_and_never_initialised() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (young, old) = (unique("young"), unique("old"));
    let machines = file(&Machines::of([Machine::named("n1").id("n1")]).unknown("missing"));
    let node = NodeBuilder::new(&old)
        .provider_id("cloudlycke://x-c2-1")
        .not_ready();
    node.create(&cluster.admin).await.unwrap();
    let node = NodeBuilder::new(&young).tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    let _central = cluster.central().machines(&machines).start().await;
    cluster.is_gone(&old).await;
    cluster.told(&young, reasons::INITIALIZATION_REFUSED).await;
    assert!(has_taint(
        &cluster.node(&young).await.unwrap(),
        taints::UNINITIALIZED
    ));
    left_alone(&cluster, &young).await;
    cluster.finish().await;
}

#[tokio::test]
async fn cl_5_7_a_load_balancer_is_reported_as_unsupported_and_nothing_breaks() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let central = cluster.central().start().await;
    let name = unique("web");
    let service = ServiceBuilder::load_balancer("default", &name).port(80, 8080);
    service.create(&cluster.admin).await.unwrap();
    eventually("the Service is told why", MARKER_LIMIT, async || {
        let events = events_for(&cluster.admin, "Service", Some("default"), &name).await?;
        anyhow::ensure!(events.iter().any(|e| e.kind == "Warning"), "{events:?}");
        Ok(())
    })
    .await;
    let node = NodeBuilder::new("node-c2-1").tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    cluster.initialized("node-c2-1").await;
    assert!(central.is_running());
    let services = Api::<Service>::namespaced(cluster.admin.clone(), "default");
    services
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    cluster.finish().await;
}
