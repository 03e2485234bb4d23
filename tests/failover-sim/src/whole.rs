//! Simulations of whole daemons: what they meet besides what machines do, and how it is switched off.

use std::fmt;

use fastrand::Rng;

use super::clock::{Instant, MILLISECOND, SECOND};
use super::faults::{Fault, FaultKind};
use super::network::MOST_NODES;
use super::schedule::Schedule;

/// Of so many schedules one is of whole daemons: they take longer.
pub const WHOLE: u64 = 20;
/// Addresses of that many Services are judged.
const SERVICES: usize = 4;
/// How long after the last fault daemons rest that have to agree on voters anew.
const AGREEMENT: Instant = 20 * SECOND;

/// What is switched off of what only whole daemons meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Off {
    faults: u16,
}

/// What can be switched off, by name.
const SWITCHES: [(&str, What); 8] = [
    ("readdressed", What::Fault(FaultKind::Readdressed)),
    ("unlabelled", What::Fault(FaultKind::Unlabelled)),
    ("unregistered", What::Fault(FaultKind::Unregistered)),
    ("restored", What::Fault(FaultKind::Restored)),
    ("network-made-anew", What::Fault(FaultKind::NetworkMadeAnew)),
    ("addresses-lost", What::AddressesLost),
    ("strangers", What::Strangers),
    ("drift", What::Drift),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Fault(FaultKind),
    AddressesLost,
    Strangers,
    Drift,
}

impl Off {
    /// What is named, separated by commas; `None` if something of it there is not.
    #[must_use]
    pub fn named(names: &str) -> Option<Self> {
        let mut off = Self::default();
        for name in names.split(',').map(str::trim) {
            let place = SWITCHES.iter().position(|(known, _)| *known == name)?;
            off.faults |= 1 << place;
        }
        Some(off)
    }

    /// All that can be named.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SWITCHES.iter().map(|(name, _)| *name)
    }

    fn has(self, what: What) -> bool {
        let place = SWITCHES.iter().position(|(_, known)| *known == what);
        place.is_some_and(|place| self.faults & (1 << place) != 0)
    }
}

/// As `make sim` takes it; nothing if nothing is.
impl fmt::Display for Off {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let off = SWITCHES.iter().filter(|(_, what)| self.has(*what));
        let names: Vec<_> = off.map(|(name, _)| *name).collect();
        if names.is_empty() {
            return Ok(());
        }
        write!(f, " OFF={}", names.join(","))
    }
}

impl Schedule {
    /// The same for whole daemons, with more that goes wrong.
    pub(super) fn of_whole_daemons(mut self, off: Off) -> Self {
        let chance = &mut Rng::with_seed(self.seed ^ 0x00d0_0d1e);
        let shape = &mut self.shape;
        shape.whole = true;
        shape.keys.truncate(SERVICES);
        shape.dual = chance.u16(..);
        shape.drops_addresses = chance.bool() && !off.has(What::AddressesLost);
        let room = MOST_NODES - shape.total();
        let strangers = chance.usize(1..=room.min(3));
        if chance.u8(0..4) == 0 && !off.has(What::Strangers) {
            shape.strangers = strangers;
        }
        if chance.u8(0..4) == 0 && !off.has(What::Drift) {
            // Two clocks differ by a hundredth at most.
            shape.drift_ppb = 5_000_000;
        }
        let healed_at = self.healed_at;
        let more: Vec<Fault> = (0..chance.usize(1..4))
            .map(|_| {
                let kind = FaultKind::OF_DAEMONS[chance.usize(0..FaultKind::OF_DAEMONS.len())];
                let at = chance.u64(3 * SECOND..healed_at - 2 * SECOND);
                let lasts = chance.u64(20 * MILLISECOND..8 * SECOND);
                Fault {
                    kind,
                    at,
                    until: (at + lasts).min(healed_at),
                    salt: chance.u64(..),
                }
            })
            .collect();
        self.faults.extend(more);
        self.faults
            .retain(|fault| !off.has(What::Fault(fault.kind)));
        self.faults.sort_by_key(|fault| fault.at);
        let agrees_anew =
            |fault: &Fault| matches!(fault.kind, FaultKind::Restored | FaultKind::NetworkMadeAnew);
        if self.faults.iter().any(agrees_anew) {
            self.ends_at += AGREEMENT;
        }
        self
    }
}
