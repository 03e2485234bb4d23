//! Addresses (AD-…) from the cloud's listing. (AD-02 is the file provider's: these clouds always
//! know a name.)

use jiff::SignedDuration;
use mooring_cloud_sim::Fault;
use mooring_cloud_sim::cloud::Server;
use mooring_common::names::reasons;
use mooring_common::names::taints::UNINITIALIZED;
use mooring_test_cluster::cluster::{addresses, has_taint};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use serde_json::json;

use super::CLOUD;
use super::cluster::{Clock, CloudCluster};

#[tokio::test]
async fn ad_01_a_changed_address_is_taken_over() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let (before, after) = (
        Server::named(&name).private("10.1.0.1").public("192.0.2.1"),
        Server::named(&name)
            .private("10.1.0.7")
            .public("2001:db8::7"),
    );
    let id = cluster.cloud.add(before.clone());
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    let node = cluster.initialized(&name).await;
    assert_eq!(addresses(&node), before.addresses(CLOUD));
    cluster.cloud.readdress(&id, after.clone());
    let expected = after.addresses(CLOUD);
    let moved = |node: &_| addresses(node) == expected;
    cluster.is(&name, "at its new address", moved).await;
    cluster.finish().await;
}

#[tokio::test]
async fn ad_05_while_the_cloud_fails_old_addresses_stay() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let before = Server::named(&name).private("10.1.0.1");
    let id = cluster.cloud.add(before.clone());
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    cluster.initialized(&name).await;
    let failing = Fault::status(http::StatusCode::BAD_GATEWAY);
    let failing = cluster
        .cloud
        .faults()
        .inject(cluster.cloud.listing(), failing);
    let after = Server::named(&name).private("10.1.0.7");
    cluster.cloud.readdress(&id, after.clone());
    failing.struck(2).await;
    let node = cluster.node(&name).await.unwrap();
    assert_eq!(addresses(&node), before.addresses(CLOUD));
    failing.lift();
    let expected = after.addresses(CLOUD);
    let moved = |node: &_| addresses(node) == expected;
    let what = "at its new address";
    mooring_test_support::wait::eventually(
        what,
        mooring_test_cluster::cluster::MARKER_LIMIT,
        async || cluster.node(&name).await.is_some_and(|node| moved(&node)),
    )
    .await;
    cluster.finish().await;
}

/// Initialises a Node with this `--node-ip`, and gives its addresses.
async fn initialized_with(node_ip: &str, server: impl Fn(Server) -> Server) -> Vec<String> {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    cluster.cloud.add(server(Server::named(&name)));
    let _central = cluster.for_cloud().try_start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    let node = node.provided_node_ip(node_ip);
    node.create(&cluster.admin).await.unwrap();
    let node = cluster.initialized(&name).await;
    cluster.finish().await;
    let mut found = addresses(&node);
    found.retain(|address| *address != format!("Hostname {name}"));
    found
}

#[tokio::test]
async fn ad_06_the_kubelets_choice_is_the_only_one_of_its_type_and_first() {
    let found = initialized_with("10.1.0.2", |server| {
        let server = server.private("10.1.0.1").private("10.1.0.2");
        server.public("192.0.2.1")
    })
    .await;
    assert_eq!(found, ["InternalIP 10.1.0.2", "ExternalIP 192.0.2.1"]);
}

#[tokio::test]
async fn ad_09_both_families_in_the_kubelets_order() {
    let found = initialized_with("2001:db8::1,192.0.2.1", |server| {
        let server = server.public("192.0.2.1").public("2001:db8::1");
        server.private("10.1.0.1")
    })
    .await;
    let expected = [
        "ExternalIP 2001:db8::1",
        "ExternalIP 192.0.2.1",
        "InternalIP 10.1.0.1",
    ];
    assert_eq!(found, expected);
}

/// One family of the kubelet's choice is public, the other is not.
#[tokio::test]
async fn ad_09_families_of_two_types_keep_one_address_each() {
    let found = initialized_with("10.1.0.2,2001:db8::1", |server| {
        let server = server.public("192.0.2.1").public("2001:db8::1");
        server.private("10.1.0.1").private("10.1.0.2")
    })
    .await;
    assert_eq!(found, ["InternalIP 10.1.0.2", "ExternalIP 2001:db8::1"]);
}

/// A Node whose `--node-ip` cannot be satisfied stays tainted, is told why, and is not written on
/// in later periods either.
async fn refused_with(node_ip: &str) {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let server = Server::named(&name).private("10.1.0.1");
    cluster.cloud.add(server.private("10.1.0.2"));
    let _central = cluster.for_cloud().try_start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    let node = node.provided_node_ip(node_ip).address("Hostname", &name);
    node.create(&cluster.admin).await.unwrap();
    let note = cluster.told(&name, reasons::INITIALIZATION_REFUSED).await;
    assert!(note.contains(node_ip.split(',').next().unwrap()), "{note}");
    Clock::start(&cluster).await.periods(&cluster, 2).await;
    cluster.is_uninitialized(&name).await;
    let node = cluster.node(&name).await.unwrap();
    assert_eq!(addresses(&node), [format!("Hostname {name}")]);
    let events = cluster.event_writes(&name).await;
    assert_eq!(events.len(), 1, "{}", events.summary());
    cluster.finish().await;
}

