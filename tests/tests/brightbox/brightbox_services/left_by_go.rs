//! Services, and what they have in the cloud, exactly as the Go controller leaves them: nothing of it is marked.

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams};
use mooring_cloud_sim::brightbox::{Brightbox, Kind};
use mooring_common::names::finalizers;
use mooring_test_cluster::objects::ServiceBuilder;
use serde_json::{Value, json};

use crate::brightbox_services::cloud::{name, text};
use crate::brightbox_services::forwarding::ports;
use crate::brightbox_services::key;

/// What differs from the defaults of the Go controller: in the body of its request.
pub(crate) type Change = fn(&mut Value);

/// A Service as its user has written it, and what the Go controller has made of it.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) service: ServiceBuilder,
    pub(crate) change: Change,
}

/// The parts that the Go controller has made, by their identifiers.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) ip: String,
    pub(crate) group: String,
    pub(crate) policy: String,
    pub(crate) rule: String,
    pub(crate) balancer: String,
}

/// Puts there what the Go controller leaves of a Service: in the cloud, and on the Service. `ip`: the Cloud IP
/// that the Service names, if it names one.
pub(crate) async fn leave(
    sim: &Brightbox,
    services: &Api<Service>,
    service: &Service,
    servers: &[String],
    ip: Option<String>,
    change: Change,
) -> Left {
    let left = leave_in_cloud(sim, service, servers, ip, change);
    let shown = sim.get(Kind::CloudIp, &left.ip).unwrap();
    let names = [&shown["reverse_dns"], &shown["fqdn"]].into_iter();
    let names = names.filter(|name| name.is_string());
    let ingress: Value = names.map(|name| json!({ "hostname": name })).collect();
    let name = service.metadata.name.clone().unwrap_or_default();
    let params = PatchParams::default();
    let finalizer = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    let finalizer = Patch::Merge(&finalizer);
    services.patch(&name, &params, &finalizer).await.unwrap();
    let status = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
    let status = Patch::Merge(&status);
    services
        .patch_status(&name, &params, &status)
        .await
        .unwrap();
    left
}

/// Puts there what the Go controller leaves in the cloud alone.
pub(crate) fn leave_in_cloud(
    sim: &Brightbox,
    service: &Service,
    servers: &[String],
    ip: Option<String>,
    change: Change,
) -> Left {
    let name = name(service);
    let spec = service.spec.as_ref();
    let health_port = spec.and_then(|spec| spec.health_check_node_port);
    let mut opened: Vec<String> = ports(service)
        .iter()
        .map(|port| port.node_port.unwrap().to_string())
        .collect();
    opened.extend(health_port.map(|port| port.to_string()));
    let listeners = ports(service).iter().map(|port| {
        let protocol = if port.port == 443 { "https" } else { "http" };
        json!({
            "protocol": protocol, "in": port.port, "out": port.node_port,
            "timeout": 50_000, "proxy_protocol": null,
        })
    });
    let first = ports(service)[0].node_port;
    let mut balancer = json!({
        "name": name, "nodes": servers, "listeners": listeners.collect::<Value>(),
        "healthcheck": {
            "type": "http", "port": health_port.or(first), "request": "/healthz", "interval": 5000,
            "timeout": 5000, "threshold_up": 3, "threshold_down": 3,
        },
    });
    change(&mut balancer);
    let ip = ip.unwrap_or_else(|| {
        let ip = json!({ "name": name, "reverse_dns": null });
        let ip = sim.put(Kind::CloudIp, ip);
        // A name of its own that needs no DNS server.
        let address = text(&sim.get(Kind::CloudIp, &ip).unwrap()["public_ipv4"]);
        let octets = address.parse::<std::net::Ipv4Addr>().unwrap().octets();
        let [a, b, c, d] = octets;
        let fqdn = format!("{a}.{b}.{}", u16::from_be_bytes([c, d]));
        sim.set_in(Kind::CloudIp, &ip, "fqdn", fqdn);
        ip
    });
    let shown = sim.get(Kind::CloudIp, &ip).unwrap();
    let is_https = |listener: &Value| listener["protocol"] == "https";
    if balancer["listeners"]
        .as_array()
        .unwrap()
        .iter()
        .any(is_https)
    {
        let valid = json!({ "identifier": shown["fqdn"], "status": "valid", "last_message": null });
        balancer["acme"] = json!({ "certificate": null, "domains": [valid] });
        balancer["https_redirect"] = json!(true);
    }
    let group = sim.put(
        Kind::ServerGroup,
        json!({ "name": name, "servers": servers }),
    );
    let policy = json!({ "name": name, "server_group": group });
    let policy = sim.put(Kind::FirewallPolicy, policy);
    let rule = json!({
        "firewall_policy": policy, "protocol": "tcp", "source": "10.0.0.0/8",
        "destination_port": opened.join(","), "description": name,
    });
    let rule = sim.put(Kind::FirewallRule, rule);
    let balancer = sim.put(Kind::LoadBalancer, balancer);
    sim.map(&ip, Some(&balancer));
    Left {
        ip,
        group,
        policy,
        rule,
        balancer,
    }
}

/// One Service of each kind that the Go controller serves.
pub(crate) fn cases(namespace: &str) -> Vec<Case> {
    let service = |name: &str| ServiceBuilder::load_balancer(namespace, name);
    let case = |name: &'static str, service: ServiceBuilder, change: Change| Case {
        name,
        service,
        change,
    };
    let web = |name: &str| service(name).port(80, 8080);
    vec![
        case("plain", service("plain").unnamed_port(80, 8080), |_| ()),
        case("two-ports", web("two-ports").port(81, 8081), |_| ()),
        case("https", web("https").port(443, 8443), |_| ()),
        case("local", web("local").local(), |_| ()),
        case(
            "tcp",
            web("tcp")
                .port(443, 8443)
                .annotation(&key("listener-protocol"), "tcp")
                .annotation(&key("listener-proxy-protocol"), "v2"),
            |balancer| {
                for listener in balancer["listeners"].as_array_mut().unwrap() {
                    listener["protocol"] = json!("tcp");
                    listener["proxy_protocol"] = json!("v2");
                }
                balancer["healthcheck"]["type"] = json!("tcp");
                balancer["healthcheck"]["request"] = json!("/");
            },
        ),
        case(
            "checked",
            web("checked")
                .annotation(&key("policy"), "round-robin")
                .annotation(&key("listener-idle-timeout"), "60000")
                .annotation(&key("healthcheck-request"), "/live")
                .annotation(&key("healthcheck-timeout"), "4000")
                .annotation(&key("healthcheck-healthy-threshold"), "2")
                .annotation(&key("healthcheck-unhealthy-threshold"), "4")
                .annotation(
                    "service.beta.kubernetes.io/aws-load-balancer-healthcheck-interval",
                    "6000",
                ),
            |balancer| {
                balancer["policy"] = json!("round-robin");
                balancer["listeners"][0]["timeout"] = json!(60_000);
                let check = &mut balancer["healthcheck"];
                check["request"] = json!("/live");
                check["timeout"] = json!(4000);
                check["interval"] = json!(6000);
                check["threshold_up"] = json!(2);
                check["threshold_down"] = json!(4);
            },
        ),
    ]
}
