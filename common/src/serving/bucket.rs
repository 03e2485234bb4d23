//! A token bucket.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Nobody waits longer for a token.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The generic cell rate algorithm: so many a second, and after a pause some at once. First come, first
/// served.
#[derive(Debug)]
pub(super) struct TokenBucket {
    interval: Duration,
    /// How much of the future may be spent at once.
    credit: Duration,
    /// When it will be full.
    full: Mutex<Instant>,
}

/// There would be no token in time. None was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Empty;

impl TokenBucket {
    pub(super) fn new(rate: f64, at_once: u32) -> Self {
        let interval = Duration::from_secs_f64(1.0 / rate);
        Self {
            interval,
            credit: interval * at_once,
            full: Mutex::new(Instant::now()),
        }
    }

    /// Waits for a token, for [`LONGEST_WAIT`] at most.
    pub(super) async fn admit(&self) -> Result<(), Empty> {
        let wait = {
            let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let next = (*full).max(now) + self.interval;
            let wait = next
                .saturating_duration_since(now)
                .saturating_sub(self.credit);
            if wait > LONGEST_WAIT {
                return Err(Empty);
            }
            *full = next;
            wait
        };
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn gives_some_at_once_then_one_each_interval_and_refuses_a_crowd() {
        let bucket = TokenBucket::new(2.0, 10);
        let begun = Instant::now();
        for _ in 0..10 {
            bucket.admit().await.unwrap();
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        bucket.admit().await.unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(500));
        let crowd = (0..100).map(|_| bucket.admit());
        let answers = futures::future::join_all(crowd).await;
        let admitted = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(admitted, 10, "as many as come within {LONGEST_WAIT:?}");
    }
}
