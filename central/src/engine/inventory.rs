//! What a cloud's machines are, from one listing that answers every question.
//!
//! ```text
//!   initialisation ─┐
//!   lifecycle ──────┼─ "not older than …" ──► listing at hand? ── yes ──► answer
//!   load balancers ─┘                              │ no
//!                                    one request for all who wait ──► the cloud
//! ```
//!
//! **Guarantees.** However many ask at once, one listing is made; two listings begin at least
//! [`GAP`] apart. After a failure nobody asks the cloud before the time that the cloud has named,
//! or a backoff, is over, and what was known is kept. An answer "no such machine" comes only from a
//! complete listing. An empty one may be that of a wrong project: it tells only of machines that
//! were listed before with the same credentials, and a machine is confirmed to be gone only if all
//! of those are, each asked for alone.

mod alone;
mod listing;

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use mooring_common::node_facts::Presence;
use mooring_common::node_view::NodeView;
use mooring_common::provider_id::ProviderId;
use mooring_common::work_queue::Backoff;
use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::{Attachment, Instances, Lookup, MachineSource};
use listing::Listing;

/// How far apart two listings begin at least.
pub const GAP: Duration = Duration::from_secs(1);

/// How long a listing is waited for by whoever looks for one machine: a cloud that hangs must not hold
/// up what is to be done for the Nodes of another. The listing goes on meanwhile, and a later pass finds
/// it. One that takes its time regularly is waited for twice as long as the last one has taken.
const LISTING_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the cloud is left alone after a failure, unless it says itself. When it is back, nobody
/// should wait for long.
const AFTER_FAILURE: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(8),
};
/// The same where it refuses, which asking again will hardly change.
const AFTER_REFUSAL: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(60),
};

/// The machines of one cloud.
pub struct Inventory {
    shared: Arc<Shared>,
}

struct Shared {
    source: Arc<dyn MachineSource>,
    listing: ArcSwapOption<Listing>,
    /// Held while a listing is made.
    attempts: Arc<Mutex<Attempts>>,
    pace: std::sync::Mutex<Pace>,
    changes: watch::Sender<u64>,
}

/// How the last attempts to list went.
#[derive(Debug, Default)]
struct Attempts {
    failures: u32,
    /// The last failure, and until when nobody asks again with the same credentials.
    failed: Option<(CloudError, Instant)>,
    /// The credentials that it was asked with.
    credentials: u64,
    /// When the last one began.
    begun: Option<Instant>,
}

/// How long listings take.
#[derive(Debug, Default)]
struct Pace {
    /// When the one that is being made began.
    under_way: Option<Instant>,
    /// How long the last complete one took.
    took: Duration,
}

impl Inventory {
    /// An inventory that nothing is in yet.
    #[must_use]
    pub fn new(source: Arc<dyn MachineSource>) -> Self {
        Self {
            shared: Arc::new(Shared {
                source,
                listing: ArcSwapOption::empty(),
                attempts: Arc::default(),
                pace: std::sync::Mutex::default(),
                changes: watch::Sender::new(0),
            }),
        }
    }

    /// [`Instances::look_up`], and what load balancers need besides: the machine's addresses in
    /// their networks. None unless the machine is known.
    pub async fn attachments(
        &self,
        node: &NodeView,
        since: Option<Instant>,
    ) -> (Lookup, Vec<Attachment>) {
        // What was listed with other credentials may be another project's.
        let is_of_others = self.shared.at_hand(None).is_some_and(|last| {
            let credentials = Some(self.shared.source.credentials());
            last.credentials != credentials
        });
        let since = since.or_else(|| is_of_others.then(Instant::now));
        let (lookup, listing) = self.find(node, self.listing(since)).await;
        let id = match &lookup {
            Lookup::Known { .. } => self.id_of(node),
            _ => None,
        };
        let attachments = listing
            .zip(id)
            .map(|(listing, id)| listing.attachments(&id));
        (lookup, attachments.unwrap_or_default())
    }

    /// The ID that the Node bears, if it is this provider's.
    fn id_of(&self, node: &NodeView) -> Option<ProviderId> {
        self.read_id(node.provider_id.as_deref()?)?.ok()
    }

    /// What is known of the Node's machine, and the listing that says it.
    async fn find(
        &self,
        node: &NodeView,
        listing: impl Future<Output = Result<Arc<Listing>, CloudError>>,
    ) -> (Lookup, Option<Arc<Listing>>) {
        let id = match node.provider_id.as_deref() {
            None => None,
            Some(text) => match self.read_id(text) {
                Some(Ok(id)) => Some(id),
                Some(Err(why)) => return (Lookup::Foreign(why), None),
                None => {
                    let why = format!(
                        "The provider ID {text} belongs to another provider than {}, so this Node \
                         is left alone.",
                        self.provider()
                    );
                    return (Lookup::Foreign(why), None);
                }
            },
        };
        match listing.await {
            Ok(listing) => {
                let lookup = listing.look_up(node, id.as_ref(), self.provider());
                (lookup, Some(listing))
            }
            Err(error) => {
                let unavailable = Lookup::Unavailable {
                    why: error.to_string(),
                    retry_after: error.retry_after,
                };
                (unavailable, None)
            }
        }
    }

