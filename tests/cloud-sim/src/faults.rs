//! What can go wrong between a cloud and its client, chosen by request.

mod when;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::watch;

use super::request::Asked;

pub use when::When;

/// Within that time, the request that a fault is for comes.
const STRIKES: Duration = Duration::from_secs(120);

type Hook = dyn Fn() + Send + Sync;
type Rewriting = dyn Fn(&mut Value) + Send + Sync;

/// When a client shall come back, as `Retry-After` says it.
#[derive(Clone, Debug)]
pub(super) enum RetryAfter {
    Text(String),
    DateIn(Duration),
}

/// How a request ends.
#[derive(Clone)]
pub(super) enum Ending {
    /// With the answer that it would have had.
    Answer,
    /// With that answer, changed.
    Rewritten(Arc<Rewriting>),
    /// With half of that answer, then the connection is closed.
    CutOff,
    /// With half of that answer, then the connection is reset.
    Torn,
    /// With a reset connection.
    Reset,
    /// Not at all, until the fault is lifted; then with a reset connection.
    Hang,
    /// With an error in the API's own shape.
    Status(StatusCode),
    /// With another body.
    Body(StatusCode, &'static str, Bytes),
}

/// What goes wrong.
#[derive(Clone)]
#[must_use]
pub struct Fault {
    pub(super) delay: Duration,
    pub(super) hook: Option<Arc<Hook>>,
    pub(super) last: Option<Arc<Hook>>,
    /// Whether the request takes effect.
    pub(super) executed: bool,
    /// After what time it takes effect although nobody waits for it any more.
    pub(super) later: Option<Duration>,
    pub(super) retry_after: Option<RetryAfter>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) ending: Ending,
}

impl Fault {
    const fn ending(ending: Ending, executed: bool) -> Self {
        Self {
            delay: Duration::ZERO,
            hook: None,
            last: None,
            executed,
            later: None,
            retry_after: None,
            headers: Vec::new(),
            ending,
        }
    }

    /// The answer comes later.
    pub fn slow(delay: Duration) -> Self {
        Self::ending(Ending::Answer, true).delayed(delay)
    }

    /// There is no answer until the fault is lifted, and the request has no effect.
    pub const fn hang() -> Self {
        Self::ending(Ending::Hang, false)
    }

    /// Effect and answer come later, and the effect also if the client has gone away by then.
    pub fn slow_whoever_waits(delay: Duration) -> Self {
        let mut fault = Self::ending(Ending::Answer, true);
        fault.later = Some(delay);
        fault
    }

    /// There is no answer until the fault is lifted, and the request takes effect after a while,
    /// when its client may long have given up.
    pub const fn late(after: Duration) -> Self {
        let mut fault = Self::hang();
        fault.later = Some(after);
        fault
    }

    /// An error in the API's own shape, and the request has no effect.
    pub const fn status(status: StatusCode) -> Self {
        Self::ending(Ending::Status(status), false)
    }

    /// A page for people, as something between cloud and client would send.
    pub fn html(status: StatusCode) -> Self {
        let page = "<!DOCTYPE html><html><head><title>Please wait</title></head>\
                    <body><h1>We will be back soon</h1></body></html>";
        let body = Ending::Body(status, "text/html; charset=utf-8", page.into());
        Self::ending(body, false)
    }

    /// Another body, of type JSON.
    pub fn body(status: StatusCode, body: impl Into<Bytes>) -> Self {
        let body = Ending::Body(status, "application/json", body.into());
        Self::ending(body, false)
    }

    /// Half of the answer, with the length of the whole, then the connection is closed.
    pub const fn cut_off() -> Self {
        Self::ending(Ending::CutOff, true)
    }

    /// Half of the answer, with the length of the whole, then the connection is reset.
    pub const fn torn() -> Self {
        Self::ending(Ending::Torn, true)
    }

    /// The connection is reset before any answer, and the request has no effect.
    pub const fn reset() -> Self {
        Self::ending(Ending::Reset, false)
    }

    /// The answer, changed: fields that are new, that are missing, that are wrong.
    pub fn rewritten(rewrite: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self::ending(Ending::Rewritten(Arc::new(rewrite)), true)
    }

    /// Something happens just before the request takes effect; the answer is as usual. With this,
    /// rows shift between two pages.
    pub fn meanwhile(hook: impl Fn() + Send + Sync + 'static) -> Self {
        Self::ending(Ending::Answer, true).first(hook)
    }

