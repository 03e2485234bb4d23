//! An account that takes so many requests in any second, and is asked as the client asks.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::cloud_api::{CloudError, ErrorKind, Limiter, Limits};

/// How much the account takes.
pub(crate) struct Ration {
    limiter: Limiter,
    per_second: usize,
    /// What it answers with 429.
    retry_after: Option<Duration>,
    taken: Mutex<VecDeque<Instant>>,
    refused: AtomicUsize,
}

impl Ration {
    /// So many requests each second, asked for at the rate that is configured for `PhoenixNAP`.
    pub(crate) fn of(per_second: usize, retry_after: Option<Duration>) -> Self {
        let limits = Limits {
            qps: 5.0,
            burst: 20,
        };
        Self {
            limiter: Limiter::new(limits),
            per_second,
            retry_after,
            taken: Mutex::default(),
            refused: AtomicUsize::new(0),
        }
    }

    /// How many requests were answered with 429.
    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// One request.
    pub(crate) async fn ask(&self) -> Result<(), CloudError> {
        let limited = |wait| {
            let mut error = CloudError::new("fake", ErrorKind::RateLimited, "too much");
            error.retry_after = Some(wait);
            error
        };
        self.limiter.admit().await.map_err(limited)?;
        let sent = Instant::now();
        tokio::time::sleep(Duration::from_millis(100)).await;
        if self.takes() {
            self.limiter.accepted();
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(limited(self.limiter.refused(sent, self.retry_after)))
    }

    fn takes(&self) -> bool {
        let (now, mut taken) = (Instant::now(), self.taken.lock().unwrap());
        taken.retain(|at| now - *at < Duration::from_secs(1));
        let takes = taken.len() < self.per_second;
        if takes {
            taken.push_back(now);
        }
        takes
    }
}
