//! Machines and Nodes that are not as they should be: a typed outcome each, and never a loop.

use std::time::Instant;

use kube::api::DeleteParams;
use mooring_cloud_sim::cloud::Server;
use mooring_common::names::{labels, reasons};
use mooring_test_cluster::cluster::{addresses, label, provider_id};
use mooring_test_cluster::objects::{NodeBuilder, unique};

use super::CLOUD;
use super::cluster::{Clock, CloudCluster};

/// A machine's type that is no label value is made one, the same each time.
#[tokio::test]
async fn a_type_that_is_no_label_value_is_made_one() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    cluster.cloud.add(
        Server::named(&name)
            .private("10.1.0.1")
            .kind(" large/4 (new)!"),
    );
    let central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    let node = cluster.initialized(&name).await;
    let kind = label(&node, labels::INSTANCE_TYPE)
        .expect("a label")
        .to_owned();
    assert!(kind.contains("large") && kind.contains("new"), "{kind}");
    assert_eq!(label(&node, labels::INSTANCE_TYPE_BETA), Some(&*kind));

    // Nothing is on its way any more that would be counted later.
    Clock::start(&cluster).await.periods(&cluster, 1).await;
    let written = cluster.written_on(&name).await.len();
    drop(central);
    let start = Instant::now();
    let _central = cluster.for_cloud().try_start().await;
    Clock::start(&cluster).await.periods(&cluster, 2).await;
    cluster.listings_since(start, 2).await;
    let writes = cluster.written_on(&name).await;
    assert_eq!(writes.len(), written, "{}", writes.summary());
    cluster.finish().await;
}

/// What is no address never reaches a Node, and does not hold up the addresses that are.
#[tokio::test]
async fn an_address_that_is_none_never_reaches_a_node() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let server = Server::named(&name).private("10.1.0.1");
    cluster.cloud.add(server.private("10.1.0.999"));
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    let clock = Clock::start(&cluster).await;
    clock.periods(&cluster, 3).await;
    let node = cluster.node(&name).await.unwrap();
    let found = addresses(&node);
    assert!(!found.iter().any(|a| a.contains("999")), "{found:?}");
    let writes = cluster.written_on(&name).await;
    assert!(writes.len() <= 2, "{}", writes.summary());
    let events = cluster.event_writes(&name).await;
    assert!(events.len() <= 2, "{}", events.summary());
    cluster.finish().await;
}

/// The machine of a Node was renamed, and its kubelet registers under the new name: the old Node
/// is still there.
#[tokio::test]
async fn a_renamed_machine_is_not_given_to_two_nodes() {
    let cluster = CloudCluster::start().await;
    let (old, new) = (unique("old"), unique("new"));
    let id = cluster.member(&old, "10.1.0.1").await;
    let _central = cluster.for_cloud().try_start().await;
    let clock = Clock::start(&cluster).await;
    cluster.cloud.rename(&id, &new);
    clock.cloud_is_read(&cluster).await;
    cluster.tainted(&new).await;
    let note = cluster.told(&new, reasons::DUPLICATE_PROVIDER_ID).await;
    assert!(note.contains(&old) && note.contains(&id), "{note}");
    clock.periods(&cluster, 3).await;
    cluster.is_uninitialized(&new).await;
    let told = cluster.events(&new, reasons::DUPLICATE_PROVIDER_ID).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(provider_id(&cluster.node(&old).await.unwrap()), Some(&*id));

    let params = DeleteParams::default();
    cluster.nodes().delete(&old, &params).await.unwrap();
    let node = cluster.initialized(&new).await;
    assert_eq!(provider_id(&node), Some(&*id));
    cluster.finish().await;
}

/// The new Node bears no ID yet by which it would hear of the old one, and does not wait for the period.
#[tokio::test]
async fn a_renamed_machine_gets_its_node_as_soon_as_the_old_one_is_deleted() {
    let cluster = CloudCluster::start().await;
    let (old, new) = (unique("old"), unique("new"));
    let id = cluster.cloud.add(Server::named(&new).private("10.1.0.1"));
    let node = cluster.known(&old, &id).ready();
    node.create(&cluster.admin).await.unwrap();
    let central = cluster.for_cloud();
    let central = central.flag("--node-status-update-frequency=1h");
    let _central = central.try_start().await;
    cluster.tainted(&new).await;
    cluster.told(&new, reasons::DUPLICATE_PROVIDER_ID).await;
    let params = DeleteParams::default();
    cluster.nodes().delete(&old, &params).await.unwrap();
    let node = cluster.initialized(&new).await;
    assert_eq!(provider_id(&node), Some(&*id));
    cluster.finish().await;
}

/// A provider ID of nobody that central knows, and one of ours that is none: told once, and left
/// alone.
#[tokio::test]
async fn a_provider_id_that_is_not_ours_is_told_once_and_left_alone() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.for_cloud().try_start().await;
    let clock = Clock::start(&cluster).await;
    let (foreign, broken) = (unique("foreign"), unique("broken"));
    let nonsense = format!("{}://none/of/ours", CLOUD.name());
    for (name, id) in [
        (&foreign, "aws:///eu-central-1a/i-0123"),
        (&broken, &*nonsense),
    ] {
        // A machine of its name is not its machine.
        cluster.cloud.add(Server::named(name).private("10.1.0.1"));
        let node = NodeBuilder::new(name).tainted().not_ready();
        node.provider_id(id).create(&cluster.admin).await.unwrap();
    }
    for name in [&foreign, &broken] {
        cluster.told(name, reasons::UNKNOWN_PROVIDER_ID).await;
    }
    clock.periods(&cluster, 3).await;
    for name in [&foreign, &broken] {
        cluster.is_uninitialized(name).await;
        cluster.is_kept(name).await;
        let events = cluster.event_writes(name).await;
        assert_eq!(events.len(), 1, "{}", events.summary());
    }
    cluster.finish().await;
}
