//! What is remembered of each Service's load balancer, so that it need not be observed again.
//!
//! What was observed is kept up to date by every write that the cloud has taken. A write whose end
//! is not known, or that was refused, shows that something is not as it was thought to be: the
//! load balancer is observed anew before anything else is done to it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use mooring_common::work_queue::Backoff;
use tokio::time::Instant;

use super::provider::{Listed as _, Observed};

/// How long it takes until members that have to wait for others are looked at again: so often soon,
/// then later, for some Pods terminate for hours.
const HELD: (u32, Duration, Duration) = (15, Duration::from_secs(1), Duration::from_secs(10));

/// A load balancer as it is known.
#[derive(Clone, Debug)]
pub(super) struct CachedState<O: Observed> {
    /// The load balancer.
    pub(super) observed: O,
    /// Others that are, or were, the same Service's.
    pub(super) surplus: Vec<O::Listed>,
    /// When it was observed; what we have done since then is in it.
    pub(super) as_of: Instant,
    /// When we have changed it last; what is listed from then on shows that.
    pub(super) written: Instant,
}

/// What is remembered of all of them.
#[derive(Debug)]
pub(super) struct Cache<O: Observed> {
    /// Nothing that was observed before is believed.
    anew: Mutex<Instant>,
    /// Whether everything was to be observed once since the process started.
    is_resynced: AtomicBool,
    entries: Mutex<HashMap<String, Entry<O>>>,
}

/// What is remembered of one Service, by its UID.
#[derive(Debug)]
struct Entry<O: Observed> {
    known: Option<CachedState<O>>,
    /// Nothing about this one that was observed before is believed.
    doubted: Option<Instant>,
    /// The ID that it had last.
    id: Option<String>,
    /// The ID of the one that the Service's status has shown.
    shown: Option<String>,
    /// When a load balancer was asked for, and whether it is known what became of that.
    asked: Option<(Timestamp, bool)>,
    /// How often in a row the cloud was found at work on it.
    waits: u32,
    /// How often in a row members had to wait for others to serve.
    holds: u32,
    /// How often in a row members were refused.
    refusals: u32,
    /// Since when members leave, by ID.
    drains: HashMap<String, Instant>,
    /// What the cloud has taken the deletion of, by ID, and when it did last.
    deleted: HashMap<String, Instant>,
    /// Held by whoever writes.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl<O: Observed> Default for Entry<O> {
    fn default() -> Self {
        Self {
            known: None,
            doubted: None,
            id: None,
            shown: None,
            asked: None,
            waits: 0,
            holds: 0,
            refusals: 0,
            drains: HashMap::new(),
            deleted: HashMap::new(),
            turn: Arc::default(),
        }
    }
}

impl<O: Observed> Cache<O> {
    pub(super) fn new() -> Self {
        Self {
            anew: Mutex::new(Instant::now()),
            is_resynced: AtomicBool::new(false),
            entries: Mutex::default(),
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry<O>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, uid: &str, change: impl FnOnce(&mut Entry<O>) -> T) -> T {
        change(self.entries().entry(uid.to_owned()).or_default())
    }

    /// Since when an observation of this Service's load balancer must have been made.
    pub(super) fn since(&self, uid: &str) -> Instant {
        let anew = *self.anew.lock().unwrap_or_else(PoisonError::into_inner);
        let doubted = self.entries().get(uid).and_then(|entry| entry.doubted);
        doubted.map_or(anew, |doubted| anew.max(doubted))
    }

    /// What is known, if it can be believed.
    pub(super) fn known(&self, uid: &str) -> Option<CachedState<O>> {
        let since = self.since(uid);
        let known = self.entries().get(uid)?.known.clone()?;
        Some(known).filter(|known| known.as_of >= since)
    }

    /// Remembers.
    pub(super) fn keep(&self, uid: &str, known: CachedState<O>) {
        self.with(uid, |entry| {
            entry.id = Some(known.observed.listed().id().to_owned());
            entry.deleted.clear();
            entry.known = Some(known);
        });
    }

    /// Believes nothing that was observed of this one until now.
    pub(super) fn invalidate(&self, uid: &str) {
        self.with(uid, |entry| {
            entry.known = None;
            entry.doubted = Some(Instant::now());
        });
    }

    /// What is known is invalid from now on, for good unless the write turns out well.
    pub(super) fn begin_write(&self, uid: &str) -> Write<'_, O> {
        self.with(uid, |entry| entry.known = None);
        Write {
            cache: self,
            uid: uid.to_owned(),
            is_over: false,
        }
    }

