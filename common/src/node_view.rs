//! The part of a Node that Mooring looks at.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, ObjectReference, Taint};
use serde::Deserialize;

use crate::clouds;
use crate::k8s::Slim;
use crate::machines::Identity;
use crate::names::{annotations, labels, node_conditions, taints as taint_keys};
use crate::node_addresses::{AddressType, NodeAddress};
use crate::taints;

/// Whether the kubelet says that the Node can run pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Readiness {
    /// The condition `Ready` is True.
    Ready,
    /// It is False.
    NotReady,
    /// It is Unknown, or missing.
    Unknown,
}

/// What both programs know of a Node: what they read, and nothing that they do not.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`: tells a Node from one of the same name that registered again.
    pub uid: String,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// `metadata.labels`; `None` if there is no such map yet.
    pub labels: Option<BTreeMap<String, String>>,
    /// Those of `metadata.annotations` that are read ([`annotations::ON_NODES`], [`clouds::is_written_on_nodes`]); `None` if there is
    /// no such map yet.
    pub annotations: Option<BTreeMap<String, String>>,
    /// `spec.providerID`, empty counting as absent.
    pub provider_id: Option<String>,
    /// `spec.taints`, in order.
    pub taints: Vec<Taint>,
    /// `status.addresses`, in order.
    pub addresses: Vec<NodeAddress>,
    /// The condition `Ready`.
    pub readiness: Readiness,
    /// Whether it is cordoned: it takes no new Pods.
    pub unschedulable: bool,
    /// `spec.podCIDRs`, or `spec.podCIDR` alone.
    pub pod_cidrs: Vec<String>,
    /// Whether the condition `NetworkUnavailable` is True; `None` if it says neither that nor False.
    pub network_unavailable: Option<bool>,
    /// What the Node says of its machine, to find it by.
    pub machine: Identity,
}

impl NodeView {
    /// Whether it still waits to be initialised.
    #[must_use]
    pub fn is_uninitialized(&self) -> bool {
        taints::has(&self.taints, taint_keys::UNINITIALIZED)
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// The value of an annotation that is read on Nodes.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// The kubelet's `--node-ip`, from its annotation.
    #[must_use]
    pub fn provided_node_ip(&self) -> Option<&str> {
        self.annotation(annotations::PROVIDED_NODE_IP)
    }

    /// Its addresses inside of its networks, as the Node itself says them, in order. What is no address is left out.
    pub fn internal_ips(&self) -> impl Iterator<Item = IpAddr> {
        let internal = self.addresses.iter();
        let internal = internal.filter(|address| address.kind == AddressType::InternalIP);
        internal.filter_map(|address| address.address.parse().ok())
    }

    /// Whether it may carry load balancer traffic: not being deleted, not excluded by label (a
    /// value that is no boolean excludes, as in Kubernetes), not about to be removed by the
    /// autoscaler.
    #[must_use]
    pub fn carries_traffic(&self) -> bool {
        !self.is_excluded() && !self.is_going()
    }

    /// Whether it is excluded from load balancers by its label.
    #[must_use]
    pub fn is_excluded(&self) -> bool {
        match self.label(labels::EXCLUDE_FROM_LOAD_BALANCERS) {
            None => false,
            Some(value) => !matches!(value, "0" | "f" | "F" | "false" | "False" | "FALSE"),
        }
    }

    /// Whether it is being deleted, or about to be.
    #[must_use]
    pub fn is_going(&self) -> bool {
        self.deleting || taints::has(&self.taints, taint_keys::TO_BE_DELETED)
    }

    /// How Events refer to it. The kubelet and the Go controllers use the Node's name as the UID,
    /// and `kubectl describe node` finds the Events of either form.
    #[must_use]
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

impl Slim for NodeView {
    type Object = Node;

    fn slim(node: Node) -> Self {
        let machine = Identity::of_node(&node);
        let meta = node.metadata;
        let spec = node.spec.unwrap_or_default();
        let status = node.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let present = |text: String| Some(text).filter(|t| !t.is_empty());
        Self {
            name: meta.name.unwrap_or_default(),
            uid: meta.uid.unwrap_or_default(),
            created: meta.creation_timestamp.map(|t| t.0),
            deleting: meta.deletion_timestamp.is_some(),
            labels: meta.labels,
            annotations: meta.annotations.map(|all| {
                let read = |key: &String| {
                    annotations::ON_NODES.contains(&key.as_str())
                        || clouds::is_written_on_nodes(key)
                };
                all.into_iter().filter(|(key, _)| read(key)).collect()
            }),
            provider_id: spec.provider_id.and_then(present),
            taints: spec.taints.unwrap_or_default(),
            addresses: status
                .addresses
                .unwrap_or_default()
                .into_iter()
                .filter_map(|a| {
                    let kind = serde_json::Value::String(a.type_);
                    let kind = Deserialize::deserialize(kind).ok()?;
                    Some(NodeAddress {
                        kind,
                        address: a.address,
                    })
                })
                .collect(),
            readiness: readiness(&conditions),
            unschedulable: spec.unschedulable.unwrap_or_default(),
            pod_cidrs: spec
                .pod_cidrs
                .unwrap_or_else(|| spec.pod_cidr.into_iter().collect())
                .into_iter()
                .filter(|cidr| !cidr.is_empty())
                .collect(),
            network_unavailable: match status_of(&conditions, node_conditions::NETWORK_UNAVAILABLE)
            {
                Some("True") => Some(true),
                Some("False") => Some(false),
                _ => None,
            },
            machine,
        }
    }
}

fn readiness(conditions: &[NodeCondition]) -> Readiness {
    match status_of(conditions, "Ready") {
        Some("True") => Readiness::Ready,
        Some("False") => Readiness::NotReady,
        _ => Readiness::Unknown,
    }
}

fn status_of<'a>(conditions: &'a [NodeCondition], kind: &str) -> Option<&'a str> {
    let condition = conditions.iter().find(|c| c.type_ == kind);
    condition.map(|condition| condition.status.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view(value: serde_json::Value) -> NodeView {
        NodeView::slim(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn reads_empty_node() {
        let node = view(json!({"metadata": {"name": "n1"}}));
        assert_eq!(node.readiness, Readiness::Unknown);
        assert!(node.provider_id.is_none() && node.labels.is_none() && !node.is_uninitialized());
        assert!(node.carries_traffic());
    }

    #[test]
    fn exclusion_label_excludes_unless_false() {
        for (value, carries) in [
            ("", false),
            ("true", false),
            ("abc", false),
            ("false", true),
        ] {
            let key = labels::EXCLUDE_FROM_LOAD_BALANCERS;
            let node = view(json!({"metadata": {"name": "n1", "labels": {key: value}}}));
            assert_eq!(node.carries_traffic(), carries, "{value:?}");
        }
    }
}
