//! The right to speak.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Instant;

/// Says whether a frame for an address may leave. Asked before every single frame.
///
/// A protocol that fences nodes off by a quorum takes the place of [`ViewMandate`] here, and
/// nothing else has to change.
pub trait Mandate {
    /// Whether a frame for `address` may leave at `now`.
    fn permits(&self, address: IpAddr, now: Instant) -> bool;
}

/// The right to speak, from what the API server tells: an address is ours if the view says so, we
/// have not yielded it, and the link is there.
#[derive(Debug, Default)]
pub struct ViewMandate {
    granted: BTreeSet<IpAddr>,
    /// Addresses given up to another daemon, and how many own renewals had been seen by then.
    yielded: BTreeMap<IpAddr, u64>,
    renewals: u64,
    link_up: bool,
}

impl Mandate for ViewMandate {
    fn permits(&self, address: IpAddr, _now: Instant) -> bool {
        self.link_up && self.granted.contains(&address) && !self.yielded.contains_key(&address)
    }
}

impl ViewMandate {
    /// Takes in a view that was made after so many own renewals. What was yielded before the last
    /// of them counts again.
    pub(super) fn renew(&mut self, granted: BTreeSet<IpAddr>, renewals: u64) {
        self.granted = granted;
        self.renewals = renewals;
        self.yielded.retain(|_, at| *at >= renewals);
    }

    /// Gives an address up until a view is made after the next own renewal.
    pub(super) fn give_up(&mut self, address: IpAddr) {
        self.yielded.insert(address, self.renewals);
    }

    /// Says whether frames can leave at all.
    pub(super) fn set_link(&mut self, up: bool) {
        self.link_up = up;
    }

    /// The addresses that are ours but for the link.
    pub(super) fn held(&self) -> BTreeSet<IpAddr> {
        self.granted
            .iter()
            .copied()
            .filter(|address| !self.yielded.contains_key(address))
            .collect()
    }
}
