//! Which objects a controller has to look at, and when.
//!
//! Guarantees: one key is never worked on twice at the same time; a key that is added while it is
//! being worked on is looked at once more afterwards; keys added several times meanwhile cost one
//! pass; failures in a row grow the delay of that key alone, and any success starts it anew. Keys
//! that can wait are worked on when no other is ready.

mod metrics;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt::Display;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::engine::Outcome;
use crate::errors::with_causes;
use metrics::QueueMetrics;
pub use metrics::Queues;

/// How the delay after failures grows: `first`, doubled with each further failure, up to `most`.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The delay after the first failure.
    pub first: Duration,
    /// The longest delay.
    pub most: Duration,
}

impl Backoff {
    /// 5 s doubling to 300 s, as the Go service controller has it.
    pub const SERVICES: Self = Self {
        first: Duration::from_secs(5),
        most: Duration::from_secs(300),
    };
    /// 0.5 s doubling to 60 s: a Node without its address is useless, and there may be thousands.
    pub const NODES: Self = Self {
        first: Duration::from_millis(500),
        most: Duration::from_secs(60),
    };

    /// The delay after this many failures in a row.
    #[must_use]
    pub fn after(&self, failures: u32) -> Duration {
        let factor = 2u32.saturating_pow(failures.saturating_sub(1).min(16));
        self.first.saturating_mul(factor).min(self.most)
    }
}

/// How long one request in a pass may take at most, whatever is configured.
pub const LONGEST_REQUEST: Duration = Duration::from_secs(120);

/// In how much of a pass requests may begin.
const LATEST_REQUEST: Duration = Duration::from_secs(60);

/// How long one pass may take. It is then dropped, so that a connection on which nobody answers any
/// more holds up one key for a while and not a worker for ever. Whatever is begun in time comes to its own
/// end before: a request that changes something must not be cut off while its answer is on the way.
const LONGEST_PASS: Duration = LATEST_REQUEST.saturating_add(LONGEST_REQUEST);

/// Whether a pass that has taken so long may still begin a request.
#[must_use]
pub fn has_time(elapsed: Duration) -> bool {
    elapsed < LATEST_REQUEST
}

