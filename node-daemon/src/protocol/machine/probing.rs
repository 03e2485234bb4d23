//! What no member is known to have spoken for is asked about on the wire before it is claimed (RFC 5227,
//! section 2.1, with shorter times): another host may have it.
//!
//! An address that is answered for is left to whoever answers, and asked about on and on, so that it is
//! claimed soon after that station has gone. A station that has answered is asked by its own MAC address
//! from then on, since a fabric may answer broadcasts for one that is dead (RFC 7432, section 10). What a
//! member has once spoken for is not asked about: a fail-over does not wait.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::protocol::decision::Decision;
use crate::protocol::mac::Mac;
use crate::protocol::message::Key;
use crate::protocol::time::Moment;
use crate::protocol::view::View;

/// So many questions without an answer, and nobody has the address.
const QUESTIONS: u32 = 3;
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);
/// How long it takes to find that nobody has an address.
pub(super) const PROBING: Duration = Duration::from_millis(600);
/// A station that has answered a broadcast is asked by itself after that time: further answers to the
/// broadcast have come by then.
const SETTLING: Duration = Duration::from_millis(50);
/// Those that the address does not suit best ask again after that time about what was answered for.
const SLOW: Duration = Duration::from_secs(5);
/// How long nobody's having an address counts.
const FREE_LASTS: Duration = Duration::from_secs(5);
/// How long an address that is wanted no more counts as one that was spoken for.
const USED_LASTS: Duration = Duration::from_secs(60);
/// A conflict is told once it has lasted for so long. A member that has just started may ask about what
/// another one speaks for, before it has heard that; and the member of the node that answers claims soon.
const CONFLICT_LASTS: Duration = Duration::from_secs(3);
/// Stations that are asked about one address.
const STATIONS: usize = 8;
/// How often questions are sent, and how many each time: 2,000 a second.
const ROUND: Duration = Duration::from_millis(50);
const FRAMES: usize = 100;

/// Questions for one address.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Probe {
    next: Moment,
    /// How many were sent since the last answer.
    unanswered: u32,
    /// Who has answered.
    stations: BTreeSet<Mac>,
    /// Whether those were asked by their own MAC addresses.
    asked_stations: bool,
    /// Since when one of them has answered then.
    conflicts_since: Option<Moment>,
    /// Whether this was said.
    told: bool,
    /// Whether the address suits this member best.
    favoured: bool,
}

/// What is asked about before its first use.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Probing {
    open: BTreeMap<Key, Probe>,
    /// What nobody answers for, and when that was found.
    free: BTreeMap<Key, Moment>,
    /// What members have spoken for since this one started, and when that was last known to be wanted.
    used: BTreeMap<Key, Moment>,
    pub(super) due: Moment,
}

impl Probing {
    /// Whether a key must be asked about before it is claimed.
    pub(super) fn is_needed(&self, key: Key) -> bool {
        !self.used.contains_key(&key)
    }

    /// Whether nobody has answered for a key.
    pub(super) fn found_free(&self, key: Key, now: Moment) -> bool {
        self.free.get(&key).is_some_and(|at| now < *at + FREE_LASTS)
    }

    /// A member holds a key.
    pub(super) fn was_taken(&mut self, key: Key, now: Moment) {
        self.used.insert(key, now);
        self.free.remove(&key);
    }

    /// Other keys are wanted than before: forgets those that have not been wanted for long.
    pub(super) fn replace(&mut self, before: Option<&View>, wanted: &View, now: Moment) {
        self.free.retain(|key, _| wanted.keys.contains_key(key));
        self.used.retain(|key, at| {
            if before.is_some_and(|before| before.keys.contains_key(key)) {
                *at = now;
            }
            now < *at + USED_LASTS
        });
    }

    /// Begins to ask about a key, or goes on.
    pub(super) fn ask(&mut self, key: Key, favoured: bool, now: Moment) {
        let probe = self.open.entry(key).or_insert_with(|| Probe {
            next: now,
            unanswered: 0,
            stations: BTreeSet::new(),
            asked_stations: false,
            conflicts_since: None,
            told: false,
            favoured,
        });
        probe.favoured = favoured;
        if favoured {
            probe.next = probe.next.min(now + ANSWER_TIMEOUT);
        }
        self.due = self.due.min(probe.next);
    }
}

impl Probe {
    /// Asks once more; the stations to ask, or none: everybody.
    fn ask(&mut self, now: Moment) -> BTreeSet<Mac> {
        self.unanswered += 1;
        self.next = now + ANSWER_TIMEOUT;
        self.asked_stations = !self.stations.is_empty();
        self.stations.clone()
    }

    /// A station says that the address is at it.
    fn answered(&mut self, station: Mac, now: Moment) {
        let known = self.stations.contains(&station);
        if known && self.asked_stations {
            self.conflicts_since.get_or_insert(now);
            self.unanswered = 0;
            self.next = now + if self.favoured { ANSWER_TIMEOUT } else { SLOW };
        } else if !known && self.stations.len() < STATIONS {
            self.stations.insert(station);
            self.asked_stations = false;
            self.unanswered = 0;
            self.next = now + SETTLING;
        }
    }
}

impl Machine {
    /// Asks on, and finds what nobody answers for.
    pub(super) fn tick_probing(&mut self) {
        let now = self.now;
        if now < self.probing.due {
            return;
        }
        let mut open = std::mem::take(&mut self.probing.open);
        let wanted = self.view.as_ref().map(|view| &view.keys);
        let is_wanted = |key: &Key| wanted.is_some_and(|wanted| wanted.contains_key(key));
        let may_hold = self.may_hold();
        let mut over = Vec::new();
        open.retain(|key, probe| {
            let unanswered = probe.unanswered >= QUESTIONS && probe.next <= now;
            let stays = may_hold && is_wanted(key) && self.probing.is_needed(*key);
            if stays && unanswered {
                self.probing.free.insert(*key, now);
                self.claims.replan = true;
            }
            if probe.told && (unanswered || !stays) {
                over.push(*key);
            }
            stays && !unanswered
        });
        let due = open.iter_mut().filter(|(_, probe)| probe.next <= now);
        let asked: Vec<(Key, BTreeSet<Mac>)> = due
            .take(FRAMES)
            .map(|(key, probe)| (*key, probe.ask(now)))
            .collect();
        let next = open.values().map(|probe| probe.next).min();
        self.probing.due = next.map_or(Moment::NEVER, |next| next.max(now + ROUND));
        self.probing.open = open;
        for key in over {
            self.decide(Decision::Conflict { key, station: None });
        }
        for (key, stations) in asked {
            self.decide(if stations.is_empty() {
                Decision::ProbeSegment { key }
            } else {
                Decision::ProbeAddress { key, stations }
            });
        }
    }

    /// A station says that the address of a key is at it, before anybody here has spoken for it.
    pub(super) fn note_other_host(&mut self, key: Key, station: Mac) {
        let now = self.now;
        let Some(probe) = self.probing.open.get_mut(&key) else {
            return;
        };
        probe.answered(station, now);
        self.probing.due = self.probing.due.min(probe.next);
        let lasts = |since: Moment| since + CONFLICT_LASTS <= now;
        if probe.favoured && !probe.told && probe.conflicts_since.is_some_and(lasts) {
            probe.told = true;
            let station = Some(station);
            self.decide(Decision::Conflict { key, station });
        }
    }
}
