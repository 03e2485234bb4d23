//! What a pass about a Service goes by.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mooring_common::node_view::NodeView;

use super::super::secrets::Secrets;
use crate::views::service_view::ServiceView;

/// A Service that is to have a load balancer, and all that its provider goes by.
#[derive(Clone, Debug)]
pub struct LoadBalancerRequest {
    /// The Service.
    pub service: Arc<ServiceView>,
    /// The Nodes that may carry its traffic, by name.
    pub nodes: Arc<[Arc<NodeView>]>,
    /// The other Nodes, which carry no traffic: what they have is no Service's either.
    pub other_nodes: Arc<[Arc<NodeView>]>,
    /// The other Services of the cluster that have, or are to have, a load balancer of this cloud:
    /// what they claim is not this one's.
    pub others: Others,
    /// Whether it may take over what somebody else uses in the cloud ([`TakeOver`]).
    pub may_take_over: bool,
    /// `--creation-settle-time`: for how long the cloud may take to show what it was asked to make.
    pub settle_time: Duration,
    /// What tells this cluster from others: the UID of the Service `default/kubernetes`, which
    /// every API server makes. `None`: it is not known (yet), and marks go without it.
    pub cluster: Option<String>,
    /// Who is asked about its health.
    pub health: HealthTarget,
    /// Where its endpoints are. `None`: nobody follows that, or it makes no difference, and all Nodes
    /// are given traffic.
    pub endpoints: Option<Endpoints>,
    /// What was read of the Secrets that it names ([`LoadBalancers::secrets`](super::LoadBalancers::secrets)). None for a removal.
    pub secrets: Secrets,
}

/// The namespaces whose Services may take over what somebody else uses in the cloud
/// (`--take-over-namespaces`). Whoever may write a Service may name any load balancer, floating IP or
/// address in its annotations: by itself that is a wish, and gives it only what is unused or provably
/// its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakeOver {
    namespaces: BTreeSet<String>,
}

impl TakeOver {
    /// Those of these names; `*` stands for all.
    #[must_use]
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        Self {
            namespaces: names.into_iter().collect(),
        }
    }

    /// Whether Services of this namespace may.
    #[must_use]
    pub fn permits(&self, namespace: &str) -> bool {
        self.namespaces.contains("*") || self.namespaces.contains(namespace)
    }

    /// How the operator permits it, for the Event of a refusal.
    #[must_use]
    pub fn remedy(namespace: &str) -> String {
        format!(
            "the operator of the cluster can permit it by naming the namespace {namespace} in \
             --take-over-namespaces of mooring-central (central.loadBalancers.takeOverNamespaces in \
             the chart)"
        )
    }
}

/// All Services but one. The list is shared: each Service has it, and none copies it.
#[derive(Clone, Debug, Default)]
pub struct Others {
    all: Arc<[Arc<ServiceView>]>,
    but: String,
}

impl Others {
    /// All of these but the one of this UID.
    #[must_use]
    pub fn of(all: Arc<[Arc<ServiceView>]>, but: &str) -> Self {
        let but = but.to_owned();
        Self { all, but }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ServiceView>> {
        self.all.iter().filter(|service| service.uid != self.but)
    }
}

impl FromIterator<Arc<ServiceView>> for Others {
    fn from_iter<I: IntoIterator<Item = Arc<ServiceView>>>(all: I) -> Self {
        Self {
            all: all.into_iter().collect(),
            but: String::new(),
        }
    }
}

/// The Nodes that have endpoints of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Those with an endpoint that is ready and does not terminate.
    pub ready: BTreeSet<String>,
    /// Those with an endpoint that terminates, or that have just lost their last ready one.
    pub terminating: BTreeSet<String>,
}

/// What a Node has of a Service's endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// One at least that is ready.
    Ready,
    /// None that is ready (any more), but one that terminates, or did until just now: traffic still comes,
    /// and will not be served for long.
    Leaving,
    /// Neither.
    Absent,
}

impl Endpoints {
    /// What this Node has of them.
    #[must_use]
    pub fn on(&self, node: &str) -> Presence {
        if self.ready.contains(node) {
            Presence::Ready
        } else if self.terminating.contains(node) {
            Presence::Leaving
        } else {
            Presence::Absent
        }
    }
}

/// Who is asked, on each Node, whether that should get a Service's traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HealthTarget {
    /// The service proxy, as by the Go controllers: at the Service's `healthCheckNodePort` if there is
    /// one, else whatever answers at its node ports.
    #[default]
    ServiceProxy,
    /// The node daemon.
    NodeDaemon {
        /// Its port.
        port: u16,
    },
}

/// A question by HTTP; 200 is yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The Node's port.
    pub port: u16,
    /// The path.
    pub path: String,
}

impl HealthTarget {
    /// What the node daemon is asked about a Service; `None` if it is not asked.
    ///
    /// Where the Service takes traffic only on Nodes with endpoints of its own, that is about the
    /// Service, never about the daemon alone: its `/livez` says nothing of endpoints.
    #[must_use]
    pub fn check(self, service: &ServiceView) -> Option<HealthCheck> {
        let Self::NodeDaemon { port } = self else {
            return None;
        };
        let key = &service.key;
        let path = if service.is_local {
            format!("/services/{}/{}", key.namespace, key.name)
        } else {
            "/healthz".to_owned()
        };
        Some(HealthCheck { port, path })
    }
}
