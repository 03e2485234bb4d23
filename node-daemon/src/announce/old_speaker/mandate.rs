//! The right to speak.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The most own renewals that a yielded address is waited for.
const LONGEST_WAIT: u64 = 16;
/// How long an address is spoken for undisturbed until earlier yields are forgotten.
const PEACE: Duration = Duration::from_secs(60);

/// Says whether a frame for an address may leave. Asked before every single frame.
///
/// A protocol that fences nodes off by a quorum takes the place of [`ViewMandate`] here, and
/// nothing else has to change.
pub trait Mandate {
    /// Whether a frame for `address` may leave at `now`.
    fn permits(&self, address: IpAddr, now: Instant) -> bool;
}

/// The right to speak, from what the API server tells: an address is ours if the view says so, we
/// have not given it up, and the link is there.
#[derive(Debug, Default)]
pub struct ViewMandate {
    granted: BTreeSet<IpAddr>,
    /// Addresses that were given up, and until when.
    given_up: BTreeMap<IpAddr, GivenUp>,
    /// Addresses that were yielded, as long as that matters.
    quarrels: BTreeMap<IpAddr, Quarrel>,
    renewals: u64,
    link_up: bool,
}

/// An address is given up until so many own renewals more have been seen.
#[derive(Debug)]
struct GivenUp {
    at: u64,
    wait: u64,
}

/// Another daemon has announced an address of ours: the views differ. If both sides took it back
/// with the next renewal, which is made at once, it would change hands several times a second.
#[derive(Debug)]
struct Quarrel {
    /// How many own renewals were waited for the last time.
    wait: u64,
    /// When the address last became ours again.
    resumed: Instant,
}

impl Mandate for ViewMandate {
    fn permits(&self, address: IpAddr, _now: Instant) -> bool {
        self.link_up && self.granted.contains(&address) && !self.given_up.contains_key(&address)
    }
}

impl ViewMandate {
    /// Takes in a view that was made after so many own renewals. What was given up long enough
    /// before counts again.
    pub(super) fn renew(&mut self, granted: BTreeSet<IpAddr>, renewals: u64, now: Instant) {
        self.granted = granted;
        self.renewals = renewals;
        let granted = &self.granted;
        self.quarrels.retain(|address, _| granted.contains(address));
        let quarrels = &mut self.quarrels;
        self.given_up.retain(|address, given_up| {
            if !granted.contains(address) {
                given_up.wait = 1;
            }
            let waiting = renewals < given_up.at.saturating_add(given_up.wait);
            if !waiting && let Some(quarrel) = quarrels.get_mut(address) {
                quarrel.resumed = now;
            }
            waiting
        });
    }

    /// Gives an address up until a view is made after the next own renewal.
    pub(super) fn give_up(&mut self, address: IpAddr) {
        self.give_up_for(address, 1);
    }

    /// Gives an address up to another daemon: each time in a row for more own renewals, until it
    /// was ours undisturbed for a while, or the view says that it is not ours.
    pub(super) fn give_way(&mut self, address: IpAddr, now: Instant) {
        let wait = match self.quarrels.get(&address) {
            Some(last) if now.saturating_duration_since(last.resumed) < PEACE => {
                last.wait.saturating_mul(2).min(LONGEST_WAIT)
            }
            _ => 1,
        };
        let quarrel = Quarrel { wait, resumed: now };
        self.quarrels.insert(address, quarrel);
        self.give_up_for(address, wait);
    }

    /// Says whether frames can leave at all.
    pub(super) fn set_link(&mut self, up: bool, now: Instant) {
        if up && !self.link_up {
            // While nothing could be heard there was no peace, only silence.
            for quarrel in self.quarrels.values_mut() {
                quarrel.resumed = now;
            }
        }
        self.link_up = up;
    }

    /// The addresses that are ours but for the link.
    pub(super) fn held(&self) -> BTreeSet<IpAddr> {
        self.granted
            .iter()
            .copied()
            .filter(|address| !self.given_up.contains_key(address))
            .collect()
    }

    fn give_up_for(&mut self, address: IpAddr, wait: u64) {
        let at = self.renewals;
        self.given_up.insert(address, GivenUp { at, wait });
    }
}
