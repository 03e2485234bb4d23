//! What is remembered of each Node between passes, for as long as this process works on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::node_addresses::NodeAddress;
use crate::node_view::NodeView;

/// After how many overwritten writes in a row somebody is told.
const CONTESTED_AFTER: u32 = 3;

/// How long an API server keeps Events, unless it is told otherwise (`--event-ttl`).
const EVENTS_LAST: Duration = Duration::from_secs(3600);

/// For how long a label that a policy has refused is not tried again: the chart may list it meanwhile.
const REFUSED_FOR: Duration = Duration::from_secs(240);

/// How many notes on one Node are remembered as told.
const MOST_TOLD: usize = 8;

#[derive(Debug)]
struct InitState {
    uid: String,
    first_seen: Instant,
    /// What was told last, the newest at the end.
    told: Vec<(String, Instant)>,
    written: Option<Vec<NodeAddress>>,
    overwritten: u32,
    contradicts_since: Option<Instant>,
    /// Additional labels that a policy has refused, and when.
    refused: BTreeMap<String, Instant>,
    /// The Node after the last write on it, until the cache shows it.
    last_write: Option<Box<NodeView>>,
}

/// What is remembered, by Node name; a Node that registers anew under its name is a new one.
#[derive(Debug, Default)]
pub struct InitStates {
    nodes: Mutex<HashMap<String, InitState>>,
}

impl InitStates {
    fn with<T>(&self, name: &str, uid: &str, act: impl FnOnce(&mut InitState) -> T) -> T {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || InitState {
            uid: uid.to_owned(),
            first_seen: Instant::now(),
            told: Vec::new(),
            written: None,
            overwritten: 0,
            contradicts_since: None,
            refused: BTreeMap::new(),
            last_write: None,
        };
        let state = nodes.entry(name.to_owned()).or_insert_with(fresh);
        if state.uid != uid {
            *state = fresh();
        }
        act(state)
    }

    /// When this process first saw the Node.
    pub fn first_seen(&self, name: &str, uid: &str) -> Instant {
        self.with(name, uid, |state| state.first_seen)
    }

    /// Whether this is news: the same is told once, also where several take turns, as with a cloud
    /// that is there and away again; and once more when the Event about it is gone.
    pub fn is_news(&self, name: &str, uid: &str, note: &str) -> bool {
        self.with(name, uid, |state| {
            state.told.retain(|(_, at)| at.elapsed() < EVENTS_LAST);
            if state.told.iter().any(|(told, _)| told == note) {
                return false;
            }
            if state.told.len() >= MOST_TOLD {
                state.told.remove(0);
            }
            state.told.push((note.to_owned(), Instant::now()));
            true
        })
    }

    /// The additional labels that are not worth a request now: a policy has refused them just before.
    pub(super) fn refused_labels(&self, name: &str, uid: &str) -> BTreeSet<String> {
        self.with(name, uid, |state| {
            state.refused.retain(|_, at| at.elapsed() < REFUSED_FOR);
            state.refused.keys().cloned().collect()
        })
    }

    /// A policy has refused these.
    pub(super) fn labels_were_refused(&self, name: &str, uid: &str, keys: &BTreeSet<String>) {
        self.with(name, uid, |state| {
            let keys = keys.iter().map(|key| (key.clone(), Instant::now()));
            state.refused.extend(keys);
        });
    }

    /// All is well: a later fault is news again. That a policy refuses some labels stays told.
    pub fn well(&self, name: &str, uid: &str) {
        self.with(name, uid, |state| {
            if state.refused.is_empty() {
                state.told.clear();
            }
            state.contradicts_since = None;
        });
    }

    /// Since when without a break what stands on the Node has contradicted its machine.
    pub fn contradicts_since(&self, name: &str, uid: &str) -> Instant {
        self.with(name, uid, |state| {
            *state.contradicts_since.get_or_insert_with(Instant::now)
        })
    }

    /// The addresses are about to be written although they were written before. True exactly when
    /// that has happened often enough that a person should know.
    pub fn overwrites(&self, name: &str, uid: &str, addresses: &[NodeAddress]) -> bool {
        self.with(name, uid, |state| {
            if state.written.as_deref() == Some(addresses) {
                state.overwritten += 1;
            } else {
                state.written = Some(addresses.to_vec());
                state.overwritten = 0;
            }
            state.overwritten == CONTESTED_AFTER
        })
    }

    /// This is the Node after a write on it.
    pub fn wrote(&self, node: &NodeView) {
        self.with(&node.name, &node.uid, |state| {
            state.last_write = Some(Box::new(node.clone()));
        });
    }

    /// Whether the cache, which has this of the Node, may not show yet what was written on it.
    pub fn may_lag(&self, cached: &NodeView) -> bool {
        self.with(&cached.name, &cached.uid, |state| {
            state.last_write.take_if(|written| **written == *cached);
            state.last_write.is_some()
        })
    }

    /// Whatever was written on the Node, the cache shows all that there is to know.
    pub fn settled(&self, node: &NodeView) {
        self.with(&node.name, &node.uid, |state| state.last_write = None);
    }

    /// The Node is gone.
    pub fn forget(&self, name: &str) {
        self.nodes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::k8s::Slim;
    use crate::node_addresses::AddressType;

    #[tokio::test(start_paused = true)]
    async fn reports_once_per_node_uid() {
        let init_states = InitStates::default();
        assert!(init_states.is_news("n1", "u1", "a"));
        assert!(!init_states.is_news("n1", "u1", "a"));
        tokio::time::advance(EVENTS_LAST).await;
        assert!(init_states.is_news("n1", "u1", "a"), "the Event is gone");
        assert!(!init_states.is_news("n1", "u1", "a"));
        assert!(init_states.is_news("n1", "u1", "b"));
        assert!(!init_states.is_news("n1", "u1", "a"), "they take turns");
        assert!(init_states.is_news("n1", "u2", "b"));
        init_states.well("n1", "u2");
        assert!(init_states.is_news("n1", "u2", "b"));
    }

    #[test]
    fn reports_contest_once() {
        let init_states = InitStates::default();
        let ours = [NodeAddress::new(AddressType::InternalIP, "10.0.0.1")];
        let told: Vec<bool> = (0..10)
            .map(|_| init_states.overwrites("n1", "u1", &ours))
            .collect();
        assert_eq!(told.iter().filter(|told| **told).count(), 1);
    }

    #[test]
    fn cache_lags_until_it_shows_last_write() {
        let node = serde_json::json!({"metadata": {"name": "n1", "uid": "u1"}});
        let before = NodeView::slim(serde_json::from_value(node).unwrap());
        let after = NodeView {
            provider_id: Some("a://b".into()),
            ..before.clone()
        };
        let init_states = InitStates::default();
        assert!(!init_states.may_lag(&before));
        init_states.wrote(&after);
        assert!(init_states.may_lag(&before));
        assert!(!init_states.may_lag(&after));
        assert!(!init_states.may_lag(&before));
        init_states.wrote(&after);
        init_states.settled(&before);
        assert!(!init_states.may_lag(&before));
    }
}
