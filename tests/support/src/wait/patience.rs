//! How long a test waits: less depends on it the longer it is.
//!
//! A limit of less than ten seconds is a claim, and counts by the clock. A longer one only says when to
//! give up. Time in which programs waited for a processor, as the kernel counts it (PSI,
//! `Documentation/accounting/psi.rst`), is a third of itself then: on an idle machine, the limit is as
//! written; where all waits all the time, three times as long.

use std::fs;
use std::time::{Duration, Instant};

/// From here on a limit is no claim.
const NO_CLAIM: Duration = Duration::from_secs(10);

/// What is left of a wait.
pub(super) struct Patience {
    limit: Duration,
    start: Instant,
    pressure: Duration,
}

impl Patience {
    /// For a wait that begins now.
    pub(super) fn of(limit: Duration) -> Self {
        Self {
            limit,
            start: Instant::now(),
            pressure: pressure(),
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(super) fn is_spent(&self) -> bool {
        let elapsed = self.elapsed();
        let pressure = pressure().saturating_sub(self.pressure);
        counted(self.limit, elapsed, pressure) >= self.limit
    }
}

/// What counts of the time that has passed, with so much of it under pressure.
fn counted(limit: Duration, elapsed: Duration, pressure: Duration) -> Duration {
    if limit < NO_CLAIM {
        elapsed
    } else {
        elapsed - pressure.min(elapsed) * 2 / 3
    }
}

/// How long, since the machine started, some program waited for a processor: none if the kernel does
/// not count it.
fn pressure() -> Duration {
    let told = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    some_total(&told).unwrap_or_default()
}

fn some_total(told: &str) -> Option<Duration> {
    let some = told.lines().find(|line| line.starts_with("some "))?;
    let (_, total) = some.rsplit_once("total=")?;
    total.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn pressure_is_read_as_the_kernel_tells_it() {
        let told = "some avg10=94.55 avg60=94.70 avg300=81.39 total=9320593812\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(some_total(told), Some(Duration::from_micros(9_320_593_812)));
        assert_eq!(some_total(""), None);
    }

    #[test]
    fn time_under_pressure_counts_a_third() {
        assert_eq!(counted(S * 40, S * 40, Duration::ZERO), S * 40);
        assert_eq!(counted(S * 40, S * 40, S * 30), S * 20);
        assert_eq!(counted(S * 40, S * 120, S * 120), S * 40);
        assert_eq!(counted(S * 40, S * 30, S * 31), S * 10);
    }

    #[test]
    fn short_limit_counts_by_the_clock() {
        assert_eq!(counted(S * 9, S * 3, S * 3), S * 3);
    }
}
