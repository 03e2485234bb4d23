//! A cluster and its cloud, exactly as the Go controller leaves them.

use k8s_openapi::api::core::v1::{Service, ServicePort};
use kube::api::{Api, Patch, PatchParams};
use mooring_cloud_sim::cloudscale::{Cloudscale, Kind, SUBNET};
use mooring_common::names::finalizers;
use mooring_test_cluster::objects::ServiceBuilder;
use serde_json::{Value, json};

use crate::cloudscale_services::cloud::{SuiteCloud, uid};
use crate::cloudscale_services::cluster::LoadBalancerCloud as _;
use crate::cloudscale_services::forwarding::ports;
use crate::cloudscale_services::key;

/// What differs from the defaults.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    /// What its pools distribute by.
    pub(crate) algorithm: &'static str,
    /// What its TCP pools speak.
    pub(crate) protocol: &'static str,
    /// Fields of every health monitor.
    pub(crate) monitor: Value,
    /// Fields of every listener.
    pub(crate) listener: Value,
    /// Its addresses, if they are not public ones.
    pub(crate) vips: Value,
    /// Whether the status has a host name only.
    pub(crate) hostname: Option<&'static str>,
    /// `ipMode` in the status.
    pub(crate) ip_mode: &'static str,
}

impl Default for Left {
    fn default() -> Self {
        Self {
            algorithm: "round_robin",
            protocol: "tcp",
            monitor: json!({}),
            listener: json!({}),
            vips: Value::Null,
            hostname: None,
            ip_mode: "Proxy",
        }
    }
}

