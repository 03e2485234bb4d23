//! Describes the daemon's own Node: addresses first, then provider ID and labels, and with them the
//! `uninitialized` taint off.
//!
//! **Flow.** The Node is looked at when it appears, when it changes so that a look is called for,
//! when the machines file changes, and once per `--node-status-update-frequency`.
//!
//! **Guarantees.** Only the own Node is read and written. What the metadata source does not know
//! whole is left to central, taint and all.

mod apply;
pub mod metadata;
mod observe;
mod plan;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::runtime::watcher;
use mooring_common::engine::Outcome;
use mooring_common::k8s::{Cache, ObjectKey};
use mooring_common::node_init::{WriteFailure, Writer, calls_for_a_look};
use mooring_common::node_view::NodeView;
use mooring_common::work_queue::{Backoff, WorkQueue, work};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::metadata::MetadataSource;

/// The daemon's own Node, as the API server has it.
pub struct OwnNode {
    name: String,
    cache: Arc<Cache<NodeView>>,
    looks: Arc<WorkQueue<Own>>,
}

/// The one key of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Own;

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this Node")
    }
}

impl OwnNode {
    /// The Node of this name.
    #[must_use]
    pub fn new(name: String) -> Self {
        Self {
            name,
            cache: Arc::default(),
            looks: Arc::new(WorkQueue::new(Backoff::NODES)),
        }
    }

    /// The Node as it is, if it has registered.
    #[must_use]
    pub fn get(&self) -> Option<Arc<NodeView>> {
        self.cache.get(&ObjectKey::cluster_wide(&*self.name))
    }

    /// Waits until it is known whether it has registered.
    async fn synced(&self) {
        self.cache.synced().await;
    }

    /// Watches this one Node for as long as the future is polled.
    pub async fn follow(&self, nodes: Api<Node>) {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        self.cache
            .follow(nodes, config, |change| {
                if let Some(delay) = calls_for_a_look(change.old.as_deref(), change.new.as_deref())
                {
                    self.looks.add_after(Own, delay);
                }
            })
            .await;
    }
}

/// What the reporter works with.
pub struct Reporter {
    /// The own Node.
    pub node: Arc<OwnNode>,
    /// Where facts come from.
    pub source: Arc<dyn MetadataSource>,
    /// Writes them.
    pub writer: Writer,
    /// How often addresses are compared.
    pub period: Duration,
}

/// Runs until cancelled. `facts_changed` changes whenever the source may say something else.
pub async fn run(
    reporter: Reporter,
    mut facts_changed: watch::Receiver<u64>,
    cancel: CancellationToken,
) {
    let reporter = Arc::new(reporter);
    let queue = reporter.node.looks.clone();
    let wake = {
        let (queue, node) = (queue.clone(), reporter.node.clone());
        async move {
            // Until then nobody knows whether it has registered.
            node.synced().await;
            loop {
                queue.add(Own);
                if facts_changed.changed().await.is_err() {
                    return std::future::pending::<()>().await;
                }
            }
        }
    };
    let passes = work("report", queue, 1, cancel.clone(), move |Own| {
        let reporter = reporter.clone();
        async move { reporter.pass().await }
    });
    tokio::select! {
        // A pass only repeats what the Node's next daemon will find out for itself.
        () = cancel.cancelled() => {}
        () = passes => {}
        () = wake => {}
    }
}

impl Reporter {
    /// One look at the Node and the machine.
    async fn pass(&self) -> Outcome<WriteFailure> {
        let Some(observed) = observe::observe(&self.node, &*self.source).await else {
            return Outcome::WaitForChange("the Node has not registered yet".to_owned());
        };
        match plan::plan(&observed) {
            plan::Decision::Wait(why) => Outcome::WaitForChange(why),
            plan::Decision::Leave(why) => {
                tracing::debug!(node = observed.node.name, why, "left alone for now");
                Outcome::RetryAfter(self.period)
            }
            plan::Decision::Retry { note } => {
                let node = &observed.node;
                if self
                    .writer
                    .init_states()
                    .is_news(&node.name, &node.uid, &note)
                {
                    tracing::warn!(note, "the metadata source cannot be read, will ask again");
                }
                Outcome::RetryAfter(self.retry_delay(node))
            }
            plan::Decision::Refuse { reason, note } => {
                let node = &observed.node;
                self.writer.refuse(node, reason, &note).await;
                // A service that is about to start may refuse what it will answer in a moment.
                Outcome::RetryAfter(if node.is_uninitialized() {
                    self.retry_delay(node).min(self.period)
                } else {
                    self.period
                })
            }
            plan::Decision::Act(plan) => self.apply(observed, plan).await,
        }
    }

    /// How long until a source that said nothing useful is asked again.
    fn retry_delay(&self, node: &NodeView) -> Duration {
        let init_states = self.writer.init_states();
        retry_delay(init_states.first_seen(&node.name, &node.uid).elapsed())
    }
}

/// For a Node that was first seen so long ago: a machine that has just started waits for the source
/// in order to be used at all.
fn retry_delay(seen_for: Duration) -> Duration {
    (seen_for / 8).clamp(Duration::from_millis(250), Duration::from_secs(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delay_grows_to_five_seconds() {
        let millis = |seconds| retry_delay(Duration::from_secs(seconds)).as_millis();
        assert_eq!(
            [0, 2, 8, 40, 86_400].map(millis),
            [250, 250, 1000, 5000, 5000]
        );
    }
}
