//! Backends that are not reached by private addresses, and front ends in a VPC.

use http::{Method, StatusCode};
use mooring_cloud_sim::linode::Kind;
use mooring_cloud_sim::{Fault, When};
use mooring_common::names::{annotations, reasons};
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::linode_services::cloud::{SuiteCloud, text};
use crate::linode_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none, ingress,
};
use crate::linode_services::key;

impl CloudCluster {
    /// A machine in a VPC, and its Node, whose first InternalIP is there.
    async fn join_in_vpc(&self, n: usize, subnet: u64) {
        let id = self.machine(n);
        let address = format!("10.0.4.{n}");
        let instance = id.strip_prefix("linode://").unwrap().parse().unwrap();
        self.sim().attach(instance, subnet, &address);
        let node = NodeBuilder::new(&format!("n{n}")).provider_id(&id);
        let node = node.address("InternalIP", &address).ready();
        node.create(&self.admin).await.unwrap();
    }

    /// The addresses of the nodes of a NodeBalancer, without ports.
    fn backends(&self, id: &str) -> Vec<String> {
        let nodes = self.cloud.parts(id, Kind::Node);
        let addresses = nodes.iter().map(|node| text(&node["address"]));
        let hosts = addresses.filter_map(|address| {
            let (host, _) = address.rsplit_once(':')?;
            Some(host.to_owned())
        });
        hosts.collect()
    }
}

/// lb-with-vpc-backends.
#[tokio::test]
async fn nodes_of_a_vpc_are_reached_there() {
    let cluster = CloudCluster::without_nodes().await;
    let vpc = cluster.sim().add_vpc("net");
    let subnet = cluster.sim().add_subnet(vpc, "default", "10.0.4.0/24");
    for n in [1, 2] {
        cluster.join_in_vpc(n, subnet).await;
    }
    let flags = cluster.flags().with("--vpc-names=net");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    let id = cluster.id("web").await;
    let attached = cluster.cloud.parts(&id, Kind::NodeBalancerVpc);
    assert_eq!(attached.len(), 1, "{attached:?}");
    assert_eq!(attached[0]["subnet_id"], subnet);
    assert_eq!(cluster.backends(&id), ["10.0.4.1", "10.0.4.2"]);
    for node in cluster.cloud.parts(&id, Kind::Node) {
        assert_eq!(node["vpc_config_id"], attached[0]["id"]);
    }
    cluster.join_in_vpc(3, subnet).await;
    eventually("the next one too", SOON, async || {
        let found = cluster.backends(&id);
        if found.len() == 3 { Ok(()) } else { Err(found) }
    })
    .await;
    cluster.finish().await;
}

/// Linode cannot change where a NodeBalancer is: it stays, and an Event says so. Also to one that starts after
/// the change.
#[tokio::test]
async fn another_subnet_than_a_nodebalancer_is_in_is_told_and_it_stays() {
    let cluster = CloudCluster::without_nodes().await;
    let vpc = cluster.sim().add_vpc("net");
    let subnet = cluster.sim().add_subnet(vpc, "default", "10.0.4.0/24");
    let other = cluster.sim().add_subnet(vpc, "other", "10.0.5.0/24");
    cluster.join_in_vpc(1, subnet).await;
    let flags = || cluster.flags().with("--vpc-names=net");
    let central = cluster.central_with(flags()).await;
    cluster.provide("web").await;
    let id = cluster.id("web").await;
    cluster.marker().await;
    assert!(cluster.warnings("web").await.is_empty());
    cluster
        .note("web", "backend-subnet-name", Some("other"))
        .await;
    let words = format!(
        "reaches its nodes in the subnet {subnet}, and that cannot be changed to the subnet {other}"
    );
    cluster
        .told("web", reasons::UNSUPPORTED_FIELD, &words)
        .await;
    drop(central);
    let front = other.to_string();
    cluster
        .note("web", "frontend-subnet-id", Some(&front))
        .await;
    let _central = cluster.central_with(flags()).await;
    let words = format!(
        "NodeBalancer {id} has its address outside of VPCs, and that cannot be changed to the subnet {other}"
    );
    cluster
        .told("web", reasons::UNSUPPORTED_FIELD, &words)
        .await;
    cluster.marker().await;
    assert_eq!(cluster.id("web").await, id);
    assert_eq!(cluster.backends(&id), ["10.0.4.1"]);
    assert!(cluster.sim().outages(&id).is_empty());
    cluster.finish().await;
}

