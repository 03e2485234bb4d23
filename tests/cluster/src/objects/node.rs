//! Nodes, as a kubelet registers them.

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use super::named;

/// The taint with which a kubelet with an external cloud provider registers.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Describes a Node and makes it.
///
/// ```no_run
/// # use mooring_test_cluster::objects::NodeBuilder;
/// # async fn example(client: &kube::Client) -> anyhow::Result<()> {
/// NodeBuilder::new("n1").tainted().ready().create(client).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct NodeBuilder {
    node: Node,
    status: NodeStatus,
}

impl NodeBuilder {
    /// A Node without taints, addresses or conditions.
    pub fn new(name: &str) -> Self {
        let node = Node {
            metadata: named(name),
            spec: Some(NodeSpec::default()),
            status: None,
        };
        let built = Self {
            node,
            status: NodeStatus::default(),
        };
        built
            .label("kubernetes.io/hostname", name)
            .label("kubernetes.io/os", "linux")
    }

    /// Adds the `uninitialized` taint, as a kubelet with `--cloud-provider=external` does.
    #[must_use]
    pub fn tainted(self) -> Self {
        self.taint(UNINITIALIZED, "true", "NoSchedule")
    }

    /// Adds a taint.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let taint = Taint {
            key: key.to_owned(),
            value: Some(value.to_owned()),
            effect: effect.to_owned(),
            ..Taint::default()
        };
        let spec = self.node.spec.get_or_insert_default();
        spec.taints.get_or_insert_default().push(taint);
        self
    }

    /// Sets `spec.providerID`.
    #[must_use]
    pub fn provider_id(mut self, id: &str) -> Self {
        self.node.spec.get_or_insert_default().provider_id = Some(id.to_owned());
        self
    }

    /// Sets `spec.podCIDRs`, and `spec.podCIDR` to the first of them.
    #[must_use]
    pub fn pod_cidrs(mut self, cidrs: &[&str]) -> Self {
        let spec = self.node.spec.get_or_insert_default();
        spec.pod_cidr = cidrs.first().map(ToString::to_string);
        spec.pod_cidrs = Some(cidrs.iter().map(ToString::to_string).collect());
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        let labels = self.node.metadata.labels.get_or_insert_default();
        labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        let annotations = self.node.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The address that the kubelet was told to use (`--node-ip`), which it leaves as an annotation.
    #[must_use]
    pub fn provided_node_ip(self, address: &str) -> Self {
        self.annotation("alpha.kubernetes.io/provided-node-ip", address)
    }

    /// Adds an address to the status: `InternalIP`, `ExternalIP`, `Hostname`, ….
    #[must_use]
    pub fn address(mut self, kind: &str, address: &str) -> Self {
        let address = NodeAddress {
            type_: kind.to_owned(),
            address: address.to_owned(),
        };
        self.status.addresses.get_or_insert_default().push(address);
        self
    }

    /// Adds the condition Ready with the status True.
    #[must_use]
    pub fn ready(self) -> Self {
        self.condition("Ready", "True")
    }

    /// Adds the condition Ready with the status False.
    #[must_use]
    pub fn not_ready(self) -> Self {
        self.condition("Ready", "False")
    }

    /// Adds a condition, for example `("Ready", "Unknown")`.
    #[must_use]
    pub fn condition(mut self, kind: &str, status: &str) -> Self {
        self.status
            .conditions
            .get_or_insert_default()
            .push(condition(kind, status));
        self
    }

    /// What the kubelet says about the machine: its machine id and its system UUID (from DMI).
    #[must_use]
    pub fn system(mut self, machine_id: &str, system_uuid: &str) -> Self {
        self.status.node_info = Some(NodeSystemInfo {
            machine_id: machine_id.to_owned(),
            system_uuid: system_uuid.to_owned(),
            ..NodeSystemInfo::default()
        });
        self
    }

    /// Makes the Node, then writes its status.
    pub async fn create(self, client: &kube::Client) -> Result<Node> {
        let api = Api::<Node>::all(client.clone());
        let name = self.node.metadata.name.clone().unwrap_or_default();
        let created = api
            .create(&PostParams::default(), &self.node)
            .await
            .with_context(|| format!("creating the Node {name}"))?;
        if self.status == NodeStatus::default() {
            return Ok(created);
        }
        let patch = Patch::Strategic(json!({ "status": self.status }));
        api.patch_status(&name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("writing the status of the Node {name}"))
    }

    /// Changes one condition of an existing Node, as its kubelet (or the node lifecycle
    /// controller, with `Unknown`) would.
    pub async fn set_condition(
        client: &kube::Client,
        name: &str,
        kind: &str,
        status: &str,
    ) -> Result<Node> {
        let patch =
            Patch::Strategic(json!({ "status": { "conditions": [condition(kind, status)] } }));
        let api = Api::<Node>::all(client.clone());
        Ok(api
            .patch_status(name, &PatchParams::default(), &patch)
            .await?)
    }
}

fn condition(kind: &str, status: &str) -> NodeCondition {
    let now = Some(Time(Timestamp::now()));
    NodeCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some("MooringTest".to_owned()),
        message: Some("set by a test".to_owned()),
        last_heartbeat_time: now.clone(),
        last_transition_time: now,
    }
}
