//! The kinds of changes of one Service, and what the Go controller took for each.

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::Cluster;
use mooring_cloud_sim::cloudscale::Kind;

/// On how many Nodes each was measured.
pub(super) const NODES: usize = 3;

const ALGORITHM: &str = "k8s.cloudscale.ch/loadbalancer-pool-algorithm";
const PROTOCOL: &str = "k8s.cloudscale.ch/loadbalancer-pool-protocol";
const DELAY: &str = "k8s.cloudscale.ch/loadbalancer-health-monitor-delay-s";
const UP: &str = "k8s.cloudscale.ch/loadbalancer-health-monitor-up-threshold";

/// A node port of the range that the API server leaves to users.
const STATIC_NODE_PORT: u16 = 30_007;

/// A kind of change.
pub(super) struct Change {
    pub(super) name: &'static str,
    /// What the user changes, given the Service as it is.
    pub(super) patch: fn(&Service) -> Value,
    /// Whether the cloud's objects are as they are to be then, besides what is served.
    pub(super) is_done: fn(&Cluster, &str, &Service) -> bool,
    /// Reads and writes of the Go controller.
    pub(super) upstream_calls: &'static str,
    /// For how long it left listeners without members, or ports without listeners.
    pub(super) upstream_outage: &'static str,
    /// How many writes lie between an end of service and its return, at most.
    pub(super) longest_gap: u64,
}

/// All of them, in the order in which they are made.
pub(super) const CHANGES: [Change; 9] = [
    Change {
        name: "port",
        patch: |service| with_port(service, 0, "port", json!(8081)),
        is_done: |_, _, _| true,
        upstream_calls: "27/2",
        upstream_outage: "5.5 s",
        longest_gap: 0,
    },
    Change {
        name: "node-port",
        patch: |service| with_port(service, 0, "nodePort", json!(STATIC_NODE_PORT)),
        is_done: |_, _, _| true,
        upstream_calls: "27/6",
        upstream_outage: "5.5 s",
        longest_gap: 0,
    },
    Change {
        name: "port-name",
        patch: |service| with_port(service, 0, "name", json!("renamed")),
        is_done: |cluster, balancer, _| {
            let pools = cluster.sim.parts_of(balancer, Kind::Pool);
            pools.iter().any(|pool| pool["name"] == "tcp/renamed")
        },
        upstream_calls: "37/10",
        upstream_outage: "6.8 s",
        longest_gap: 1,
    },
    Change {
        name: "traffic-policy",
        patch: |_| json!({ "spec": { "externalTrafficPolicy": "Local" } }),
        is_done: |cluster, balancer, service| {
            let spec = service.spec.as_ref();
            let port = json!(spec.and_then(|spec| spec.health_check_node_port));
            let members = cluster.sim.parts_of(balancer, Kind::Member);
            let monitors = cluster.sim.parts_of(balancer, Kind::HealthMonitor);
            monitors.len() == 2
                && monitors.iter().all(|monitor| monitor["type"] == "http")
                && members.iter().all(|member| member["monitor_port"] == port)
        },
        upstream_calls: "27/8",
        upstream_outage: "5.5 s",
        longest_gap: 0,
    },
    Change {
        name: "pool-algorithm",
        patch: |_| annotation(ALGORITHM, "least_connections"),
        is_done: |cluster, balancer, _| {
            all(
                cluster,
                balancer,
                Kind::Pool,
                "algorithm",
                &json!("least_connections"),
            )
        },
        upstream_calls: "37/10",
        upstream_outage: "7.5 s",
        longest_gap: 1,
    },
    Change {
        name: "pool-protocol",
        patch: |_| annotation(PROTOCOL, "proxy"),
        is_done: |cluster, balancer, _| {
            all(cluster, balancer, Kind::Pool, "protocol", &json!("proxy"))
        },
        upstream_calls: "37/10",
        upstream_outage: "7.7 s",
        longest_gap: 1,
    },
    Change {
        name: "add-port",
        patch: |service| {
            let mut ports = ports(service);
            ports.push(json!({ "name": "third", "port": 9090, "protocol": "TCP" }));
            json!({ "spec": { "ports": ports } })
        },
        is_done: |cluster, balancer, _| {
            cluster.sim.parts_of(balancer, Kind::HealthMonitor).len() == 3
        },
        upstream_calls: "40/6",
        upstream_outage: "0",
        longest_gap: 0,
    },
    Change {
        name: "remove-port",
        patch: |service| {
            let mut ports = ports(service);
            ports.truncate(2);
            json!({ "spec": { "ports": ports } })
        },
        is_done: |cluster, balancer, _| cluster.sim.parts_of(balancer, Kind::Pool).len() == 2,
        upstream_calls: "28/4",
        upstream_outage: "0",
        longest_gap: 0,
    },
    Change {
        name: "monitor-numbers",
        patch: |_| json!({ "metadata": { "annotations": { DELAY: "5", UP: "4" } } }),
        is_done: |cluster, balancer, _| {
            all(cluster, balancer, Kind::HealthMonitor, "delay_s", &json!(5))
                && all(
                    cluster,
                    balancer,
                    Kind::HealthMonitor,
                    "up_threshold",
                    &json!(4),
                )
        },
        upstream_calls: "17/4",
        upstream_outage: "0",
        longest_gap: 0,
    },
];

fn annotation(key: &str, value: &str) -> Value {
    json!({ "metadata": { "annotations": { key: value } } })
}

fn ports(service: &Service) -> Vec<Value> {
    let spec = serde_json::to_value(&service.spec).unwrap_or_default();
    spec["ports"].as_array().cloned().unwrap_or_default()
}

fn with_port(service: &Service, index: usize, field: &str, value: Value) -> Value {
    let mut ports = ports(service);
    if let Some(port) = ports.get_mut(index) {
        port[field] = value;
    }
    json!({ "spec": { "ports": ports } })
}

fn all(cluster: &Cluster, balancer: &str, kind: Kind, field: &str, wanted: &Value) -> bool {
    let parts = cluster.sim.parts_of(balancer, kind);
    parts.iter().all(|part| part[field] == *wanted)
}