    /// Something happens before all else: that a program is killed at this very request, say.
    pub fn first(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Something happens once the request has taken effect, or would have, and before its answer.
    pub fn last(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.last = Some(Arc::new(hook));
        self
    }

    /// And that after a while.
    pub const fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// And yet the request takes effect: only its answer is lost.
    pub const fn executed(mut self) -> Self {
        self.executed = true;
        self
    }

    /// With `Retry-After` in seconds.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(RetryAfter::Text(wait.as_secs().to_string()));
        self
    }

    /// With `Retry-After` as a date.
    pub fn retry_after_date(mut self, wait: Duration) -> Self {
        self.retry_after = Some(RetryAfter::DateIn(wait));
        self
    }

    /// With this header: what stands before the cloud names itself, say, or says that it is at work on it.
    ///
    /// # Panics
    /// If it is none.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::try_from(name).expect("the name of a header");
        let value = HeaderValue::try_from(value).expect("what a header can hold");
        self.headers.push((name, value));
        self
    }

    /// With whatever as `Retry-After`.
    pub fn retry_after_text(mut self, text: &str) -> Self {
        self.retry_after = Some(RetryAfter::Text(text.to_owned()));
        self
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault").finish_non_exhaustive()
    }
}

impl RetryAfter {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::DateIn(wait) => {
                let wait = SignedDuration::try_from(*wait).unwrap_or_default();
                let date = Timestamp::now().saturating_add(wait).unwrap_or_default();
                let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
                printer
                    .timestamp_to_rfc9110_string(&date)
                    .expect("a date of this century can be written")
            }
        }
    }
}

struct Rule {
    when: When,
    fault: Fault,
    seen: AtomicU64,
    hits: watch::Sender<u64>,
    lifted: watch::Sender<bool>,
}

/// A fault that has been injected.
#[derive(Clone)]
pub struct Injection(Arc<Rule>);

impl Injection {
    fn new(when: When, fault: Fault) -> Self {
        Self(Arc::new(Rule {
            when,
            fault,
            seen: AtomicU64::new(0),
            hits: watch::Sender::new(0),
            lifted: watch::Sender::new(false),
        }))
    }

    /// How often it has struck.
    pub fn hits(&self) -> u64 {
        *self.0.hits.borrow()
    }

    /// Waits until it has struck so often.
    ///
    /// # Panics
    /// If it has not within two minutes: who was to send the request may have ended.
    pub async fn struck(&self, times: u64) {
        let mut hits = self.0.hits.subscribe();
        let struck = hits.wait_for(|hits| *hits >= times);
        let struck = tokio::time::timeout(STRIKES, struck).await;
        // The sender lives in self.
        assert!(
            matches!(struck, Ok(Ok(_))),
            "the fault has struck {} times, and not {times} times within {STRIKES:?}",
            self.hits(),
        );
    }

    /// Ends it: requests are answered as usual, and those that hang are let go.
    pub fn lift(&self) {
        self.0.lifted.send_replace(true);
    }

    pub(super) fn fault(&self) -> &Fault {
        &self.0.fault
    }

    pub(super) async fn is_lifted(&self) {
        let _ = self.0.lifted.subscribe().wait_for(|lifted| *lifted).await;
    }
}

/// The faults of one cloud. Of several that concern a request, the one injected first strikes.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Vec<Injection>>>);

impl Faults {
    /// From now on, this goes wrong with these requests.
    pub fn inject(&self, when: When, fault: Fault) -> Injection {
        let injection = Injection::new(when, fault);
        self.lock().push(injection.clone());
        injection
    }

    /// At the n-th of these requests, counted from now on and from 1, this is done and the
    /// connection is reset; `executed`: the request has taken effect by then. It strikes before all
    /// other faults, and those that they strike count as well.
    ///
    /// For a controller that is killed at whichever of its calls.
    pub fn kill_switch(
        &self,
        when: When,
        n: u64,
        executed: bool,
        hook: impl Fn() + Send + Sync + 'static,
    ) -> Injection {
        let fault = Fault::reset().last(hook);
        let fault = if executed { fault.executed() } else { fault };
        let injection = Injection::new(when.nth(n), fault);
        self.lock().insert(0, injection.clone());
        injection
    }

    /// Lifts all of them.
    pub fn clear(&self) {
        for injection in self.lock().drain(..) {
            injection.lift();
        }
    }

    /// The fault that strikes this request.
    pub(super) fn strike(&self, asked: &Asked) -> Option<Injection> {
        let mut injections = self.lock();
        injections.retain(|injection| !*injection.0.lifted.borrow());
        let struck = injections.iter().find(|Injection(rule)| {
            rule.when.concerns(asked)
                && rule.seen.fetch_add(1, Ordering::Relaxed) >= rule.when.after
                && *rule.hits.borrow() < rule.when.times
        })?;
        struck.0.hits.send_modify(|hits| *hits += 1);
        Some(struck.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Injection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
