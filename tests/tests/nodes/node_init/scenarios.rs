//! What becomes of a Node whose machine is known.

use k8s_openapi::api::core::v1::Node;
use mooring_common::names::reasons;
use mooring_test_cluster::cluster::{
    ADDITIONAL_LABEL, Cluster, Initializer, addresses, label, provider_id,
};
use mooring_test_cluster::machines_file::Machine;
use mooring_test_cluster::objects::{NodeBuilder, unique};
use serde_json::json;

use crate::node_init::{by_either_program, file_of, machine, taints};

by_either_program! {
    ni_02_a_tainted_node_from_before_the_start_is_initialised
    ni_05_the_kubelets_provider_id_stays_and_finds_the_machine
    ni_06_other_taints_stay_as_they_are
    ni_09_only_labels_outside_of_kubernetes_domains_are_added
    ni_10_a_label_that_the_user_has_set_stays
    ni_13_a_node_without_the_taint_gets_neither_labels_nor_provider_id
    ni_19_addresses_come_first_in_two_patches_and_one_event
}

async fn ni_02_a_tainted_node_from_before_the_start_is_initialised(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    let described = Machine::named(&name)
        .placed("m.large", "attic", "home")
        .internal("10.1.0.1")
        .address("ExternalIP", "192.0.2.1")
        .address("Hostname", &name);
    let machines = file_of(described);
    let _program = cluster
        .initializer(by, &name)
        .machines(&machines)
        .start()
        .await;

    let node = cluster.initialized(&name).await;
    assert_eq!(provider_id(&node), Some(&*format!("cloudlycke://{name}")));
    for (key, value) in [
        ("node.kubernetes.io/instance-type", "m.large"),
        ("beta.kubernetes.io/instance-type", "m.large"),
        ("topology.kubernetes.io/zone", "attic"),
        ("failure-domain.beta.kubernetes.io/zone", "attic"),
        ("topology.kubernetes.io/region", "home"),
        ("failure-domain.beta.kubernetes.io/region", "home"),
    ] {
        assert_eq!(label(&node, key), Some(value), "{key}");
    }
    let hostname = format!("Hostname {name}");
    let expected = ["InternalIP 10.1.0.1", "ExternalIP 192.0.2.1", &hostname];
    assert_eq!(addresses(&node), expected);
    cluster.told(&name, reasons::SYNCED).await;
    cluster.finish().await;
}

async fn ni_05_the_kubelets_provider_id_stays_and_finds_the_machine(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (name, id) = (unique("n"), unique("machine"));
    let id = format!("cloudlycke://{id}");
    let node = NodeBuilder::new(&name).tainted().ready().provider_id(&id);
    node.create(&cluster.admin).await.unwrap();
    let described = Machine::matching("providerID", &id)
        .placed("m.large", "attic", "home")
        .internal("10.1.0.5");
    let machines = file_of(described);
    let _program = cluster
        .initializer(by, &name)
        .machines(&machines)
        .start()
        .await;

    let node = cluster.initialized(&name).await;
    assert_eq!(provider_id(&node), Some(&*id));
    assert_eq!(label(&node, "topology.kubernetes.io/zone"), Some("attic"));
    assert_eq!(addresses(&node), ["InternalIP 10.1.0.5"]);
    cluster.finish().await;
}

async fn ni_06_other_taints_stay_as_they_are(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let node = NodeBuilder::new(&name)
        .taint("example.com/x", "1", "NoExecute")
        .tainted()
        .taint("example.com/y", "", "PreferNoSchedule")
        .ready();
    let before = taints(&node.create(&cluster.admin).await.unwrap());
    let machines = file_of(machine(&name));
    let _program = cluster
        .initializer(by, &name)
        .machines(&machines)
        .start()
        .await;

    let after = taints(&cluster.initialized(&name).await);
    let others: Vec<_> = before
        .into_iter()
        .filter(|taint| !taint.contains("/uninitialized"))
        .collect();
    assert!(
        others.contains(&"example.com/x=1:NoExecute".to_owned()),
        "{others:?}"
    );
    assert_eq!(after, others);
    cluster.finish().await;
}

async fn ni_09_only_labels_outside_of_kubernetes_domains_are_added(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    let described = machine(&name)
        .label("topology.kubernetes.io/rack", "no")
        .label("x.k8s.io/rack", "no")
        .label(ADDITIONAL_LABEL, "r7");
    let machines = file_of(described);
    let _program = cluster
        .initializer(by, &name)
        .machines(&machines)
        .start()
        .await;

    let node = cluster.initialized(&name).await;
    assert_eq!(label(&node, ADDITIONAL_LABEL), Some("r7"));
    assert_eq!(label(&node, "topology.kubernetes.io/rack"), None);
    assert_eq!(label(&node, "x.k8s.io/rack"), None);
    cluster.finish().await;
}

async fn ni_10_a_label_that_the_user_has_set_stays(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let node = NodeBuilder::new(&name)
        .tainted()
        .ready()
        .label(ADDITIONAL_LABEL, "mine");
    node.create(&cluster.admin).await.unwrap();
    let machines = file_of(machine(&name).label(ADDITIONAL_LABEL, "r7"));
    let _program = cluster
        .initializer(by, &name)
        .machines(&machines)
        .start()
        .await;

    let node = cluster.initialized(&name).await;
    assert_eq!(label(&node, ADDITIONAL_LABEL), Some("mine"));
    cluster.finish().await;
}

async fn ni_13_a_node_without_the_taint_gets_neither_labels_nor_provider_id(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let node = NodeBuilder::new(&name).ready();
    let before = node.create(&cluster.admin).await.unwrap();
    let described = machine(&name)
        .placed("m.large", "attic", "home")
        .label(ADDITIONAL_LABEL, "r7");
    let machines = file_of(described);
    let _program = cluster
        .initializer(by, &name)
        .machines(&machines)
        .start()
        .await;

    // The addresses of this very Node are corrected: that is the marker.
    let has_address = |node: &Node| addresses(node) == ["InternalIP 10.1.0.1"];
    cluster.is(&name, "looked after", has_address).await;
    cluster.set_addresses(&name, &json!(null)).await;
    let after = cluster.is(&name, "looked after again", has_address).await;
    assert_eq!(provider_id(&after), None);
    assert_eq!(after.metadata.labels, before.metadata.labels);
    cluster.finish().await;
}

async fn ni_19_addresses_come_first_in_two_patches_and_one_event(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let described = machine(&name)
        .placed("m.large", "attic", "home")
        .label(ADDITIONAL_LABEL, "r7");
    let machines = file_of(described);
    let _program = cluster
        .initializer(by, &name)
        .machines(&machines)
        .start()
        .await;
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    cluster.initialized(&name).await;
    cluster.told(&name, reasons::SYNCED).await;

    let writes = cluster.written_on(&name).await;
    let what: Vec<_> = writes
        .iter()
        .map(|w| (w.verb.as_str(), w.subresource.as_str(), w.code))
        .collect();
    assert_eq!(
        what,
        [("patch", "status", 200), ("patch", "", 200)],
        "{}",
        writes.summary()
    );
    assert!(writes[0].at < writes[1].received);
    let events = cluster.event_writes(&name).await;
    assert_eq!(events.len(), 1, "{}", events.summary());
    cluster.finish().await;
}
