//! What has become of Nodes, and what was asked about them.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use mooring_common::names::taints;
use serde_json::{Value, json};

use super::{Cluster, SOON};
use crate::control_plane::{AuditLog, Record};
use crate::objects::{EventNote, events_for};
use crate::shipped::{CENTRAL_USER, NODE_USER};
use mooring_test_support::wait::eventually;

impl Cluster {
    /// All Nodes.
    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.admin.clone())
    }

    /// A Node as it is now.
    pub async fn node(&self, name: &str) -> Option<Node> {
        self.nodes()
            .get_opt(name)
            .await
            .expect("the API server answers")
    }

    /// Waits until a Node is there and without the `uninitialized` taint.
    pub async fn initialized(&self, name: &str) -> Node {
        self.is(name, "initialised", |node| {
            !has_taint(node, taints::UNINITIALIZED)
        })
        .await
    }

    /// Waits until a Node is as wanted.
    pub async fn is(&self, name: &str, what: &str, wanted: impl Fn(&Node) -> bool) -> Node {
        let what = format!("{name} is {what}");
        eventually(&what, SOON, async || {
            let node = self.node(name).await.ok_or("there is no such Node")?;
            if wanted(&node) {
                Ok(node)
            } else {
                Err("not yet")
            }
        })
        .await
    }

    /// Waits until a Node is gone.
    pub async fn is_gone(&self, name: &str) {
        eventually(&format!("{name} is gone"), SOON, async || {
            self.node(name).await.is_none()
        })
        .await;
    }

    /// The Events about a Node with this reason.
    pub async fn events(&self, node: &str, reason: &str) -> Vec<EventNote> {
        let events = events_for(&self.admin, "Node", None, node).await;
        let mut events = events.expect("the API server answers");
        events.retain(|event| event.reason == reason);
        events
    }

    /// Waits for an Event about a Node with this reason, and gives its note.
    pub async fn told(&self, node: &str, reason: &str) -> String {
        let what = format!("an Event {reason} about {node}");
        let events = eventually(&what, SOON, async || {
            Some(self.events(node, reason).await).filter(|events| !events.is_empty())
        })
        .await;
        events[0].note.clone()
    }

    /// A merge patch on a Node, by somebody else than Mooring.
    pub async fn patch(&self, name: &str, patch: &Value) -> Node {
        let (nodes, patch) = (self.nodes(), Patch::Merge(patch));
        let patched = nodes.patch(name, &PatchParams::default(), &patch).await;
        patched.expect("the patch is taken")
    }

    /// Writes addresses on a Node, by somebody else than Mooring.
    pub async fn set_addresses(&self, name: &str, addresses: &Value) {
        let patch = json!({ "status": { "addresses": addresses } });
        self.patch_status(name, &patch).await;
    }

    /// A merge patch on a Node's status, by somebody else than Mooring.
    pub async fn patch_status(&self, name: &str, patch: &Value) {
        let params = PatchParams::default();
        let (nodes, patch) = (self.nodes(), Patch::Merge(patch));
        let patched = nodes.patch_status(name, &params, &patch).await;
        patched.expect("the patch is taken");
    }

    /// The requests of Mooring's two programs about this Node.
    pub async fn asked_about(&self, node: &str) -> AuditLog {
        requests_about(&self.audit().await, node)
    }

    /// The writes of Mooring's two programs on this Node.
    pub async fn written_on(&self, node: &str) -> AuditLog {
        self.asked_about(node).await.writes()
    }

    /// The writes of Events about this Node, by Mooring's two programs.
    pub async fn event_writes(&self, node: &str) -> AuditLog {
        event_writes(&self.audit().await, node)
    }
}

/// The requests of Mooring's two programs about this Node.
pub fn requests_about(log: &AuditLog, node: &str) -> AuditLog {
    log.of("nodes").named(node).filter(is_ours)
}

/// The writes of Events about this Node, by Mooring's two programs.
pub fn event_writes(log: &AuditLog, node: &str) -> AuditLog {
    let is_about = |record: &Record| {
        let body = record.body.as_ref();
        body.is_some_and(|body| body["involvedObject"]["name"] == node)
            || record
                .name
                .rsplit_once('.')
                .is_some_and(|(name, _)| name == node)
    };
    log.of("events")
        .writes()
        .filter(|record| is_ours(record) && is_about(record))
}

fn is_ours(record: &Record) -> bool {
    [CENTRAL_USER, NODE_USER].contains(&record.user.as_str())
}

/// Whether a Node has a taint with this key.
pub fn has_taint(node: &Node, key: &str) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == key))
}

/// Whether a Node has a label with this key.
pub fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let labels = node.metadata.labels.as_ref()?;
    labels.get(key).map(String::as_str)
}

/// The provider ID of a Node.
pub fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref()
}

/// The addresses of a Node as "InternalIP 192.0.2.1", in order.
pub fn addresses(node: &Node) -> Vec<String> {
    let status = node.status.as_ref();
    let addresses = status.and_then(|status| status.addresses.as_ref());
    addresses
        .into_iter()
        .flatten()
        .map(|a| format!("{} {}", a.type_, a.address))
        .collect()
}
