//! What is PhoenixNAP's own: IDs in all their forms, host names, kinds of addresses, states of a server,
//! and 403 for what does not exist.

use std::time::{Duration, Instant};

use http::StatusCode;
use mooring_common::names::{labels, reasons, taints};
use mooring_tests::arena::{MARKER_LIMIT, addresses, has_taint, label, provider_id};
use mooring_tests::cloud_sim::phoenixnap::{Machine, TOKEN_PATH};
use mooring_tests::cloud_sim::{Fault, When};
use mooring_tests::objects::{NodeBuilder, unique};
use mooring_tests::wait::eventually;

use crate::phoenixnap_nodes::phoenixnap;
use crate::phoenixnap_nodes::stage::{Gone, Stage};

const NO_GUARD: &str = "--max-node-deletions-percent=100";
const AT_LAST: Duration = Duration::from_secs(60);

/// All that the Go controller writes, in its order.
#[tokio::test]
async fn a_server_describes_its_node() {
    let stage = Stage::enter().await;
    let name = unique("n");
    let machine = Machine::named(&name).location("ASH").kind("d2.c1.large");
    let machine = machine.public("131.153.1.3").public("131.153.1.2");
    let id = phoenixnap(&stage).add(machine.private("10.0.0.11"));
    let _central = stage.for_cloud().try_start().await;
    stage.tainted(&name).await;
    let node = stage.initialized(&name).await;
    assert_eq!(provider_id(&node), Some(&*format!("phoenixnap://{id}")));
    let expected = [
        &*format!("Hostname {name}"),
        "ExternalIP 131.153.1.3",
        "ExternalIP 131.153.1.2",
        "InternalIP 10.0.0.11",
    ];
    assert_eq!(addresses(&node), expected);
    for key in [labels::INSTANCE_TYPE, labels::INSTANCE_TYPE_BETA] {
        assert_eq!(label(&node, key), Some("d2.c1.large"));
    }
    for key in [labels::REGION, labels::REGION_BETA] {
        assert_eq!(label(&node, key), Some("ASH"));
    }
    assert_eq!(label(&node, labels::ZONE), None);
    stage.leave().await;
}

/// B8: the Go controller leaves these Nodes tainted.
#[tokio::test]
async fn b8_a_server_with_addresses_of_one_kind_is_initialised_with_those() {
    let stage = Stage::enter().await;
    let (private, public) = (unique("private"), unique("public"));
    let cloud = phoenixnap(&stage);
    let machine = Machine::named(&private).with("networkType", "PRIVATE_ONLY");
    cloud.add(machine.private("10.0.0.11"));
    cloud.add(Machine::named(&public).public("131.153.1.2"));
    let _central = stage.for_cloud().try_start().await;
    for (name, address) in [
        (&private, "InternalIP 10.0.0.11"),
        (&public, "ExternalIP 131.153.1.2"),
    ] {
        stage.tainted(name).await;
        let node = stage.initialized(name).await;
        assert_eq!(addresses(&node), [&*format!("Hostname {name}"), address]);
    }
    stage.leave().await;
}

/// 2.1: what a kubelet was told, and what the vendor's provider for the Cluster API writes. Both mean
/// the server, stay as they are, and go when it goes.
#[tokio::test]
async fn an_id_in_another_form_means_the_same_server_and_stays() {
    let stage = Stage::enter().await;
    let cloud = phoenixnap(&stage);
    let central = stage.for_cloud().flag(NO_GUARD);
    let _central = central.try_start().await;
    for prefix in ["", "bmc://servers/"] {
        let name = unique("n");
        let machine = Machine::named("another").kind("s9.c9.test");
        let id = cloud.add(machine.private("10.0.0.11"));
        let written = format!("{prefix}{id}");
        let node = NodeBuilder::new(&name).tainted().ready();
        let node = node.provider_id(&written);
        node.create(&stage.admin).await.unwrap();
        let node = stage.initialized(&name).await;
        assert_eq!(provider_id(&node), Some(&*written));
        assert_eq!(label(&node, labels::INSTANCE_TYPE), Some("s9.c9.test"));

        cloud.set(&id, "status", "powered-off");
        stage.set_ready(&name, "Unknown").await;
        eventually("it is tainted", MARKER_LIMIT, async || {
            let node = stage.node(&name).await.unwrap();
            has_taint(&node, taints::SHUTDOWN)
        })
        .await;
        cloud.remove(&id);
        stage.is_gone(&name).await;
    }
    stage.leave().await;
}

