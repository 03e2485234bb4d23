//! Machines that listings lack, each asked for alone: a filter may hide what is there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mooring_common::node_view::NodeView;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::cloud_provider::{Attachment, Lookup};
use crate::engine::inventory::Inventory;

/// For how long an answer is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);
/// For how long the same is not asked again if there was none.
const FAILED: Duration = Duration::from_secs(10);

/// What is known of one machine, and its addresses.
pub(super) type Answer = (Lookup, Vec<Attachment>);

/// When the cloud was asked for one, and what it has answered since.
type Asked = (Instant, Arc<OnceCell<Answer>>);

/// What the cloud has answered.
#[derive(Debug, Default)]
pub(super) struct Alone {
    /// By provider ID, with the time of the question. All who ask meanwhile wait for the same answer.
    asked: Mutex<HashMap<String, Asked>>,
}

impl Alone {
    /// What the cloud says of the machine of this Node, which bears this provider ID.
    pub(super) async fn get(&self, inventory: &Inventory, node: &NodeView, id: &str) -> Answer {
        let answer = self.of(id);
        let answer = answer.get_or_init(|| inventory.ask_alone(node)).await;
        let mut answer = answer.clone();
        if let Lookup::Unavailable { retry_after, .. } = &mut answer.0 {
            *retry_after = (*retry_after).max(Some(FAILED));
        }
        answer
    }

    /// Asks for everything anew.
    pub(super) fn forget(&self) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.clear();
    }

    fn of(&self, id: &str) -> Arc<OnceCell<Answer>> {
        let now = Instant::now();
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|_, (at, answer)| {
            let has_failed = matches!(answer.get(), Some((Lookup::Unavailable { .. }, _)));
            let lasts = if has_failed { FAILED } else { REMEMBERED };
            now.saturating_duration_since(*at) < lasts
        });
        let (_, answer) = asked.entry(id.to_owned()).or_insert((now, Arc::default()));
        answer.clone()
    }
}
