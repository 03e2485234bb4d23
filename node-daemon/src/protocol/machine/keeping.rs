//! Connections that stay with a former speaker which lives: what whoever keeps them is told.
//!
//! A key that is offered loudly is taken only once the kernel passes on what belongs to the one who
//! offers it; else its first segments would be answered here, with a reset. That is waited for a moment at
//! most: a key that is not taken in time would be offered to somebody else.
//!
//! Whoever offers it lets it go only once its own kernel lets through what the next speaker passes on; else
//! what belongs to speakers before it would be answered here. It does so only for one that has said that
//! it is prepared: what a node passed on before that may be part of an older way, and a circle with it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::protocol::decision::{Awaited, ConnectionEvent, Decision};
use crate::protocol::message::{Key, NodeId};
use crate::protocol::time::Moment;

/// An offer waits no longer. A busy kernel takes tens of milliseconds to commit a table, and a busy machine more
/// to ask it.
const WAITS: Duration = Duration::from_millis(500);
/// And whoever offers no longer than that after it, so that both fit into the second for which it is repeated.
const HANDING_ON_WAITS: Duration = Duration::from_millis(300);
/// An offer that is not repeated is over.
const OFFERED: Duration = Duration::from_secs(2);

/// What the kernel is to do before a key moves.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Preparation {
    /// The other node.
    with: NodeId,
    since: Moment,
    /// Whether the kernel does it; `None`: that is not known yet.
    is_done: Option<bool>,
}

impl Preparation {
    const fn new(with: NodeId, since: Moment) -> Self {
        Self {
            with,
            since,
            is_done: None,
        }
    }
}

/// What is kept, and for whom.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Keeping {
    /// Of keys that were offered to this node.
    offers: BTreeMap<Key, Preparation>,
    /// Of keys that this node offers.
    handing_on: BTreeMap<Key, Preparation>,
    /// Of keys that are held: to whom older connections are passed on.
    formers: BTreeMap<Key, NodeId>,
}

impl Keeping {
    /// The kernel does what it is to do for these, or cannot. An answer that comes late may be about another node: it
    /// says nothing of what is awaited now.
    pub(super) fn prepared(&mut self, awaited: Awaited, keys: &[Key], is_done: bool) {
        let (preparations, with) = match awaited {
            Awaited::Offer(former) => (&mut self.offers, former),
            Awaited::HandOver(to) => (&mut self.handing_on, to),
        };
        for key in keys {
            let preparation = preparations.get_mut(key);
            if let Some(preparation) = preparation.filter(|preparation| preparation.with == with) {
                preparation.is_done = Some(is_done);
            }
        }
    }

    /// Those of the keys of an offer that are passed on to the one who offers them.
    pub(super) fn prepared_for(&self, former: NodeId, keys: &[Key]) -> Vec<Key> {
        let is_prepared = |key: &&Key| {
            let offer = self.offers.get(*key);
            offer.is_some_and(|offer| offer.with == former && offer.is_done == Some(true))
        };
        keys.iter().filter(is_prepared).copied().collect()
    }

    /// A key was taken from a node.
    pub(super) fn was_taken(&mut self, key: Key, from: NodeId) {
        let offer = self.offers.remove(&key);
        if offer.is_some_and(|offer| offer.is_done == Some(true) && offer.with == from) {
            self.formers.insert(key, from);
        } else {
            self.formers.remove(&key);
        }
    }

    /// A key is held no more.
    pub(super) fn forget(&mut self, key: Key) {
        self.formers.remove(&key);
        self.handing_on.remove(&key);
    }

    /// Whether connections are passed on to a node.
    pub(super) fn needs(&self, node: NodeId) -> bool {
        self.formers.values().any(|former| *former == node)
    }
}

