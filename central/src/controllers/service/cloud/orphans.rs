//! Load balancers of Services that are no more.
//!
//! **Guarantees.** One is told of only if the API server itself does not have its Service, asked
//! both before and after the cloud; it is deleted only if `--delete-orphans` says so, and if this
//! was so twice, [`APART`] apart.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::k8s::{EventKind, ObjectKey};
use mooring_common::names::reasons;
use mooring_common::node_view::NodeView;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::cluster::{Cluster, Reporter};
use super::{CloudServices, cluster_service};
use crate::cloud_provider::load_balancers::{
    CollectorContext, MadeFor, Orphan, ReconcileError, Stop, WriteGuard,
};
use crate::views::service_view::ServiceView;

/// How far apart the two looks are between which nothing may have changed.
const APART: Duration = Duration::from_secs(30);
/// When to look whether one is gone that is being deleted: parts of it may have to wait for others.
const GOES: Duration = Duration::from_secs(2);
/// When to look again if the API server or the cloud did not answer.
const AFTER_FAILURE: Duration = Duration::from_secs(60);
/// After how long an orphan is told of again.
const TELL_AGAIN: Duration = Duration::from_secs(3600);

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    wanted: Notify,
    /// Services that have not been looked at since this process leads: before, nobody is an orphan.
    unseen: Mutex<HashSet<ObjectKey>>,
    known: Mutex<HashMap<String, Known>>,
    /// How many there were last.
    count: AtomicI64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    since: Instant,
    told: Instant,
    is_going: bool,
}

/// One that was found.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    orphan: Orphan,
    is_news: bool,
    is_certain: bool,
}

impl Orphans {
    /// Looks for them when each of these Services has been looked at once.
    pub(super) fn expect_first_passes(&self, keys: Vec<ObjectKey>) {
        let mut unseen = lock(&self.unseen);
        unseen.extend(keys);
        if unseen.is_empty() {
            self.look();
        }
    }

    /// This Service has been looked at, or is gone.
    pub(super) fn passed(&self, key: &ObjectKey) {
        let mut unseen = lock(&self.unseen);
        if unseen.remove(key) && unseen.is_empty() {
            self.look();
        }
    }

    /// Asks for a look.
    pub(super) fn look(&self) {
        self.wanted.notify_one();
    }

    /// These were found now, and no others.
    fn found(&self, orphans: Vec<Orphan>) -> Vec<Found> {
        let now = Instant::now();
        let mut known = lock(&self.known);
        known.retain(|id, _| orphans.iter().any(|orphan| orphan.id == *id));
        let judge = |orphan: Orphan| {
            let before = known.get(&orphan.id).copied();
            let is_news = before.is_none_or(|before| now - before.told >= TELL_AGAIN);
            let since = before.map_or(now, |before| before.since);
            let told = before
                .filter(|_| !is_news)
                .map_or(now, |before| before.told);
            let is_going = before.is_some_and(|before| before.is_going);
            let now_known = Known {
                since,
                told,
                is_going,
            };
            known.insert(orphan.id.clone(), now_known);
            Found {
                orphan,
                is_news,
                is_certain: now - since >= APART,
            }
        };
        orphans.into_iter().map(judge).collect()
    }

    /// This one is being deleted. Gives whether that is news.
    fn goes(&self, orphan: &Orphan) -> bool {
        let mut known = lock(&self.known);
        let known = known.get_mut(&orphan.id);
        known.is_some_and(|known| !std::mem::replace(&mut known.is_going, true))
    }
}

impl CloudServices {
    /// Looks whenever asked to, until this process is told to end.
    pub(super) async fn sweep_orphans(&self) {
        let ending = self.cluster.ending();
        let mut again = None;
        loop {
            let due = async {
                match again {
                    Some(delay) => sleep(delay).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = ending.cancelled() => return,
                () = due => {}
                () = self.orphans.wanted.notified() => {}
            }
            again = self.sweep().await;
        }
    }

    /// One look; when to look again of its own accord.
    async fn sweep(&self) -> Option<Duration> {
        let (orphans, cluster) = match self.before_ending(self.orphans_now()).await {
            Err(_) => return None,
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::warn!(error, "cannot look for orphaned load balancers, will retry");
                return Some(AFTER_FAILURE);
            }
        };
        let count = i64::try_from(orphans.len()).unwrap_or(i64::MAX);
        let before = self.orphans.count.swap(count, Ordering::Relaxed);
        // Those of all clouds are counted together.
        self.metrics.orphans.inc_by(count - before);
        if count < before {
            // Something that was in the way of others is gone.
            self.look_at_refused();
        }
        let mut again = None;
        for found in self.orphans.found(orphans) {
            if found.is_news {
                self.tell_orphan(&found.orphan, &cluster).await;
            }
            if !self.options.delete_orphans || self.cluster.ending().is_cancelled() {
                continue;
            }
            let next = if !found.is_certain {
                APART
            } else if let Err(error) = self.delete_orphan(&found.orphan, &cluster).await {
                let name = &found.orphan.name;
                tracing::warn!(%error, name, "cannot delete an orphaned load balancer");
                AFTER_FAILURE
            } else {
                GOES
            };
            again = again.into_iter().chain([next]).min();
        }
        again
    }