/// The keys waiting, being worked on, and to be looked at later.
#[derive(Debug)]
pub struct WorkQueue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    backoff: Backoff,
    metrics: QueueMetrics,
}

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<K>,
    /// Ready, and worked on when `ready` is empty. May hold keys that are not in `queued` any more.
    ready_later: VecDeque<K>,
    /// In `ready` (true) or `ready_later` (false), and since when.
    queued: HashMap<K, (bool, Instant)>,
    /// Each with the begin of its pass.
    in_flight: HashMap<K, Instant>,
    /// Asked for while in flight: at once (true), or when no other is ready.
    again: HashMap<K, bool>,
    delayed: BTreeMap<(Instant, u64), K>,
    delayed_until: HashMap<K, (Instant, u64)>,
    /// Those of `delayed_until` that need not wait if somebody asks for them: they have failed, or are as they
    /// should be.
    idle: HashSet<K>,
    failures: HashMap<K, u32>,
    sequence: u64,
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(backoff: Backoff) -> Self {
        let state = State {
            ready: VecDeque::new(),
            ready_later: VecDeque::new(),
            queued: HashMap::new(),
            in_flight: HashMap::new(),
            again: HashMap::new(),
            delayed: BTreeMap::new(),
            delayed_until: HashMap::new(),
            idle: HashSet::new(),
            failures: HashMap::new(),
            sequence: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
            backoff,
            metrics: QueueMetrics::default(),
        }
    }

    /// Asks for a pass over this key as soon as a worker is free.
    pub fn add(&self, key: K) {
        let mut state = self.lock();
        if state.in_flight.contains_key(&key) {
            state.again.insert(key, true);
        } else if state.enqueue(&key, &self.metrics) {
            state.forget_delay(&key);
            self.changed.notify_one();
        }
    }

    /// Asks for a pass over this key when no other is ready. One that waits for its time is left to
    /// that, unless it waits since it has failed: what it failed at may be over. Its failures still count. Nor
    /// does one wait that was as it should be.
    pub fn add_later(&self, key: K) {
        let mut state = self.lock();
        if state.idle.contains(&key) {
            state.forget_delay(&key);
        }
        if state.in_flight.contains_key(&key) {
            state.again.entry(key).or_insert(false);
        } else if !state.queued.contains_key(&key) && !state.delayed_until.contains_key(&key) {
            state.queued.insert(key.clone(), (false, Instant::now()));
            state.ready_later.push_back(key);
            self.metrics.adds.inc();
            self.changed.notify_one();
        }
    }

    /// Whether a key is ready that is not one of those that can wait.
    pub fn is_busy(&self) -> bool {
        let mut state = self.lock();
        state.promote(Instant::now(), &self.metrics);
        !state.ready.is_empty()
    }

    /// Asks for a pass over this key after a delay, or sooner if something else asks for it.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.delay(key, delay, false);
    }

    /// The same; `is_idle`: unless somebody asks for it.
    fn delay(&self, key: K, delay: Duration, is_idle: bool) {
        let mut state = self.lock();
        if state.delay(key, Instant::now() + delay, is_idle) {
            self.changed.notify_one();
        }
    }

    /// Waits for the next key, which then is in flight until [`Self::finish`].
    async fn next(&self) -> K {
        loop {
            let wake_at = {
                let mut state = self.lock();
                state.promote(Instant::now(), &self.metrics);
                if let Some((key, since)) = state.dequeue() {
                    self.metrics.waited.observe(since.elapsed().as_secs_f64());
                    state.in_flight.insert(key.clone(), Instant::now());
                    if !state.queued.is_empty() {
                        self.changed.notify_one();
                    }
                    return key;
                }
                state.delayed.first_key_value().map(|((at, _), _)| *at)
            };
            match wake_at {
                None => self.changed.notified().await,
                Some(at) => {
                    tokio::select! {
                        () = self.changed.notified() => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
            }
        }
    }

    /// Ends a pass, and plans the next one as its outcome asks for.
    fn finish<E>(&self, key: K, outcome: &Outcome<E>) {
        let is_idle = matches!(
            outcome,
            Outcome::Backoff(_) | Outcome::BackoffAnew(_) | Outcome::DoneFor(_)
        );
        let next = {
            let mut state = self.lock();
            if let Some(begun) = state.in_flight.remove(&key) {
                self.metrics.worked.observe(begun.elapsed().as_secs_f64());
            }
            let again = state.again.remove(&key);
            let delay = match outcome {
                Outcome::Backoff(_) => {
                    let failures = state.failures.entry(key.clone()).or_default();
                    *failures += 1;
                    Some(self.backoff.after(*failures))
                }
                Outcome::BackoffAnew(_) => {
                    state.failures.insert(key.clone(), 1);
                    Some(self.backoff.after(1))
                }
                Outcome::Yield => None,
                Outcome::RetryAfter(delay) | Outcome::DoneFor(delay) => {
                    state.failures.remove(&key);
                    Some(*delay)
                }
                Outcome::Done | Outcome::WaitForChange(_) | Outcome::NotOurs(_) => {
                    state.failures.remove(&key);
                    None
                }
            };
            (again, delay)
        };
        match next {
            (Some(true), _) | (_, Some(Duration::ZERO)) => self.add(key),
            // Whoever asked meanwhile may not have known of what it failed at, or of what is new.
            (Some(false), Some(_)) if is_idle => self.add_later(key),
            (_, Some(delay)) => self.delay(key, delay, is_idle),
            (Some(false), None) => self.add_later(key),
            (None, None) if matches!(outcome, Outcome::Yield) => self.add_later(key),
            (None, None) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn forget_delay(&mut self, key: &K) {
        self.idle.remove(key);
        if let Some(slot) = self.delayed_until.remove(key) {
            self.delayed.remove(&slot);
        }
    }

    /// Whether it waits until then, and not for less.
    fn delay(&mut self, key: K, at: Instant, is_idle: bool) -> bool {
        let planned = self.delayed_until.get(&key);
        let is_sooner = planned.is_some_and(|(earlier, _)| *earlier <= at);
        if is_sooner || self.queued.contains_key(&key) {
            return false;
        }
        self.forget_delay(&key);
        self.sequence += 1;
        let slot = (at, self.sequence);
        self.delayed.insert(slot, key.clone());
        if is_idle {
            self.idle.insert(key.clone());
        }
        self.delayed_until.insert(key, slot);
        true
    }

    fn promote(&mut self, now: Instant, metrics: &QueueMetrics) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let key = entry.remove();
            self.delayed_until.remove(&key);
            self.idle.remove(&key);
            if self.in_flight.contains_key(&key) {
                self.again.insert(key, true);
            } else {
                self.enqueue(&key, metrics);
            }
        }
    }

    /// Makes a key ready that does not wait for others; whether it was not.
    fn enqueue(&mut self, key: &K, metrics: &QueueMetrics) -> bool {
        let known = self.queued.get(key).copied();
        let since = known.map_or_else(Instant::now, |(_, since)| since);
        self.queued.insert(key.clone(), (true, since));
        let is_news = known.is_none_or(|(is_urgent, _)| !is_urgent);
        if is_news {
            self.ready.push_back(key.clone());
        }
        if known.is_none() {
            metrics.adds.inc();
        }
        is_news
    }

    /// The next key, and since when it was ready.
    fn dequeue(&mut self) -> Option<(K, Instant)> {
        if let Some(key) = self.ready.pop_front() {
            let (_, since) = self.queued.remove(&key)?;
            return Some((key, since));
        }
        while let Some(key) = self.ready_later.pop_front() {
            if let Some((false, since)) = self.queued.get(&key).copied() {
                self.queued.remove(&key);
                return Some((key, since));
            }
        }
        None
    }
}

/// Works the queue off with this many passes side by side. Once cancelled it begins no pass, and ends
/// when those that are under way have ended. To drop them instead, drop this future.
pub async fn work<K, E, P, F>(
    controller: &'static str,
    queue: Arc<WorkQueue<K>>,
    concurrency: usize,
    cancel: CancellationToken,
    pass: P,
) where
    K: Clone + Eq + Hash + Display + Send + Sync + 'static,
    E: std::error::Error + Send + 'static,
    P: Fn(K) -> F + Send + Sync + 'static,
    F: Future<Output = Outcome<E>> + Send + 'static,
{
    let pass = Arc::new(pass);
    let mut workers = JoinSet::new();
    for _ in 0..concurrency.max(1) {
        let (queue, pass, cancel) = (queue.clone(), pass.clone(), cancel.clone());
        workers.spawn(async move {
            while !cancel.is_cancelled() {
                let Some(key) = cancel.run_until_cancelled(queue.next()).await else {
                    return;
                };
                match timeout(LONGEST_PASS, pass(key.clone())).await {
                    Ok(_) if cancel.is_cancelled() => {
                        tracing::debug!(controller, %key, "ended while the program ends");
                    }
                    Ok(outcome) => {
                        log(controller, &key, &outcome);
                        queue.metrics.ended(Some(&outcome));
                        queue.finish(key, &outcome);
                    }
                    Err(_) => {
                        tracing::warn!(controller, %key, "took too long, will retry");
                        queue.metrics.ended(None::<&Outcome<E>>);
                        let again = Outcome::<E>::RetryAfter(queue.backoff.first);
                        queue.finish(key, &again);
                    }
                }
            }
        });
    }
    while workers.join_next().await.is_some() {}
}

fn log<K: Display, E: std::error::Error + 'static>(
    controller: &'static str,
    key: &K,
    outcome: &Outcome<E>,
) {
    match outcome {
        Outcome::Done => tracing::debug!(controller, %key, "done"),
        Outcome::RetryAfter(delay) => tracing::debug!(controller, %key, ?delay, "again later"),
        Outcome::DoneFor(time) => tracing::debug!(controller, %key, ?time, "done for now"),
        Outcome::Yield => tracing::debug!(controller, %key, "makes way"),
        Outcome::Backoff(error) | Outcome::BackoffAnew(error) => {
            let error = with_causes(error);
            tracing::warn!(controller, %key, error, "failed, will retry");
        }
        Outcome::WaitForChange(reason) => {
            tracing::info!(controller, %key, reason, "waiting for a change");
        }
        Outcome::NotOurs(reason) => tracing::debug!(controller, %key, reason, "not ours"),
    }
}

#[cfg(test)]
mod tests;