#[tokio::test]
async fn an_id_that_names_no_server_is_left_alone() {
    let stage = Stage::enter().await;
    let name = unique("n");
    let node = NodeBuilder::new(&name).tainted().not_ready();
    let node = node.provider_id("phoenixnap:///60473c2509268bc77fd06d29");
    node.create(&stage.admin).await.unwrap();
    let central = stage.for_cloud().flag(NO_GUARD);
    let _central = central.try_start().await;
    let note = stage.told(&name, reasons::UNKNOWN_PROVIDER_ID).await;
    assert!(note.contains("names no server; write it like"), "{note}");
    Gone::new().passes(&stage, 2).await;
    stage.is_kept(&name).await;
    stage.leave().await;
}

/// B29: Nodes have small letters, host names may have others; and one in the account of somebody else
/// may be called the same.
#[tokio::test]
async fn b29_a_node_without_id_is_the_running_server_of_its_name() {
    let stage = Stage::enter().await;
    let name = unique("n");
    let cloud = phoenixnap(&stage);
    cloud.add(
        Machine::named(&name)
            .status("powered-off")
            .private("10.0.0.1"),
    );
    cloud.add(Machine::named(&name).status("deleting").private("10.0.0.2"));
    cloud.add(Machine::named(&name).status("reserved").private("10.0.0.3"));
    let id = cloud.add(Machine::named(&name.to_uppercase()).private("10.0.0.4"));
    let _central = stage.for_cloud().try_start().await;
    stage.tainted(&name).await;
    let node = stage.initialized(&name).await;
    assert_eq!(provider_id(&node), Some(&*format!("phoenixnap://{id}")));
    stage.leave().await;
}

#[tokio::test]
async fn of_two_running_servers_of_one_name_none_is_chosen() {
    let stage = Stage::enter().await;
    let name = unique("n");
    let cloud = phoenixnap(&stage);
    let ids = ["10.0.0.1", "10.0.0.2"].map(|ip| cloud.add(Machine::named(&name).private(ip)));
    let _central = stage.for_cloud().try_start().await;
    stage.tainted(&name).await;
    let note = stage.told(&name, reasons::AMBIGUOUS_INSTANCE).await;
    assert!(ids.iter().all(|id| note.contains(id.as_str())), "{note}");
    stage.is_uninitialized(&name).await;
    cloud.remove(&ids[0]);
    let node = stage.initialized(&name).await;
    assert_eq!(
        provider_id(&node),
        Some(&*format!("phoenixnap://{}", ids[1]))
    );
    stage.leave().await;
}

/// B30: such a server is listed for as long as it is reserved, and asked for alone it is there.
#[tokio::test]
async fn b30_a_server_that_was_given_back_and_stays_reserved_is_gone() {
    let stage = Stage::enter().await;
    let (leaves, stays) = (unique("leaves"), unique("stays"));
    let id = stage.member(&leaves, "10.1.0.1").await;
    stage.member(&stays, "10.1.0.2").await;
    let _central = stage.for_cloud().flag(NO_GUARD).try_start().await;
    stage.listings_since(Instant::now(), 1).await;
    stage.world.set(&id, "status", "deleting".into());
    for name in [&leaves, &stays] {
        stage.set_ready(name, "Unknown").await;
    }
    eventually(
        "what is being deleted is stopped",
        MARKER_LIMIT,
        async || {
            let node = stage.node(&leaves).await.unwrap();
            has_taint(&node, taints::SHUTDOWN)
        },
    )
    .await;
    stage.world.set(&id, "status", "RESERVED".into());
    stage.is_gone(&leaves).await;
    stage.is_kept(&stays).await;
    stage.leave().await;
}

