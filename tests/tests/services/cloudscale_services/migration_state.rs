//! A cluster and its cloud, exactly as the Go controller leaves them.

use k8s_openapi::api::core::v1::{Service, ServicePort};
use kube::api::{Patch, PatchParams};
use mooring_cloud_sim::cloudscale::{Kind, SUBNET};
use mooring_common::names::finalizers;
use serde_json::{Value, json};

use crate::cloudscale_services::cloud::{SuiteCloud, uid};
use crate::cloudscale_services::cluster::{CloudCluster, LoadBalancerCloud as _};
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

/// The subnet of all Nodes, as the API shows it.
pub(crate) fn subnet() -> Value {
    let href = format!("https://api.cloudscale.ch/v1/subnets/{SUBNET}");
    json!({ "uuid": SUBNET, "href": href, "cidr": "10.0.0.0/8" })
}

/// Puts into the cloud and onto a Service what the Go controller would have. Gives the UUID.
pub(crate) async fn left_by_upstream(
    cluster: &CloudCluster,
    service: &Service,
    left: &Left,
) -> String {
    let uuid = put_balancer(cluster, service, left);
    for port in ports(service) {
        put_pool(cluster, service, port, &uuid, left);
    }
    write_on_service(cluster, service, &uuid, left).await;
    uuid
}

fn put_balancer(cluster: &CloudCluster, service: &Service, left: &Left) -> String {
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
    cluster.sim().put(Kind::LoadBalancer, balancer)
}

fn put_pool(
    cluster: &CloudCluster,
    service: &Service,
    port: &ServicePort,
    balancer: &str,
    left: &Left,
) {
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
    let pool = cluster.sim().put(
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
        cluster.sim().put(
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
    cluster.sim().put(Kind::Listener, listener);
    let mut monitor = json!({ "pool": pool, "type": "tcp" });
    if is_local {
        monitor["type"] = json!("http");
        monitor["http"] = json!({ "url_path": "/livez", "version": "1.0" });
    }
    overlay(&mut monitor, &left.monitor);
    cluster.sim().put(Kind::HealthMonitor, monitor);
}

async fn write_on_service(cluster: &CloudCluster, service: &Service, uuid: &str, left: &Left) {
    let name = service.metadata.name.as_deref().expect("a name");
    let annotations = json!({
        key("uuid"): uuid, key("config-version"): "1", key("zone"): "rma1",
    });
    let metadata = json!({ "annotations": annotations, "finalizers": [finalizers::SERVICE] });
    cluster.patch(name, &json!({ "metadata": metadata })).await;
    let shown = cluster
        .sim()
        .get(Kind::LoadBalancer, uuid)
        .expect("it is there");
    let vips = shown["vip_addresses"].as_array().into_iter().flatten();
    let ingress: Value = match left.hostname {
        Some(hostname) => json!([{ "hostname": hostname }]),
        None => vips
            .map(|vip| json!({ "ip": vip["address"], "ipMode": left.ip_mode }))
            .collect(),
    };
    let status = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(&status));
    let patched = cluster.services().patch_status(name, &params, &patch).await;
    patched.expect("the status is taken");
}

fn overlay(value: &mut Value, fields: &Value) {
    for (field, given) in fields.as_object().into_iter().flatten() {
        value[field] = given.clone();
    }
}
