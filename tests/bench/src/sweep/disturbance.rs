//! What goes wrong at one call.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Result, bail};
use http::StatusCode;

use super::case_cluster::{CaseCluster, TIMEOUT};
use super::reference::Reference;
use super::swept_cloud::SweptCloud;
use mooring_cloud_sim::linode::Linode;
use mooring_cloud_sim::{Fault, Injection, When};

/// What the cloud's `Retry-After` asks for.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long after central has given up a call is done, if that is before it tries again.
const AT_ONCE: Duration = Duration::from_millis(500);
/// The same if that is when it has tried again.
const AFTER_RETRY: Duration = Duration::from_secs(8);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disturbance {
    /// Central is killed, and the call has no effect.
    KillBefore,
    /// Central is killed when a write is done.
    KillAfter,
    /// The cloud answers with this status.
    Status(u16),
    /// Somebody else answers with this status.
    Html(u16),
    /// Half of the answer arrives.
    Cut,
    /// There is no answer.
    Hang,
    /// The call is done, and its answer is lost.
    Dropped,
    /// A write is done when central has given up and not tried again.
    LateEarly,
    /// A write is done when central has tried again.
    Late,
    /// The call is refused since another one is under way, in Linode's words.
    Busy,
}

impl Disturbance {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::KillBefore,
        Self::KillAfter,
        Self::Status(500),
        Self::Status(401),
        Self::Status(429),
        Self::Html(502),
        Self::Html(200),
        Self::Cut,
        Self::Hang,
        Self::Dropped,
        Self::LateEarly,
        Self::Late,
        Self::Busy,
    ];

    /// Those that can befall every cloud's answers.
    pub const OF_EVERY_CLOUD: &'static [Self] = Self::ALL.split_at(12).0;

    /// As in `CASE=`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::KillBefore => "kill-before".to_owned(),
            Self::KillAfter => "kill-after".to_owned(),
            Self::Status(status) => status.to_string(),
            Self::Html(status) => format!("html-{status}"),
            Self::Cut => "cut".to_owned(),
            Self::Hang => "hang".to_owned(),
            Self::Dropped => "dropped".to_owned(),
            Self::LateEarly => "late-early".to_owned(),
            Self::Late => "late".to_owned(),
            Self::Busy => "busy".to_owned(),
        }
    }

    /// Whether central is killed.
    pub(super) const fn kills(self) -> bool {
        matches!(self, Self::KillBefore | Self::KillAfter)
    }

    /// Whether central has to give up of its own accord, and soon.
    pub(super) const fn needs_patience(self) -> bool {
        matches!(self, Self::Hang | Self::LateEarly | Self::Late)
    }

    /// Whether what central has seen is changed behind its back.
    pub(super) const fn is_late(self) -> bool {
        matches!(self, Self::LateEarly | Self::Late)
    }

    /// Whether the call is done although central does not learn it.
    pub(super) const fn is_done_unseen(self) -> bool {
        matches!(self, Self::KillAfter | Self::Cut | Self::Dropped) || self.is_late()
    }

    /// Whether it is about writes only: reads that are done do not differ from others.
    const fn is_about_writes(self) -> bool {
        matches!(self, Self::KillAfter | Self::Busy) || self.is_late()
    }

    /// How many calls of an operation it can strike.
    pub(super) const fn targets(self, reference: &Reference) -> u64 {
        if self.is_about_writes() {
            reference.writes
        } else {
            reference.calls
        }
    }

    /// Goes wrong at the n-th call from now on, counted from 1, of those that it is about.
    pub(super) fn arm<C: SweptCloud>(self, case: &CaseCluster<C>, n: u64) -> Armed {
        let when = if self.is_about_writes() {
            When::write("**/*")
        } else {
            When::everything()
        };
        let done = Arc::new(AtomicBool::new(!self.is_late()));
        if self.kills() {
            let central = case.central.clone();
            let hook = move || central.kill();
            let executed = self == Self::KillAfter;
            let injection = case.cloud.faults().kill_switch(when, n, executed, hook);
            return Armed::new(injection, done);
        }
        let flag = done.clone();
        let fault = self
            .fault()
            .last(move || flag.store(true, Ordering::Release));
        let injection = case.cloud.faults().inject(when.nth(n), fault);
        Armed::new(injection, done)
    }

    fn fault(self) -> Fault {
        let of = |status| StatusCode::from_u16(status).unwrap_or_default();
        match self {
            Self::KillBefore | Self::KillAfter => Fault::reset(),
            Self::Status(429) => Fault::status(of(429)).retry_after(RETRY_AFTER),
            Self::Status(status) => Fault::status(of(status)),
            Self::Html(status) => Fault::html(of(status)),
            Self::Cut => Fault::cut_off(),
            Self::Hang => Fault::hang(),
            Self::Dropped => Fault::reset().executed(),
            Self::LateEarly => Fault::late(TIMEOUT + AT_ONCE),
            Self::Late => Fault::late(TIMEOUT + AFTER_RETRY),
            Self::Busy => Linode::busy(),
        }
    }
}

/// A disturbance that waits for its call.
pub(super) struct Armed {
    injection: Injection,
    done: Arc<AtomicBool>,
    calls_when_done: OnceLock<usize>,
}

impl Armed {
    const fn new(injection: Injection, done: Arc<AtomicBool>) -> Self {
        Self {
            injection,
            done,
            calls_when_done: OnceLock::new(),
        }
    }

    /// Whether its call has come.
    pub(super) fn has_struck(&self) -> bool {
        self.injection.hits() > 0
    }

    /// Nothing goes wrong any more.
    pub(super) fn lift(&self) {
        self.injection.lift();
    }

    /// How many calls there had been when it was first seen that a late call is done; `None`: it
    /// is not.
    pub(super) fn calls_when_done(&self, calls: impl FnOnce() -> usize) -> Option<usize> {
        let is_done = self.done.load(Ordering::Acquire);
        is_done.then(|| *self.calls_when_done.get_or_init(calls))
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

impl FromStr for Disturbance {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|known| known.name() == text) {
            Some(disturbance) => Ok(disturbance),
            None => bail!("nothing of the name {text:?} can go wrong"),
        }
    }
}
