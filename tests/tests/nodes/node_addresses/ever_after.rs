//! What the machines file says later, and what others write.

use http::Method;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use mooring_common::names::reasons;
use mooring_test_cluster::api_proxy::ApiProxy;
use mooring_test_cluster::cluster::{Cluster, Initializer, addresses, logged};
use mooring_test_cluster::machines_file::{Machine, Machines};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use serde_json::json;

use crate::node_addresses::{Marker, file, has};

#[tokio::test]
async fn ad_01_ad_02_a_changed_address_is_taken_over_and_the_nodes_own_host_name_kept() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let machine = || Machine::named(&name);
    let machines = file([machine().internal("10.1.0.1")]);
    let node = NodeBuilder::new(&name).tainted().ready();
    let node = node.address("Hostname", "the-kubelets-name");
    node.create(&cluster.admin).await.unwrap();
    let _central = cluster.central().machines(&machines).start().await;
    let node = cluster.initialized(&name).await;
    assert_eq!(
        addresses(&node),
        ["InternalIP 10.1.0.1", "Hostname the-kubelets-name"]
    );

    machines
        .replace(&Machines::of([machine().internal("10.1.0.7")]))
        .unwrap();
    let expected = has(&["InternalIP 10.1.0.7", "Hostname the-kubelets-name"]);
    cluster.is(&name, "at its new address", expected).await;
    cluster.finish().await;
}

/// The daemon reads the same file, and follows it as well.
#[tokio::test]
async fn ad_01_a_changed_address_is_taken_over_by_the_daemon() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let machine = || Machine::named(&name);
    let machines = file([machine().internal("10.1.0.1")]);
    let _daemon = cluster.daemon(&name).machines(&machines).start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    cluster.initialized(&name).await;
    machines
        .replace(&Machines::of([machine().internal("10.1.0.7")]))
        .unwrap();
    let expected = has(&["InternalIP 10.1.0.7"]);
    cluster.is(&name, "at its new address", expected).await;
    cluster.finish().await;
}

/// A kubelet writes its heartbeat just between the planning and the writing of the addresses.
#[tokio::test]
async fn ad_14_conditions_and_capacity_that_change_at_the_same_time_survive() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let proxy = ApiProxy::start(&cluster).await.unwrap();
    let name = unique("n");
    let machines = file([Machine::named(&name).internal("10.1.0.1")]);
    let (client, node) = (cluster.admin.clone(), name.clone());
    proxy.first(
        Method::PATCH,
        &format!("/nodes/{name}/status"),
        1,
        move || {
            let (client, node) = (client.clone(), node.clone());
            async move {
                NodeBuilder::set_condition(&client, &node, "DiskPressure", "True")
                    .await
                    .unwrap();
                let capacity =
                    json!({ "status": { "capacity": { "cpu": "64", "memory": "1Gi" } } });
                Api::<Node>::all(client)
                    .patch_status(&node, &PatchParams::default(), &Patch::Merge(capacity))
                    .await
                    .unwrap();
            }
        },
    );
    let central = cluster.central().machines(&machines).by_way_of(&proxy);
    let _central = central.start().await;
    let node = NodeBuilder::new(&name).ready();
    node.create(&cluster.admin).await.unwrap();

    let node = cluster
        .is(&name, "addressed", has(&["InternalIP 10.1.0.1"]))
        .await;
    let status = node.status.unwrap();
    let capacity = status.capacity.unwrap();
    assert_eq!(capacity["cpu"].0, "64");
    let conditions = status.conditions.unwrap();
    let kinds: Vec<_> = conditions
        .iter()
        .map(|c| (c.type_.as_str(), c.status.as_str()))
        .collect();
    assert!(kinds.contains(&("DiskPressure", "True")), "{kinds:?}");
    assert!(kinds.contains(&("Ready", "True")), "{kinds:?}");
    cluster.finish().await;
}

mod ad_17_a_contest_is_told_once_and_fought_once_per_period {
    use super::*;

    #[tokio::test]
    async fn by_central() {
        contest(Initializer::Central).await;
    }