/// What is listed depends on the tag, and whose traffic goes where does not. Each that is not listed is asked for
/// once.
#[tokio::test]
async fn a_node_whose_linode_lacks_the_tag_of_the_filter_carries_traffic() {
    let cluster = CloudCluster::without_nodes().await;
    let ids = [1, 2].map(|n| cluster.machine(n));
    cluster.cloud.set(&ids[0], "tags", json!(["k8s"]));
    for (n, id) in (1..).zip(&ids) {
        let node = NodeBuilder::new(&format!("n{n}")).provider_id(id);
        let node = SuiteCloud::node(node, n).ready();
        node.create(&cluster.admin).await.unwrap();
    }
    let flags = cluster.flags().with("--linode-tag-filter=k8s");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    // Another one joins without it.
    cluster.join(3).await;
    cluster.serves("web", &[1, 2, 3]).await;
    assert_none(&cluster.warnings("web").await);
    let hidden = ids[1].strip_prefix("linode://").unwrap();
    let asked = cluster.cloud.calls();
    let asked = asked.to(&format!("/v4/linode/instances/{hidden}"));
    assert_eq!(asked.len(), 1, "{}", asked.summary());
    cluster.finish().await;
}

/// lb-with-ipv6-backends. A Node without such an address is left out.
#[tokio::test]
async fn nodes_are_reached_by_ipv6_if_the_service_says_so() {
    let cluster = CloudCluster::without_nodes().await;
    for n in [1, 2, 3] {
        let (id, ipv6) = (cluster.machine(n), format!("2600:3c03::{n}"));
        cluster.cloud.set(&id, "ipv6", json!(format!("{ipv6}/128")));
        let node = NodeBuilder::new(&format!("n{n}")).provider_id(&id).ready();
        let node = match n {
            3 => node,
            _ => node.annotation(annotations::LINODE_PUBLIC_IPV6, &format!("{ipv6}/128")),
        };
        node.create(&cluster.admin).await.unwrap();
    }
    let _central = cluster.central().await;
    cluster
        .provide_with("web", &[("enable-ipv6-backends", "true")])
        .await;
    let id = cluster.id("web").await;
    assert_eq!(cluster.backends(&id), ["[2600:3c03::1]", "[2600:3c03::2]"]);
    cluster.told("web", reasons::NO_MEMBER_ADDRESS, "n3").await;
    cluster.finish().await;
}

/// Of two Services that ask for one reserved address, only one gets it.
#[tokio::test]
async fn one_reserved_address_is_given_to_one_service_alone() {
    let cluster = CloudCluster::start().await;
    cluster.sim().reserve("eu-central", Some("198.51.100.7"));
    let _central = cluster.central().await;
    for name in ["one", "two"] {
        let service = cluster.service(name);
        cluster
            .make(service.annotation(&key("reserved-ipv4"), "198.51.100.7"))
            .await;
    }
    let has_it = async |name: &str| {
        let service = cluster.get(name).await;
        ingress(&service)
            .iter()
            .any(|one| one["ip"] == "198.51.100.7")
    };
    eventually("one has it", SOON, async || {
        has_it("one").await || has_it("two").await
    })
    .await;
    let other = if has_it("one").await { "two" } else { "one" };
    cluster
        .told(
            other,
            reasons::SYNC_LOAD_BALANCER_FAILED,
            "[400] IPv4 address is already in use",
        )
        .await;
    cluster.marker().await;
    assert!(ingress(&cluster.get(other).await).is_empty());
    let all = cluster.sim().all(Kind::NodeBalancer);
    let with: Vec<&Value> = all
        .iter()
        .filter(|one| one["ipv4"] == "198.51.100.7")
        .collect();
    assert_eq!((with.len(), all.len()), (1, 2), "{all:?}");
    cluster.finish().await;
}

/// A release that fails keeps the NodeBalancer until it succeeds.
#[tokio::test]
async fn a_release_that_fails_keeps_the_nodebalancer_and_is_tried_again() {
    let cluster = CloudCluster::start().await;
    cluster.sim().reserve("eu-central", Some("198.51.100.7"));
    let _central = cluster.central().await;
    let notes = [
        ("reserved-ipv4", "198.51.100.7"),
        ("retain-reserved-ipv4", "false"),
    ];
    cluster.provide_with("web", &notes).await;
    let id = cluster.id("web").await;
    let release = When::write("/v4/networking/reserved/ips/*").method(Method::DELETE);
    let fault = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    cluster.sim().faults().inject(release.times(1), fault);
    cluster.delete("web").await;
    cluster
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, "[500]")
        .await;
    cluster.gone_within("web", AFTER_RETRIES).await;
    let writes = cluster.writes();
    let at = |path: &str| {
        writes
            .iter()
            .position(|call| call.method == "DELETE" && call.path == path)
    };
    let released = at("/v4/networking/reserved/ips/198.51.100.7");
    let deleted = at(&format!("/v4/nodebalancers/{id}"));
    assert!(released < deleted, "{}", writes.summary());
    let releases = writes.filter(|call| call.path.ends_with("/198.51.100.7"));
    assert_eq!(releases.len(), 2, "{}", releases.summary());
    cluster.finish().await;
}
