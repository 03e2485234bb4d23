//! Initialises Nodes that do not initialise themselves, and keeps the addresses of all right.
//!
//! **Flow.** A Node with the `uninitialized` taint is looked at when it appears, when it changes,
//! when the cloud's machines change, and again after its node daemon's grace. An initialised Node
//! is compared with its machine once per `--node-status-update-frequency`.
//!
//! **Guarantees.** Addresses are written before the taint goes. Nothing is written twice. A Node
//! that cannot be initialised keeps its taint and gets one Event that says why.
//!
//! **Caveats.** Somebody else who keeps changing the addresses back is overwritten once per period,
//! and told of in one Event.

mod apply;
mod observe;
mod plan;

use std::sync::Arc;

use mooring_common::engine::Outcome;
use mooring_common::k8s::Events;
use mooring_common::names::components;
use mooring_common::node_init::Writer;
use mooring_common::work_queue::{Backoff, WorkQueue, work};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::flags::NodeFlags;
use apply::Failure;
use observe::Observed;

/// Names of Nodes to look at.
pub type Queue = WorkQueue<String>;

/// An empty queue.
#[must_use]
pub fn queue() -> Arc<Queue> {
    Arc::new(WorkQueue::new(Backoff::NODES))
}

/// What is counted.
#[derive(Clone, Debug)]
pub struct Metrics {
    initialized: Counter,
    taint_removal_delay: Histogram,
}

impl Metrics {
    /// Registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let buckets = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];
        let metrics = Self {
            initialized: Counter::default(),
            taint_removal_delay: Histogram::new(buckets),
        };
        registry.register(
            "mooring_nodes_initialized",
            "Nodes that central has initialised",
            metrics.initialized.clone(),
        );
        registry.register(
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            "Seconds from the creation of a Node until central took its uninitialized taint off",
            metrics.taint_removal_delay.clone(),
        );
        metrics
    }
}

struct Controller {
    context: Context,
    flags: NodeFlags,
    writer: Writer,
    events: Events,
    metrics: Metrics,
}

/// Runs until cancelled, and then until what is under way has come to its end.
pub async fn run(
    context: Context,
    flags: NodeFlags,
    metrics: Metrics,
    queue: Arc<Queue>,
    cancel: CancellationToken,
) {
    let events = context.events(components::NODE);
    let writer = Writer::new(context.client.clone(), events.clone());
    let machines = context.instances.changes();
    let controller = Arc::new(Controller {
        writer,
        events,
        metrics,
        flags,
        context,
    });
    let all_again = {
        let (controller, queue) = (controller.clone(), queue.clone());
        enqueue_all_on_change(controller, queue, machines)
    };
    let passes = work(
        "cloud-node",
        queue,
        flags.concurrent_syncs,
        cancel.clone(),
        {
            move |name: String| {
                let controller = controller.clone();
                async move { controller.pass(&name).await }
            }
        },
    );
    tokio::select! {
        () = passes => {}
        () = all_again => {}
    }
}

async fn enqueue_all_on_change(
    controller: Arc<Controller>,
    queue: Arc<Queue>,
    mut machines: tokio::sync::watch::Receiver<u64>,
) {
    loop {
        for (key, _) in controller.context.nodes.all() {
            queue.add(key.name);
        }
        if machines.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

impl Controller {
    /// One look at one Node.
    #[tracing::instrument(name = "node", skip_all, fields(node = %name))]
    async fn pass(&self, name: &str) -> Outcome<Failure> {
        let observed = observe::observe(&self.context, self.writer.init_states(), name);
        let observed = match self.context.leadership.until_ending(observed).await {
            Ok(Some(observed)) => observed,
            Ok(None) => {
                self.writer.init_states().forget(name);
                return Outcome::Done;
            }
            Err(ending) => return Outcome::Backoff(ending.into()),
        };
        match plan::plan(&observed, &self.flags) {
            plan::Decision::Correct(_) => self.correct_in_time(observed).await,
            decision => self.follow(observed, decision).await,
        }
    }

    /// Does what was decided about a Node.
    async fn follow(&self, observed: Observed, decision: plan::Decision) -> Outcome<Failure> {
        match decision {
            plan::Decision::Wait(delay) => Outcome::RetryAfter(delay),
            plan::Decision::Leave(why) => Outcome::WaitForChange(why.to_owned()),
            plan::Decision::Refuse {
                reason,
                note,
                after,
            } => {
                self.writer.refuse(&observed.node, reason, &note).await;
                Outcome::RetryAfter(after)
            }
            plan::Decision::Act(plan) => self.apply(observed, plan).await,
            plan::Decision::Correct(plan) => self.correct(observed, plan).await,
        }
    }
}
