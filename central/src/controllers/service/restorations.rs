//! Statuses that somebody else overwrites: the first time each is written again at once, and then ever more
//! rarely. Two controllers that both insist would else write as fast as the API server lets them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooring_common::k8s::ObjectKey;
use mooring_common::work_queue::Backoff;

/// After so long without another writer, the next one is the first again. Longer than the longest wait.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// What has been written again, and when.
#[derive(Debug, Default)]
pub(super) struct Restorations(Mutex<HashMap<ObjectKey, Restored>>);

#[derive(Debug)]
struct Restored {
    times: u32,
    last: Instant,
}

impl Restorations {
    /// How long a status that somebody has overwritten stays so; `None`: it is to be written now.
    pub(super) fn wait(&self, key: &ObjectKey, now: Instant) -> Option<Duration> {
        let all = self.lock();
        let restored = all.get(key)?;
        let due = restored.last + Backoff::SERVICES.after(restored.times);
        (now < due).then(|| due - now)
    }

    /// It was written again.
    pub(super) fn note(&self, key: &ObjectKey, now: Instant) {
        let mut all = self.lock();
        all.retain(|_, restored| now - restored.last < FORGOTTEN_AFTER);
        let restored = all.entry(key.clone()).or_insert(Restored {
            times: 0,
            last: now,
        });
        restored.times += 1;
        restored.last = now;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Restored>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_further_restoration_waits_longer() {
        let (restorations, key) = (Restorations::default(), ObjectKey::cluster_wide("web"));
        let mut now = Instant::now();
        assert_eq!(restorations.wait(&key, now), None);
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            restorations.note(&key, now);
            let delay = SECOND * seconds;
            assert_eq!(restorations.wait(&key, now), Some(delay));
            assert_eq!(restorations.wait(&key, now + delay - SECOND), Some(SECOND));
            now += delay;
            assert_eq!(restorations.wait(&key, now), None);
        }
        let other = ObjectKey::cluster_wide("other");
        assert_eq!(restorations.wait(&other, now), None);
    }

    #[test]
    fn restoration_of_long_ago_is_forgotten() {
        let (restorations, key) = (Restorations::default(), ObjectKey::cluster_wide("web"));
        let start = Instant::now();
        restorations.note(&key, start);
        restorations.note(&key, start + SECOND);
        let later = start + SECOND + FORGOTTEN_AFTER;
        restorations.note(&key, later);
        assert_eq!(restorations.wait(&key, later), Some(SECOND * 5));
    }
}
