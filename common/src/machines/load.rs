//! Keeps the machines file fresh while a program runs.
//!
//! # Guarantees
//! * What [`MachinesFile::current`] gives is always a whole, valid file: a change replaces all of it
//!   at once, and a file that cannot be read or used changes nothing.
//! * A file that is still being written is left until it rests.
//! * A change that takes away too many machines at once is refused, whatever its cause.
//!
//! # Caveats
//! A program that starts has nothing to compare with, so it takes any valid file.

mod diff;
mod source;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Mutex, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::builtin;
use super::schema::Machines;
use super::validate::{InvalidMachines, parse};
pub use diff::Diff;
use source::{Content, Fingerprint};

/// How long a changed file must rest before it is believed.
const REST: Duration = Duration::from_millis(200);

/// How often a file may change while a program waits for it to rest at the start: 5 s.
const MOST_CHANGES: u32 = 25;

/// Why a machines file could not be loaded. Each message is whole, since it is shown alone; so what
/// is behind it is no `source`, which would be shown a second time.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error(
        "cannot read the machines file {path:?}: {reason}; check the path, the mount and its permissions"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: std::io::Error,
    },
    /// It changed while it was read.
    #[error("the machines file {path:?} is being written; it will be read once it rests")]
    Changing {
        /// The file.
        path: PathBuf,
    },
    /// It says what it must not say.
    #[error("cannot use {path:?}: {reason}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Everything that is wrong with it.
        reason: InvalidMachines,
    },
    /// It takes away too many machines at once.
    #[error(
        "the machines file {path:?} would remove or terminate {} of {known} machines ({}), but \
         policy.maxRemovedPercent, {percent} as loaded, permits {allowed} at once; put them back, \
         or raise maxRemovedPercent in a change of its own first",
        lost.len(), diff::short(lost)
    )]
    TooManyRemoved {
        /// The file.
        path: PathBuf,
        /// What would be lost.
        lost: Vec<String>,
        /// How many machines there are.
        known: usize,
        /// The share in force: that of the data in use, not that of the file refused.
        percent: u8,
        /// How many machines this share permits.
        allowed: usize,
    },
}

impl LoadError {
    /// Whether the same file may be readable the next time, without anybody changing it.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Changing { .. })
    }

    /// A name for metrics.
    #[must_use]
    pub const fn metric_label(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Changing { .. } => "changing",
            Self::Invalid { .. } => "invalid",
            Self::TooManyRemoved { .. } => "too_many_removed",
        }
    }
}

/// How the machines file stands.
#[derive(Clone, Debug)]
pub struct ReloadStatus {
    /// Counts the contents taken over since the program started, from 1.
    pub generation: u64,
    /// Why the file as it is now was not taken over. `None`: it was.
    pub failure: Option<Arc<LoadError>>,
}

/// The machines file, or the built-in data where there is none.
#[derive(Debug)]
pub struct MachinesFile {
    path: Option<PathBuf>,
    current: ArcSwap<Machines>,
    status: watch::Sender<ReloadStatus>,
    /// Held while the file is looked at, so that this is never done twice at a time.
    seen: Mutex<Seen>,
}

/// What was there when the file was last looked at.
#[derive(Debug)]
struct Seen {
    /// The state of the file that has been dealt with. `None`: look again in any case.
    fingerprint: Option<Fingerprint>,
    /// The content in use.
    in_use: u64,
}

impl MachinesFile {
    /// Reads the file, or takes the built-in data if there is none.
    ///
    /// # Errors
    /// [`LoadError`]: the program must not start.
    pub async fn open(path: Option<PathBuf>) -> Result<Arc<Self>, LoadError> {
        let (machines, fingerprint, in_use) = match &path {
            None => (built_in()?, None, 0),
            Some(path) => {
                let content = first(path).await?;
                let machines = parsed(path, &content)?;
                (machines, Some(content.fingerprint), content.hash)
            }
        };
        let file = path
            .as_deref()
            .map_or("built in".into(), Path::to_string_lossy);
        tracing::info!(%file, machines = machines.nodes().len(), "machines file loaded");
        let (status, _) = watch::channel(ReloadStatus {
            generation: 1,
            failure: None,
        });
        Ok(Arc::new(Self {
            path,
            current: ArcSwap::from_pointee(machines),
            status,
            seen: Mutex::new(Seen {
                fingerprint,
                in_use,
            }),
        }))
    }

    /// The data in use.
    #[must_use]
    pub fn current(&self) -> Arc<Machines> {
        self.current.load_full()
    }

    /// How the file stands now.
    #[must_use]
    pub fn status(&self) -> ReloadStatus {
        self.status.borrow().clone()
    }