/// B7 and 7.8, row 16. The client has lost its rights, or something in between refuses everything: the
/// Go controller deletes all Nodes that are not Ready.
#[tokio::test]
async fn b7_403_for_everything_costs_no_node() {
    let stage = Stage::enter().await;
    let (gone, stays) = (unique("gone"), unique("stays"));
    let id = stage.member(&gone, "10.1.0.1").await;
    stage.member(&stays, "10.1.0.2").await;
    let central = stage.for_cloud().flag(NO_GUARD).try_start().await;
    stage.listings_since(Instant::now(), 1).await;
    let forbidden = Fault::status(StatusCode::FORBIDDEN);
    let everything = When::everything().but(TOKEN_PATH);
    let refused = phoenixnap(&stage).faults().inject(everything, forbidden);
    stage.world.remove(&id);
    for name in [&gone, &stays] {
        stage.set_ready(name, "Unknown").await;
    }
    let what = "it has asked three times";
    eventually(what, AT_LAST, async || refused.hits() >= 3).await;
    for name in [&gone, &stays] {
        stage.is_kept(name).await;
    }
    refused.lift();
    eventually("what is gone is gone", AT_LAST, async || {
        stage.node(&gone).await.is_none()
    })
    .await;
    stage.is_kept(&stays).await;
    assert!(central.is_running());
    stage.leave().await;
}

/// The same for each server alone, while the listing shows what is there.
#[tokio::test]
async fn b7_403_for_a_server_that_is_listed_proves_nothing() {
    let stage = Stage::enter().await;
    let (name, marker) = (unique("n"), Gone::new());
    stage.member(&name, "10.1.0.1").await;
    let _central = stage.for_cloud().flag(NO_GUARD).try_start().await;
    stage.listings_since(Instant::now(), 1).await;
    let forbidden = Fault::status(StatusCode::FORBIDDEN);
    let lookups = stage.world.lookup();
    stage.world.faults().inject(lookups, forbidden);
    stage.set_ready(&name, "Unknown").await;
    marker.passes(&stage, 2).await;
    stage.is_kept(&name).await;
    stage.leave().await;
}

/// Absence takes two listings: one that lacks a server by mistake costs nothing.
#[tokio::test]
async fn one_listing_that_lacks_a_server_proves_nothing_even_if_it_cannot_be_seen_alone() {
    let stage = Stage::enter().await;
    let name = unique("n");
    let id = stage.member(&name, "10.1.0.1").await;
    let short = id.trim_start_matches("phoenixnap://").to_owned();
    let _central = stage.for_cloud().flag(NO_GUARD).try_start().await;
    stage.listings_since(Instant::now(), 1).await;
    let without = Fault::rewritten(move |listing| {
        let rows = listing.as_array_mut().expect("a listing");
        rows.retain(|row| row["id"] != *short);
    });
    let faults = phoenixnap(&stage).faults();
    let lacking = faults.inject(stage.world.listing(), without);
    // The next listing has it again.
    let whole = move || lacking.lift();
    let forbidden = Fault::status(StatusCode::FORBIDDEN).first(whole);
    let hidden = faults.inject(stage.world.lookup(), forbidden);
    stage.set_ready(&name, "Unknown").await;
    let what = "it was asked for alone";
    eventually(what, AT_LAST, async || hidden.hits() >= 1).await;
    stage.listings_since(Instant::now(), 2).await;
    stage.is_kept(&name).await;
    stage.leave().await;
}
