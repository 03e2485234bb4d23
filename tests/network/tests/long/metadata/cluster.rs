//! A cluster whose daemons have no machines file, and what becomes of its Nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use mooring_cloud_sim::cloud::CloudSim;
use mooring_common::names::{annotations, reasons, taints};
use mooring_test_cluster::cluster::{has_taint, requests_about};
use mooring_test_cluster::control_plane::AuditLog;
use mooring_test_cluster::objects::{EventNote, events_for};
use mooring_test_netlab::metadata_sim::{Machine, MetadataSim};
use mooring_test_netlab::netlab::Host;
use mooring_test_netlab::netlab_cluster::{Kubelet, NetlabCluster};
use mooring_test_support::process::Process;
use mooring_test_support::wait::eventually;

/// What "eventually" means here: the search for a source may take 15 s.
pub(crate) const LIMIT: Duration = Duration::from_secs(40);

pub(crate) struct MetadataCluster {
    pub(crate) netlab: NetlabCluster,
    _kubelets: BTreeMap<String, Kubelet>,
}

impl MetadataCluster {
    /// A cluster with these Nodes, tainted, and nothing else.
    pub(crate) async fn start(nodes: &[&str]) -> Self {
        let cluster = NetlabCluster::start(nodes).await.unwrap();
        let kubelets = cluster.register().await.unwrap();
        Self {
            netlab: cluster,
            _kubelets: kubelets,
        }
    }

    pub(crate) fn host(&self, node: &str) -> &Host {
        self.netlab.node(node)
    }

    /// The metadata service of a Node's machine, where all clouds have it.
    pub(crate) async fn service(&self, node: &str, machine: Machine) -> MetadataSim {
        MetadataSim::on(self.host(node), machine).await.unwrap()
    }

    /// The daemon of a Node, without a machines file, for what concerns the Node alone.
    pub(crate) async fn daemon(&self, node: &str, flags: &[&str]) -> Process {
        let quick = [
            "--cloud-config=",
            "--announce=false",
            "--livez=false",
            "--metrics=false",
            "--node-status-update-frequency=300ms",
        ];
        let flags = [&quick[..], flags].concat();
        let daemon = self.netlab.start_daemon(self.host(node), &flags).await;
        daemon.unwrap()
    }

    /// Central, for a simulated cloud and with a listing each second, which expects a daemon on
    /// every Node.
    pub(crate) async fn central(&self, cloud: &CloudSim, flags: &[&str]) -> Process {
        let provider = format!("--cloud-provider={}", cloud.kind().name());
        let quick = [&*provider, "--node-status-update-frequency=1s"];
        let flags = [&quick[..], flags].concat();
        let spec = self.netlab.central_spec(&flags);
        let mut spec = spec.await.unwrap();
        for (key, value) in cloud.environment() {
            spec = spec.env(key, value);
        }
        Process::start(&spec).unwrap()
    }

    pub(crate) async fn node(&self, name: &str) -> Node {
        let nodes = Api::<Node>::all(self.netlab.admin.clone());
        nodes.get(name).await.unwrap()
    }

    /// Waits until a Node is as wanted.
    pub(crate) async fn is(&self, name: &str, what: &str, wanted: impl Fn(&Node) -> bool) -> Node {
        eventually(&format!("{name} is {what}"), LIMIT, async || {
            let node = self.node(name).await;
            if wanted(&node) {
                return Ok(node);
            }
            Err(format!(
                "{:?} {:?}",
                node.metadata,
                node.status.map(|s| s.addresses)
            ))
        })
        .await
    }

    pub(crate) async fn initialized(&self, name: &str) -> Node {
        self.is(name, "initialised", |node| !is_tainted(node)).await
    }

    /// Waits until a Node's daemon has said what it leaves to central, and gives it.
    pub(crate) async fn left(&self, name: &str) -> (Node, String) {
        let what = "left to central";
        let node = self
            .is(name, what, |node| left_to_central(node).is_some())
            .await;
        assert!(is_tainted(&node), "untainted with less than all: {node:?}");
        let left = left_to_central(&node).unwrap().to_owned();
        (node, left)
    }

    /// All Events about a Node that say why it is not initialised.
    pub(crate) async fn refusals(&self, node: &str) -> Vec<EventNote> {
        self.events(node, reasons::INITIALIZATION_REFUSED).await
    }

    /// All Events about a Node with this reason.
    pub(crate) async fn events(&self, node: &str, reason: &str) -> Vec<EventNote> {
        let events = events_for(&self.netlab.admin, "Node", None, node).await;
        let mut events = events.unwrap();
        events.retain(|event| event.reason == reason);
        events
    }

    /// The writes on a Node by Mooring's programs so far.
    pub(crate) async fn written_on(&self, node: &str) -> AuditLog {
        let log = self.netlab.audit_settled().await;
        requests_about(&log, node).writes()
    }
}

pub(crate) fn is_tainted(node: &Node) -> bool {
    has_taint(node, taints::UNINITIALIZED)
}

pub(crate) fn annotation<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let annotations = node.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

fn left_to_central(node: &Node) -> Option<&str> {
    annotation(node, annotations::LEFT_TO_CENTRAL)
}

/// Waits until so many more requests have come in.
pub(crate) async fn asked_again(sim: &MetadataSim, times: usize) {
    let before = sim.asked().len();
    let what = format!("{times} more requests have come in");
    eventually(&what, LIMIT, async || sim.asked().len() >= before + times).await;
}
