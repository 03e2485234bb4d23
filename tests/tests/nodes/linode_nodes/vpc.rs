//! Linodes in VPCs.

use std::time::{Duration, Instant};

use http::StatusCode;
use mooring_cloud_sim::linode::{Instance, Linode};
use mooring_cloud_sim::{Fault, When};
use mooring_test_cluster::cluster::{Launch, addresses, provider_id};
use mooring_test_cluster::objects::unique;
use mooring_test_support::wait::eventually;

use crate::linode_nodes::cluster::CloudCluster;

const AT_LAST: Duration = Duration::from_secs(60);

fn linode(cluster: &CloudCluster) -> &Linode {
    cluster.cloud.linode().expect("this is the suite of Linode")
}

fn in_vpc(cluster: &CloudCluster) -> Launch<'_> {
    let central = cluster.for_cloud().flag("--vpc-names=net");
    central.flag("--max-node-deletions-percent=100")
}

/// A VPC with the subnet that is the default.
fn vpc(cluster: &CloudCluster) -> (u64, u64) {
    let vpc = linode(cluster).add_vpc("net");
    let subnet = linode(cluster).add_subnet(vpc, "default", "10.8.0.0/24");
    (vpc, subnet)
}

#[tokio::test]
async fn addresses_in_a_vpc_come_first_of_their_family() {
    let cluster = CloudCluster::start().await;
    let (name, (vpc, subnet)) = (unique("n"), vpc(&cluster));
    let instance = Instance::labelled(&name)
        .ipv4("192.0.2.1")
        .ipv4("192.168.130.7");
    let id = linode(&cluster).add(instance.ipv6("2600:3c03::1"));
    linode(&cluster).add_vpc_address(vpc, subnet, id, "10.8.0.2");
    linode(&cluster).add_vpc_ipv6(vpc, subnet, id, "2600:3c03:e000::2", false);
    // What belongs to others, and what is no address of a machine.
    linode(&cluster).add_vpc_address(vpc, subnet, 1, "10.8.0.3");
    let range = serde_json::json!({
        "subnet_id": subnet, "linode_id": id, "address_range": "10.9.0.0/24",
    });
    linode(&cluster).add_vpc_row(vpc, range);
    let elsewhere = linode(&cluster).add_subnet(vpc, "elsewhere", "10.8.1.0/24");
    linode(&cluster).add_vpc_address(vpc, elsewhere, id, "10.8.1.2");
    let _central = in_vpc(&cluster).try_start().await;
    cluster.tainted(&name).await;
    let node = cluster.initialized(&name).await;
    let expected = [
        &*format!("Hostname {name}"),
        "InternalIP 10.8.0.2",
        "ExternalIP 192.0.2.1",
        "InternalIP 192.168.130.7",
        "InternalIP 2600:3c03:e000::2",
        "ExternalIP 2600:3c03::1",
    ];
    assert_eq!(addresses(&node), expected);
    cluster.finish().await;
}

/// Upstream once held all machines for deleted when the VPCs could not be read.
#[tokio::test]
async fn vpcs_that_cannot_be_read_cost_no_node() {
    let cluster = CloudCluster::start().await;
    let (kept, new, (vpc, subnet)) = (unique("kept"), unique("new"), vpc(&cluster));
    let id = cluster.member(&kept, "192.168.130.7").await;
    let number = id.trim_start_matches("linode://").parse().unwrap();
    linode(&cluster).add_vpc_address(vpc, subnet, number, "10.8.0.2");
    let _central = in_vpc(&cluster).try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    let failing = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let failing = cluster
        .cloud
        .faults()
        .inject(When::get("**/vpcs/*/ips"), failing);
    cluster.set_ready(&kept, "Unknown").await;
    linode(&cluster).add(Instance::labelled(&new).ipv4("192.0.2.2"));
    cluster.tainted(&new).await;
    eventually("three have failed", AT_LAST, async || failing.hits() >= 3).await;
    cluster.is_kept(&kept).await;
    cluster.is_uninitialized(&new).await;
    failing.lift();
    eventually("it recovers", AT_LAST, async || {
        provider_id(&cluster.node(&new).await?).map(ToOwned::to_owned)
    })
    .await;
    cluster.is_kept(&kept).await;
    cluster.finish().await;
}