    /// It is gone, by the cloud's complete answer.
    pub(super) fn removed(&self, uid: &str) {
        self.invalidate(uid);
        self.settled(uid);
        self.with(uid, |entry| {
            (entry.id, entry.shown) = (None, None);
            entry.deleted.clear();
        });
    }

    /// A load balancer is about to be asked for.
    pub(super) fn asks(&self, uid: &str, at: Timestamp) {
        self.with(uid, |entry| entry.asked = Some((at, false)));
    }

    /// It is known what became of that: the cloud has refused it, or has shown what it has made.
    pub(super) fn settled(&self, uid: &str) {
        // Whatever was noted before.
        self.with(uid, |entry| entry.asked = Some((Timestamp::now(), true)));
    }

    /// For how long what was asked for may still turn up that nothing shows; `noted`: when that was, by
    /// the Service's own word.
    pub(super) fn unsettled(
        &self,
        uid: &str,
        noted: Option<Timestamp>,
        settle_time: Duration,
    ) -> Option<Duration> {
        let asked = self.entries().get(uid).and_then(|entry| entry.asked);
        let at = match asked {
            // The note may be older or younger than what is in the cache.
            Some((at, is_settled)) if noted.is_none_or(|noted| noted <= at) => {
                (!is_settled).then_some(at)?
            }
            _ => noted?,
        };
        let passed = Timestamp::now().duration_since(at).unsigned_abs();
        settle_time
            .checked_sub(passed)
            .filter(|left| !left.is_zero())
    }

    /// Lets go of one.
    pub(super) fn forget(&self, uid: &str) {
        self.entries().remove(uid);
    }

    /// Believes nothing that was observed until now.
    pub(super) fn observe_anew(&self) {
        *self.anew.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.is_resynced.store(true, Ordering::Relaxed);
    }

    /// Whether nothing of this one was observed or changed since the process started.
    pub(super) fn is_untouched(&self, uid: &str) -> bool {
        let entries = self.entries();
        let entry = entries.get(uid);
        let is_touched = |entry: &Entry<O>| entry.id.is_some() || entry.doubted.is_some();
        !self.is_resynced.load(Ordering::Relaxed) && !entry.is_some_and(is_touched)
    }

    /// Since when members of this one leave, by ID.
    pub(super) fn drains(&self, uid: &str) -> HashMap<String, Instant> {
        let entries = self.entries();
        let entry = entries.get(uid);
        entry.map(|entry| entry.drains.clone()).unwrap_or_default()
    }

    /// Remembers that.
    pub(super) fn keep_drains(&self, uid: &str, drains: HashMap<String, Instant>) {
        self.with(uid, |entry| entry.drains = drains);
    }

    /// How many requests it takes to observe all that is known, beside shared listings.
    pub(super) fn cost(&self) -> usize {
        let entries = self.entries();
        let known = entries.values().filter_map(|entry| entry.known.as_ref());
        known.map(|known| known.observed.cost()).sum()
    }

    /// The ID that this one had last.
    pub(super) fn last_id(&self, uid: &str) -> Option<String> {
        self.entries().get(uid)?.id.clone()
    }

    /// This is the Service's: where it leads has proven it.
    pub(super) fn proven(&self, uid: &str, id: &str) {
        self.with(uid, |entry| entry.id = Some(id.to_owned()));
    }

