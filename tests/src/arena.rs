//! The cluster to oneself: for suites about Nodes.
//!
//! `mooring-central` looks after *all* Nodes of its API server, so tests of it cannot share one at
//! the same time. There are a few: [`Arena::enter`] waits until one is free, and clears away the
//! Nodes and Events of the test before. That costs milliseconds; a control plane of one's own
//! costs seconds.
//!
//! The shipped manifests are applied. Central runs as `mooring-central`, a daemon as
//! `mooring-node` with the token of a Pod on its Node. [`Arena::leave`] fails the test if either
//! was ever refused something.

mod deploy;
mod launch;

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use mooring_common::names::{NAMESPACE, taints};
use serde_json::{Value, json};

pub use launch::{Initializer, Launch, logged};

use self::deploy::Deployed;
use crate::control_plane::{AuditLog, ControlPlane, Record};
use crate::endpoints::Endpoints;
use crate::objects::{EventNote, PodBuilder, events_for, unique};
use crate::pool::{Lent, Pool};
use crate::shipped::{CENTRAL_USER, NODE_USER};
use crate::wait::eventually;

/// What "eventually" means to these suites.
pub const SOON: Duration = Duration::from_secs(10);

/// How long to wait for what "never" waits for: a busy machine must not turn it red.
pub const MARKER_LIMIT: Duration = Duration::from_secs(30);

/// A label of the machines file that daemons are permitted to set.
pub const ADDITIONAL_LABEL: &str = "example.com/rack";

const CENTRAL: &str = "mooring-central";
const DAEMON: &str = "mooring-node";

static ARENAS: LazyLock<Pool<Deployed>> = LazyLock::new(Pool::empty);

/// One test's turn on one of the control planes, which has the usual controllers.
pub struct Arena {
    /// The control plane.
    pub control_plane: &'static ControlPlane,
    /// A client with all rights.
    pub admin: Client,
    kubeconfig: PathBuf,
    start: Timestamp,
    audit_mark: u64,
    _lent: Lent<Deployed>,
}

impl Arena {
    /// Waits for this test's turn, and gives it a cluster without Nodes.
    pub async fn enter() -> Self {
        let lent = ARENAS.lend(Deployed::start).await;
        let Deployed {
            control_plane,
            kubeconfig,
        } = lent.value();
        let admin = control_plane.admin();
        deploy::clear(&admin)
            .await
            .expect("the cluster can be cleared");
        Self {
            control_plane,
            admin,
            kubeconfig: kubeconfig.clone(),
            start: control_plane.now(),
            audit_mark: control_plane.audit_mark(),
            _lent: lent,
        }
    }

    /// Asserts that neither program was ever refused anything, and ends the turn.
    pub async fn leave(self) {
        // What a fence tries on purpose, it tries without effect.
        let refused = self.audit().await.forbidden();
        let refused = refused.filter(|r| is_ours(r) && !r.uri.contains("dryRun=All"));
        assert!(refused.is_empty(), "refused:\n{}", refused.summary());
    }

    // --- the programs -------------------------------------------------------------------------

    /// Central as a user starts it for this provider, alone, with intervals made short and without
    /// any node daemon to wait for.
    pub fn central<'a>(&'a self) -> Launch<'a> {
        Launch::new(self, Initializer::Central, "")
    }

    /// The daemon of this Node, for what concerns the Node alone: it announces nothing.
    pub fn daemon<'a>(&'a self, node: &'a str) -> Launch<'a> {
        Launch::new(self, Initializer::Daemon, node)
    }

    /// Whichever of the two is to initialise this Node, without the other.
    pub fn initializer<'a>(&'a self, which: Initializer, node: &'a str) -> Launch<'a> {
        Launch::new(self, which, node)
    }

    /// Endpoints on a free port, for central to serve on.
    pub fn endpoints(&self) -> Endpoints {
        Endpoints::on_free_port().expect("a free port")
    }

    async fn daemon_kubeconfig(&self, node: &str) -> PathBuf {
        let pod = unique(DAEMON);
        PodBuilder::new(NAMESPACE, &pod)
            .node(node)
            .service_account(DAEMON)
            .create(&self.admin)
            .await
            .expect("a Pod for the daemon");
        let pod = Some((NAMESPACE, pod.as_str()));
        self.control_plane
            .kubeconfig_for_service_account(NAMESPACE, DAEMON, pod)
            .await
            .expect("a token for the daemon")
    }

    // --- what has become of Nodes -------------------------------------------------------------

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

    // --- what was asked of the API server -----------------------------------------------------

    /// All requests since this turn began, complete up to now.
    pub async fn audit(&self) -> AuditLog {
        let log = self.control_plane.audit_settled_from(self.audit_mark).await;
        log.since(self.start)
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
