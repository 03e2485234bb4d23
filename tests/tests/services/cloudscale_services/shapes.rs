//! What is wanted is what the cloud shows, in whatever form either of them writes it: once all is
//! as wanted, a restart writes nothing.

use std::time::Instant;

use mooring_cloud_sim::cloudscale::{Interface, Kind, Machine};
use mooring_common::names::reasons;
use mooring_test_cluster::objects::{NodeBuilder, ServiceBuilder};
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::cloudscale_services::cluster::{CloudCluster, SOON, assert_none};
use crate::cloudscale_services::forwarding::node_port;
use crate::cloudscale_services::key;

/// B2: a host. B8: an address without a subnet. B10: networks in another order and form.
#[tokio::test]
async fn b2_b8_b10_what_is_as_wanted_is_not_written_again() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let shapes = [
        (
            "host",
            "health-monitor-http",
            r#"{"host": "shop.example", "expected_codes": ["200", "204"]}"#,
        ),
        ("vip", "vip-addresses", r#"[{"address": "10.0.0.55"}]"#),
        (
            "networks",
            "listener-allowed-cidrs",
            r#"["192.0.2.0/24", "2001:DB8:0:0::/32", "10.0.0.0/8", "10.0.0.0/8"]"#,
        ),
        ("spaces", "listener-allowed-subnets", "\n\t[ ]"),
        ("udp", "health-monitor-type", "udp-connect"),
    ];
    for (name, end, value) in shapes {
        let service = ServiceBuilder::load_balancer(&cluster.namespace, name);
        let service = match name {
            "udp" => service.port_of("UDP", 53, 5353),
            "host" => service
                .port(80, 8080)
                .annotation(&key("health-monitor-type"), "http"),
            _ => service.port(80, 8080),
        };
        cluster.make(service.annotation(&key(end), value)).await;
        cluster.provided(name).await;
        cluster.serves(name, &[1, 2]).await;
    }
    drop(central);
    let start = Instant::now();
    let _central = cluster.central().await;
    cluster.marker().await;
    for (name, _, _) in shapes {
        let writes = cluster.writes_on(&cluster.uuid(name).await).since(start);
        assert!(writes.is_empty(), "{name}: {}", writes.summary());
        assert!(cluster.balancer(&cluster.get(name).await).is_some());
    }
    cluster.finish().await;
}

/// The cloud itself may show them in another order.
#[tokio::test]
async fn b10_another_order_in_the_cloud_is_no_difference() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let ranges = r#"["192.0.2.0/24", "10.0.0.0/8"]"#;
    let service = cluster.service("web");
    let service = service.annotation(&key("listener-allowed-cidrs"), ranges);
    cluster.make(service).await;
    cluster.provided("web").await;
    let uuid = cluster.uuid("web").await;
    drop(central);
    for listener in cluster.parts(&uuid, Kind::Listener) {
        let listener = crate::cloudscale_services::cloud::text(&listener["uuid"]);
        let turned = json!(["10.0.0.0/8", "192.0.2.0/24"]);
        cluster
            .sim()
            .set_in(Kind::Listener, &listener, "allowed_cidrs", turned);
    }
    let start = Instant::now();
    let _central = cluster.central().await;
    cluster.marker().await;
    let writes = cluster.writes_on(&uuid).since(start);
    assert!(writes.is_empty(), "{}", writes.summary());
    cluster.finish().await;
}

/// B20: it can be no member, and an Event says why.
#[tokio::test]
async fn b20_a_node_without_a_private_network_is_told_of() {
    let cluster = CloudCluster::start().await;
    let public = Interface::public().address("5.102.144.9");
    let uuid = cluster.sim().add(Machine::named("open").interface(public));
    let node = NodeBuilder::new("open").provider_id(&format!("cloudscale://{uuid}"));
    node.ready().create(&cluster.admin).await.unwrap();
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    let told = cluster.told("web", reasons::NO_MEMBER_ADDRESS, "").await;
    assert!(told.note.contains("open"), "{told:?}");
    cluster.finish().await;
}

/// B21: the default asks a UDP service by TCP. It stays the default, and an Event says so.
#[tokio::test]
async fn b21_a_health_monitor_that_misjudges_udp_is_told_of() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let dns = ServiceBuilder::load_balancer(&cluster.namespace, "dns");
    cluster.make(dns.port_of("UDP", 53, 5353)).await;
    cluster.provided("dns").await;
    cluster
        .told("dns", reasons::HEALTH_MONITOR_UNFIT, "udp-connect")
        .await;
    cluster.finish().await;
}

/// Every private address of a server is a member, IPv6 as well.
#[tokio::test]
async fn every_private_address_of_a_node_is_a_member() {
    let cluster = CloudCluster::without_nodes().await;
    let machine = Machine::named("n1")
        .interface(Interface::public().address("5.102.144.9"))
        .interface(Interface::private().address("10.0.0.1").address("fd00::1"))
        .interface(Interface::private().address("10.0.1.1"));
    let uuid = cluster.sim().add(machine);
    let node = NodeBuilder::new("n1").provider_id(&format!("cloudscale://{uuid}"));
    node.ready().create(&cluster.admin).await.unwrap();
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    let port = node_port(&service);
    let uuid = cluster.uuid("web").await;
    let names: Vec<String> = cluster
        .parts(&uuid, Kind::Member)
        .iter()
        .map(|member| crate::cloudscale_services::cloud::text(&member["name"]))
        .collect();
    let wanted = ["10.0.0.1", "[fd00::1]", "10.0.1.1"].map(|address| format!("{address}:{port}"));
    assert_eq!(names, wanted);
    cluster.finish().await;
}

/// Nodes in several zones: the Service has to say where it wants its load balancer, which those of the
/// other zones do not serve.
#[tokio::test]
async fn nodes_in_two_zones_are_no_guess() {
    let cluster = CloudCluster::start().await;
    let server = cluster.sim().named(Kind::Server, "n2").remove(0);
    let server = crate::cloudscale_services::cloud::text(&server["uuid"]);
    cluster
        .sim()
        .set(&server, "zone", json!({ "slug": "lpg1" }));
    let _central = cluster.central().await;
    let service = cluster.create("web").await;
    let told = cluster.failed("web").await;
    assert!(told.note.contains(&key("zone")), "{told:?}");
    assert!(cluster.balancer(&service).is_none());
    cluster.annotate("web", &key("zone"), Some("lpg1")).await;
    cluster.provided("web").await;
    // Private networks end at their zone.
    cluster.serves("web", &[2]).await;
    cluster
        .told("web", reasons::NO_MEMBER_ADDRESS, "n1 (rma1)")
        .await;
    cluster.finish().await;
}

/// B11: upstream leaves the old options on the monitor.
#[tokio::test]
async fn b11_options_that_are_taken_back_are_those_of_the_default_again() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let options = r#"{"url_path": "/ready", "host": "shop.example", "method": "HEAD"}"#;
    let service = cluster.service("web");
    let service = service.annotation(&key("health-monitor-type"), "http");
    cluster
        .make(service.annotation(&key("health-monitor-http"), options))
        .await;
    cluster.provided("web").await;
    let uuid = cluster.uuid("web").await;
    cluster
        .annotate("web", &key("health-monitor-http"), None)
        .await;
    let default = json!({
        "url_path": "/", "host": null, "method": "GET", "version": "1.1", "expected_codes": ["200"],
    });
    eventually("all options are the default", SOON, async || {
        cluster.parts(&uuid, Kind::HealthMonitor)[0]["http"] == default
    })
    .await;
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}
