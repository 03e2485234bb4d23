//! Keeps the [`Snapshot`] as the API server has things.
//!
//! Each object is reduced to its slim form as it arrives. Changes that come together are published
//! together.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use mooring_common::k8s::{self, ObjectKey, Slim};
use mooring_common::l2_network::L2Network;
use mooring_common::maintenance::Maintenance;
use mooring_common::node_view::NodeView;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::saved_health::SavedHealth;
use super::service_proxy::{Confirmed, ServiceProxy, UnservedServices};
use super::snapshot::{L2NetworkView, ServiceView, SliceView, Snapshot, by_service};
use crate::fence::WritePermit;
use crate::vlan::Faults;

/// How long changes are gathered before they are published: short against the 50 ms within which
/// `/livez` has to follow a change, long against the gaps within a list.
const GATHER: Duration = Duration::from_millis(5);
/// How often the clock is looked at while the Node is in maintenance until a time: it may be set.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(10);
/// How long to wait for the API server after the start, until health checks are answered from what the
/// process before has left.
const API_SERVER_TIMEOUT: Duration = Duration::from_secs(1);

/// What to watch, and where the result goes.
#[derive(Clone)]
pub struct Watches {
    /// The connection to the API server.
    pub client: Client,
    /// The Node that this daemon runs on.
    pub node_name: String,
    /// Where the snapshot goes.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    /// Counts up with every snapshot.
    pub published: watch::Sender<u64>,
    /// Opens once anything may be written.
    pub permit: WritePermit,
    /// Goes into every snapshot.
    pub vlan_faults: Faults,
    /// What is known of the service proxy.
    pub service_proxy: watch::Receiver<ServiceProxy>,
    /// What it says of single Services.
    pub refused: watch::Receiver<UnservedServices>,
    /// Of which it has confirmed that they have an endpoint here.
    pub confirmed: watch::Receiver<Confirmed>,
    /// What the process before this one has left for health checks.
    pub saved_health: Option<Arc<SavedHealth>>,
}

/// What is gathered, and whether EndpointSlices are to be sorted anew.
#[derive(Default)]
struct Draft {
    snapshot: Snapshot,
    slices: BTreeMap<ObjectKey, Arc<SliceView>>,
    slices_changed: bool,
}

/// The mutex is held only for moments, and never while waiting.
#[derive(Default)]
struct Shared {
    draft: Mutex<Draft>,
    changed: Notify,
    /// The Node has changed.
    node_changed: Notify,
}

impl Shared {
    /// The API server has sent something.
    fn change(&self, change: impl FnOnce(&mut Draft)) {
        self.edit(|draft| {
            draft.snapshot.heard = Some(Instant::now());
            change(draft);
        });
    }

    fn edit(&self, edit: impl FnOnce(&mut Draft)) {
        let mut draft = self.draft.lock().unwrap_or_else(PoisonError::into_inner);
        edit(&mut draft);
        drop(draft);
        self.changed.notify_one();
    }

    /// When the Node's maintenance ends, if that is to come.
    fn maintenance_ends(&self) -> Option<Timestamp> {
        let draft = self.draft.lock().unwrap_or_else(PoisonError::into_inner);
        match draft.snapshot.maintenance() {
            Maintenance::Until(end) => Some(end).filter(|end| draft.snapshot.looked_at < *end),
            Maintenance::Off | Maintenance::On | Maintenance::Unreadable(_) => None,
        }
    }

    fn snapshot(&self) -> Snapshot {
        let mut draft = self.draft.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut draft.slices_changed) {
            draft.snapshot.slices = Arc::new(by_service(&draft.slices));
        }
        draft.snapshot.clone()
    }
}

/// News of one kind of object.
enum News<V> {
    /// All there are.
    All(BTreeMap<ObjectKey, Arc<V>>),
    /// One is so now, or (`None`) is gone.
    One(ObjectKey, Option<Arc<V>>),
}

impl<V> News<V> {
    fn enter(self, into: &mut BTreeMap<ObjectKey, Arc<V>>) {
        match self {
            Self::All(all) => *into = all,
            Self::One(key, Some(value)) => {
                into.insert(key, value);
            }
            Self::One(key, None) => {
                into.remove(&key);
            }
        }
    }
}

impl<V: PartialEq> News<V> {
    fn differs_from(&self, known: &BTreeMap<ObjectKey, Arc<V>>) -> bool {
        match self {
            Self::All(all) => all != known,
            Self::One(key, value) => known.get(key) != value.as_ref(),
        }
    }
}

impl Watches {
    /// Watches for as long as the future is polled.
    pub async fn follow(self) {
        let shared = Shared::default();
        shared.edit(|draft| draft.snapshot.vlan_faults = self.vlan_faults.clone());
        tokio::join!(
            self.services(&shared),
            self.slices(&shared),
            self.networks(&shared),
            self.node(&shared),
            self.maintenance(&shared),
            self.permission(&shared),
            self.service_proxy(&shared),
            self.refused(&shared),
            self.confirmed(&shared),
            self.recollect(&shared),
            self.publish(&shared)
        );
    }

    async fn services(&self, shared: &Shared) {
        let api = Api::<Service>::all(self.client.clone());
        follow(api, watcher::Config::default(), ServiceView::read, |news| {
            shared.change(|draft| {
                draft.snapshot.synced.services = true;
                news.enter(Arc::make_mut(&mut draft.snapshot.services));
            });
        })
        .await;
    }

