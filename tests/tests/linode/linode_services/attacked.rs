//! What other hands do in the account while central looks elsewhere, and answers that say less than usual.

use std::time::Instant;

use mooring_cloud_sim::linode::Kind;
use mooring_common::names::{annotations, reasons};
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::linode_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none, ingress,
};
use crate::linode_services::firewalls::{acl, meaning};
use crate::linode_services::handover::protected_by_go;
use crate::linode_services::key;

/// Somebody attaches a firewall after central has looked, and before the Service asks for one of its own.
#[tokio::test]
async fn a_firewall_that_was_attached_since_the_last_look_is_not_replaced() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    let id = cluster.id("web").await;
    cluster.settle().await;
    let entity = json!([{ "id": id.parse::<u64>().unwrap(), "type": "nodebalancer" }]);
    let theirs = cluster.firewall_by_hand("theirs", &entity);
    let allowed = acl("allowList", &["192.0.2.0/24"]);
    cluster.note("web", "firewall-acl", Some(&allowed)).await;
    cluster
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, "theirs")
        .await;
    cluster.is_protected_by(&id, theirs).await;
    // The one that was made for the Service meanwhile goes as well, once nobody asks for it.
    cluster.note("web", "firewall-acl", None).await;
    eventually("nothing but theirs is left", AFTER_RETRIES, async || {
        let all = cluster.sim().all(Kind::Firewall);
        if all.len() == 1 { Ok(()) } else { Err(all) }
    })
    .await;
    cluster.is_protected_by(&id, theirs).await;
    cluster.finish().await;
}

/// Somebody replaces a Service's own firewall by hand, and then the Service wants none any more.
#[tokio::test]
async fn a_firewall_that_replaced_the_own_one_is_not_detached() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let allowed = acl("allowList", &["192.0.2.0/24"]);
    cluster
        .provide_with("web", &[("firewall-acl", &allowed)])
        .await;
    let id = cluster.id("web").await;
    cluster.settle().await;
    let own = cluster.cloud.firewalls(&id)[0]["id"].as_u64().unwrap();
    let theirs = cluster.firewall_by_hand("theirs", &json!([]));
    assert!(cluster.sim().remove_firewall(own));
    cluster.sim().attach_firewall(theirs, id.parse().unwrap());
    cluster.note("web", "firewall-acl", None).await;
    cluster.note("web", "throttle", Some("3")).await;
    cluster
        .shows(&id, "it is throttled", |shown| {
            shown["client_conn_throttle"] == 3
        })
        .await;
    cluster.is_protected_by(&id, theirs).await;
    cluster.finish().await;
}

/// A tenant attaches the firewall that the Go controller has made for somebody else: that protects two then, and
/// is the other's all the same.
#[tokio::test]
async fn a_firewall_of_the_go_controller_stays_its_services_whoever_attaches_it() {
    let cluster = CloudCluster::start().await;
    let id = protected_by_go(&cluster, "theirs").await;
    let firewall = cluster.cloud.firewalls(&id)[0]["id"].to_string();
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster.marker().await;
    cluster
        .provide_with("mine", &[("firewall-id", &firewall)])
        .await;
    cluster.read_since(&id, Instant::now(), 2).await;
    cluster.join(3).await;
    eventually("the Nodes are followed", SOON, async || {
        let nodes = cluster.cloud.parts(&id, Kind::Node);
        if nodes.len() == 3 { Ok(()) } else { Err(nodes) }
    })
    .await;
    let other = acl("allowList", &["198.51.100.0/24"]);
    cluster.note("theirs", "firewall-acl", Some(&other)).await;
    eventually("its rules follow", SOON, async || {
        let shown = cluster.sim().get(Kind::Firewall, &firewall).unwrap();
        let (_, rules) = meaning(&shown);
        if rules[0][3] == "198.51.100.0/24" {
            Ok(())
        } else {
            Err(rules)
        }
    })
    .await;
    assert_none(&cluster.warnings("theirs").await);
    cluster.finish().await;
}

