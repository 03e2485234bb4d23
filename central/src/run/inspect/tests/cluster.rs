//! A cluster as the commands read it, for tests.

use k8s_openapi::api::apps::v1::Deployment;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::setup::Setup;
use super::super::snapshot::{Objects, Snapshot};

const NOW: &str = "2026-11-25T22:00:00Z";
pub(in crate::run::inspect) const ADDRESS: &str = "192.0.2.10";

/// The objects of a cluster in which all is well: two nodes on the segment `lan`, one of which speaks for the address
/// of the Service `shop/web`.
#[derive(Clone)]
pub(in crate::run::inspect) struct Cluster {
    pub(in crate::run::inspect) flags: Vec<&'static str>,
    pub(in crate::run::inspect) lease: Option<Value>,
    pub(in crate::run::inspect) nodes: Vec<Value>,
    pub(in crate::run::inspect) service: Value,
    pub(in crate::run::inspect) network: Value,
    pub(in crate::run::inspect) endpoints: Vec<&'static str>,
    pub(in crate::run::inspect) events: Vec<Value>,
    pub(in crate::run::inspect) central_ready: bool,
    pub(in crate::run::inspect) other_pods: Vec<Value>,
    pub(in crate::run::inspect) policies: Vec<&'static str>,
    pub(in crate::run::inspect) daemon_flags: Vec<&'static str>,
}

fn node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-11-01T00:00:00Z", "labels": {}, "annotations": {}},
        "spec": {"providerID": format!("cloudlycke://{name}")},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

pub(in crate::run::inspect) fn entry(name: &str, addresses: &[&str]) -> Value {
    let spoken = |address: &&str| json!({"address": address, "since": "2026-11-25T21:00:00.000000Z", "reason": "Unclaimed"});
    let addresses: Vec<Value> = addresses.iter().map(spoken).collect();
    json!({"name": name, "ready": true, "reason": "Ready", "mac": "02:00:00:00:00:01", "addresses": addresses})
}

pub(in crate::run::inspect) fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": "so it is", "lastTransitionTime": NOW})
}

pub(in crate::run::inspect) fn event(kind: &str, name: &str, reason: &str, note: &str) -> Value {
    json!({
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": kind, "name": name, "namespace": if kind == "Service" { "shop" } else { "" }},
        "type": "Warning", "reason": reason, "message": note, "lastTimestamp": "2026-11-25T21:59:00Z",
    })
}

pub(in crate::run::inspect) fn pod(name: &str, container: &str, node: &str, ready: bool) -> Value {
    let ready = if ready { "True" } else { "False" };
    json!({
        "metadata": {"name": name, "namespace": "mooring-system"},
        "spec": {"nodeName": node, "containers": [{"name": container, "image": "example.com/x:1"}]},
        "status": {"conditions": [{"type": "Ready", "status": ready, "message": "CrashLoopBackOff"}]},
    })
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

impl Cluster {
    pub(in crate::run::inspect) fn well() -> Self {
        Self {
            flags: vec!["--cloud-provider=cloudlycke"],
            lease: Some(json!({
                "metadata": {"name": "cloud-controller-manager"},
                "spec": {"holderIdentity": "central-1_x", "leaseDurationSeconds": 15, "renewTime": "2026-11-25T21:59:55.000000Z"},
            })),
            nodes: vec![node("n1"), node("n2")],
            service: json!({
                "metadata": {
                    "name": "web", "namespace": "shop", "uid": "u",
                    "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
                    "annotations": {"mooring.dev/allocated-l2-network": "lan", "mooring.dev/allocated-addresses": ADDRESS},
                },
                "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]},
                "status": {"loadBalancer": {"ingress": [{"ip": ADDRESS}]}},
            }),
            network: json!({
                "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network",
                "metadata": {"name": "lan"},
                "spec": {"subnets": [{"cidr": "192.0.2.0/24"}], "ranges": ["192.0.2.10-192.0.2.11"]},
                "status": {
                    "conditions": [condition("Ready", "True", "Ready"), condition("Quorum", "True", "QuorumHeld"), condition("HeartbeatsSigned", "True", "Signed")],
                    "voters": {"generation": 1, "nodes": ["n1", "n2", "n3"]},
                    "nodes": [entry("n1", &[ADDRESS]), entry("n2", &[]), json!({"name": "n3", "ready": false, "reason": "Witness", "witness": true})],
                },
            }),
            endpoints: vec!["n1", "n2"],
            events: Vec::new(),
            central_ready: true,
            other_pods: Vec::new(),
            policies: vec![
                "mooring-node-own-node",
                "mooring-node-own-lease",
                "mooring-node-own-segment-entry",
            ],
            daemon_flags: Vec::new(),
        }
    }

    /// All is well, but that nobody has given the Service an address.
    pub(in crate::run::inspect) fn unserved() -> Self {
        let mut cluster = Self::well();
        cluster.service["metadata"]["annotations"] = json!({});
        cluster.service["metadata"]["finalizers"] = json!([]);
        cluster.service["status"] = json!({});
        cluster
    }

    /// All is well, but that nobody speaks.
    pub(in crate::run::inspect) fn silent() -> Self {
        let mut cluster = Self::well();
        cluster.network["status"]["nodes"][0]["addresses"] = json!([]);
        cluster
    }

    pub(in crate::run::inspect) fn snapshot(self) -> Snapshot {
        let deployment = json!({
            "metadata": {"name": "mooring-central"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "mooring-central", "args": self.flags}]}}},
        });
        let daemon_set = json!({
            "metadata": {"name": "mooring-node"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "mooring-node", "args": self.daemon_flags}]}}},
            "status": {"numberReady": 2, "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberMisscheduled": 0},
        });
        let endpoints: Vec<Value> = self
            .endpoints
            .iter()
            .map(|node| json!({"addresses": ["10.0.0.1"], "nodeName": node, "conditions": {"ready": true}}))
            .collect();
        let slice = json!({
            "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "endpoints": endpoints,
        });
        let of_kind = |kind: &str| -> Value {
            let all = self.events.iter();
            all.filter(|event| event["involvedObject"]["kind"] == kind)
                .cloned()
                .collect()
        };
        let deployments: Vec<Deployment> = read(json!([deployment]));
        let setup = Setup::read(Some(&deployments));
        let objects = Objects {
            nodes: Some(read(json!(self.nodes))),
            services: Some(read(json!([self.service]))),
            networks: Some(read(json!([self.network]))),
            slices: Some(read(json!([slice]))),
            node_events: Some(read(of_kind("Node"))),
            network_events: Some(read(of_kind("L2Network"))),
            service_events: Some(read(of_kind("Service"))),
            namespaces: Some(Vec::new()),
            pods: Some(read(json!(
                [
                    self.other_pods,
                    vec![
                        pod("central-1", "mooring-central", "n1", self.central_ready),
                        pod("node-1", "mooring-node", "n1", true),
                        pod("node-2", "mooring-node", "n2", true),
                    ],
                ]
                .concat()
            ))),
            deployments: Some(deployments),
            daemon_sets: Some(read(json!([daemon_set]))),
            leases: Some(Vec::new()),
            leader_leases: Some(read(json!(Vec::from_iter(self.lease)))),
            policies: Some(self.policies.iter().map(ToString::to_string).collect()),
        };
        Snapshot::new(
            NOW.parse().unwrap(),
            "mooring-system",
            setup,
            objects,
            Vec::new(),
        )
    }
}
