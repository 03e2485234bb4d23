//! What this member holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use super::peers::Peer;
use crate::protocol::decision::{AnnounceMode, Cause, Decision};
use crate::protocol::message::{Digest, Key, NodeId};
use crate::protocol::time::Moment;
use crate::protocol::view::View;

/// For how long it is repeated for whom something was let go.
const RELEASES_REPEATED: Duration = Duration::from_secs(1);

/// A key that is held.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Holding {
    /// The first message of this node that may list it. Only heartbeats from that one on count.
    pub(super) added: u64,
    pub(super) since: Moment,
    pub(super) cause: Cause,
    pub(super) former: Option<NodeId>,
    #[serde(rename = "voice")]
    pub(super) mode: AnnounceMode,
    pub(super) silent_since: Option<Moment>,
    /// It has been confirmed, and is spoken for.
    pub(super) speaking: bool,
}

/// The keys that are held.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct HeldKeys {
    pub(super) keys: BTreeMap<Key, Holding>,
    pub(super) digest: Digest,
    /// Held, but not confirmed yet.
    pub(super) unconfirmed: BTreeSet<Key>,
    pub(super) released: VecDeque<(Key, Option<NodeId>, Moment)>,
    /// It was let go since the right to it had run out.
    pub(super) lapsed: bool,
    /// The first message that stated the set as it is.
    pub(super) revision: u64,
    /// It has changed since it was last stated.
    pub(super) dirty: bool,
    /// When it was last stated.
    pub(super) stated_at: Moment,
    /// When to state it again, and after what time once more.
    pub(super) restate: Option<(Moment, Duration)>,
    /// Who does not know the set.
    pub(super) askers: BTreeSet<NodeId>,
    /// The voters that have accepted the set as it is.
    pub(super) acknowledged: BTreeSet<NodeId>,
    /// The voters that refuse it, for whom, and since when.
    pub(super) refusals: BTreeMap<NodeId, (NodeId, Moment)>,
    /// Of the last epoch, kept where a rule is switched off that forbids them to come back.
    #[cfg(feature = "simulator")]
    #[serde(default)]
    pub(super) ghosts: BTreeMap<Key, Holding>,
}

impl HeldKeys {
    /// Adds a key.
    pub(super) fn add(&mut self, key: Key, holding: Holding) {
        if self.keys.contains_key(&key) {
            return;
        }
        self.digest = self.digest.with(key);
        self.unconfirmed.insert(key);
        self.released.retain(|(released, ..)| *released != key);
        self.keys.insert(key, holding);
        self.dirty = true;
        self.lapsed = false;
    }

    /// Lets a key go, for somebody or for anybody.
    pub(super) fn remove(
        &mut self,
        key: Key,
        target: Option<NodeId>,
        now: Moment,
    ) -> Option<Holding> {
        let holding = self.keys.remove(&key)?;
        self.digest = self.digest.without(key);
        self.unconfirmed.remove(&key);
        self.released.push_back((key, target, now));
        self.dirty = true;
        Some(holding)
    }

    /// Forgets what was let go long ago.
    pub(super) fn forget_releases(&mut self, now: Moment) {
        while self
            .released
            .front()
            .is_some_and(|(.., at)| *at + RELEASES_REPEATED <= now)
        {
            self.released.pop_front();
        }
    }

    /// Whether any key is spoken for.
    pub(super) fn speaks(&self) -> bool {
        self.unconfirmed.len() < self.keys.len()
    }
}

impl Machine {
    pub(super) fn speaking(&self) -> impl Iterator<Item = Key> + '_ {
        self.held_keys
            .keys
            .iter()
            .filter(|(_, holding)| holding.speaking)
            .map(|(key, _)| *key)
    }

    /// Begins to speak for what is confirmed.
    pub(super) fn begin_confirmed(&mut self) {
        if self.held_keys.unconfirmed.is_empty() {
            return;
        }
        let ready: Vec<Key> = self
            .held_keys
            .unconfirmed
            .iter()
            .copied()
            .filter(|key| self.permits(*key, self.now))
            .collect();
        for key in ready {
            self.held_keys.unconfirmed.remove(&key);
            let Some(holding) = self.held_keys.keys.get(&key).cloned() else {
                continue;
            };
            let mode = self.choose_mode(key, &holding);
            if let Some(holding) = self.held_keys.keys.get_mut(&key) {
                holding.speaking = true;
                holding.mode = mode;
            }
            self.decide(Decision::Begin {
                key,
                mode,
                cause: holding.cause,
                former: holding.former,
                silent_since: holding.silent_since,
            });
        }
        self.announce_whole_groups();
    }

    /// Lets a key go. What is stated next says for whom.
    pub(super) fn release(&mut self, key: Key, target: Option<NodeId>, cause: Cause) {
        let Some(holding) = self.held_keys.remove(key, target, self.now) else {
            return;
        };
        if holding.speaking {
            self.decide(Decision::Stop { key, cause });
        }
        self.quiet.forget(key);
        self.keeping.forget(key);
        #[cfg(feature = "simulator")]
        self.keep_ghost(key, holding, cause);
    }

    /// Holds a key from the next message on.
    pub(super) fn gain(
        &mut self,
        key: Key,
        cause: Cause,
        former: Option<NodeId>,
        mode: AnnounceMode,
    ) {
        let silent_since = former
            .and_then(|former| self.peers.get(&former))
            .filter(|_| cause == Cause::TakenOver)
            .map(Peer::last_heard);
        let holding = Holding {
            added: self.seq.saturating_add(1),
            since: self.now,
            cause,
            former,
            mode,
            silent_since,
            speaking: false,
        };
        self.held_keys.add(key, holding);
        self.probing.was_taken(key, self.now);
        self.weigh_soon();
    }

    /// Lets go of what the view knows no more.
    pub(super) fn drop_unwanted(&mut self, view: &View) {
        let unwanted: Vec<Key> = self
            .held_keys
            .keys
            .keys()
            .copied()
            .filter(|key| !view.keys.contains_key(key))
            .collect();
        for key in unwanted {
            self.release(key, None, Cause::Withdrawn);
        }
        self.quiet.keep_only(&view.keys);
        self.probing.replace(self.view.as_ref(), view, self.now);
    }
}