/// One that the cloud does not take: its address is no Linode's here. Anybody with the rights of its daemon can
/// write such an address.
#[tokio::test]
async fn a_node_that_the_cloud_refuses_holds_up_no_new_service() {
    let cluster = CloudCluster::start().await;
    let node = NodeBuilder::new("n3").provider_id(&cluster.machine(3));
    let node = node.annotation(annotations::LINODE_PRIVATE_IP, "10.66.0.1");
    node.ready().create(&cluster.admin).await.unwrap();
    let _central = cluster.central().await;
    let service = cluster.service("web").port(443, 8443);
    cluster.make(service).await;
    cluster.provided("web").await;
    cluster.serves("web", &[1, 2]).await;
    cluster
        .told("web", reasons::MEMBER_REFUSED, "10.66.0.1")
        .await;
    assert_eq!(cluster.cloud.balancers().len(), 1);
    cluster.finish().await;
}

/// What has no address yet is no load balancer that a status can show.
#[tokio::test]
async fn a_nodebalancer_without_an_address_is_waited_for() {
    let cluster = CloudCluster::start().await;
    let shown = json!({ "label": "by-hand", "ipv4": null, "ipv6": null, "hostname": null });
    let id = cluster.sim().put_node_balancer(&shown).to_string();
    let _central = cluster.central().await;
    let service = cluster.service("web");
    cluster
        .make(service.annotation(&key("nodebalancer-id"), &id))
        .await;
    cluster.marker().await;
    let told = cluster.reasons("web").await;
    assert!(!told.contains(reasons::ENSURED_LOAD_BALANCER), "{told:?}");
    assert_none(&ingress(&cluster.get("web").await));
    cluster
        .sim()
        .set_in(Kind::NodeBalancer, &id, "ipv4", "198.51.100.44");
    let service = cluster.provided("web").await;
    assert_eq!(ingress(&service)[0]["ip"], "198.51.100.44");
    cluster.serves("web", &[1, 2]).await;
    cluster.finish().await;
}

/// One that has no other address shows its IPv6 address, asked for or not.
#[tokio::test]
async fn a_nodebalancer_that_has_ipv6_alone_is_shown_by_that() {
    let cluster = CloudCluster::start().await;
    let shown =
        json!({ "label": "by-hand", "ipv4": null, "ipv6": "2600:3c03::44", "hostname": "" });
    let id = cluster.sim().put_node_balancer(&shown).to_string();
    let _central = cluster.central().await;
    let service = cluster
        .provide_with("web", &[("nodebalancer-id", &id)])
        .await;
    let addresses: Vec<Value> = ingress(&service)
        .iter()
        .map(|one| one["ip"].clone())
        .collect();
    assert_eq!(addresses, ["2600:3c03::44"]);
    cluster.finish().await;
}

/// A NodeBalancer with its address in a VPC.
fn in_vpc(label: &str, subnet: u64) -> Value {
    json!({
        "label": label, "ipv4": "10.0.0.5", "ipv6": null, "hostname": "",
        "frontend_address_type": "vpc", "frontend_vpc_subnet_id": subnet, "type": "premium",
    })
}

/// Private addresses are not unique in an account: another cluster's NodeBalancer in another VPC has the same.
#[tokio::test]
async fn one_with_the_same_address_in_another_vpc_is_left_alone() {
    let cluster = CloudCluster::start().await;
    let own = cluster
        .sim()
        .put_node_balancer(&in_vpc("own", 7))
        .to_string();
    let others = cluster
        .sim()
        .put_node_balancer(&in_vpc("others", 8))
        .to_string();
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let central = cluster.central_with(flags).await;
    cluster
        .provide_with("web", &[("nodebalancer-id", &own)])
        .await;
    cluster.serves("web", &[1, 2]).await;
    cluster.read_since(&own, Instant::now(), 2).await;
    assert!(cluster.cloud.has(&others));
    drop(central);
    // Its own is gone: another one is made, and the other cluster's is neither taken nor deleted.
    cluster.note("web", "nodebalancer-id", None).await;
    cluster.cloud.delete_by_hand(&own);
    let _central = cluster.central().await;
    eventually("another one serves", AFTER_RETRIES, async || {
        let service = cluster.get("web").await;
        let found = cluster
            .balancer(&service)
            .ok_or_else(|| cluster.cloud.balancers())?;
        if found.id == others {
            Err(vec![found])
        } else {
            Ok(())
        }
    })
    .await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert!(cluster.cloud.has(&others));
    assert_none(&cluster.cloud.writes_on(&others));
    cluster.finish().await;
}
