//! Answers that were just given, so that who asks a thousand times a second costs little.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::response::{Response, StatusCode};
use crate::cluster::snapshot::Snapshot;

/// For how long an answer is repeated. What it says of health is never older than the snapshot; the times
/// in it are as old as that.
const GOOD_FOR: Duration = Duration::from_millis(100);
/// How many are kept.
const MOST: usize = 64;

/// The answers of one listener.
#[derive(Default)]
pub(super) struct ResponseCache(Mutex<Recent>);

#[derive(Default)]
struct Recent {
    /// What they were made from, and when the first of them was.
    of: Option<(Arc<Snapshot>, Instant)>,
    answers: HashMap<String, Arc<Response>>,
}

impl ResponseCache {
    /// The answer to a path: the last one as long as it is good, otherwise a new one.
    pub(super) fn get(
        &self,
        path: &str,
        snapshot: &Arc<Snapshot>,
        now: Instant,
        make: impl FnOnce() -> Response,
    ) -> Arc<Response> {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_good = recent.of.as_ref().is_some_and(|(known, since)| {
            Arc::ptr_eq(known, snapshot) && now.saturating_duration_since(*since) < GOOD_FOR
        });
        if !is_good {
            recent.answers.clear();
            recent.of = Some((Arc::clone(snapshot), now));
        } else if let Some(known) = recent.answers.get(path) {
            return Arc::clone(known);
        }
        let made = Arc::new(make());
        // There is no end of paths that do not exist.
        if made.status != StatusCode::NotFound && recent.answers.len() < MOST {
            recent.answers.insert(path.to_owned(), Arc::clone(&made));
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::livez::plan::{Now, answer};

    #[test]
    fn caches_answer_for_100_ms_per_snapshot() {
        let (cache, start) = (ResponseCache::default(), Instant::now());
        let snapshots = [(); 2].map(|()| Arc::new(Snapshot::default()));
        let ask = |path: &str, snapshot: &Arc<Snapshot>, after: u64| {
            let mut is_new = false;
            let now = start + Duration::from_millis(after);
            cache.get(path, snapshot, now, || {
                is_new = true;
                let clocks = Now {
                    monotonic: now,
                    wall: jiff::Timestamp::UNIX_EPOCH,
                };
                answer(path, snapshot, clocks).into()
            });
            is_new
        };
        let [first, second] = &snapshots;
        assert!(ask("/livez", first, 0));
        assert!(!ask("/livez", first, 99));
        assert!(ask("/healthz", first, 99));
        assert!(ask("/livez", first, 100));
        assert!(ask("/livez", second, 100));
        assert!(ask("/none", second, 100) && ask("/none", second, 100));
        for number in 0..2 * MOST {
            ask(&format!("/services/a/{number}"), second, 100);
        }
        assert_eq!(cache.0.lock().unwrap().answers.len(), MOST);
    }
}
