//! What is cloudscale.ch's own: zones, interfaces, UUIDs in every form.

use mooring_cloud_sim::cloudscale::{Interface, Machine};
use mooring_common::names::labels;
use mooring_test_cluster::cluster::{addresses, label, provider_id};
use mooring_test_cluster::objects::{NodeBuilder, unique};

use crate::cloudscale_nodes::cluster::CloudCluster;

/// The addresses of interfaces in the order of the API, the name first.
#[tokio::test]
async fn addresses_are_in_the_order_of_the_interfaces() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let cloud = cluster.cloud.cloudscale().unwrap();
    let public = Interface::public()
        .address("5.102.144.1")
        .address("2a06:c01:bb::1");
    let machine = Machine::named(&name).zone("lpg2");
    let machine = machine.interface(Interface::private().address("10.0.0.1"));
    let machine = machine.interface(public);
    cloud.add(machine.interface(Interface::private().address("10.0.1.1")));
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    let node = cluster.initialized(&name).await;
    let expected = [
        &*format!("Hostname {name}"),
        "InternalIP 10.0.0.1",
        "ExternalIP 5.102.144.1",
        "ExternalIP 2a06:c01:bb::1",
        "InternalIP 10.0.1.1",
    ];
    assert_eq!(addresses(&node), expected);
    assert_eq!(label(&node, labels::ZONE), Some("lpg2"));
    assert_eq!(label(&node, labels::ZONE_BETA), Some("lpg2"));
    assert_eq!(label(&node, labels::REGION), Some("lpg"));
    cluster.finish().await;
}

#[tokio::test]
async fn ad_12_an_address_that_is_internal_and_external_is_listed_as_both() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let cloud = cluster.cloud.cloudscale().unwrap();
    let machine = Machine::named(&name);
    let machine = machine.interface(Interface::public().address("10.1.0.1").address("192.0.2.1"));
    let private = Interface::private().address("10.1.0.1").address("10.1.0.2");
    cloud.add(machine.interface(private));
    let _central = cluster.for_cloud().try_start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    let node = node.provided_node_ip("10.1.0.1");
    node.create(&cluster.admin).await.unwrap();
    let mut found = addresses(&cluster.initialized(&name).await);
    found.retain(|address| !address.starts_with("Hostname"));
    found.sort();
    assert_eq!(found, ["ExternalIP 10.1.0.1", "InternalIP 10.1.0.1"]);
    cluster.finish().await;
}

/// A provider ID that the kubelet wrote in capitals means the same machine, and stays as it is.
#[tokio::test]
async fn ni_05_an_id_in_capitals_means_the_same_machine() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let cloud = cluster.cloud.cloudscale().unwrap();
    let private = Interface::private().address("10.0.0.1");
    let uuid = cloud.add(
        Machine::named("another")
            .interface(private)
            .flavor("flex-8-4"),
    );
    let written = format!("cloudscale://{}", uuid.to_uppercase());
    let _central = cluster.for_cloud().try_start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    let node = node.provider_id(&written);
    node.create(&cluster.admin).await.unwrap();
    let node = cluster.initialized(&name).await;
    assert_eq!(provider_id(&node), Some(&*written));
    assert_eq!(label(&node, labels::INSTANCE_TYPE), Some("flex-8-4"));
    cluster.finish().await;
}