    async fn slices(&self, shared: &Shared) {
        let api = Api::<EndpointSlice>::all(self.client.clone());
        let read = |slice| SliceView::read(slice, &self.node_name);
        follow(api, watcher::Config::default(), read, |news| {
            shared.change(|draft| {
                draft.snapshot.synced.slices = true;
                draft.slices_changed = true;
                news.enter(&mut draft.slices);
            });
        })
        .await;
    }

    async fn networks(&self, shared: &Shared) {
        let api = Api::<L2Network>::all(self.client.clone());
        let read = |network| Some(L2NetworkView::read(network, &self.node_name));
        follow(api, watcher::Config::default(), read, |news| {
            shared.change(|draft| {
                draft.snapshot.synced.networks = true;
                // What a daemon writes into a status is an event for all of them.
                if news.differs_from(&draft.snapshot.networks) {
                    news.enter(Arc::make_mut(&mut draft.snapshot.networks));
                }
            });
        })
        .await;
    }

    async fn node(&self, shared: &Shared) {
        let api = Api::<Node>::all(self.client.clone());
        let config =
            watcher::Config::default().fields(&format!("metadata.name={}", self.node_name));
        let read = |node| Some(NodeView::slim(node));
        follow(api, config, read, |news| {
            shared.change(|draft| {
                draft.snapshot.synced.node = true;
                let node = draft.snapshot.node.take();
                let key = ObjectKey::cluster_wide(self.node_name.as_str());
                let mut nodes: BTreeMap<_, _> = node.map(|node| (key, node)).into_iter().collect();
                news.enter(&mut nodes);
                draft.snapshot.node = nodes.into_values().next();
                draft.snapshot.looked_at = Timestamp::now();
            });
            shared.node_changed.notify_one();
        })
        .await;
    }

    /// Looks at the clock when the Node's maintenance ends.
    async fn maintenance(&self, shared: &Shared) {
        loop {
            let changed = shared.node_changed.notified();
            let Some(end) = shared.maintenance_ends() else {
                changed.await;
                continue;
            };
            let now = Timestamp::now();
            if now < end {
                let left = Duration::try_from(end.duration_since(now)).unwrap_or_default();
                // Whether the Node has changed or the time has passed: it is looked at again.
                let _ = timeout(left.min(LOOK_AT_CLOCK), changed).await;
                continue;
            }
            tracing::info!(%end, "the maintenance of this Node has ended");
            shared.edit(|draft| draft.snapshot.looked_at = now);
        }
    }

    async fn permission(&self, shared: &Shared) {
        self.permit.clone().granted().await;
        shared.edit(|draft| draft.snapshot.may_write = true);
    }

    async fn service_proxy(&self, shared: &Shared) {
        let mut states = self.service_proxy.clone();
        while states.changed().await.is_ok() {
            let now = *states.borrow_and_update();
            shared.edit(|draft| draft.snapshot.service_proxy = now);
        }
    }

    async fn refused(&self, shared: &Shared) {
        let mut states = self.refused.clone();
        while states.changed().await.is_ok() {
            let now = states.borrow_and_update().clone();
            shared.edit(|draft| draft.snapshot.refused = now);
        }
    }

    async fn confirmed(&self, shared: &Shared) {
        let mut states = self.confirmed.clone();
        while states.changed().await.is_ok() {
            let now = states.borrow_and_update().clone();
            shared.edit(|draft| draft.snapshot.confirmed = now);
        }
    }

    async fn recollect(&self, shared: &Shared) {
        if let Some(saved_health) = &self.saved_health {
            tokio::time::sleep(API_SERVER_TIMEOUT).await;
            shared.edit(|draft| {
                if !draft.snapshot.answers_health() {
                    tracing::info!(
                        "health checks are answered as the daemon before this one did, until all is \
                         known anew"
                    );
                    draft.snapshot.saved_health = Some(Arc::clone(saved_health));
                }
            });
        }
    }

    async fn publish(&self, shared: &Shared) {
        loop {
            shared.changed.notified().await;
            tokio::time::sleep(GATHER).await;
            self.snapshot.store(Arc::new(shared.snapshot()));
            self.published.send_modify(|count| *count += 1);
        }
    }
}

/// Follows one kind of object. A new list is told as a whole once it is complete; interruptions
/// are retried with backoff, and what was known stands meanwhile.
async fn follow<K, V>(
    api: Api<K>,
    config: watcher::Config,
    read: impl Fn(K) -> Option<V>,
    mut tell: impl FnMut(News<V>),
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut stream = k8s::watch(api, config).boxed();
    let mut listed = BTreeMap::new();
    while let Some(event) = stream.next().await {
        match event {
            watcher::Event::Init => listed = BTreeMap::new(),
            watcher::Event::InitApply(object) => {
                let key = key_of(&object);
                listed.extend(read(object).map(|value| (key, Arc::new(value))));
            }
            watcher::Event::InitDone => tell(News::All(std::mem::take(&mut listed))),
            watcher::Event::Apply(object) => {
                let key = key_of(&object);
                tell(News::One(key, read(object).map(Arc::new)));
            }
            watcher::Event::Delete(object) => tell(News::One(key_of(&object), None)),
        }
    }
}

fn key_of<K: Resource>(object: &K) -> ObjectKey {
    let meta = object.meta();
    ObjectKey::new(
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests;