    /// [`Self::listing`], unless that takes longer than a pass over one Node can wait.
    async fn listing_soon(&self, since: Option<Instant>) -> Result<Arc<Listing>, CloudError> {
        let until = self.shared.patience_ends();
        let listing = timeout_at(until, self.listing(since)).await;
        listing.unwrap_or_else(|_| {
            Err(CloudError::new(
                self.shared.source.provider(),
                ErrorKind::Timeout,
                "the listing of the machines is not complete yet",
            ))
        })
    }

    /// A complete listing that was begun at `since` or later; `None`: however long ago.
    async fn listing(&self, since: Option<Instant>) -> Result<Arc<Listing>, CloudError> {
        if let Some(listing) = self.shared.at_hand(since) {
            return Ok(listing);
        }
        let attempts = self.shared.attempts.clone().lock_owned().await;
        if let Some(listing) = self.shared.at_hand(since) {
            return Ok(listing);
        }
        // On its own, so that it goes on if whoever asked for it gives up.
        let shared = self.shared.clone();
        match tokio::spawn(shared.list(attempts)).await {
            Ok(listed) => listed,
            Err(panic) => Err(CloudError::new(
                self.shared.source.provider(),
                ErrorKind::Malformed,
                format!("listing the machines has panicked: {panic}"),
            )),
        }
    }
}

impl Shared {
    fn pace(&self) -> std::sync::MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when a listing is waited for that is asked for now.
    fn patience_ends(&self) -> Instant {
        let pace = self.pace();
        let begun = pace.under_way.unwrap_or_else(Instant::now);
        begun + LISTING_TIMEOUT.max(pace.took * 2)
    }

    fn at_hand(&self, since: Option<Instant>) -> Option<Arc<Listing>> {
        self.listing
            .load_full()
            .filter(|listing| since.is_none_or(|since| listing.begun >= since))
    }

    async fn list(
        self: Arc<Self>,
        mut attempts: OwnedMutexGuard<Attempts>,
    ) -> Result<Arc<Listing>, CloudError> {
        let now = Instant::now();
        if let Some((error, until)) = &attempts.failed
            && *until > now
            && attempts.credentials == self.source.credentials()
        {
            return Err(CloudError {
                retry_after: Some(*until - now),
                ..error.clone()
            });
        }
        if let Some(begun) = attempts.begun {
            sleep_until(begun + GAP).await;
        }
        let begun = Instant::now();
        attempts.begun = Some(begun);
        self.pace().under_way = Some(begun);
        let credentials = self.source.credentials();
        attempts.credentials = credentials;
        let listed = self.source.readable().await;
        let mut pace = self.pace();
        pace.under_way = None;
        if listed.is_ok() {
            pace.took = begun.elapsed();
        }
        drop(pace);
        match listed {
            Ok((machines, unread)) => {
                attempts.failures = 0;
                attempts.failed = None;
                let same = Some(credentials).filter(|before| *before == self.source.credentials());
                let before = self.listing.load_full();
                let listing = Listing::new(begun, machines, unread, same, before.as_deref());
                for why in listing.newly_unread(before.as_deref()) {
                    tracing::warn!(
                        why,
                        "a machine is left out, and none counts as missing meanwhile"
                    );
                }
                let listing = Arc::new(listing);
                self.listing.store(Some(listing.clone()));
                if before.is_none_or(|before| !before.says_the_same_as(&listing)) {
                    self.changes.send_modify(|generation| *generation += 1);
                }
                Ok(listing)
            }
            Err(error) => {
                attempts.failures += 1;
                let backoff = if error.is_retryable() {
                    AFTER_FAILURE
                } else {
                    AFTER_REFUSAL
                };
                let own = backoff.after(attempts.failures);
                let wait = error.retry_after.unwrap_or_default().max(own);
                let seconds = wait.as_secs_f64();
                tracing::warn!(%error, seconds, "the machines cannot be listed, what was known is kept");
                attempts.failed = Some((error.clone(), Instant::now() + wait));
                Err(CloudError {
                    retry_after: Some(wait),
                    ..error
                })
            }
        }
    }
}

#[async_trait]
impl Instances for Inventory {
    fn provider(&self) -> &'static str {
        self.shared.source.provider()
    }

    fn read_id(&self, provider_id: &str) -> Option<Result<ProviderId, String>> {
        let source = &self.shared.source;
        let is_ours = source.claims(provider_id);
        is_ours.then(|| source.parse_id(provider_id))
    }

    async fn look_up(&self, node: &NodeView, since: Option<Instant>) -> Lookup {
        self.find(node, self.listing_soon(since)).await.0
    }

    async fn confirm(&self, node: &NodeView) -> Presence {
        self.ask_alone(node).await.0.presence()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    async fn keep_fresh(&self, interval: Duration) {
        loop {
            let now = Instant::now();
            let due = self.shared.at_hand(None).map(|last| last.begun + interval);
            let next = match due.filter(|due| *due > now) {
                Some(due) => due,
                None => match self.listing(Some(now)).await {
                    Ok(listing) => listing.begun + interval,
                    Err(error) => Instant::now() + error.retry_after.unwrap_or(interval),
                },
            };
            sleep_until(next).await;
        }
    }
}

/// Sorted, without repetition: how the texts of an Event read the same each time.
fn joined<'a>(ids: impl Iterator<Item = &'a ProviderId>) -> String {
    let mut all: Vec<String> = ids
        .collect::<HashSet<_>>()
        .into_iter()
        .map(ToString::to_string)
        .collect();
    all.sort();
    all.join(", ")
}

#[cfg(test)]
mod tests;
