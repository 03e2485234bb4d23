//! What is PhoenixNAP's own: IDs in all their forms, host names, kinds of addresses, states of a server,
//! and 403 for what does not exist.

use std::time::{Duration, Instant};

use http::StatusCode;
use mooring_cloud_sim::phoenixnap::{Machine, TOKEN_PATH};
use mooring_cloud_sim::{Fault, When};
use mooring_common::names::{labels, reasons, taints};
use mooring_test_cluster::cluster::{MARKER_LIMIT, addresses, has_taint, label, provider_id};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_support::wait::eventually;

use crate::phoenixnap_nodes::cluster::{CloudCluster, Gone};
use crate::phoenixnap_nodes::phoenixnap;

const NO_GUARD: &str = "--max-node-deletions-percent=100";
const AT_LAST: Duration = Duration::from_secs(60);

/// All that the Go controller writes, in its order.
#[tokio::test]
async fn a_server_describes_its_node() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let machine = Machine::named(&name).location("ASH").kind("d2.c1.large");
    let machine = machine.public("131.153.1.3").public("131.153.1.2");
    let id = phoenixnap(&cluster).add(machine.private("10.0.0.11"));
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    let node = cluster.initialized(&name).await;
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
    cluster.finish().await;
}

/// B8: the Go controller leaves these Nodes tainted.
#[tokio::test]
async fn b8_a_server_with_addresses_of_one_kind_is_initialised_with_those() {
    let cluster = CloudCluster::start().await;
    let (private, public) = (unique("private"), unique("public"));
    let cloud = phoenixnap(&cluster);
    let machine = Machine::named(&private).with("networkType", "PRIVATE_ONLY");
    cloud.add(machine.private("10.0.0.11"));
    cloud.add(Machine::named(&public).public("131.153.1.2"));
    let _central = cluster.for_cloud().try_start().await;
    for (name, address) in [
        (&private, "InternalIP 10.0.0.11"),
        (&public, "ExternalIP 131.153.1.2"),
    ] {
        cluster.tainted(name).await;
        let node = cluster.initialized(name).await;
        assert_eq!(addresses(&node), [&*format!("Hostname {name}"), address]);
    }
    cluster.finish().await;
}

/// 2.1: what a kubelet was told, and what the vendor's provider for the Cluster API writes. Both mean
/// the server, stay as they are, and go when it goes.
#[tokio::test]
async fn an_id_in_another_form_means_the_same_server_and_stays() {
    let cluster = CloudCluster::start().await;
    let cloud = phoenixnap(&cluster);
    let central = cluster.for_cloud().flag(NO_GUARD);
    let _central = central.try_start().await;
    for prefix in ["", "bmc://servers/"] {
        let name = unique("n");
        let machine = Machine::named("another").kind("s9.c9.test");
        let id = cloud.add(machine.private("10.0.0.11"));
        let written = format!("{prefix}{id}");
        let node = NodeBuilder::new(&name).tainted().ready();
        let node = node.provider_id(&written);
        node.create(&cluster.admin).await.unwrap();
        let node = cluster.initialized(&name).await;
        assert_eq!(provider_id(&node), Some(&*written));
        assert_eq!(label(&node, labels::INSTANCE_TYPE), Some("s9.c9.test"));

        cloud.set(&id, "status", "powered-off");
        cluster.set_ready(&name, "Unknown").await;
        eventually("it is tainted", MARKER_LIMIT, async || {
            let node = cluster.node(&name).await.unwrap();
            has_taint(&node, taints::SHUTDOWN)
        })
        .await;
        cloud.remove(&id);
        cluster.is_gone(&name).await;
    }
    cluster.finish().await;
}

#[tokio::test]
async fn an_id_that_names_no_server_is_left_alone() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let node = NodeBuilder::new(&name).tainted().not_ready();
    let node = node.provider_id("phoenixnap:///60473c2509268bc77fd06d29");
    node.create(&cluster.admin).await.unwrap();
    let central = cluster.for_cloud().flag(NO_GUARD);
    let _central = central.try_start().await;
    let note = cluster.told(&name, reasons::UNKNOWN_PROVIDER_ID).await;
    assert!(note.contains("names no server; write it like"), "{note}");
    Gone::new().passes(&cluster, 2).await;
    cluster.is_kept(&name).await;
    cluster.finish().await;
}

/// B29: Nodes have small letters, host names may have others; and one in the account of somebody else
/// may be called the same.
#[tokio::test]
async fn b29_a_node_without_id_is_the_running_server_of_its_name() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let cloud = phoenixnap(&cluster);
    cloud.add(
        Machine::named(&name)
            .status("powered-off")
            .private("10.0.0.1"),
    );
    cloud.add(Machine::named(&name).status("deleting").private("10.0.0.2"));
    cloud.add(Machine::named(&name).status("reserved").private("10.0.0.3"));
    let id = cloud.add(Machine::named(&name.to_uppercase()).private("10.0.0.4"));
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    let node = cluster.initialized(&name).await;
    assert_eq!(provider_id(&node), Some(&*format!("phoenixnap://{id}")));
    cluster.finish().await;
}

