//! Complete listings, each made once for all who need it.
//!
//! ```text
//!   Service A ─┐
//!   Service B ─┼─ "begun at … or later" ──► at hand? ── yes ──► it
//!   Service C ─┘                               │ no
//!                            one request for all who wait ──► the cloud
//! ```

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep_until};

use crate::cloud_api::{CloudError, ErrorKind};

/// How far apart two listings of one kind begin at least.
pub const GAP: Duration = Duration::from_secs(1);

/// A complete listing.
#[derive(Debug)]
pub struct Listing<T> {
    /// When it was asked for: it shows nothing older.
    pub begun: Instant,
    /// What there is, in the API's order.
    pub all: Vec<T>,
}

/// A request for all of one kind.
type List<T> =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Vec<T>, CloudError>> + Send>> + Send + Sync>;

/// The listings of one kind.
pub struct Listings<T> {
    provider: &'static str,
    list: List<T>,
    shared: Arc<Shared<T>>,
}

/// Without what is listed: it may be long.
impl<T> std::fmt::Debug for Listings<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listings").finish_non_exhaustive()
    }
}

struct Shared<T> {
    last: Mutex<Last<T>>,
    /// Held while a listing is made.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// How the last attempts went.
struct Last<T> {
    listed: Option<Arc<Listing<T>>>,
    failed: Option<CloudError>,
    /// When the last one of them began.
    begun: Option<Instant>,
}

impl<T: Send + Sync + 'static> Listings<T> {
    /// Of what `list` asks a cloud of this provider for.
    pub fn new<F>(provider: &'static str, list: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<T>, CloudError>> + Send + 'static,
    {
        let last = Last {
            listed: None,
            failed: None,
            begun: None,
        };
        Self {
            provider,
            list: Arc::new(move || Box::pin(list())),
            shared: Arc::new(Shared {
                last: Mutex::new(last),
                turn: Arc::default(),
            }),
        }
    }

    /// Of what `list` asks this one for.
    pub fn of<C, F>(
        provider: &'static str,
        asked: &Arc<C>,
        list: impl Fn(Arc<C>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        C: Send + Sync + 'static,
        F: Future<Output = Result<Vec<T>, CloudError>> + Send + 'static,
    {
        let asked = asked.clone();
        Self::new(provider, move || list(asked.clone()))
    }

    /// The last one.
    #[must_use]
    pub fn last(&self) -> Option<Arc<Listing<T>>> {
        self.shared.last().listed.clone()
    }

    /// The first such thing. What is not in a listing that was begun at `since` or later is looked for in one that is
    /// begun now.
    ///
    /// # Errors
    /// [`CloudError`] unless there is a complete listing.
    pub async fn find(
        &self,
        since: Instant,
        is_it: impl Fn(&T) -> bool + Send + Sync,
    ) -> Result<Option<T>, CloudError>
    where
        T: Clone,
    {
        let listing = self.get(since).await?;
        if let Some(found) = listing.all.iter().find(|one| is_it(one)) {
            return Ok(Some(found.clone()));
        }
        let listing = self.get(Instant::now()).await?;
        Ok(listing.all.iter().find(|one| is_it(one)).cloned())
    }

    /// One that was begun at `since` or later; `None`: however old.
    ///
    /// # Errors
    /// [`CloudError`] unless there is a complete listing.
    pub async fn get(
        &self,
        since: impl Into<Option<Instant>> + Send,
    ) -> Result<Arc<Listing<T>>, CloudError> {
        let since = since.into();
        if let Some(listing) = self.shared.at_hand(since) {
            return Ok(listing);
        }
        let asked = Instant::now();
        let turn = self.shared.turn.clone().lock_owned().await;
        if let Some(listing) = self.shared.at_hand(since) {
            return Ok(listing);
        }
        if let Some(error) = self.shared.failed_since(asked) {
            return Err(error);
        }
        // On its own, so that it goes on if whoever asked for it gives up.
        let listing = self.shared.clone().list(self.list.clone(), turn);
        match tokio::spawn(listing).await {
            Ok(listed) => listed,
            Err(panic) => {
                let what = format!("a listing has panicked: {panic}");
                Err(CloudError::new(self.provider, ErrorKind::Malformed, what))
            }
        }
    }
}

impl<T: Send + Sync + 'static> Shared<T> {
    fn last(&self) -> MutexGuard<'_, Last<T>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at_hand(&self, since: Option<Instant>) -> Option<Arc<Listing<T>>> {
        let listed = self.last().listed.clone();
        listed.filter(|listing| since.is_none_or(|since| listing.begun >= since))
    }

    /// How the last attempt failed, if it began after somebody had asked.
    fn failed_since(&self, asked: Instant) -> Option<CloudError> {
        let last = self.last();
        let is_later = last.begun.is_some_and(|begun| begun >= asked);
        last.failed.clone().filter(|_| is_later)
    }

    async fn list(
        self: Arc<Self>,
        list: List<T>,
        _turn: OwnedMutexGuard<()>,
    ) -> Result<Arc<Listing<T>>, CloudError> {
        let last = self.last().begun;
        if let Some(begun) = last {
            sleep_until(begun + GAP).await;
        }
        let begun = Instant::now();
        self.last().begun = Some(begun);
        let listed = list().await;
        let mut last = self.last();
        last.failed = listed.as_ref().err().cloned();
        let listing = Arc::new(Listing {
            begun,
            all: listed?,
        });
        last.listed = Some(listing.clone());
        Ok(listing)
    }
}
