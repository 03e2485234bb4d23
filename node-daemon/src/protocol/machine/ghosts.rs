//! What a broken rule brings back: keys that were let go. The simulator switches the rules off that
//! forbid it, to show that it would notice.

use super::Machine;
use super::held_keys::Holding;
use crate::protocol::decision::Cause;
use crate::protocol::message::Key;

impl Machine {
    /// Keeps what is let go, where no rule forbids it to come back.
    pub(super) fn keep_ghost(&mut self, key: Key, holding: Holding, cause: Cause) {
        let rules = self.rules();
        let latched = cause != Cause::Lapsed || rules.lapse_is_latched();
        if !rules.release_is_sticky() || !latched {
            self.held_keys.ghosts.insert(key, holding);
        }
    }

    /// Takes back what was let go, if an echo of a heartbeat comes in that listed it.
    pub(super) fn revive(&mut self) {
        if self.held_keys.ghosts.is_empty()
            || self.speaking_lease.end().is_none_or(|end| self.now >= end)
        {
            return;
        }
        let seq = self.speaking_lease.confirmed_seq();
        let ghosts = std::mem::take(&mut self.held_keys.ghosts);
        for (key, ghost) in ghosts {
            if ghost.added <= seq && ghost.speaking {
                let holding = Holding {
                    speaking: false,
                    ..ghost
                };
                self.held_keys.add(key, holding);
            }
        }
    }
}
