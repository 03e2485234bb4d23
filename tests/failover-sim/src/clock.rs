//! True time, which nobody in the simulation knows, and the clocks of its nodes.

use mooring_node::protocol::Moment;

/// A moment of true time: nanoseconds since the simulation began.
pub type Instant = u64;

/// One microsecond of true time.
pub const MICROSECOND: Instant = 1_000;
/// One millisecond of true time.
pub const MILLISECOND: Instant = 1_000_000;
/// One second of true time.
pub const SECOND: Instant = 1_000_000_000;

/// True time that never comes.
pub const NEVER: Instant = Instant::MAX;

const BILLION: i64 = 1_000_000_000;

/// The clock of one node, from one boot on: it begins anywhere, and runs a little too fast or slow.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    booted: Instant,
    offset: u64,
    drift_ppb: i64,
}

impl Clock {
    /// A clock that shows `offset` at `booted`, and gains `drift_ppb` nanoseconds a second.
    #[must_use]
    pub const fn new(booted: Instant, offset: u64, drift_ppb: i64) -> Self {
        Self {
            booted,
            offset,
            drift_ppb,
        }
    }

    /// What it shows at this moment of true time, which is not before its boot.
    #[must_use]
    pub fn shows(&self, at: Instant) -> Moment {
        let passed = at.saturating_sub(self.booted);
        Moment(self.offset + passed.saturating_add_signed(self.gains(passed)))
    }

    /// By how much it is ahead after so much time.
    fn gains(&self, passed: u64) -> i64 {
        let whole = i64::try_from(passed / SECOND).unwrap_or(i64::MAX);
        let rest = i64::try_from(passed % SECOND).unwrap_or(0);
        whole.saturating_mul(self.drift_ppb) + rest * self.drift_ppb / BILLION
    }

    /// The first moment of true time at which it shows this or more.
    #[must_use]
    pub fn reaches(&self, moment: Moment) -> Instant {
        if moment == Moment::NEVER {
            return NEVER;
        }
        let local = moment.0.saturating_sub(self.offset);
        // Right to a nanosecond or two, since a clock gains far less than passes.
        let share = self.drift_ppb as f64 / (BILLION + self.drift_ppb) as f64;
        let gained = (local as f64 * share) as i64;
        let passed = local.saturating_add_signed(-gained);
        let mut at = self.booted.saturating_add(passed.saturating_sub(4));
        while at < NEVER && self.shows(at) < moment {
            at += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_reaches_a_moment_exactly_when_it_first_shows_it() {
        for drift in [-5_000_000, -200_000, -7, 0, 3, 200_000, 5_000_000] {
            let clock = Clock::new(5 * SECOND, 123_456_789, drift);
            for at in [5 * SECOND, 6 * SECOND + 1, 31 * SECOND + 777_777] {
                let moment = clock.shows(at);
                let reached = clock.reaches(moment);
                assert!(clock.shows(reached) >= moment, "{drift} {at}");
                assert!(
                    reached == 5 * SECOND || clock.shows(reached - 1) < moment,
                    "{drift} {at}"
                );
            }
        }
    }
}
