//! The clock of this machine.

use nix::time::{ClockId, clock_gettime};

use super::protocol::Moment;

/// Now, on CLOCK_BOOTTIME.
#[must_use]
pub fn now() -> Moment {
    // The kernel has this clock since 2.6.39. If it had not, no right to speak could ever be shown
    // to hold any more.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Moment::NEVER, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        let nanoseconds = u64::try_from(time.tv_nsec()).unwrap_or(0);
        Moment(
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(nanoseconds),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_goes_forward() {
        let start = now();
        let end = start + Duration::from_millis(2);
        assert!(start > Moment(0));
        while now() < end {
            assert!(now() >= start);
        }
    }
}
