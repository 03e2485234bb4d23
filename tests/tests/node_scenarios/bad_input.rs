//! Machines and Nodes that are not as they should be: a typed outcome each, and never a loop.

use std::time::Instant;

use kube::api::DeleteParams;
use mooring_common::names::{labels, reasons};
use mooring_tests::arena::{addresses, label, provider_id};
use mooring_tests::cloud_sim::world::Server;
use mooring_tests::objects::{NodeBuilder, unique};

use super::CLOUD;
use super::stage::{Clock, Stage};

/// A machine's type that is no label value is made one, the same each time.
#[tokio::test]
async fn a_type_that_is_no_label_value_is_made_one() {
    let stage = Stage::enter().await;
    let name = unique("n");
    stage.world.add(
        Server::named(&name)
            .private("10.1.0.1")
            .kind(" large/4 (new)!"),
    );
    let central = stage.for_cloud().try_start().await;
    stage.tainted(&name).await;
    let node = stage.initialized(&name).await;
    let kind = label(&node, labels::INSTANCE_TYPE)
        .expect("a label")
        .to_owned();
    assert!(kind.contains("large") && kind.contains("new"), "{kind}");
    assert_eq!(label(&node, labels::INSTANCE_TYPE_BETA), Some(&*kind));

    // Nothing is on its way any more that would be counted later.
    Clock::start(&stage).await.periods(&stage, 1).await;
    let written = stage.written_on(&name).await.len();
    drop(central);
    let start = Instant::now();
    let _central = stage.for_cloud().try_start().await;
    Clock::start(&stage).await.periods(&stage, 2).await;
    stage.listings_since(start, 2).await;
    let writes = stage.written_on(&name).await;
    assert_eq!(writes.len(), written, "{}", writes.summary());
    stage.leave().await;
}

/// What is no address never reaches a Node, and does not hold up the addresses that are.
#[tokio::test]
async fn an_address_that_is_none_never_reaches_a_node() {
    let stage = Stage::enter().await;
    let name = unique("n");
    let server = Server::named(&name).private("10.1.0.1");
    stage.world.add(server.private("10.1.0.999"));
    let _central = stage.for_cloud().try_start().await;
    stage.tainted(&name).await;
    let clock = Clock::start(&stage).await;
    clock.periods(&stage, 3).await;
    let node = stage.node(&name).await.unwrap();
    let found = addresses(&node);
    assert!(!found.iter().any(|a| a.contains("999")), "{found:?}");
    let writes = stage.written_on(&name).await;
    assert!(writes.len() <= 2, "{}", writes.summary());
    let events = stage.event_writes(&name).await;
    assert!(events.len() <= 2, "{}", events.summary());
    stage.leave().await;
}

/// The machine of a Node was renamed, and its kubelet registers under the new name: the old Node
/// is still there.
#[tokio::test]
async fn a_renamed_machine_is_not_given_to_two_nodes() {
    let stage = Stage::enter().await;
    let (old, new) = (unique("old"), unique("new"));
    let id = stage.member(&old, "10.1.0.1").await;
    let _central = stage.for_cloud().try_start().await;
    let clock = Clock::start(&stage).await;
    stage.world.rename(&id, &new);
    clock.cloud_is_read(&stage).await;
    stage.tainted(&new).await;
    let note = stage.told(&new, reasons::DUPLICATE_PROVIDER_ID).await;
    assert!(note.contains(&old) && note.contains(&id), "{note}");
    clock.periods(&stage, 3).await;
    stage.is_uninitialized(&new).await;
    let told = stage.events(&new, reasons::DUPLICATE_PROVIDER_ID).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(provider_id(&stage.node(&old).await.unwrap()), Some(&*id));

    let params = DeleteParams::default();
    stage.nodes().delete(&old, &params).await.unwrap();
    let node = stage.initialized(&new).await;
    assert_eq!(provider_id(&node), Some(&*id));
    stage.leave().await;
}

/// A provider ID of nobody that central knows, and one of ours that is none: told once, and left
/// alone.
#[tokio::test]
async fn a_provider_id_that_is_not_ours_is_told_once_and_left_alone() {
    let stage = Stage::enter().await;
    let _central = stage.for_cloud().try_start().await;
    let clock = Clock::start(&stage).await;
    let (foreign, broken) = (unique("foreign"), unique("broken"));
    let nonsense = format!("{}://none/of/ours", CLOUD.name());
    for (name, id) in [
        (&foreign, "aws:///eu-central-1a/i-0123"),
        (&broken, &*nonsense),
    ] {
        // A machine of its name is not its machine.
        stage.world.add(Server::named(name).private("10.1.0.1"));
        let node = NodeBuilder::new(name).tainted().not_ready();
        node.provider_id(id).create(&stage.admin).await.unwrap();
    }
    for name in [&foreign, &broken] {
        stage.told(name, reasons::UNKNOWN_PROVIDER_ID).await;
    }
    clock.periods(&stage, 3).await;
    for name in [&foreign, &broken] {
        stage.is_uninitialized(name).await;
        stage.is_kept(name).await;
        let events = stage.event_writes(name).await;
        assert_eq!(events.len(), 1, "{}", events.summary());
    }
    stage.leave().await;
}