    #[tokio::test]
    async fn by_daemon() {
        contest(Initializer::Daemon).await;
    }
}

/// Somebody writes other addresses whenever ours are there.
async fn contest(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let machines = file([Machine::named(&name).internal("10.1.0.1")]);
    let _program = cluster
        .initializer(by, &name)
        .machines(&machines)
        .start()
        .await;
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    cluster.initialized(&name).await;
    let foreign = json!([{ "type": "InternalIP", "address": "10.6.6.6" }]);
    for _ in 0..10 {
        cluster.set_addresses(&name, &foreign).await;
        cluster
            .is(&name, "corrected", has(&["InternalIP 10.1.0.1"]))
            .await;
    }

    let writes = cluster.written_on(&name).await;
    let writes = writes.filter(|write| write.subresource == "status");
    assert_eq!(writes.len(), 11, "{}", writes.summary());
    for pair in writes.windows(2).skip(1) {
        let gap = pair[1].received.duration_since(pair[0].received);
        let shortest = SignedDuration::from_millis(200);
        assert!(
            gap >= shortest,
            "only {gap:?} between two writes, with a period of 300 ms"
        );
    }
    assert_eq!(
        cluster
            .events(&name, reasons::ADDRESSES_CONTESTED)
            .await
            .len(),
        1
    );
    let events = cluster.event_writes(&name).await;
    assert_eq!(
        events.len(),
        2,
        "Synced, and this one:\n{}",
        events.summary()
    );
    cluster.finish().await;
}

/// Which of two machines it is, nobody can say any more.
#[tokio::test]
async fn ad_05_a_node_whose_machine_is_in_doubt_keeps_its_addresses_while_others_are_updated() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (doubtful, other) = (unique("doubtful"), unique("other"));
    let machines = file([
        Machine::named(&doubtful).internal("10.1.0.1"),
        Machine::named(&other).internal("10.1.0.2"),
    ]);
    let _central = cluster.central().machines(&machines).start().await;
    for name in [&doubtful, &other] {
        NodeBuilder::new(name)
            .ready()
            .create(&cluster.admin)
            .await
            .unwrap();
    }
    cluster
        .is(&doubtful, "addressed", has(&["InternalIP 10.1.0.1"]))
        .await;
    cluster
        .is(&other, "addressed", has(&["InternalIP 10.1.0.2"]))
        .await;

    let with_doubt = [
        Machine::named(&doubtful).internal("10.1.0.3"),
        Machine::matching("ip", "10.1.0.1")
            .id(&unique("twin"))
            .internal("10.1.0.4"),
        Machine::named(&other).internal("10.1.0.5"),
    ];
    machines.replace(&Machines::of(with_doubt)).unwrap();
    cluster
        .is(&other, "updated", has(&["InternalIP 10.1.0.5"]))
        .await;
    cluster.set_addresses(&other, &json!(null)).await;
    cluster
        .is(&other, "corrected", has(&["InternalIP 10.1.0.5"]))
        .await;
    let node = cluster.node(&doubtful).await.unwrap();
    assert_eq!(addresses(&node), ["InternalIP 10.1.0.1"]);
    cluster.finish().await;
}

#[tokio::test]
async fn ad_05_while_the_file_is_unreadable_the_last_good_one_counts() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let marker = Marker::new();
    let machines = file([marker.machine()]);
    let central = cluster.central().machines(&machines).start().await;
    marker.create(&cluster).await;
    machines
        .replace_text("version: 1\nnodes: [{match: {name")
        .unwrap();
    logged(&central, "machines file not taken over").await;
    marker.periods(&cluster, 2).await;
    machines.take_away().unwrap();
    logged(&central, "cannot read the machines file").await;
    marker.periods(&cluster, 2).await;
    machines
        .replace(&Machines::of([
            Machine::named(marker.name()).internal("10.9.9.1")
        ]))
        .unwrap();
    let expected = has(&["InternalIP 10.9.9.1"]);
    cluster.is(marker.name(), "updated again", expected).await;
    cluster.finish().await;
}