    /// Tells of every change in how the file stands: a content taken over, or not.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<ReloadStatus> {
        self.status.subscribe()
    }

    /// Reads the file afresh and gives what it says now. If it has changed, this takes as long as a
    /// changed file must rest, 200 ms.
    ///
    /// # Errors
    /// [`LoadError`], and the data in use stays: nothing may then be concluded from it that
    /// cannot be undone.
    pub async fn reload_now(&self) -> Result<Arc<Machines>, Arc<LoadError>> {
        if let Some(path) = &self.path {
            let mut seen = self.seen.lock().await;
            self.look(path, &mut seen).await?;
        }
        Ok(self.current())
    }

    /// Looks at the file again and again until told to stop, and takes over its changes.
    pub async fn watch(&self, every: Duration, stop: CancellationToken) {
        let Some(path) = &self.path else {
            return stop.cancelled().await;
        };
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let mut seen = self.seen.lock().await;
            let now = source::fingerprint(path).await.ok();
            if now.is_none() || now != seen.fingerprint {
                // Published and logged there.
                let _ = self.look(path, &mut seen).await;
            }
        }
    }

    /// Reads the file and takes it over if it is new and may be.
    async fn look(&self, path: &Path, seen: &mut Seen) -> Result<(), Arc<LoadError>> {
        match self.take_over(path, seen).await {
            Ok(()) => {
                self.status
                    .send_if_modified(|status| status.failure.take().is_some());
                Ok(())
            }
            Err(error) => {
                if error.is_retryable() {
                    seen.fingerprint = None;
                }
                let error = Arc::new(error);
                self.publish_failure(&error);
                Err(error)
            }
        }
    }

    async fn take_over(&self, path: &Path, seen: &mut Seen) -> Result<(), LoadError> {
        let content = rested(path, Some(seen.in_use)).await?;
        seen.fingerprint = Some(content.fingerprint.clone());
        if content.hash == seen.in_use {
            return Ok(());
        }
        let new = parsed(path, &content)?;
        let old = self.current();
        let diff = Diff::between(&old, &new);
        let percent = old.policy().max_removed_percent;
        let allowed = diff::allowed(diff.known, percent);
        if diff.lost.len() > allowed {
            return Err(LoadError::TooManyRemoved {
                path: path.to_owned(),
                lost: diff.lost,
                known: diff.known,
                percent,
                allowed,
            });
        }
        seen.in_use = content.hash;
        self.current.store(Arc::new(new));
        let mut generation = 0;
        self.status.send_modify(|status| {
            status.generation += 1;
            status.failure = None;
            generation = status.generation;
        });
        tracing::info!(
            generation,
            added = diff::short(&diff.added),
            removed = diff::short(&diff.removed),
            changed = diff::short(&diff.changed),
            "machines file reloaded"
        );
        Ok(())
    }

    /// Tells of a failure, once for as long as it stays the same.
    fn publish_failure(&self, error: &Arc<LoadError>) {
        let message = error.to_string();
        let news = self.status.send_if_modified(|status| {
            let known = status.failure.as_ref().map(ToString::to_string);
            let news = known.as_ref() != Some(&message);
            status.failure = Some(Arc::clone(error));
            news
        });
        if news {
            tracing::error!(
                error = message,
                "machines file not taken over; the last good data stays"
            );
        }
    }
}

fn built_in() -> Result<Machines, LoadError> {
    builtin::machines().map_err(|reason| LoadError::Invalid {
        path: PathBuf::from("built-in data"),
        reason,
    })
}

fn parsed(path: &Path, content: &Content) -> Result<Machines, LoadError> {
    parse(&content.text).map_err(|reason| LoadError::Invalid {
        path: path.to_owned(),
        reason,
    })
}

/// The file's content at the start, when there are no data to go on with: so one that is being
/// written is waited for.
async fn first(path: &Path) -> Result<Content, LoadError> {
    for _ in 0..MOST_CHANGES {
        match rested(path, None).await {
            Err(LoadError::Changing { .. }) => {}
            other => return other,
        }
    }
    rested(path, None).await
}

/// The file's content. One that is not in use already must have rested for a moment: what is half
/// written may look whole.
async fn rested(path: &Path, in_use: Option<u64>) -> Result<Content, LoadError> {
    let content = source::read(path).await?;
    if in_use != Some(content.hash) {
        tokio::time::sleep(REST).await;
        if source::fingerprint(path).await? != content.fingerprint {
            return Err(LoadError::Changing {
                path: path.to_owned(),
            });
        }
    }
    Ok(content)
}
