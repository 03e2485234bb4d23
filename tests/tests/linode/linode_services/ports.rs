//! Ports: what a change of one does to the others, and what an unchanged Service costs.

use std::time::Instant;

use http::Method;
use mooring_cloud_sim::Calls;
use mooring_cloud_sim::linode::Kind;
use mooring_common::names::reasons;
use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::linode_services::cloud::number;
use crate::linode_services::cluster::{CloudCluster, SOON, assert_none};
use crate::linode_services::forwarding::ports;
use crate::linode_services::key;

impl CloudCluster {
    /// The config of a port.
    fn config(&self, id: &str, port: u16, is_udp: bool) -> Value {
        let mut configs = self.cloud.parts(id, Kind::Config).into_iter();
        let config = configs
            .find(|config| config["port"] == port && (config["protocol"] == "udp") == is_udp);
        config.expect("a config")
    }

    /// What was asked to change a config or its nodes.
    fn writes_on_config(&self, config: &Value) -> Calls {
        let folder = format!("/configs/{}", number(&config["id"]));
        let writes = self.writes();
        writes.filter(|call| call.path.contains(&folder))
    }
}

async fn two_ports(cluster: &CloudCluster) -> String {
    let service = ServiceBuilder::load_balancer(&cluster.namespace, "web");
    cluster.make(service.port(80, 8080).port(443, 8443)).await;
    cluster.provided("web").await;
    cluster.serves("web", &[1, 2]).await.id
}

/// The Go controller rebuilds every config at every pass.
#[tokio::test]
async fn a_port_that_changes_disturbs_no_other() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let id = two_ports(&cluster).await;
    let (other, changed) = (
        cluster.config(&id, 80, false),
        cluster.config(&id, 443, false),
    );
    let nodes = cluster.cloud.parts(&id, Kind::Node);
    let json = r#"{"protocol": "http", "algorithm": "leastconn"}"#;
    cluster.note("web", "port-443", Some(json)).await;
    eventually("it is as wanted", SOON, async || {
        let config = cluster.config(&id, 443, false);
        config["protocol"] == "http" && config["algorithm"] == "leastconn"
    })
    .await;
    let service = cluster.get("web").await;
    let mut moved = json!(ports(&service)[1]);
    moved["port"] = json!(8443);
    let kept = &ports(&service)[0];
    cluster
        .respecify("web", json!({ "ports": [kept, moved] }))
        .await;
    cluster.serves("web", &[1, 2]).await;
    cluster.marker().await;
    assert_none(&cluster.writes_on_config(&other));
    // One write changed it, and one took it away; its nodes stayed until then.
    let writes = cluster.writes_on_config(&changed);
    assert_eq!(writes.len(), 2, "{}", writes.summary());
    assert_eq!(writes[0].method, Method::PUT);
    let of_other = |all: &[Value]| -> Vec<Value> {
        let of = all.iter().filter(|node| node["config_id"] == other["id"]);
        of.map(|node| node["id"].clone()).collect()
    };
    assert_eq!(
        of_other(&cluster.cloud.parts(&id, Kind::Node)),
        of_other(&nodes)
    );
    cluster.finish().await;
}

/// Of DNS: the Go controller has one config for both.
#[tokio::test]
async fn udp_beside_tcp_on_one_number_are_two_configs_that_do_not_disturb_each_other() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = ServiceBuilder::load_balancer(&cluster.namespace, "dns");
    let service = service.port(53, 5353).port_of("UDP", 53, 5353);
    cluster.make(service).await;
    cluster.provided("dns").await;
    let id = cluster.serves("dns", &[1, 2]).await.id;
    let udp = cluster.config(&id, 53, true);
    assert_eq!(udp["check"], "none");
    assert_eq!(udp["check_passive"], false);
    assert_eq!(udp["stickiness"], "session");
    let tcp = cluster.config(&id, 53, false);
    assert_eq!(tcp["check"], "connection");
    let nodes = cluster.cloud.parts(&id, Kind::Node);
    let modes = nodes.iter().map(|node| {
        let is_udp = node["config_id"] == udp["id"];
        (is_udp, node["mode"].as_str().unwrap_or_default().to_owned())
    });
    let right = modes.filter(|(is_udp, mode)| mode == if *is_udp { "none" } else { "accept" });
    assert_eq!(right.count(), 4, "{nodes:?}");

    // One of them goes.
    let service = cluster.get("dns").await;
    let udp_port = &ports(&service)[1];
    cluster
        .respecify("dns", json!({ "ports": [udp_port] }))
        .await;
    cluster.serves("dns", &[1, 2]).await;
    assert_none(&cluster.writes_on_config(&udp));
    let outages = cluster.sim().outages(&id);
    assert!(
        outages.iter().all(|outage| outage.listener == "tcp/53"),
        "{outages:?}"
    );
    cluster.finish().await;
}

