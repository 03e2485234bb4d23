//! The Secrets that Services name, read before a Service is planned for, and followed from then on.
//!
//! **Flow.** A pass says which Secrets its Service names. What nobody has read yet it reads; everything else
//! is at hand. Each is asked for again every half a minute, one after the other. What has changed brings
//! the Services that name it into the queue.
//!
//! **Guarantees.** A Secret that several Services name is asked for once. Only `get` is used. The
//! regular question is answered by an API server's cache, which may be behind: so a difference
//! counts only when the API server's storage says so too, and an old certificate never replaces a new
//! one. Nothing is kept of a Secret that no Service names any more.
//!
//! **Assumptions.** What cannot be read now is still what it was; a Secret that is gone, or that must not
//! be read any more, is told as that.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mooring_common::k8s::ObjectKey;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::cluster::Cluster;
use crate::cloud_provider::secrets::{ReadSecret, Secrets};
use crate::controllers::service::Freshness;

/// How often each is asked for.
const PERIOD: Duration = Duration::from_secs(30);

/// The Secrets that Services name.
#[derive(Debug, Default)]
pub(super) struct FollowedSecrets {
    state: Mutex<State>,
    /// One more is named.
    added: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// By Service.
    named: HashMap<ObjectKey, BTreeSet<ObjectKey>>,
    followed: HashMap<ObjectKey, Followed>,
}

#[derive(Debug)]
struct Followed {
    /// The Services that name it.
    by: BTreeSet<ObjectKey>,
    /// `None`: nobody has read it yet.
    content: Option<Arc<ReadSecret>>,
    /// When it was asked for last.
    asked: Instant,
    /// Locked by whoever reads it first.
    first: Arc<tokio::sync::Mutex<()>>,
}

impl FollowedSecrets {
    /// What the Secrets say that a Service names, which are these from now on.
    pub(super) async fn read(
        &self,
        cluster: &dyn Cluster,
        service: &ObjectKey,
        names: BTreeSet<String>,
    ) -> Secrets {
        self.name(service, &names);
        let mut all = Vec::new();
        for name in names {
            let key = ObjectKey::new(&service.namespace, &name);
            all.push((name, self.content(cluster, key).await));
        }
        all.into_iter().collect()
    }

    /// A Service names none (any more).
    pub(super) fn unname(&self, service: &ObjectKey) {
        self.name(service, &BTreeSet::new());
    }

    /// Asks for each again, for as long as the future is polled. `changed` is told the Services that name
    /// one that has changed.
    pub(super) async fn follow(&self, cluster: &dyn Cluster, changed: impl Fn(ObjectKey)) {
        let mut last = Instant::now();
        loop {
            let Some((key, at)) = self.lock().next(last) else {
                self.added.notified().await;
                last = Instant::now();
                continue;
            };
            // One more means that they follow each other sooner.
            if timeout_at(at, self.added.notified()).await.is_err() {
                last = Instant::now();
                self.ask_again(cluster, &key, &changed).await;
            }
        }
    }

    fn name(&self, service: &ObjectKey, names: &BTreeSet<String>) {
        let keys = names.iter();
        let keys = keys.map(|name| ObjectKey::new(&service.namespace, name));
        if self.lock().name(service, keys.collect()) {
            self.added.notify_one();
        }
    }

    /// What a Secret says: as it was read last, or as it is now.
    async fn content(&self, cluster: &dyn Cluster, key: ObjectKey) -> Arc<ReadSecret> {
        let first = self.lock().first(&key);
        let _turn = first.lock().await;
        if let Some(content) = self.lock().content(&key) {
            return content;
        }
        let read = cluster.secret(&key, Freshness::Latest).await;
        let again = |why: String| {
            let period = PERIOD.as_secs();
            ReadSecret::Unreadable(format!("{why}; it is asked for again every {period} s"))
        };
        let content = Arc::new(read.unwrap_or_else(again));
        self.lock().set(&key, &content);
        content
    }

    async fn ask_again(
        &self,
        cluster: &dyn Cluster,
        key: &ObjectKey,
        changed: &impl Fn(ObjectKey),
    ) {
        let Some(before) = self.lock().asks(key) else {
            return;
        };
        let mut now = cluster.secret(key, Freshness::Cached).await;
        if now.as_ref().is_ok_and(|now| *now != *before) {
            now = cluster.secret(key, Freshness::Latest).await;
        }
        match now {
            Ok(now) if now == *before => {}
            Ok(now) => {
                tracing::info!(secret = %key, "it has changed, or its presence has");
                let services = self.lock().set(key, &Arc::new(now));
                services.into_iter().for_each(changed);
            }
            Err(error) => tracing::debug!(secret = %key, error, "it stays as it was read last"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A Service names these and no others. Whether nobody did that of one before.
    fn name(&mut self, service: &ObjectKey, keys: BTreeSet<ObjectKey>) -> bool {
        let before = match keys.is_empty() {
            true => self.named.remove(service),
            false => self.named.insert(service.clone(), keys.clone()),
        };
        for key in before.unwrap_or_default().difference(&keys) {
            if let Some(followed) = self.followed.get_mut(key) {
                followed.by.remove(service);
                if followed.by.is_empty() {
                    self.followed.remove(key);
                }
            }
        }
        let count = self.followed.len();
        for key in keys {
            let followed = self.followed.entry(key).or_insert_with(Followed::new);
            followed.by.insert(service.clone());
        }
        self.followed.len() > count
    }

    fn first(&self, key: &ObjectKey) -> Arc<tokio::sync::Mutex<()>> {
        let followed = self.followed.get(key);
        followed.map_or_else(Arc::default, |followed| followed.first.clone())
    }

    fn content(&self, key: &ObjectKey) -> Option<Arc<ReadSecret>> {
        self.followed.get(key)?.content.clone()
    }

    /// What one says, unless nobody names it any more. Gives the Services that do.
    fn set(&mut self, key: &ObjectKey, content: &Arc<ReadSecret>) -> BTreeSet<ObjectKey> {
        let Some(followed) = self.followed.get_mut(key) else {
            return BTreeSet::new();
        };
        followed.content = Some(content.clone());
        followed.by.clone()
    }

    /// One is asked for again. Gives what it said before. `None`: whoever names it reads it first.
    fn asks(&mut self, key: &ObjectKey) -> Option<Arc<ReadSecret>> {
        let followed = self.followed.get_mut(key)?;
        followed.asked = Instant::now();
        followed.content.clone()
    }

    /// Which is asked for next, and when, if the last one was then: the questions are spread over the
    /// period, and none comes later than a period after the last about the same.
    fn next(&self, last: Instant) -> Option<(ObjectKey, Instant)> {
        let count = u32::try_from(self.followed.len()).unwrap_or(u32::MAX);
        let all = self.followed.iter();
        let (key, oldest) = all.min_by_key(|(key, followed)| (followed.asked, *key))?;
        let at = (last + PERIOD / count).min(oldest.asked + PERIOD);
        Some((key.clone(), at))
    }
}

impl Followed {
    fn new() -> Self {
        Self {
            by: BTreeSet::new(),
            content: None,
            asked: Instant::now(),
            first: Arc::default(),
        }
    }
}
