//! Complete listings of a project, each made once for all who need it.
//!
//! ```text
//!   Service A ─┐
//!   Service B ─┼─ "begun at … or later" ──► at hand? ── yes ──► it
//!   Service C ─┘                               │ no
//!                            one request for all who wait ──► the cloud
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep_until};

use super::super::Cloudscale;
use super::super::api::balancers::{self, Balancer};
use super::super::api::floating_ips::{self, FloatingIp};
use super::super::api::parts::{self, Listener, Member, Monitor, Pool};
use crate::cloud_api::{CloudError, ErrorKind, Request};

/// How far apart two listings of one kind begin at least.
pub(super) const GAP: Duration = Duration::from_secs(1);

/// A complete listing.
#[derive(Debug)]
pub(super) struct Listing<T> {
    /// When it was asked for: it shows nothing older.
    pub(super) begun: Instant,
    /// What there is, in the API's order.
    pub(super) all: Vec<T>,
}

/// The listings of each kind.
#[derive(Debug)]
pub(super) struct Listings {
    cloud: Arc<Cloudscale>,
    balancers: Kind<Balancer>,
    pools: Kind<Pool>,
    listeners: Kind<Listener>,
    monitors: Kind<Monitor>,
    floating_ips: Kind<FloatingIp>,
}

/// The parts of all load balancers, but for members.
pub(super) struct Parts {
    pub(super) pools: Arc<Listing<Pool>>,
    pub(super) listeners: Arc<Listing<Listener>>,
    pub(super) monitors: Arc<Listing<Monitor>>,
    pub(super) floating_ips: Arc<Listing<FloatingIp>>,
}

impl Parts {
    /// Nothing of them is older.
    pub(super) fn begun(&self) -> Instant {
        let pools = self.pools.begun.min(self.listeners.begun);
        pools.min(self.monitors.begun).min(self.floating_ips.begun)
    }
}

impl Listings {
    pub(super) fn new(cloud: Arc<Cloudscale>) -> Self {
        Self {
            cloud,
            balancers: Kind::new(balancers::all),
            pools: Kind::new(parts::pools),
            listeners: Kind::new(parts::listeners),
            monitors: Kind::new(parts::monitors),
            floating_ips: Kind::new(floating_ips::all),
        }
    }

    /// All load balancers, as they were at `since` or later.
    ///
    /// # Errors
    /// [`CloudError`], here and below, unless there is a complete listing.
    pub(super) async fn balancers(
        &self,
        since: Instant,
    ) -> Result<Arc<Listing<Balancer>>, CloudError> {
        self.balancers.get(&self.cloud, since).await
    }

    /// All floating IPs.
    pub(super) async fn floating_ips(
        &self,
        since: Instant,
    ) -> Result<Arc<Listing<FloatingIp>>, CloudError> {
        self.floating_ips.get(&self.cloud, since).await
    }

    /// All pools, listeners, health monitors and floating IPs.
    pub(super) async fn parts(&self, since: Instant) -> Result<Parts, CloudError> {
        let (pools, listeners, monitors, floating_ips) = tokio::try_join!(
            self.pools.get(&self.cloud, since),
            self.listeners.get(&self.cloud, since),
            self.monitors.get(&self.cloud, since),
            self.floating_ips.get(&self.cloud, since),
        )?;
        Ok(Parts {
            pools,
            listeners,
            monitors,
            floating_ips,
        })
    }

    /// The members of a pool.
    pub(super) async fn members(&self, pool: &str) -> Result<Vec<Member>, CloudError> {
        self.cloud.client.fetch(&parts::members(pool)).await
    }
}

/// The listings of one kind.
struct Kind<T> {
    request: fn() -> Request,
    shared: Arc<Shared<T>>,
}

/// Without what is listed: it may be long.
impl<T> std::fmt::Debug for Kind<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kind").finish_non_exhaustive()
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

impl<T: DeserializeOwned + Send + Sync + 'static> Kind<T> {
    fn new(request: fn() -> Request) -> Self {
        let last = Last {
            listed: None,
            failed: None,
            begun: None,
        };
        Self {
            request,
            shared: Arc::new(Shared {
                last: Mutex::new(last),
                turn: Arc::default(),
            }),
        }
    }

    async fn get(
        &self,
        cloud: &Arc<Cloudscale>,
        since: Instant,
    ) -> Result<Arc<Listing<T>>, CloudError> {
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
        let listing = self
            .shared
            .clone()
            .list(cloud.clone(), (self.request)(), turn);
        match tokio::spawn(listing).await {
            Ok(listed) => listed,
            Err(panic) => {
                let what = format!("a listing has panicked: {panic}");
                Err(CloudError::new(
                    super::super::NAME,
                    ErrorKind::Malformed,
                    what,
                ))
            }
        }
    }
}

impl<T: DeserializeOwned + Send + Sync + 'static> Shared<T> {
    fn last(&self) -> MutexGuard<'_, Last<T>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at_hand(&self, since: Instant) -> Option<Arc<Listing<T>>> {
        let listed = self.last().listed.clone();
        listed.filter(|listing| listing.begun >= since)
    }

    /// How the last attempt failed, if it began after somebody had asked.
    fn failed_since(&self, asked: Instant) -> Option<CloudError> {
        let last = self.last();
        let is_later = last.begun.is_some_and(|begun| begun >= asked);
        last.failed.clone().filter(|_| is_later)
    }

    async fn list(
        self: Arc<Self>,
        cloud: Arc<Cloudscale>,
        request: Request,
        _turn: OwnedMutexGuard<()>,
    ) -> Result<Arc<Listing<T>>, CloudError> {
        let last = self.last().begun;
        if let Some(begun) = last {
            sleep_until(begun + GAP).await;
        }
        let begun = Instant::now();
        self.last().begun = Some(begun);
        let listed: Result<Vec<T>, CloudError> = cloud.client.fetch(&request).await;
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