#[tokio::test]
async fn what_is_unchanged_is_looked_at_and_never_written() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    let check = [
        ("default-protocol", "http"),
        ("check-type", "http_body"),
        ("check-path", "/ready"),
        ("check-body", "ok"),
        ("default-stickiness", "http_cookie"),
        (
            "firewall-acl",
            r#"{"denyList": {"ipv4": ["192.0.2.9", "198.51.100.0/24"]}}"#,
        ),
    ];
    cluster.provide_with("tuned", &check).await;
    two_ports(&cluster).await;
    let service = ServiceBuilder::load_balancer(&cluster.namespace, "udp").port_of("UDP", 53, 5353);
    let service = service
        .annotation(&key("default-algorithm"), "ring_hash")
        .annotation(&key("default-stickiness"), "source_ip");
    cluster.make(service).await;
    cluster.provided("udp").await;
    let (start, since) = (Instant::now(), cluster.now());
    for name in ["tuned", "web", "udp"] {
        let id = cluster.id(name).await;
        cluster.read_since(&id, start, 1).await;
    }
    cluster.marker().await;
    assert_none(&cluster.changes_since(start));
    for name in ["tuned", "web", "udp"] {
        let written = cluster.written(name).await.since(since);
        assert!(written.is_empty(), "{name}: {}", written.summary());
        assert_none(&cluster.warnings(name).await);
    }
    cluster.finish().await;
}

/// What somebody has changed by hand is put right, in place.
#[tokio::test]
async fn what_is_changed_by_hand_is_put_right_in_place() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    let id = two_ports(&cluster).await;
    let config = cluster.config(&id, 80, false);
    let sim = cluster.sim();
    sim.set_in(Kind::Config, &config["id"], "algorithm", "leastconn");
    sim.set_in(Kind::Config, &config["id"], "check_interval", 60);
    sim.set_in(Kind::NodeBalancer, &id, "client_conn_throttle", 9);
    let node = cluster.cloud.parts(&id, Kind::Node)[0]["id"].clone();
    sim.set_in(Kind::Node, &node, "mode", "reject");
    eventually("all is right", SOON, async || {
        let config = cluster.config(&id, 80, false);
        let shown = cluster.shown("web").await;
        let nodes = cluster.cloud.parts(&id, Kind::Node);
        let node = nodes.into_iter().find(|one| one["id"] == node);
        let seen = [
            config["algorithm"].clone(),
            config["check_interval"].clone(),
            shown["client_conn_throttle"].clone(),
            node.unwrap_or_default()["mode"].clone(),
        ];
        let wanted = [json!("roundrobin"), json!(5), json!(0), json!("accept")];
        if seen == wanted { Ok(()) } else { Err(seen) }
    })
    .await;
    cluster.serves("web", &[1, 2]).await;
    cluster.finish().await;
}

/// Their checks ask another port, at which every Node answers or none.
#[tokio::test]
async fn an_event_tells_of_udp_ports_with_traffic_policy_local() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.service("web").port_of("UDP", 53, 5353).local();
    cluster.make(service).await;
    cluster.provided("web").await;
    let reason = reasons::HEALTH_MONITOR_UNFIT;
    let told = cluster.told("web", reason, "udp/53").await;
    let service = cluster.get("web").await;
    let health_port = service.spec.unwrap().health_check_node_port.unwrap();
    let remedy = format!("{} {health_port}", key("udp-check-port"));
    assert!(told.note.contains(&remedy), "{told:?}");
    assert!(!told.note.contains("tcp/80"), "{told:?}");
    cluster.finish().await;
}
