//! What is remembered of each Node between passes, for as long as this process leads.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mooring_common::node_facts::Presence;
use mooring_common::node_view::NodeView;
use mooring_common::provider_id::ProviderId;
use mooring_common::work_queue::Backoff;
use tokio::time::Instant;

/// How long a write may take to come back by the watch before it is held for undone.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(10);

/// The longest time until a machine that a second look did not find gone is looked at alone again.
const LONGEST_REPRIEVE: Duration = Duration::from_secs(300);

/// For how long a deletion counts for the guard against too many.
pub(super) const LATELY: Duration = Duration::from_secs(600);

/// All of them, by UID.
#[derive(Debug, Default)]
pub(super) struct NodeStates {
    nodes: Mutex<HashMap<String, NodeState>>,
    /// With the scheme of the provider ID.
    deletions: Mutex<Vec<(String, Instant)>>,
    unhealthy_since: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct NodeState {
    first_seen: Instant,
    /// The Node as it was when something was written on it last, and when that was.
    written: Option<(Arc<NodeView>, Instant)>,
    /// How many second looks in a row have kept it, and until when there is no other.
    reprieve: Option<(u32, Instant)>,
}

impl NodeStates {
    /// For how long this process has seen the Node.
    pub(super) fn seen_for(&self, node: &NodeView) -> Duration {
        of(&mut self.lock(), node).first_seen.elapsed()
    }

    /// Something was written on the Node, which was like this before.
    pub(super) fn wrote(&self, before: &Arc<NodeView>) {
        let mut nodes = self.lock();
        of(&mut nodes, before).written = Some((Arc::clone(before), Instant::now()));
    }

    /// Whether something was written on the Node that the cache does not show yet: what would be
    /// decided now has been done already.
    pub(super) fn is_settling(&self, node: &NodeView) -> bool {
        let mut nodes = self.lock();
        let state = of(&mut nodes, node);
        state
            .written
            .take_if(|(before, at)| shows(before, node) || at.elapsed() > COMES_BACK_WITHIN);
        state.written.is_some()
    }

    /// A second look at its machine alone has not found it gone. The next one has time: first
    /// `period`, and longer after each.
    pub(super) fn reprieve(&self, node: &NodeView, period: Duration) {
        let backoff = Backoff {
            first: period,
            most: LONGEST_REPRIEVE.max(period),
        };
        let mut nodes = self.lock();
        let state = of(&mut nodes, node);
        let times = state.reprieve.map_or(0, |(times, _)| times) + 1;
        state.reprieve = Some((times, Instant::now() + backoff.after(times)));
    }

    /// Whether the Node, whose machine is this present by the listing, needs no second look yet.
    pub(super) fn is_reprieved(&self, node: &NodeView, presence: Presence) -> bool {
        let mut nodes = self.lock();
        let state = of(&mut nodes, node);
        if matches!(presence, Presence::Running | Presence::Stopped) {
            state.reprieve = None;
        }
        state
            .reprieve
            .is_some_and(|(_, until)| Instant::now() < until)
    }

    /// Since when without a break some Node has not been Ready.
    pub(super) fn unhealthy_since(&self, healthy: bool) -> Option<Instant> {
        let since = &mut *self
            .unhealthy_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if healthy {
            *since = None;
        } else if since.is_none() {
            *since = Some(Instant::now());
        }
        *since
    }

    /// The Node of this machine was deleted.
    pub(super) fn deleted(&self, machine: &ProviderId) {
        let deletion = (machine.scheme().to_owned(), Instant::now());
        self.deletions().push(deletion);
    }

    /// How many Nodes of each cloud, by the scheme of its provider IDs, were deleted within [`LATELY`].
    pub(super) fn deleted_lately(&self) -> HashMap<String, usize> {
        let mut deletions = self.deletions();
        deletions.retain(|(_, at)| at.elapsed() < LATELY);
        let mut counts: HashMap<String, usize> = HashMap::new();
        for (scheme, _) in &*deletions {
            *counts.entry(scheme.clone()).or_default() += 1;
        }
        counts
    }

    fn deletions(&self) -> MutexGuard<'_, Vec<(String, Instant)>> {
        self.deletions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the Nodes that are gone.
    pub(super) fn keep_only(&self, uids: &HashSet<&str>) {
        self.lock().retain(|uid, _| uids.contains(uid.as_str()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, NodeState>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the Node is seen to have changed in what this controller writes. What others write
/// meanwhile, conditions above all, says nothing of it.
fn shows(before: &NodeView, now: &NodeView) -> bool {
    before.taints != now.taints || before.deleting != now.deleting
}

fn of<'a>(nodes: &'a mut HashMap<String, NodeState>, node: &NodeView) -> &'a mut NodeState {
    nodes.entry(node.uid.clone()).or_insert_with(|| NodeState {
        first_seen: Instant::now(),
        written: None,
        reprieve: None,
    })
}

#[cfg(test)]
mod tests {
    use mooring_common::k8s::Slim;
    use mooring_common::node_view::Readiness;
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn write_settles_when_seen_or_timed_out() {
        let node = json!({"metadata": {"name": "n1", "uid": "u1"}});
        let before = Arc::new(NodeView::slim(serde_json::from_value(node).unwrap()));
        let after = NodeView {
            deleting: true,
            ..(*before).clone()
        };
        let node_states = NodeStates::default();
        assert!(!node_states.is_settling(&before));
        node_states.wrote(&before);
        assert!(node_states.is_settling(&before));
        let still = NodeView {
            readiness: Readiness::Ready,
            ..(*before).clone()
        };
        assert!(node_states.is_settling(&still));
        assert!(!node_states.is_settling(&after));
        assert!(!node_states.is_settling(&before));
        node_states.wrote(&before);
        tokio::time::advance(COMES_BACK_WITHIN * 2).await;
        assert!(!node_states.is_settling(&before));
        assert_eq!(node_states.seen_for(&before), COMES_BACK_WITHIN * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn counts_late_deletions_per_cloud() {
        let node_states = NodeStates::default();
        for id in ["linode://1", "linode://2", "cloudscale://3"] {
            node_states.deleted(&id.parse().unwrap());
        }
        let lately = node_states.deleted_lately();
        assert_eq!((lately["linode"], lately["cloudscale"]), (2, 1));
        tokio::time::advance(LATELY).await;
        assert!(node_states.deleted_lately().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn second_look_ups_back_off_until_machine_is_listed() {
        let node = json!({"metadata": {"name": "n1", "uid": "u1"}});
        let node = NodeView::slim(serde_json::from_value(node).unwrap());
        let node_states = NodeStates::default();
        let period = Duration::from_secs(5);
        let wait = async || {
            let began = Instant::now();
            node_states.reprieve(&node, period);
            while node_states.is_reprieved(&node, Presence::Gone) {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            began.elapsed().as_secs()
        };
        assert!(!node_states.is_reprieved(&node, Presence::Gone));
        assert_eq!([wait().await, wait().await, wait().await], [5, 10, 20]);
        for _ in 0..10 {
            wait().await;
        }
        assert_eq!(wait().await, LONGEST_REPRIEVE.as_secs());
        node_states.is_reprieved(&node, Presence::Running);
        assert_eq!(wait().await, 5);
    }
}
