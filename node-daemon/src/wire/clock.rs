//! The clock of this machine.

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

use crate::protocol::Moment;

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

/// When something came that bears this time of the wall clock, as the kernel marks frames. It is never in
/// the future: if the wall clock was set back meanwhile, it has come just now.
#[must_use]
pub fn came(stamp: TimeSpec) -> Moment {
    let now = now();
    let nanoseconds =
        |time: TimeSpec| i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec());
    let age = clock_gettime(ClockId::CLOCK_REALTIME)
        .map_or(0, |wall| nanoseconds(wall) - nanoseconds(stamp));
    now - std::time::Duration::from_nanos(u64::try_from(age).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn converts_wall_clock_time() {
        let wall = clock_gettime(ClockId::CLOCK_REALTIME).unwrap();
        let second = TimeSpec::new(1, 0);
        let came = |stamp| now().since(super::came(stamp));
        let old = came(wall - second);
        assert!(old >= Duration::from_millis(990), "{old:?}");
        assert!(old < Duration::from_secs(10), "{old:?}");
        assert!(came(wall + second + second + second) < Duration::from_secs(1));
    }

    #[test]
    fn clock_goes_forward() {
        let start = now();
        let end = start + Duration::from_millis(2);
        assert!(start > Moment(0));
        while now() < end {
            assert!(now() >= start);
        }
    }
}
