//! What this node has the right to speak for at this moment, for who acts on it outside of the
//! thread: addresses that are put on an interface.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use crate::protocol::Moment;
use crate::wire::clock;

/// An interface's number, and an address for it.
pub type InterfaceAddress = (u32, IpAddr);

/// The rights of all segments. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Rights(Arc<ArcSwap<BTreeMap<InterfaceAddress, Right>>>);

impl Rights {
    /// Whether the address may be spoken for on the interface at this moment. It never waits.
    #[must_use]
    pub fn held(&self, place: InterfaceAddress) -> bool {
        self.held_at(place, clock::now())
    }

    fn held_at(&self, place: InterfaceAddress, now: Moment) -> bool {
        self.0.load().get(&place).is_some_and(|right| {
            let until = Moment(right.0.load(Ordering::Acquire));
            now < until
        })
    }

    pub(super) fn publish(&self, rights: BTreeMap<InterfaceAddress, Right>) {
        self.0.store(Arc::new(rights));
    }
}

/// Until when something may be spoken for.
#[derive(Clone, Debug, Default)]
pub(super) struct Right(Arc<AtomicU64>);

/// The rights of one segment. All that is spoken for there runs out together, as it is confirmed
/// together.
#[derive(Debug, Default)]
pub(super) struct SegmentRights {
    right: Right,
    changed: bool,
}

impl SegmentRights {
    /// What is spoken for has changed. Nothing is held until that is published.
    pub(super) fn change(&mut self) {
        self.right.0.store(0, Ordering::Release);
        self.right = Right::default();
        self.changed = true;
    }

    /// What is published is held until then. Whether it has changed, and is to be published.
    pub(super) fn prolong(&mut self, until: Moment) -> bool {
        self.right.0.store(until.0, Ordering::Release);
        std::mem::take(&mut self.changed)
    }

    pub(super) fn right(&self) -> Right {
        self.right.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_holds_until_expiry_or_change() {
        let rights = Rights::default();
        let place = (3, IpAddr::from([192, 0, 2, 17]));
        let held = |at| rights.held_at(place, Moment(at));
        let mut segment = SegmentRights::default();
        assert!(!held(0));
        segment.change();
        assert!(segment.prolong(Moment(100)));
        rights.publish([(place, segment.right())].into());
        assert!(held(99) && !held(100));
        assert!(!rights.held_at((4, place.1), Moment(99)));
        assert!(!segment.prolong(Moment(200)), "nothing to publish");
        assert!(held(199) && !held(200));
        // Before the new set is published nothing of the old one is held.
        segment.change();
        assert!(!held(150));
        assert!(segment.prolong(Moment(300)));
        assert!(!held(150));
        rights.publish(BTreeMap::new());
        assert!(!held(150));
    }
}
