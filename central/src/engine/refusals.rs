//! What a cloud refuses a change of, although it takes others: each is left alone, and told of once that lasts.

use std::collections::HashMap;
use std::time::Duration;

use mooring_common::work_queue::Backoff;

use super::pauses::Pauses;

/// After how many refusals one after the other a person is told: the first may be of something that has
/// just ended.
const LASTING: u32 = 4;

/// What was refused, by its ID, and for how long each is left alone.
#[derive(Debug)]
pub struct Refusals {
    first: Duration,
    later: Backoff,
    pauses: Pauses,
    times: HashMap<String, u32>,
}

impl Refusals {
    /// The first are left alone for so long, and then for longer each time.
    #[must_use]
    pub fn new(first: Duration, later: Backoff) -> Self {
        Self {
            first,
            later,
            pauses: Pauses::default(),
            times: HashMap::new(),
        }
    }

    /// For how much longer this is left alone. `None`: it is not.
    #[must_use]
    pub fn left(&self, id: &str) -> Option<Duration> {
        self.pauses.left(id)
    }

    /// It was refused: it is left alone. Whether a person is to be told.
    pub fn add(&mut self, id: &str) -> bool {
        let times = self.times.entry(id.to_owned()).or_default();
        *times = times.saturating_add(1);
        let more = times.checked_sub(LASTING);
        let pause = more.map_or(self.first, |more| self.later.after(more + 1));
        self.pauses.set(id, pause);
        more.is_some()
    }

    /// It was not refused, or something else is asked for.
    pub fn forget(&mut self, id: &str) {
        self.pauses.forget(id);
        self.times.remove(id);
    }

    /// Forgets all but these.
    pub fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.pauses.retain(&keeps);
        self.times.retain(|id, _| keeps(id));
    }
}