impl Machine {
    /// Whether an offer of these keys is to be answered later.
    pub(super) fn prepares(&mut self, from: NodeId, keys: &[Key]) -> bool {
        if !self.parameters.keep_connections {
            return false;
        }
        let now = self.now;
        self.keeping
            .offers
            .retain(|_, offer| now < offer.since + OFFERED);
        let mut waits = false;
        for key in keys {
            if self.held_keys.keys.contains_key(key) {
                continue;
            }
            let known = self.keeping.offers.get(key);
            let known = known.filter(|offer| offer.with == from).copied();
            let offer = known.unwrap_or(Preparation::new(from, now));
            if known.is_none() {
                self.keeping.offers.insert(*key, offer);
                self.decide(Decision::Connections(ConnectionEvent::Offered {
                    key: *key,
                    former: from,
                }));
            }
            waits |= offer.is_done.is_none() && now < offer.since + WAITS;
        }
        waits
    }

    /// The kernel of a node that was offered keys passes on to this one: what it passes on is let through.
    pub(super) fn hear_prepared(&mut self, from: NodeId, nonce: u32, keys: &[Key]) {
        if !self.parameters.keep_connections {
            return;
        }
        let now = self.now;
        let handing_on = &mut self.keeping.handing_on;
        handing_on.retain(|_, preparation| now < preparation.since + OFFERED);
        let offered = self.handovers.keys_of(from, nonce).iter();
        let new: Vec<Key> = offered
            .filter(|key| keys.contains(key))
            .filter(|key| handing_on.get(*key).is_none_or(|known| known.with != from))
            .copied()
            .collect();
        for key in new {
            let preparation = Preparation::new(from, now);
            self.keeping.handing_on.insert(key, preparation);
            let event = ConnectionEvent::HandingOn { key, to: from };
            self.decide(Decision::Connections(event));
        }
    }

    /// Whether these keys are to be let go later: what their next speaker passes on is not let through yet.
    pub(super) fn waits_to_hand_on(&self, to: NodeId, keys: &[Key]) -> bool {
        let waits = |preparation: &Preparation| {
            preparation.with == to
                && preparation.is_done.is_none()
                && self.now < preparation.since + HANDING_ON_WAITS
        };
        keys.iter()
            .any(|key| self.keeping.handing_on.get(key).is_some_and(waits))
    }

    /// The node of a former speaker forwards no more.
    pub(super) fn former_is_gone(&mut self, node: NodeId) {
        if self.keeping.needs(node) {
            self.keeping.formers.retain(|_, former| *former != node);
            self.decide(Decision::Connections(ConnectionEvent::Gone(node)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMER: NodeId = NodeId(7);
    const KEY: Key = Key(1);

    fn offered(is_done: Option<bool>) -> Keeping {
        let mut keeping = Keeping::default();
        let offer = Preparation::new(FORMER, Moment(1));
        keeping.offers.insert(KEY, offer);
        if let Some(is_done) = is_done {
            keeping.prepared(Awaited::Offer(FORMER), &[KEY, Key(2)], is_done);
        }
        keeping
    }

    #[test]
    fn late_answer_for_another_node_or_move_says_nothing() {
        for late in [Awaited::Offer(NodeId(8)), Awaited::HandOver(FORMER)] {
            let mut keeping = offered(None);
            keeping.prepared(late, &[KEY], true);
            assert!(keeping.prepared_for(FORMER, &[KEY]).is_empty(), "{late:?}");
        }
    }

    #[test]
    fn needs_former_only_of_what_was_prepared_and_taken() {
        let mut keeping = offered(Some(true));
        assert!(!keeping.needs(FORMER));
        keeping.was_taken(KEY, FORMER);
        assert!(keeping.needs(FORMER));
        keeping.forget(KEY);
        assert!(!keeping.needs(FORMER));

        for undone in [None, Some(false)] {
            let mut undone = offered(undone);
            assert!(undone.prepared_for(FORMER, &[KEY]).is_empty());
            undone.was_taken(KEY, FORMER);
            assert!(!undone.needs(FORMER));
        }
        let mut other = offered(Some(true));
        assert_eq!(other.prepared_for(FORMER, &[KEY, Key(2)]), [KEY]);
        assert!(other.prepared_for(NodeId(8), &[KEY]).is_empty());
        other.was_taken(KEY, NodeId(8));
        assert!(!other.needs(FORMER) && !other.needs(NodeId(8)));
    }
}
