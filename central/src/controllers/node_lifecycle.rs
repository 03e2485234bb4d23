//! Takes Nodes away whose machines are gone, and keeps pods off Nodes whose machines are stopped.
//!
//! **Flow.** One pass over all Nodes when one of them changes in a way that matters, when the
//! cloud's machines change, and every `--node-monitor-period` while a Node is not Ready.
//!
//! **Guarantees.** A Node is deleted only if it is not Ready, its provider ID is ours, a complete
//! listing lacks its machine, and a second look at that machine alone says so too; and only the
//! very Node that was judged (by UID). If too many machines of a cloud seem gone at once, none of its
//! Nodes is deleted.
//!
//! **Assumptions.** The kubelet's own lease, or its controller, makes a dead Node's `Ready` Unknown.

mod apply;
mod node_states;
mod observe;
mod plan;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use mooring_common::engine::Outcome;
use mooring_common::errors::with_causes;
use mooring_common::k8s::Events;
use mooring_common::names::components;
use mooring_common::node_view::NodeView;
use mooring_common::work_queue::{Backoff, WorkQueue, work};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::flags::NodeFlags;
use apply::Failure;
use node_states::NodeStates;
pub use observe::oldest_listing;

/// There is one thing to look at: all Nodes.
pub type Queue = WorkQueue<AllNodes>;

/// How long a change of a Node waits for others. When thousands join, each changes several times.
pub const SOON: Duration = Duration::from_millis(500);

/// The one key of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllNodes;

impl fmt::Display for AllNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all Nodes")
    }
}

/// An empty queue.
#[must_use]
pub fn queue() -> Arc<Queue> {
    Arc::new(WorkQueue::new(Backoff::NODES))
}

/// Whether a change of a Node, from `old` to `new`, may change what is decided about it. What the
/// kubelet posts to say that it lives does not.
#[must_use]
pub fn concerns(old: Option<&NodeView>, new: Option<&NodeView>) -> bool {
    let judged = |node: &NodeView| {
        (
            node.uid.clone(),
            node.deleting,
            node.provider_id.clone(),
            node.readiness,
            node.taints.clone(),
            node.machine.clone(),
        )
    };
    old.map(judged) != new.map(judged)
}

/// What is counted.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    deleted: Counter,
    held: Gauge,
    unmatched: Gauge,
}

impl Metrics {
    /// Registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "mooring_nodes_deleted",
            "Nodes deleted because their machines are gone",
            metrics.deleted.clone(),
        );
        registry.register(
            "mooring_node_deletions_held",
            "Nodes that would be deleted if not too many machines seemed gone at once",
            metrics.held.clone(),
        );
        registry.register(
            "mooring_nodes_unmatched",
            "Nodes of which nobody can say which machine they are",
            metrics.unmatched.clone(),
        );
        metrics
    }
}

/// How many steps are taken at the same time.
const SIDE_BY_SIDE: usize = 8;

struct Controller {
    context: Context,
    flags: NodeFlags,
    nodes: Api<Node>,
    events: Events,
    metrics: Metrics,
    node_states: NodeStates,
    told: Mutex<HashSet<String>>,
}

/// Runs until cancelled, and then until what is under way has come to its end.
pub async fn run(
    context: Context,
    flags: NodeFlags,
    metrics: Metrics,
    queue: Arc<Queue>,
    cancel: CancellationToken,
) {
    let events = context.events(components::NODE_LIFECYCLE);
    let mut machines = context.instances.changes();
    let controller = Arc::new(Controller {
        nodes: Api::all(context.client.clone()),
        events,
        metrics,
        flags,
        context,
        node_states: NodeStates::default(),
        told: Mutex::default(),
    });
    let on_change = {
        let queue = queue.clone();
        async move {
            queue.add(AllNodes);
            while machines.changed().await.is_ok() {
                queue.add(AllNodes);
            }
            std::future::pending::<()>().await;
        }
    };
    let passes = work("cloud-node-lifecycle", queue, 1, cancel, move |AllNodes| {
        let controller = controller.clone();
        async move { controller.pass().await }
    });
    tokio::select! {
        () = passes => {}
        () = on_change => {}
    }
}

impl Controller {
    /// One look at all Nodes.
    async fn pass(&self) -> Outcome<Failure> {
        let observed =
            observe::observe(&self.context, &self.node_states, self.flags.monitor_period);
        let observed = match self.context.leadership.until_ending(observed).await {
            Ok(observed) => observed,
            Err(ending) => return Outcome::Backoff(ending.into()),
        };
        let unmatched = observed.iter().filter(|o| o.unmatched).count();
        self.metrics
            .unmatched
            .set(i64::try_from(unmatched).unwrap_or(i64::MAX));
        let decisions = plan::plan(&observed, &self.node_states.deleted_lately(), &self.flags);
        self.tell_held(&decisions.held).await;
        let steps = decisions.plan.steps().to_vec().into_iter();
        let taken = steps.map(|step| async move {
            let taken = self.take(&step).await;
            (step, taken)
        });
        let mut ended = stream::iter(taken).buffer_unordered(SIDE_BY_SIDE);
        let mut failure = None;
        while let Some((step, taken)) = ended.next().await {
            if let Err(error) = taken {
                let error_text = with_causes(&error);
                tracing::warn!(error = error_text, "could not {step}");
                failure = Some(error);
            }
        }
        match failure {
            Some(error) => Outcome::Backoff(error),
            None if decisions.look_again => Outcome::RetryAfter(self.flags.monitor_period),
            None => Outcome::Done,
        }
    }
}
