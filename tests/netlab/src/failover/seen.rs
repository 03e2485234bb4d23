//! What was seen of one fault.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use crate::netlab::TOLERABLE;

/// What the clients and the capture have seen of one fault.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Of a client with a cached neighbour: packets lost, as time. The worse of both families.
    pub outage: Duration,
    /// For how long nobody answered new neighbours. The worse of both families.
    pub dark: Duration,
    /// For how long two nodes answered the same question. The worse of both families.
    pub two: Duration,
    /// How many questions were answered after a pause, when who had asked was gone.
    pub late: usize,
    /// Who answered new neighbours, one after the other.
    pub speakers: Vec<String>,
    /// Established connections that broke.
    pub broken: usize,
    /// Established connections before.
    pub connections: usize,
    /// Nodes that announced an address unasked: by a burst, or at a refresh.
    pub announcers: BTreeSet<String>,
    /// How often an address went from one node to another on the wire. The worse of both families.
    pub moves: usize,
    /// How late the rig itself was at most.
    pub stall: Duration,
    /// When the fault began, and when all was well again or given up.
    pub span: Option<(Instant, Instant)>,
}

impl Seen {
    /// Whether the rig kept time well enough for the times to count. What must never be, counts
    /// always.
    pub fn counts(&self) -> bool {
        self.stall <= TOLERABLE
    }

    /// Asserts what holds whatever happens: never two.
    pub fn assert_safe(&self) {
        assert!(self.two.is_zero(), "two nodes answered: {self}");
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "outage {} ms, dark {} ms, two {} ms, late answers {}, speakers {}, connections broken \
             {} of {}, announced by {:?}, moves {}, rig late by {} ms",
            millis(self.outage),
            millis(self.dark),
            millis(self.two),
            self.late,
            self.speakers.join(" > "),
            self.broken,
            self.connections,
            self.announcers,
            self.moves,
            millis(self.stall),
        )
    }
}

/// Whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
