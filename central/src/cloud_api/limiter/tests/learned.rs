//! A cloud that takes fewer requests than `--cloud-api-qps` permits, and does not say how many.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use tokio::time::sleep;

use super::*;

/// Takes so many requests in any second.
struct Cloud {
    per_second: usize,
    /// What it answers with 429.
    retry_after: Option<Duration>,
    taken: Mutex<VecDeque<Instant>>,
    refusals: AtomicUsize,
}

impl Cloud {
    fn taking(per_second: usize, retry_after: Option<u64>) -> Self {
        Self {
            per_second,
            retry_after: retry_after.map(Duration::from_secs),
            taken: Mutex::default(),
            refusals: AtomicUsize::new(0),
        }
    }

    /// One request, as the client sends it. When to try again, if it is not taken.
    async fn ask(&self, limiter: &Limiter) -> Result<(), Duration> {
        limiter.admit().await?;
        let sent = Instant::now();
        sleep(Duration::from_millis(50)).await;
        let takes = {
            let (now, mut taken) = (Instant::now(), self.taken.lock().unwrap());
            taken.retain(|at| now - *at < Duration::from_secs(1));
            let takes = taken.len() < self.per_second;
            if takes {
                taken.push_back(now);
            }
            takes
        };
        sleep(Duration::from_millis(50)).await;
        if takes {
            limiter.accepted();
            return Ok(());
        }
        self.refusals.fetch_add(1, Ordering::Relaxed);
        Err(limiter.refused(sent, self.retry_after))
    }

    /// So many requests one after the other, from the first on again if one is not taken. How often it
    /// was begun.
    async fn pass(&self, limiter: &Limiter, requests: usize) -> usize {
        for begun in 1.. {
            let mut left = requests;
            loop {
                match self.ask(limiter).await {
                    Ok(()) if left == 1 => return begun,
                    Ok(()) => left -= 1,
                    Err(wait) => {
                        sleep(wait).await;
                        break;
                    }
                }
            }
        }
        unreachable!()
    }

    fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }
}

const LIMITS: [(f64, u32); 2] = [(5.0, 20), (20.0, 40)];
const WORDS: [Option<u64>; 3] = [None, Some(1), Some(8)];

#[tokio::test(start_paused = true)]
async fn learns_rate_of_two_per_second() {
    for (qps, burst) in LIMITS {
        for retry_after in WORDS {
            let (cloud, limiter) = (Cloud::taking(2, retry_after), limiter(qps, burst));
            let passes = async {
                for _ in 0..30 {
                    cloud.pass(&limiter, 8).await;
                }
            };
            let limit = Duration::from_secs(300);
            let done = tokio::time::timeout(limit, passes).await;
            let refusals = cloud.refusals();
            assert!(done.is_ok(), "{qps}, {retry_after:?}: {refusals} refusals");
            assert!(refusals <= 6, "{qps}, {retry_after:?}: {refusals}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_concurrent_passes_complete() {
    for (qps, burst) in LIMITS {
        for retry_after in WORDS {
            let (cloud, limiter) = (Cloud::taking(2, retry_after), limiter(qps, burst));
            let passes = join_all((0..20).map(|_| cloud.pass(&limiter, 5)));
            let limit = Duration::from_secs(150);
            let done = tokio::time::timeout(limit, passes).await;
            let refusals = cloud.refusals();
            assert!(done.is_ok(), "{qps}, {retry_after:?}: {refusals} refusals");
            assert!(refusals <= 30, "{qps}, {retry_after:?}: {refusals}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_refusals_count_once() {
    let (cloud, limiter) = (Cloud::taking(0, None), limiter(5.0, 20));
    let answers = join_all((0..20).map(|_| cloud.ask(&limiter))).await;
    assert_eq!(answers, vec![Err(Duration::from_secs(1)); 20]);
    let begun = Instant::now();
    limiter.admit().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn refusal_slows_down_for_minutes() {
    let limiter = limiter(5.0, 20);
    limiter.refused(Instant::now(), None);
    sleep(Duration::from_secs(1)).await;
    assert!(count(&limiter, Duration::from_secs(2)).await <= 6);
    sleep(Duration::from_secs(60)).await;
    assert!(
        count(&limiter, Duration::from_millis(1)).await <= 1,
        "too soon"
    );
    sleep(Duration::from_secs(600)).await;
    assert_eq!(count(&limiter, Duration::from_millis(1)).await, 20);
}

#[tokio::test(start_paused = true)]
async fn rate_stays_within_bounds() {
    let slow = limiter(0.2, 1);
    for _ in 0..5 {
        slow.refused(Instant::now(), None);
        sleep(Duration::from_secs(200)).await;
        slow.admit().await.unwrap();
        assert_eq!(slow.admit().await, Ok(Duration::from_secs(5)));
    }
    let quick = limiter(100.0, 1);
    for _ in 0..30 {
        quick.refused(Instant::now(), Some(Duration::from_secs(1)));
        sleep(Duration::from_secs(1)).await;
    }
    assert!(count(&quick, Duration::from_secs(20)).await >= 10);
}
