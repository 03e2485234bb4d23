//! Survivors of a lost majority ask on the wire before they take anything.
//!
//! That they hear nothing of the others, and that the API server does not either, does not show that
//! those are dead: heartbeats may be filtered, and the node network cut. Who speaks answers questions
//! for its addresses. So each survivor asks, for each address, the stations of those that it does not
//! hear, and neither claims what they answer for nor grants it. They are asked by their own MAC
//! addresses, since a fabric may answer broadcasts for a station that is dead.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::protocol::decision::Decision;
use crate::protocol::mac::Mac;
use crate::protocol::message::Key;
use crate::protocol::time::Moment;

/// So many questions without an answer, and nobody speaks for the address.
const QUESTIONS: u32 = 2;
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(100);
/// What was answered for is asked about again after that time.
const ANSWERED: Duration = Duration::from_secs(5);
/// How often questions are sent, and how many frames each time: 2,000 a second.
const ROUND: Duration = Duration::from_millis(50);
const FRAMES: usize = 100;

/// Questions for one address.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Asked {
    next: Moment,
    times: u32,
}

/// What is asked about.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Survivors {
    open: BTreeMap<Key, Asked>,
    pub(super) due: Moment,
}

impl Survivors {
    pub(super) const fn new() -> Self {
        Self {
            open: BTreeMap::new(),
            due: Moment::NEVER,
        }
    }

    /// Whether somebody who is not heard may still speak for a key.
    pub(super) fn doubt(&self, key: Key) -> bool {
        self.open.contains_key(&key)
    }

    /// A member that is heard holds the key.
    pub(super) fn was_taken(&mut self, key: Key) {
        self.open.remove(&key);
    }
}

impl Machine {
    /// Goes on after a majority was lost for long: everything is asked about first.
    pub(super) fn ask_before_taking(&mut self) {
        if !self.rules().survivors_listen_first() || !self.speaks_on_segment() {
            return;
        }
        let asked = Asked {
            next: self.now,
            times: 0,
        };
        let keys = self.view.iter().flat_map(|view| view.keys.keys());
        let free = keys.filter(|key| !self.owners.contains_key(key));
        self.survivors.open = free.map(|key| (*key, asked)).collect();
        self.survivors.due = self.now;
    }

    /// The stations of those on the segment that are not heard.
    fn silent_stations(&self) -> BTreeSet<Mac> {
        let known = self.view.iter().flat_map(|view| &view.known);
        let known = known.map(|(node, contact)| (*node, contact.mac));
        let peers = self.peers.iter();
        let peers = peers.map(|(node, peer)| (*node, peer.last.contact.mac));
        let silent = known.chain(peers).filter(|(node, _)| {
            *node != self.me && self.peers.get(node).is_none_or(|peer| peer.suspected)
        });
        silent.filter_map(|(_, mac)| mac).collect()
    }

    /// Asks on, and lets go of doubts that nothing speaks for.
    pub(super) fn tick_survivors(&mut self) {
        let now = self.now;
        if now < self.survivors.due {
            return;
        }
        let stations = self.silent_stations();
        let before = self.survivors.open.len();
        let owners = &self.owners;
        self.survivors.open.retain(|key, asked| {
            let unanswered = asked.times >= QUESTIONS && asked.next <= now;
            !unanswered && !owners.contains_key(key) && !stations.is_empty()
        });
        self.claims.replan |= self.survivors.open.len() < before;
        let most = (FRAMES / stations.len().max(1)).max(1);
        let due = self.survivors.open.iter_mut();
        let due = due.filter(|(_, asked)| asked.next <= now).take(most);
        let mut questions = Vec::new();
        for (key, asked) in due {
            asked.times += 1;
            asked.next = now + ANSWER_TIMEOUT;
            questions.push(*key);
        }
        let next = self.survivors.open.values().map(|asked| asked.next).min();
        self.survivors.due = next.map_or(Moment::NEVER, |next| next.max(now + ROUND));
        for key in questions {
            let stations = stations.clone();
            self.decide(Decision::ProbeAddress { key, stations });
        }
    }

    /// A station says that the address of a key is at it; whether it is a member that is not heard, so that
    /// the key is left to it.
    pub fn address_answered(&mut self, key: Key, station: Mac, now: Moment) -> bool {
        self.advance(now);
        let counts = self.survivors.doubt(key) && self.silent_stations().contains(&station);
        if counts {
            let next = self.now + ANSWERED;
            let asked = Asked { next, times: 0 };
            self.survivors.open.insert(key, asked);
        }
        self.note_other_host(key, station);
        self.settle();
        counts
    }
}
