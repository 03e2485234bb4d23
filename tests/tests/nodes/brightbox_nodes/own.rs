//! What is Brightbox's own: Cloud IPs, names in the DNS, zones, identifiers as names, users.

use std::time::Instant;

use mooring_cloud_sim::brightbox::{
    ACCOUNT, APPLICATION, Brightbox, Kind, Machine, PASSWORD, USER,
};
use mooring_common::names::labels;
use mooring_test_cluster::cluster::{addresses, label, provider_id};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use serde_json::json;

use crate::brightbox_nodes::cluster::CloudCluster;

fn brightbox(cluster: &CloudCluster) -> &Brightbox {
    cluster.cloud.brightbox().expect("Brightbox")
}

/// A server with everything that the real ones have.
fn machine(name: &str) -> Machine {
    let machine = Machine::named(name).zone("gb1s-b").kind("2gb.ssd");
    machine.interface(Some("10.1.69.162"), Some("2a02:1348:14c:5145::1"))
}

#[tokio::test]
async fn a_node_has_all_addresses_and_names_of_its_server() {
    let cluster = CloudCluster::start().await;
    let (cloud, name) = (brightbox(&cluster), unique("n"));
    let id = cloud.add(machine(&name));
    let ip = json!({ "public_ip": "109.107.50.7", "status": "mapped", "server": id });
    let ip = cloud.put(Kind::CloudIp, ip);
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    let node = cluster.initialized(&name).await;
    let expected = [
        format!("Hostname {name}"),
        format!("ExternalDNS {id}.gb1s.brightbox.com"),
        "InternalIP 10.1.69.162".to_owned(),
        "ExternalIP 2a02:1348:14c:5145::1".to_owned(),
        "ExternalIP 109.107.50.7".to_owned(),
        format!("ExternalDNS {ip}.gb1.brightbox.com"),
    ];
    assert_eq!(addresses(&node), expected);
    assert_eq!(label(&node, labels::ZONE), Some("gb1s-b"));
    assert_eq!(label(&node, labels::REGION), Some("gb1s"));
    assert_eq!(label(&node, labels::INSTANCE_TYPE), Some("2gb.ssd"));
    cluster.finish().await;
}

/// Upstream reports private addresses as ExternalIP, so that these kubelets lose their public ones.
#[tokio::test]
async fn ad_06_a_kubelet_with_node_ip_keeps_its_public_addresses() {
    let cluster = CloudCluster::start().await;
    let (cloud, name) = (brightbox(&cluster), unique("n"));
    cloud.add(machine(&name));
    let _central = cluster.for_cloud().try_start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    let node = node.provided_node_ip("10.1.69.162");
    node.create(&cluster.admin).await.unwrap();
    let found = addresses(&cluster.initialized(&name).await);
    for expected in ["InternalIP 10.1.69.162", "ExternalIP 2a02:1348:14c:5145::1"] {
        assert!(found.iter().any(|one| one == expected), "{found:?}");
    }
    cluster.finish().await;
}

/// Nodes are called like their servers by default, whatever the host name of the server is.
#[tokio::test]
async fn ni_02_a_node_is_found_by_the_identifier_of_its_server() {
    let cluster = CloudCluster::start().await;
    let id = brightbox(&cluster).add(machine(&unique("n")));
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&id).await;
    let node = cluster.initialized(&id).await;
    assert_eq!(provider_id(&node), Some(&*format!("brightbox://{id}")));
    cluster.finish().await;
}

/// A server is shown for a while after its deletion.
#[tokio::test]
async fn lc_01_a_server_that_is_shown_as_deleted_is_gone() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let id = cluster.member(&name, "10.1.0.1").await;
    let flag = "--max-node-deletions-percent=100";
    let _central = cluster.for_cloud().flag(flag).try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    cluster.cloud.set(&id, "status", json!("deleted"));
    cluster.set_ready(&name, "False").await;
    cluster.is_gone(&name).await;
    cluster.finish().await;
}

/// A user logs in by an application, and has an account that every request names.
#[tokio::test]
async fn a_user_can_be_given_instead_of_a_client() {
    let cluster = CloudCluster::start().await;
    let (cloud, name) = (brightbox(&cluster), unique("n"));
    cloud.add(machine(&name));
    let central = cluster.for_cloud().env("BRIGHTBOX_CLIENT", APPLICATION);
    let central = central.env("BRIGHTBOX_USER_NAME", USER);
    let central = central.env("BRIGHTBOX_PASSWORD", PASSWORD);
    let _central = central.env("BRIGHTBOX_ACCOUNT", ACCOUNT).try_start().await;
    cluster.tainted(&name).await;
    cluster.initialized(&name).await;
    let calls = cloud.calls().to("/1.0/servers");
    let named = calls.filter(|call| call.parameter("account_id") == Some(ACCOUNT));
    assert_eq!(named.len(), calls.len(), "{}", calls.summary());
    cluster.finish().await;
}
