//! What the control plane's process on this node says, taken seldom enough for the status of an L2Network.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::SupervisorState;
use crate::announce::EventSink;
use crate::announce::control_plane::published::{self, Found};
use crate::announce::control_plane_entry::{Findings, findings, is_asked_for};
use crate::cluster::snapshot::Snapshot;

/// How often the folder is looked at, at most.
const LOOK: Duration = Duration::from_secs(1);
/// How long nothing new is taken after something was: an API server that is ready and not in turn must not become a
/// write each time.
const GAP: Duration = Duration::from_secs(10);

/// Follows what the process says.
pub(super) struct ControlPlaneWatch {
    folder: PathBuf,
    looked: Option<Instant>,
    taken: Pace,
}

impl ControlPlaneWatch {
    /// Looks in this folder.
    pub(super) const fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            looked: None,
            taken: Pace::new(),
        }
    }

    /// What is to be said about each L2Network.
    fn look(&mut self, snapshot: &Snapshot, now: Instant) -> Findings {
        if !is_asked_for(snapshot) {
            return Findings::new();
        }
        let is_time = |looked: Instant| now.saturating_duration_since(looked) >= LOOK;
        if self.looked.is_none_or(is_time) {
            self.looked = Some(now);
            self.taken.offer(published::read(&self.folder), now);
        }
        findings(snapshot, &self.taken.found)
    }
}

/// What was taken last.
struct Pace {
    found: Found,
    at: Option<Instant>,
}

impl Pace {
    const fn new() -> Self {
        Self {
            found: Found::Nothing,
            at: None,
        }
    }

    fn offer(&mut self, found: Found, now: Instant) {
        let is_time = |at: Instant| now.saturating_duration_since(at) >= GAP;
        if found != self.found && self.at.is_none_or(is_time) {
            self.found = found;
            self.at = Some(now);
        }
    }
}

impl<E: EventSink> SupervisorState<E> {
    /// Tells the reporter what is found about the address of the control plane.
    pub(super) fn look_at_control_plane(&mut self, snapshot: &Snapshot, now: Instant) {
        let findings = self.control_plane.look(snapshot, now);
        self.reporter.control_plane(snapshot, findings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_first_change_at_once_and_later_ones_seldom() {
        let (mut pace, start) = (Pace::new(), Instant::now());
        let mut taken = 0;
        // Another state in each tenth of a second, for a minute.
        for tenth in 0..600_u32 {
            let found = if tenth % 2 == 0 {
                Found::Ended
            } else {
                Found::Nothing
            };
            let before = pace.found.clone();
            pace.offer(found, start + Duration::from_millis(100) * tenth);
            taken += u32::from(pace.found != before);
            assert!(tenth > 0 || taken == 1, "the first is taken at once");
        }
        assert!((5..=6).contains(&taken), "{taken} in a minute");
        let later = start + Duration::from_secs(80);
        pace.offer(Found::Ended, later);
        assert_eq!(pace.found, Found::Ended, "the last one is taken in the end");
    }
}