#[tokio::test]
async fn of_two_running_servers_of_one_name_none_is_chosen() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let cloud = phoenixnap(&cluster);
    let ids = ["10.0.0.1", "10.0.0.2"].map(|ip| cloud.add(Machine::named(&name).private(ip)));
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    let note = cluster.told(&name, reasons::AMBIGUOUS_INSTANCE).await;
    assert!(ids.iter().all(|id| note.contains(id.as_str())), "{note}");
    cluster.is_uninitialized(&name).await;
    cloud.remove(&ids[0]);
    let node = cluster.initialized(&name).await;
    assert_eq!(
        provider_id(&node),
        Some(&*format!("phoenixnap://{}", ids[1]))
    );
    cluster.finish().await;
}

/// B30: such a server is listed for as long as it is reserved, and asked for alone it is there.
#[tokio::test]
async fn b30_a_server_that_was_given_back_and_stays_reserved_is_gone() {
    let cluster = CloudCluster::start().await;
    let (leaves, stays) = (unique("leaves"), unique("stays"));
    let id = cluster.member(&leaves, "10.1.0.1").await;
    cluster.member(&stays, "10.1.0.2").await;
    let _central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    cluster.cloud.set(&id, "status", "deleting".into());
    for name in [&leaves, &stays] {
        cluster.set_ready(name, "Unknown").await;
    }
    eventually(
        "what is being deleted is stopped",
        MARKER_LIMIT,
        async || {
            let node = cluster.node(&leaves).await.unwrap();
            has_taint(&node, taints::SHUTDOWN)
        },
    )
    .await;
    cluster.cloud.set(&id, "status", "RESERVED".into());
    cluster.is_gone(&leaves).await;
    cluster.is_kept(&stays).await;
    cluster.finish().await;
}

/// B7 and 7.8, row 16. The client has lost its rights, or something in between refuses everything: the
/// Go controller deletes all Nodes that are not Ready.
#[tokio::test]
async fn b7_403_for_everything_costs_no_node() {
    let cluster = CloudCluster::start().await;
    let (gone, stays) = (unique("gone"), unique("stays"));
    let id = cluster.member(&gone, "10.1.0.1").await;
    cluster.member(&stays, "10.1.0.2").await;
    let central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    let forbidden = Fault::status(StatusCode::FORBIDDEN);
    let everything = When::everything().but(TOKEN_PATH);
    let refused = phoenixnap(&cluster).faults().inject(everything, forbidden);
    cluster.cloud.remove(&id);
    for name in [&gone, &stays] {
        cluster.set_ready(name, "Unknown").await;
    }
    let what = "it has asked three times";
    eventually(what, AT_LAST, async || refused.hits() >= 3).await;
    for name in [&gone, &stays] {
        cluster.is_kept(name).await;
    }
    refused.lift();
    eventually("what is gone is gone", AT_LAST, async || {
        cluster.node(&gone).await.is_none()
    })
    .await;
    cluster.is_kept(&stays).await;
    assert!(central.is_running());
    cluster.finish().await;
}

/// The same for each server alone, while the listing shows what is there.
#[tokio::test]
async fn b7_403_for_a_server_that_is_listed_proves_nothing() {
    let cluster = CloudCluster::start().await;
    let (name, marker) = (unique("n"), Gone::new());
    cluster.member(&name, "10.1.0.1").await;
    let _central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    let forbidden = Fault::status(StatusCode::FORBIDDEN);
    let lookups = cluster.cloud.lookup();
    cluster.cloud.faults().inject(lookups, forbidden);
    cluster.set_ready(&name, "Unknown").await;
    marker.passes(&cluster, 2).await;
    cluster.is_kept(&name).await;
    cluster.finish().await;
}

/// Absence takes two listings: one that lacks a server by mistake costs nothing.
#[tokio::test]
async fn one_listing_that_lacks_a_server_proves_nothing_even_if_it_cannot_be_seen_alone() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let id = cluster.member(&name, "10.1.0.1").await;
    let short = id.trim_start_matches("phoenixnap://").to_owned();
    let _central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    let without = Fault::rewritten(move |listing| {
        let rows = listing.as_array_mut().expect("a listing");
        rows.retain(|row| row["id"] != *short);
    });
    let faults = phoenixnap(&cluster).faults();
    let lacking = faults.inject(cluster.cloud.listing(), without);
    // The next listing has it again.
    let whole = move || lacking.lift();
    let forbidden = Fault::status(StatusCode::FORBIDDEN).first(whole);
    let hidden = faults.inject(cluster.cloud.lookup(), forbidden);
    cluster.set_ready(&name, "Unknown").await;
    let what = "it was asked for alone";
    eventually(what, AT_LAST, async || hidden.hits() >= 1).await;
    cluster.listings_since(Instant::now(), 2).await;
    cluster.is_kept(&name).await;
    cluster.finish().await;
}
