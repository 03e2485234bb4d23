//! What is wanted is what the cloud shows, in whatever form either of them writes it: once all is
//! as wanted, a restart writes nothing.

use std::time::Instant;

use mooring_common::names::reasons;
use mooring_tests::cloud_sim::cloudscale::{Interface, Kind, Machine};
use mooring_tests::objects::{NodeBuilder, ServiceBuilder};
use mooring_tests::wait::eventually;
use serde_json::json;

use crate::cloudscale_services::key;
use crate::cloudscale_services::stage::{SOON, Stage, assert_none, node_port};

/// B2: a host. B8: an address without a subnet. B10: networks in another order and form.
#[tokio::test]
async fn b2_b8_b10_what_is_as_wanted_is_not_written_again() {
    let stage = Stage::enter().await;
    let central = stage.central().await;
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
        let service = ServiceBuilder::load_balancer(&stage.namespace, name);
        let service = match name {
            "udp" => service.port_of("UDP", 53, 5353),
            "host" => service
                .port(80, 8080)
                .annotation(&key("health-monitor-type"), "http"),
            _ => service.port(80, 8080),
        };
        stage.make(service.annotation(&key(end), value)).await;
        stage.provided(name).await;
        stage.serves(name, &[1, 2]).await;
    }
    drop(central);
    let start = Instant::now();
    let _central = stage.central().await;
    stage.marker().await;
    for (name, _, _) in shapes {
        let writes = stage.writes_on(&stage.uuid(name).await).since(start);
        assert!(writes.is_empty(), "{name}: {}", writes.summary());
        assert!(stage.balancer(&stage.get(name).await).is_some());
    }
    stage.leave().await;
}

/// The cloud itself may show them in another order.
#[tokio::test]
async fn b10_another_order_in_the_cloud_is_no_difference() {
    let stage = Stage::enter().await;
    let central = stage.central().await;
    let ranges = r#"["192.0.2.0/24", "10.0.0.0/8"]"#;
    let service = stage.service("web");
    let service = service.annotation(&key("listener-allowed-cidrs"), ranges);
    stage.make(service).await;
    stage.provided("web").await;
    let uuid = stage.uuid("web").await;
    drop(central);
    for listener in stage.parts(&uuid, Kind::Listener) {
        let listener = crate::cloudscale_services::cloud::text(&listener["uuid"]);
        let turned = json!(["10.0.0.0/8", "192.0.2.0/24"]);
        stage
            .sim()
            .set_in(Kind::Listener, &listener, "allowed_cidrs", turned);
    }
    let start = Instant::now();
    let _central = stage.central().await;
    stage.marker().await;
    let writes = stage.writes_on(&uuid).since(start);
    assert!(writes.is_empty(), "{}", writes.summary());
    stage.leave().await;
}

/// B20: it can be no member, and an Event says why.
#[tokio::test]
async fn b20_a_node_without_a_private_network_is_told_of() {
    let stage = Stage::enter().await;
    let public = Interface::public().address("5.102.144.9");
    let uuid = stage.sim().add(Machine::named("open").interface(public));
    let node = NodeBuilder::new("open").provider_id(&format!("cloudscale://{uuid}"));
    node.ready().create(&stage.admin).await.unwrap();
    let _central = stage.central().await;
    stage.provide("web").await;
    stage.serves("web", &[1, 2]).await;
    let told = stage.told("web", reasons::NO_MEMBER_ADDRESS, "").await;
    assert!(told.note.contains("open"), "{told:?}");
    stage.leave().await;
}

/// B21: the default asks a UDP service by TCP. It stays the default, and an Event says so.
#[tokio::test]
async fn b21_a_health_monitor_that_misjudges_udp_is_told_of() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let dns = ServiceBuilder::load_balancer(&stage.namespace, "dns");
    stage.make(dns.port_of("UDP", 53, 5353)).await;
    stage.provided("dns").await;
    stage
        .told("dns", reasons::HEALTH_MONITOR_UNFIT, "udp-connect")
        .await;
    stage.leave().await;
}

/// Every private address of a server is a member, IPv6 as well.
#[tokio::test]
async fn every_private_address_of_a_node_is_a_member() {
    let stage = Stage::without_nodes().await;
    let machine = Machine::named("n1")
        .interface(Interface::public().address("5.102.144.9"))
        .interface(Interface::private().address("10.0.0.1").address("fd00::1"))
        .interface(Interface::private().address("10.0.1.1"));
    let uuid = stage.sim().add(machine);
    let node = NodeBuilder::new("n1").provider_id(&format!("cloudscale://{uuid}"));
    node.ready().create(&stage.admin).await.unwrap();
    let _central = stage.central().await;
    let service = stage.provide("web").await;
    let port = node_port(&service);
    let uuid = stage.uuid("web").await;
    let names: Vec<String> = stage
        .parts(&uuid, Kind::Member)
        .iter()
        .map(|member| crate::cloudscale_services::cloud::text(&member["name"]))
        .collect();
    let wanted = ["10.0.0.1", "[fd00::1]", "10.0.1.1"].map(|address| format!("{address}:{port}"));
    assert_eq!(names, wanted);
    stage.leave().await;
}

/// Nodes in several zones: the Service has to say where it wants its load balancer, which those of the
/// other zones do not serve.
#[tokio::test]
async fn nodes_in_two_zones_are_no_guess() {
    let stage = Stage::enter().await;
    let server = stage.sim().named(Kind::Server, "n2").remove(0);
    let server = crate::cloudscale_services::cloud::text(&server["uuid"]);
    stage.sim().set(&server, "zone", json!({ "slug": "lpg1" }));
    let _central = stage.central().await;
    let service = stage.create("web").await;
    let told = stage.failed("web").await;
    assert!(told.note.contains(&key("zone")), "{told:?}");
    assert!(stage.balancer(&service).is_none());
    stage.annotate("web", &key("zone"), Some("lpg1")).await;
    stage.provided("web").await;
    // Private networks end at their zone.
    stage.serves("web", &[2]).await;
    stage
        .told("web", reasons::NO_MEMBER_ADDRESS, "n1 (rma1)")
        .await;
    stage.leave().await;
}

/// B11: upstream leaves the old options on the monitor.
#[tokio::test]
async fn b11_options_that_are_taken_back_are_those_of_the_default_again() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let options = r#"{"url_path": "/ready", "host": "shop.example", "method": "HEAD"}"#;
    let service = stage.service("web");
    let service = service.annotation(&key("health-monitor-type"), "http");
    stage
        .make(service.annotation(&key("health-monitor-http"), options))
        .await;
    stage.provided("web").await;
    let uuid = stage.uuid("web").await;
    stage
        .annotate("web", &key("health-monitor-http"), None)
        .await;
    let default = json!({
        "url_path": "/", "host": null, "method": "GET", "version": "1.1", "expected_codes": ["200"],
    });
    eventually("all options are the default", SOON, async || {
        stage.parts(&uuid, Kind::HealthMonitor)[0]["http"] == default
    })
    .await;
    assert_none(&stage.warnings("web").await);
    stage.leave().await;
}
