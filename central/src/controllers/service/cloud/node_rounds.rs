//! When load balancers are made to follow the Nodes: together for many changes, and soon for one.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mooring_common::node_view::NodeView;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How long no Node has changed before a round begins.
const QUIET: Duration = Duration::from_secs(1);
/// The same shortly after another round: Nodes seem to come in numbers.
const QUIET_AFTER_ANOTHER: Duration = Duration::from_secs(4);
/// What "shortly" is.
const SHORTLY: Duration = Duration::from_secs(10);
/// How long a change waits at most.
const LONGEST: Duration = Duration::from_secs(30);

/// Counts the changes of Nodes that may matter to load balancers.
#[derive(Debug)]
pub struct NodeChanges {
    count: watch::Sender<u64>,
    round: Mutex<Option<Instant>>,
}

impl Default for NodeChanges {
    fn default() -> Self {
        Self {
            count: watch::Sender::new(0),
            round: Mutex::new(None),
        }
    }
}

impl NodeChanges {
    /// A Node came (`old` is `None`), changed or went (`new` is `None`).
    pub fn node(&self, old: Option<&NodeView>, new: Option<&NodeView>) {
        if concerns(old, new) {
            self.bump();
        }
    }

    /// Something that load balancers may go by has changed.
    pub(super) fn bump(&self) {
        self.count.send_modify(|count| *count += 1);
    }

    /// How many changes there have been.
    pub(super) fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// When the last round began.
    pub(super) fn last_round(&self) -> Option<Instant> {
        *self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a round whenever it is time, for as long as the future is polled.
    pub(super) async fn rounds(&self, begin: impl Fn()) {
        let mut changes = self.count.subscribe();
        let mut last: Option<Instant> = None;
        while changes.changed().await.is_ok() {
            let first = Instant::now();
            let another = last.is_some_and(|at| first - at < SHORTLY);
            let quiet = if another { QUIET_AFTER_ANOTHER } else { QUIET };
            loop {
                let until = (Instant::now() + quiet).min(first + LONGEST);
                tokio::select! {
                    biased;
                    () = sleep_until(until) => break,
                    _ = changes.changed() => {}
                }
            }
            changes.borrow_and_update();
            last = Some(Instant::now());
            *self.round.lock().unwrap_or_else(PoisonError::into_inner) = last;
            begin();
        }
    }
}

/// Whether load balancers may have to follow. Readiness is for their own health checks to see, and
/// addresses are the cloud's to tell.
fn concerns(old: Option<&NodeView>, new: Option<&NodeView>) -> bool {
    let judged = |node: &NodeView| {
        (
            node.uid.clone(),
            node.provider_id.clone(),
            node.labels.clone(),
        )
    };
    old.map(judged) != new.map(judged)
}

#[cfg(test)]
mod tests;