#[tokio::test]
async fn ad_07_ad_13_a_choice_that_the_machine_does_not_have_keeps_the_taint() {
    refused_with("10.8.8.8").await;
}

#[tokio::test]
async fn ad_08_a_choice_that_is_no_address_keeps_the_taint() {
    refused_with("garbage").await;
}

#[tokio::test]
async fn ad_10_two_addresses_of_one_family_keep_the_taint() {
    refused_with("10.1.0.1,10.1.0.2").await;
}

/// A Node that has been initialised, then the change, three periods, and not one more write.
async fn left_alone(
    server: impl Fn(Server) -> Server,
    change: impl AsyncFnOnce(&CloudCluster, &str, &str),
) {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let id = cluster.cloud.add(server(Server::named(&name)));
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    let before = addresses(&cluster.initialized(&name).await);
    let clock = Clock::start(&cluster).await;
    change(&cluster, &name, &id).await;
    clock.cloud_is_read(&cluster).await;
    let written = cluster.written_on(&name).await.len();
    clock.periods(&cluster, 3).await;
    let writes = cluster.written_on(&name).await;
    assert_eq!((written, writes.len()), (2, 2), "{}", writes.summary());
    let node = cluster.node(&name).await.unwrap();
    assert!(!has_taint(&node, UNINITIALIZED));
    assert_eq!(addresses(&node), before);
    cluster.finish().await;
}

#[tokio::test]
async fn ad_04_a_machine_without_addresses_leaves_the_old_ones() {
    left_alone(
        |server| server.private("10.1.0.1").public("2001:db8::1"),
        async |cluster, name, id| cluster.cloud.readdress(id, Server::named(name)),
    )
    .await;
}

#[tokio::test]
async fn ad_11_a_node_ip_that_becomes_wrong_changes_nothing() {
    left_alone(
        |server| server.private("10.1.0.1"),
        async |cluster, name, _| {
            let annotation = json!({ "alpha.kubernetes.io/provided-node-ip": "10.8.8.8" });
            let patch = json!({ "metadata": { "annotations": annotation } });
            cluster.patch(name, &patch).await;
        },
    )
    .await;
}

#[tokio::test]
async fn ad_15_two_addresses_of_one_type_are_not_written_again() {
    left_alone(
        |server| {
            let server = server.private("10.1.0.1").private("10.1.0.2");
            server.public("192.0.2.1").public("2001:db8::1")
        },
        async |_, _, _| {},
    )
    .await;
}

#[tokio::test]
async fn ad_16_the_same_addresses_in_another_order_are_not_written_again() {
    left_alone(
        // (Of the private ones the first is in an annotation of Linode's Nodes as well.)
        |server| {
            let server = server.public("192.0.2.1").public("192.0.2.2");
            server.public("192.0.2.3")
        },
        async |cluster, name, id| {
            let server = Server::named(name).public("192.0.2.3");
            let server = server.public("192.0.2.1").public("192.0.2.2");
            cluster.cloud.readdress(id, server);
        },
    )
    .await;
}

/// Somebody writes other addresses whenever ours are there.
#[tokio::test]
async fn ad_17_a_contest_is_told_once_and_fought_once_per_period() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let server = Server::named(&name).public("192.0.2.1");
    cluster.cloud.add(server.clone());
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    cluster.initialized(&name).await;
    let foreign = json!([{ "type": "ExternalIP", "address": "192.0.2.66" }]);
    let expected = server.addresses(CLOUD);
    for _ in 0..10 {
        cluster.set_addresses(&name, &foreign).await;
        let corrected = |node: &_| addresses(node) == expected;
        cluster.is(&name, "corrected", corrected).await;
    }
    let writes = cluster.written_on(&name).await;
    let writes = writes.filter(|write| write.subresource == "status");
    assert_eq!(writes.len(), 11, "{}", writes.summary());
    for pair in writes.windows(2).skip(1) {
        let gap = pair[1].received.duration_since(pair[0].received);
        let shortest = SignedDuration::from_millis(200);
        assert!(
            gap >= shortest,
            "{gap:?} between writes, with a period of 300 ms"
        );
    }
    let told = cluster.events(&name, reasons::ADDRESSES_CONTESTED).await;
    assert_eq!(told.len(), 1, "{told:?}");
    cluster.finish().await;
}
