//! Routes of the cloud to the Pods of Nodes.
//!
//! **Flow.** One pass over all Nodes when one of them comes, goes, or changes its pod CIDRs, and every
//! `--route-reconciliation-period`. The cloud's routes are listed as often as the cloud's configuration says.
//!
//! **Guarantees.** Nothing follows from a listing that is not complete. A route is deleted only if it lies in
//! `--cluster-cidr` and is provably this cluster's: a Node with that machine had that pod CIDR while this
//! process, on standby or not, followed the Nodes ([`RouteHistory`]), and the API server says that none has
//! it any more; or another Node has that pod CIDR, and the machine is a Node's. Other routes are deleted only
//! with `--delete-orphans`, and only from machines of Nodes.
//!
//! **Caveats.** The history is lost when all replicas end. A Node that is deleted meanwhile, and whose machine
//! stays, leaves its route, which is logged and counted until another Node needs the range.

mod apply;
mod history;
mod observe;
mod plan;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use mooring_common::engine::Outcome;
use mooring_common::k8s::Events;
use mooring_common::names::components;
use mooring_common::node_view::NodeView;
use mooring_common::work_queue::{Backoff, WorkQueue, work};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::cloud_api::CloudError;
use crate::cloud_provider::pod_network::{Route, RouteError, Routes};
use apply::{Attempts, Failure};
pub use history::RouteHistory;
use observe::Observed;
use plan::{Decisions, Rules};

/// There is one thing to look at: all routes.
pub type Queue = WorkQueue<AllRoutes>;

/// How long a change of a Node waits for others.
pub const SOON: Duration = Duration::from_millis(200);

/// The one key of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllRoutes;

impl fmt::Display for AllRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all routes")
    }
}

/// An empty queue.
#[must_use]
pub fn queue() -> Arc<Queue> {
    Arc::new(WorkQueue::new(Backoff::NODES))
}

/// Whether a change of a Node, from `old` to `new`, may change its routes or its condition.
#[must_use]
pub fn concerns(old: Option<&NodeView>, new: Option<&NodeView>) -> bool {
    type Looked<'a> = (&'a str, Option<&'a str>, &'a [String], Option<bool>);
    fn looked_at(node: &NodeView) -> Looked<'_> {
        let (id, cidrs) = (node.provider_id.as_deref(), &node.pod_cidrs);
        (&node.uid, id, cidrs, node.network_unavailable)
    }
    old.map(looked_at) != new.map(looked_at)
}

/// What is counted.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    syncs: Counter,
    unclaimed: Gauge,
}

impl Metrics {
    /// Registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "route_controller_route_sync",
            "Passes in which the routes of the cloud were compared with the Nodes",
            metrics.syncs.clone(),
        );
        registry.register(
            "mooring_routes_unclaimed",
            "Routes in the cluster CIDR that no Node needs and that are not provably this cluster's",
            metrics.unclaimed.clone(),
        );
        metrics
    }
}

/// What the flags say.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--cluster-cidr`.
    pub cluster_cidrs: Vec<IpNet>,
    /// `--route-reconciliation-period`.
    pub period: Duration,
    /// `--delete-orphans`.
    pub delete_orphans: bool,
}

struct Controller {
    context: Context,
    routes: Arc<dyn Routes>,
    options: Options,
    nodes: Api<Node>,
    events: Events,
    metrics: Metrics,
    history: Arc<RouteHistory>,
    attempts: Mutex<Attempts>,
}

/// Runs until cancelled, and then until what is under way has come to its end.
pub async fn run(
    context: Context,
    routes: Arc<dyn Routes>,
    options: Options,
    metrics: Metrics,
    (history, queue): (Arc<RouteHistory>, Arc<Queue>),
    cancel: CancellationToken,
) {
    let controller = Arc::new(Controller {
        nodes: Api::all(context.client.clone()),
        events: context.events(components::ROUTE),
        context,
        routes,
        options,
        metrics,
        history,
        attempts: Mutex::default(),
    });
    queue.add(AllRoutes);
    work("node-route", queue, 1, cancel, move |AllRoutes| {
        let controller = controller.clone();
        async move { controller.pass().await }
    })
    .await;
}

impl Controller {
    /// One look at all routes.
    async fn pass(&self) -> Outcome<Failure> {
        let decided = self.context.leadership.until_ending(self.decide()).await;
        let (observed, decisions) = match decided {
            Ok(Ok(decided)) => decided,
            Ok(Err(error)) => {
                let wait = error.retry_after;
                let failure = Failure::from(RouteError::from(error));
                return wait.map_or_else(|| Outcome::Backoff(failure), Outcome::RetryAfter);
            }
            Err(ending) => return Outcome::Backoff(ending.into()),
        };
        self.metrics.syncs.inc();
        self.log_unclaimed(&decisions);
        let (lacking, next) = self.apply(&decisions).await;
        let written = self
            .write_conditions(plan::conditions(&observed, &lacking))
            .await;
        let uids = observed
            .nodes
            .iter()
            .map(|one| one.node.uid.as_str())
            .collect();
        let steps = decisions.plan.steps().iter();
        let planned: HashSet<&Route> = steps.map(plan::RouteStep::route).collect();
        self.forget(&uids, &lacking, &planned);
        match written {
            Err(failure) => Outcome::Backoff(failure),
            Ok(()) => Outcome::RetryAfter(next.unwrap_or(Duration::MAX).min(self.options.period)),
        }
    }

    /// What is refused for the first time is looked at in a listing of its own: a new machine may have got
    /// its interface since the last one.
    async fn decide(&self) -> Result<(Observed, Decisions), CloudError> {
        let observed = self.observe(None).await?;
        let decisions = self.plan(&observed);
        let is_news = |refused| {
            let note = self.explain(refused);
            let attempts = self.attempts();
            let told = attempts.told.get(&refused.node.uid);
            !told.is_some_and(|told| told.contains(&note))
        };
        if !decisions.refused.iter().any(is_news) {
            return Ok((observed, decisions));
        }
        let observed = self.observe(Some(Instant::now())).await?;
        let decisions = self.plan(&observed);
        Ok((observed, decisions))
    }

    fn plan(&self, observed: &Observed) -> Decisions {
        let rules = Rules {
            cluster_cidrs: &self.options.cluster_cidrs,
            delete_orphans: self.options.delete_orphans,
            can_write: &|destination| self.routes.can_write(destination),
        };
        plan::plan(observed, &rules)
    }

    fn log_unclaimed(&self, decisions: &Decisions) {
        let unclaimed = &decisions.unclaimed;
        let count = i64::try_from(unclaimed.len()).unwrap_or(i64::MAX);
        self.metrics.unclaimed.set(count);
        let mut attempts = self.attempts();
        for route in unclaimed.difference(&attempts.unclaimed) {
            tracing::warn!(
                %route,
                "no Node has this pod CIDR, and nothing shows that the route is this cluster's: it is kept; \
                 remove it by hand, or set --delete-orphans"
            );
        }
        attempts.unclaimed.clone_from(unclaimed);
    }
}