    async fn orphans_now(&self) -> Result<(Vec<Orphan>, ServiceView), String> {
        let list = async || {
            let listed = self.cluster.fresh_all().await;
            listed.map_err(|error| error.to_string())
        };
        let before = list().await?;
        let cluster = before
            .iter()
            .find(|service| service.key == cluster_service());
        let Some(cluster) = cluster.cloned() else {
            return Err("there is no Service default/kubernetes to tell the cluster by".to_owned());
        };
        let found = self.cloud.orphans(&cluster.uid, &before).await;
        let mut found = found.map_err(|error| error.to_string())?;
        if !found.is_empty() {
            // One may have been created, and given its load balancer, meanwhile.
            let after = list().await?;
            found.retain(|orphan| !lives(&orphan.made_for, &after));
        }
        Ok((found, cluster))
    }

    async fn tell_orphan(&self, orphan: &Orphan, cluster: &ServiceView) {
        let Orphan { id, name, made_for } = orphan;
        let what = if self.options.delete_orphans {
            "It is about to be deleted."
        } else {
            "Delete it by hand, or start mooring-central with --delete-orphans."
        };
        let note = format!("The load balancer {name} ({id}) was made for {made_for}. {what}");
        tracing::warn!(name, id, %made_for, "a load balancer is orphaned");
        let (about, reason) = (cluster.reference(), reasons::ORPHANED_LOAD_BALANCER);
        self.warn(&about, reason, &note).await;
    }

    async fn delete_orphan(
        &self,
        orphan: &Orphan,
        cluster: &ServiceView,
    ) -> Result<(), ReconcileError> {
        let guard = LeaderGuard(&*self.cluster);
        self.cloud
            .remove_orphan(&cluster.uid, orphan, &guard)
            .await?;
        if !self.orphans.goes(orphan) {
            return Ok(());
        }
        let Orphan { id, name, .. } = orphan;
        tracing::info!(name, id, "deleted an orphaned load balancer");
        let note = format!("Deleted the orphaned load balancer {name} ({id})");
        let (about, reason) = (cluster.reference(), reasons::DELETED_ORPHAN);
        self.normal(&about, reason, &note).await;
        Ok(())
    }
}

/// Whether this Service is there, or one that may have taken its name.
fn lives(made_for: &MadeFor, services: &[ServiceView]) -> bool {
    let mut services = services.iter();
    match made_for {
        MadeFor::Uid(uid) | MadeFor::Dependent(uid) => services.any(|service| service.uid == *uid),
        MadeFor::Named(key) => services.any(|service| {
            service.key == *key && (service.is_load_balancer || service.has_finalizer())
        }),
        MadeFor::Several => false,
    }
}

/// What no Service asks for.
struct LeaderGuard<'a>(&'a dyn Cluster);

#[async_trait]
impl WriteGuard for LeaderGuard<'_> {
    fn before_write(&self) -> Result<(), Stop> {
        Ok(self.0.leads()?)
    }

    async fn before_creation(&self) -> Result<(), Stop> {
        Err(Stop::Changed)
    }

    fn written(&self) {}
}

/// Whoever looks after what belongs to no Service, as long as this process leads.
pub(super) struct LeadingCollector<'a>(pub(super) &'a CloudServices);

#[async_trait]
impl WriteGuard for LeadingCollector<'_> {
    fn before_write(&self) -> Result<(), Stop> {
        Ok(self.0.cluster.leads()?)
    }

    async fn before_creation(&self) -> Result<(), Stop> {
        Err(Stop::Changed)
    }

    fn written(&self) {}
}

#[async_trait]
impl CollectorContext for LeadingCollector<'_> {
    async fn report(&self, kind: EventKind, reason: &'static str, note: &str) {
        let Some(about) = self.0.cluster.service(&cluster_service()) else {
            return;
        };
        let (by, about) = (Reporter::Provider, about.reference());
        self.0.cluster.report(by, &about, kind, reason, note).await;
    }

    fn nodes(&self) -> Vec<Arc<NodeView>> {
        self.0.cluster.nodes()
    }

    fn freed(&self) {
        self.0.look_at_refused();
    }

    async fn ending(&self) {
        self.0.cluster.ending().cancelled().await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
