//! Regular looks at what nobody tells: somebody may have changed what is in the cloud.

use std::time::Duration;

use tokio::time::sleep;

/// How long at least between two looks, for each request that one takes.
const PER_REQUEST: Duration = Duration::from_secs(2);

/// Calls `look` about once per `period`, for as long as the future is polled.
pub(super) async fn regularly(period: Option<Duration>, cost: impl Fn() -> usize, look: impl Fn()) {
    let Some(period) = period else { return };
    loop {
        let requests = u32::try_from(cost()).unwrap_or(u32::MAX);
        let least = PER_REQUEST.saturating_mul(requests);
        sleep(jittered(period.max(least), random())).await;
        look();
    }
}

/// A tenth more or less, by a number below 256: replicas and clusters that started together do not
/// stay together.
fn jittered(period: Duration, random: u8) -> Duration {
    let share = 0.9 + 0.2 * f64::from(random) / f64::from(u8::MAX);
    period.mul_f64(share)
}

fn random() -> u8 {
    let [first, ..] = *uuid::Uuid::new_v4().as_bytes();
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::timeout;

    async fn looks_within(time: Duration, period: u64, requests: usize) -> usize {
        let looks = AtomicUsize::new(0);
        let period = Some(period).filter(|s| *s > 0).map(Duration::from_secs);
        let look = || {
            looks.fetch_add(1, Ordering::Relaxed);
        };
        let _ = timeout(time, regularly(period, || requests, look)).await;
        looks.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn resync_period_grows_with_observation_cost() {
        let hour = Duration::from_secs(3600);
        let looks = looks_within(hour, 600, 3).await;
        assert!((5..=6).contains(&looks), "{looks}");
        let looks = looks_within(hour, 1, 300).await;
        assert!((5..=6).contains(&looks), "{looks}");
        assert_eq!(looks_within(hour, 0, 3).await, 0);
    }

    #[test]
    fn resync_period_has_ten_percent_jitter() {
        let period = Duration::from_secs(10);
        assert_eq!(jittered(period, 0), Duration::from_secs(9));
        assert_eq!(jittered(period, 255), Duration::from_secs(11));
    }
}