    /// The Service's status shows this one.
    pub(super) fn shown(&self, uid: &str, id: &str) {
        self.with(uid, |entry| entry.shown = Some(id.to_owned()));
    }

    /// Whether its status has shown this one last.
    pub(super) fn has_shown(&self, uid: &str, id: &str) -> bool {
        let entries = self.entries();
        let shown = entries.get(uid).and_then(|entry| entry.shown.as_deref());
        shown == Some(id)
    }

    /// Counts that the cloud is at work on it once more; how often in a row it was.
    pub(super) fn count_wait(&self, uid: &str) -> u32 {
        self.with(uid, |entry| {
            entry.waits += 1;
            entry.waits
        })
    }

    /// It is at rest.
    pub(super) fn rested(&self, uid: &str) {
        self.with(uid, |entry| entry.waits = 0);
    }

    /// Whether members of it have to wait for others to serve. Gives when to look again, if so.
    pub(super) fn held(&self, uid: &str, is_held: bool) -> Option<Duration> {
        let (often, soon, later) = HELD;
        self.with(uid, |entry| {
            entry.holds = if is_held { entry.holds + 1 } else { 0 };
            let after = if entry.holds <= often { soon } else { later };
            is_held.then_some(after)
        })
    }

    /// Whether members of it were refused. Gives when to try again, if so.
    pub(super) fn refused(&self, uid: &str, are_refused: bool) -> Option<Duration> {
        self.with(uid, |entry| {
            entry.refusals = if are_refused { entry.refusals + 1 } else { 0 };
            are_refused.then(|| Backoff::SERVICES.after(entry.refusals))
        })
    }

    /// The cloud has taken its deletion.
    pub(super) fn deletes(&self, uid: &str, balancer: &str) {
        let now = Instant::now();
        self.with(uid, |entry| entry.deleted.insert(balancer.to_owned(), now));
    }

    /// When the cloud has taken its deletion last.
    pub(super) fn deleted(&self, uid: &str, balancer: &str) -> Option<Instant> {
        self.entries().get(uid)?.deleted.get(balancer).copied()
    }

    /// Whether the cloud has taken the deletion of something of it.
    pub(super) fn has_deleted(&self, uid: &str) -> bool {
        let entries = self.entries();
        let entry = entries.get(uid);
        entry.is_some_and(|entry| !entry.deleted.is_empty())
    }

    /// An exclusive resource leads to this one now, and so to no other.
    pub(super) fn moved(&self, uid: &str, exclusive: &str) {
        for (other, entry) in self.entries().iter_mut() {
            if other != uid
                && let Some(known) = &mut entry.known
            {
                known.observed.loses(exclusive);
            }
        }
    }

    /// What whoever writes to this one holds.
    pub(super) fn turn(&self, uid: &str) -> Arc<tokio::sync::Mutex<()>> {
        self.with(uid, |entry| entry.turn.clone())
    }
}

/// A write of which nobody knows yet how it ends. Dropped, the load balancer is observed anew.
#[must_use]
pub(super) struct Write<'a, O: Observed> {
    cache: &'a Cache<O>,
    uid: String,
    is_over: bool,
}

impl<O: Observed> Write<'_, O> {
    /// The cloud has answered, and this is how things are.
    pub(super) fn end(mut self, known: Option<CachedState<O>>) {
        self.is_over = true;
        if let Some(known) = known {
            let is_old = known.as_of < self.cache.since(&self.uid);
            self.cache.keep(&self.uid, known);
            if is_old {
                // All is to be observed anew since then: a listing from before this write shows too little.
                self.cache.invalidate(&self.uid);
            }
        }
    }
}

impl<O: Observed> Drop for Write<'_, O> {
    fn drop(&mut self) {
        if !self.is_over {
            self.cache.invalidate(&self.uid);
        }
    }
}

#[cfg(test)]
mod tests;
