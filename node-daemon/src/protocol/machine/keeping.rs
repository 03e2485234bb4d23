//! Connections that stay with a former speaker which lives: what whoever keeps them is told.
//!
//! A key that is offered loudly is taken only once the kernel passes on what belongs to the one who
//! offers it; else its first segments would be answered here, with a reset. That is waited for a moment at
//! most: a key that is not taken in time would be offered to somebody else.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::protocol::decision::{ConnectionEvent, Decision};
use crate::protocol::message::{Key, NodeId};
use crate::protocol::time::Moment;

/// An offer waits no longer: it is repeated for 300 ms.
const WAITS: Duration = Duration::from_millis(150);
/// An offer that is not repeated is over.
const OFFERED: Duration = Duration::from_secs(2);

/// A key that was offered.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Offer {
    from: NodeId,
    since: Moment,
    prepared: bool,
}

/// What is kept, and for whom.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Keeping {
    offers: BTreeMap<Key, Offer>,
    /// Of keys that are held: to whom older connections are passed on.
    formers: BTreeMap<Key, NodeId>,
}

impl Keeping {
    /// All is ready for these.
    pub(super) fn prepared(&mut self, keys: &[Key]) {
        for key in keys {
            if let Some(offer) = self.offers.get_mut(key) {
                offer.prepared = true;
            }
        }
    }

    /// A key was taken from a node.
    pub(super) fn was_taken(&mut self, key: Key, from: NodeId) {
        let offer = self.offers.remove(&key);
        if offer.is_some_and(|offer| offer.prepared && offer.from == from) {
            self.formers.insert(key, from);
        } else {
            self.formers.remove(&key);
        }
    }

    /// A key is held no more.
    pub(super) fn forget(&mut self, key: Key) {
        self.formers.remove(&key);
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
            let known = known.filter(|offer| offer.from == from).copied();
            let offer = known.unwrap_or(Offer {
                from,
                since: now,
                prepared: false,
            });
            if known.is_none() {
                self.keeping.offers.insert(*key, offer);
                self.decide(Decision::Connections(ConnectionEvent::Offered {
                    key: *key,
                    former: from,
                }));
            }
            waits |= !offer.prepared && now < offer.since + WAITS;
        }
        waits
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

    fn offered(prepared: bool) -> Keeping {
        let mut keeping = Keeping::default();
        let offer = Offer {
            from: FORMER,
            since: Moment(1),
            prepared: false,
        };
        keeping.offers.insert(KEY, offer);
        if prepared {
            keeping.prepared(&[KEY, Key(2)]);
        }
        keeping
    }

    #[test]
    fn needs_former_only_of_what_was_prepared_and_taken() {
        let mut keeping = offered(true);
        assert!(!keeping.needs(FORMER));
        keeping.was_taken(KEY, FORMER);
        assert!(keeping.needs(FORMER));
        keeping.forget(KEY);
        assert!(!keeping.needs(FORMER));

        let mut late = offered(false);
        late.was_taken(KEY, FORMER);
        assert!(!late.needs(FORMER));
        let mut other = offered(true);
        other.was_taken(KEY, NodeId(8));
        assert!(!other.needs(FORMER) && !other.needs(NodeId(8)));
    }
}
