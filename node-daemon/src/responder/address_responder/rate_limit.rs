//! How fast frames may leave.

use std::time::Duration;

use crate::protocol::Moment;

/// Lets through so many frames a second, and a few more at once after a rest.
///
/// It keeps one point in time (the generic cell rate algorithm): when the frames let through so
/// far would have been sent at an even rate.
#[derive(Debug)]
pub(super) struct RateLimit {
    interval: Duration,
    ahead: Duration,
    even: Option<Moment>,
}

impl RateLimit {
    /// `rate` frames per second, `at_once` of them without a gap.
    pub(super) fn new(rate: u32, at_once: u32) -> Self {
        let interval = Duration::from_secs(1) / rate.max(1);
        Self {
            interval,
            ahead: interval * at_once.saturating_sub(1),
            even: None,
        }
    }

    /// When the next frame may leave: now, or later.
    pub(super) fn next(&self, now: Moment) -> Moment {
        match self.even {
            Some(even) => now.max(even - self.ahead),
            None => now,
        }
    }

    /// Counts frames that leave now.
    pub(super) fn sent(&mut self, frames: u32, now: Moment) {
        let from = self.even.map_or(now, |even| even.max(now));
        self.even = Some(from + self.interval * frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_rate_plus_saved_burst() {
        let start = Moment(1_000_000_000);
        let mut limit = RateLimit::new(2000, 100);
        let mut now = start;
        let mut sent = 0;
        while now < start + Duration::from_secs(1) {
            assert!(limit.next(now) <= now);
            limit.sent(1, now);
            sent += 1;
            now = limit.next(now);
        }
        assert_eq!(sent, 2099);
        now = now + Duration::from_secs(10);
        let at_once = (0..1000)
            .take_while(|_| {
                let free = limit.next(now) <= now;
                limit.sent(u32::from(free), now);
                free
            })
            .count();
        assert_eq!(at_once, 100, "a rest saves up no more than that");
    }
}
