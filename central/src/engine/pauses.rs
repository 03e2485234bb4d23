//! Until when something is left alone, by its ID.

use std::collections::HashMap;
use std::time::Duration;

use mooring_common::work_queue::Backoff;
use tokio::time::Instant;

/// What is left alone for a while.
#[derive(Debug, Default)]
pub struct Pauses(HashMap<String, (u32, Instant)>);

impl Pauses {
    /// For how much longer something is left alone. `None`: it is not.
    #[must_use]
    pub fn left(&self, id: &str) -> Option<Duration> {
        let (_, until) = self.0.get(id)?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// It is left alone for so long.
    pub fn set(&mut self, id: &str, pause: Duration) {
        self.0.insert(id.to_owned(), (0, Instant::now() + pause));
    }

    /// It is tried, and then left alone for longer each time.
    pub fn tries(&mut self, id: &str, backoff: Backoff) {
        let entry = self.0.entry(id.to_owned());
        let (times, until) = entry.or_insert((0, Instant::now()));
        *times = times.saturating_add(1);
        *until = Instant::now() + backoff.after(*times);
    }

    /// Forgets all but these.
    pub fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.0.retain(|id, _| keeps(id));
    }

    /// Forgets it.
    pub fn forget(&mut self, id: &str) {
        self.0.remove(id);
    }
}
