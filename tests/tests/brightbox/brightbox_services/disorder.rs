//! What the Go controller has left in disorder: it is put right, and nothing that serves is lost.

use std::time::Instant;

use http::Method;
use mooring_cloud_sim::brightbox::Kind;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::brightbox_services::cloud::BALANCERS;
use crate::brightbox_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none,
};
use crate::brightbox_services::left_by_go::leave;

/// A load balancer alone shows them: it is read until it has none, and then no more.
#[tokio::test]
async fn names_that_the_go_controller_left_after_https_are_cleared() {
    let cluster = CloudCluster::start().await;
    let service = cluster.create("web").await;
    let (services, servers) = (cluster.services(), cluster.servers());
    let sim = cluster.sim();
    let left = leave(sim, &services, &service, &servers, None, |balancer| {
        let domain = json!({ "identifier": "old.example.com", "status": "invalid" });
        balancer["acme"] = json!({ "certificate": null, "domains": [domain] });
    })
    .await;
    let start = Instant::now();
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    eventually("it has none", SOON, async || {
        let shown = sim.get(Kind::LoadBalancer, &left.balancer);
        shown.is_some_and(|shown| shown["acme"].is_null())
    })
    .await;
    cluster.listed_since(start, 6).await;
    let calls = cluster.cloud.calls().since(start);
    let reads = calls.to(&format!("{BALANCERS}/{}", left.balancer));
    let reads = reads.method(&Method::GET);
    assert!(reads.len() <= 2, "{}", reads.summary());
    let writes = cluster.cloud.writes_on(&left.balancer).since(start);
    assert_eq!(writes.len(), 1, "{}", writes.summary());
    assert_none(&cluster.sim().outages(&left.balancer));
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}

/// One of two that have its name has failed, and nothing says whose it is.
#[tokio::test]
async fn a_cloud_ip_that_a_service_names_is_taken_from_its_own_failed_load_balancer() {
    let cluster = CloudCluster::start().await;
    let (address, fqdn) = ("192.0.2.1", "192-0-2-1.example.com");
    let ip = json!({ "name": "mine", "public_ip": address, "public_ipv4": address, "fqdn": fqdn });
    let ip = cluster.sim().put(Kind::CloudIp, ip);
    let service = cluster.noted("web", &[("cloudip-allocations", &ip)]);
    let service = cluster.make(service).await;
    let (services, servers) = (cluster.services(), cluster.servers());
    let sim = cluster.sim();
    let named = Some(ip.clone());
    let left = leave(sim, &services, &service, &servers, named, |_| ()).await;
    let mut second = sim.get(Kind::LoadBalancer, &left.balancer).unwrap();
    second.as_object_mut().unwrap().remove("id");
    let second = sim.put(Kind::LoadBalancer, second);
    sim.set_in(Kind::LoadBalancer, &left.balancer, "status", "failed");
    let _central = cluster.central().await;
    eventually("the other one has it alone", AFTER_RETRIES, async || {
        let shown = sim.get(Kind::CloudIp, &ip).expect("it stays");
        shown["load_balancer"]["id"] == second && !cluster.cloud.has(&left.balancer)
    })
    .await;
    cluster.serves("web", &[1, 2]).await;
    assert_none(&cluster.complaints("web").await);
    cluster.finish().await;
}