/// A Service as its user has written it, and what the Go controller has made of it.
pub(crate) type Case = (&'static str, ServiceBuilder, Left);

/// One Service of each kind that it serves. The last one has a floating IP.
pub(crate) fn cases(namespace: &str) -> Vec<Case> {
    let service = |name: &str| ServiceBuilder::load_balancer(namespace, name);
    let udp = service("udp")
        .port_of("UDP", 5000, 5353)
        .annotation(&key("health-monitor-type"), "udp-connect")
        .annotation(&key("health-monitor-delay-s"), "3")
        .annotation(&key("health-monitor-timeout-s"), "2");
    let connect = json!({ "type": "udp-connect", "delay_s": 3, "timeout_s": 2 });
    let vips = json!([{ "subnet": SUBNET }]).to_string();
    let tuned = service("tuned")
        .port(80, 8080)
        .annotation(&key("pool-algorithm"), "source_ip")
        .annotation(&key("pool-protocol"), "proxyv2")
        .annotation(&key("ip-mode"), "VIP")
        .annotation(&key("timeout-client-data-ms"), "10000")
        .annotation(&key("listener-allowed-cidrs"), r#"["10.0.0.0/8"]"#);
    let http = service("http")
        .port(80, 8080)
        .annotation(&key("health-monitor-type"), "http")
        .annotation(
            &key("health-monitor-http"),
            r#"{"url_path": "/ready", "host": "shop.example"}"#,
        );
    let ready = json!({ "url_path": "/ready", "host": "shop.example" });
    vec![
        (
            "public",
            service("public").unnamed_port(80, 8080),
            Left::default(),
        ),
        (
            "two-ports",
            service("two-ports").port(80, 8080).port(443, 8443),
            Left::default(),
        ),
        (
            "local",
            service("local").unnamed_port(80, 8080).local(),
            Left::default(),
        ),
        (
            "udp",
            udp,
            Left {
                monitor: connect,
                ..Left::default()
            },
        ),
        (
            "both-protocols",
            service("both-protocols")
                .port(53, 5353)
                .port_of("UDP", 53, 5353),
            Left::default(),
        ),
        (
            "private",
            service("private")
                .port(80, 8080)
                .annotation(&key("vip-addresses"), &vips),
            Left {
                vips: json!([{ "version": 4, "address": "10.0.0.99", "subnet": subnet() }]),
                ..Left::default()
            },
        ),
        (
            "tuned",
            tuned,
            Left {
                algorithm: "source_ip",
                protocol: "proxyv2",
                ip_mode: "VIP",
                listener: json!({
                    "timeout_client_data_ms": 10000, "allowed_cidrs": ["10.0.0.0/8"],
                }),
                ..Left::default()
            },
        ),
        (
            "http",
            http,
            Left {
                monitor: json!({ "type": "http", "http": ready }),
                ..Left::default()
            },
        ),
        (
            "hostname",
            service("hostname")
                .port(80, 8080)
                .annotation(&key("force-hostname"), "shop.example"),
            Left {
                hostname: Some("shop.example"),
                ..Left::default()
            },
        ),
        (
            "floating",
            service("floating")
                .port(80, 8080)
                .annotation(&key("floating-ips"), r#"["203.0.113.9/32"]"#),
            Left::default(),
        ),
    ]
}

/// The subnet of all Nodes, as the API shows it.
pub(crate) fn subnet() -> Value {
    let href = format!("https://api.cloudscale.ch/v1/subnets/{SUBNET}");
    json!({ "uuid": SUBNET, "href": href, "cidr": "10.0.0.0/8" })
}

/// Puts into the cloud and onto a Service what the Go controller would have. Gives the UUID.
pub(crate) async fn left_by_upstream(
    sim: &Cloudscale,
    services: &Api<Service>,
    service: &Service,
    left: &Left,
) -> String {
    let uuid = put_balancer(sim, service, left);
    for port in ports(service) {
        put_pool(sim, service, port, &uuid, left);
    }
    write_on_service(sim, services, service, &uuid, left).await;
    uuid
}

fn put_balancer(sim: &Cloudscale, service: &Service, left: &Left) -> String {
    let vips = match &left.vips {
        Value::Null => json!([
            { "version": 4, "address": "5.102.150.7", "subnet": null },
            { "version": 6, "address": "2a06:c01:1:2::7", "subnet": null },
        ]),
        vips => vips.clone(),
    };
    let balancer = json!({
        "name": crate::cloudscale_services::cloud::name(&uid(service)), "flavor": "lb-standard", "zone": "rma1",
        "vip_addresses": vips,
    });
    sim.put(Kind::LoadBalancer, balancer)
}

fn put_pool(sim: &Cloudscale, service: &Service, port: &ServicePort, balancer: &str, left: &Left) {
    let protocol = port.protocol.as_deref().unwrap_or("TCP").to_lowercase();
    let name = match port.name.as_deref() {
        None | Some("") => protocol.clone(),
        Some(name) => format!("{protocol}/{name}"),
    };
    let spoken = if protocol == "udp" {
        "udp"
    } else {
        left.protocol
    };
    let pool = sim.put(
        Kind::Pool,
        json!({
            "name": name, "load_balancer": balancer, "algorithm": left.algorithm,
            "protocol": spoken,
        }),
    );
    let spec = service.spec.as_ref().expect("a specification");
    let node_port = port.node_port.expect("a node port");
    let is_local = spec.external_traffic_policy.as_deref() == Some("Local");
    let health_port = spec.health_check_node_port.filter(|_| is_local);
    for n in [1, 2] {
        let address = SuiteCloud::address(n);
        sim.put(
            Kind::Member,
            json!({
                "pool": pool, "name": format!("{address}:{node_port}"), "address": address,
                "subnet": SUBNET, "protocol_port": node_port,
                "monitor_port": health_port.unwrap_or(node_port), "monitor_status": "up",
            }),
        );
    }
    let mut listener = json!({
        "pool": pool, "name": format!("{protocol}/{}", port.port), "protocol": protocol,
        "protocol_port": port.port,
    });
    overlay(&mut listener, &left.listener);
    sim.put(Kind::Listener, listener);
    let mut monitor = json!({ "pool": pool, "type": "tcp" });
    if is_local {
        monitor["type"] = json!("http");
        monitor["http"] = json!({ "url_path": "/livez", "version": "1.0" });
    }
    overlay(&mut monitor, &left.monitor);
    sim.put(Kind::HealthMonitor, monitor);
}

async fn write_on_service(
    sim: &Cloudscale,
    services: &Api<Service>,
    service: &Service,
    uuid: &str,
    left: &Left,
) {
    let name = service.metadata.name.as_deref().expect("a name");
    let annotations = json!({
        key("uuid"): uuid, key("config-version"): "1", key("zone"): "rma1",
    });
    let metadata = json!({ "annotations": annotations, "finalizers": [finalizers::SERVICE] });
    let (params, noted) = (PatchParams::default(), json!({ "metadata": metadata }));
    let noted = services.patch(name, &params, &Patch::Merge(&noted)).await;
    noted.expect("annotations and finalizer are taken");
    let shown = sim.get(Kind::LoadBalancer, uuid).expect("it is there");
    let vips = shown["vip_addresses"].as_array().into_iter().flatten();
    let ingress: Value = match left.hostname {
        Some(hostname) => json!([{ "hostname": hostname }]),
        None => vips
            .map(|vip| json!({ "ip": vip["address"], "ipMode": left.ip_mode }))
            .collect(),
    };
    let status = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
    let patched = services
        .patch_status(name, &params, &Patch::Merge(&status))
        .await;
    patched.expect("the status is taken");
}

fn overlay(value: &mut Value, fields: &Value) {
    for (field, given) in fields.as_object().into_iter().flatten() {
        value[field] = given.clone();
    }
}
