//! A watch that keeps only what is looked at.
//!
//! kube's own `reflector` keeps whole API objects: a Node of 10 KiB for the sake of a few fields.
//! A [`Cache`] turns each object into its slim form as it arrives, and drops the rest.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use futures::StreamExt;
use kube::runtime::watcher;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

/// The part of an API object that is kept.
pub trait Slim: Clone + PartialEq + Send + Sync + 'static {
    /// The whole object.
    type Object: Resource<DynamicType = ()>
        + Clone
        + fmt::Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static;

    /// Takes what is needed, and lets the rest go.
    fn slim(object: Self::Object) -> Self;
}

/// Namespace (empty for what is cluster-wide) and name of an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// `metadata.namespace`, or empty.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object of a namespace.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of a cluster-wide object.
    #[must_use]
    pub fn cluster_wide(name: impl Into<String>) -> Self {
        Self::new("", name)
    }

    fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(
            meta.namespace.clone().unwrap_or_default(),
            meta.name.clone().unwrap_or_default(),
        )
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What happened to one object, in terms of what is kept of it. Changes to the rest are not told.
#[derive(Clone, Debug)]
pub struct Change<V> {
    /// Which object.
    pub key: ObjectKey,
    /// What was kept of it before; `None` if it is new.
    pub old: Option<Arc<V>>,
    /// What is kept of it now; `None` if it is gone.
    pub new: Option<Arc<V>>,
}

/// All objects of a kind, in slim form, as the API server last told.
#[derive(Debug)]
pub struct Cache<V> {
    objects: RwLock<HashMap<ObjectKey, Arc<V>>>,
    synced: watch::Sender<bool>,
    /// How many changes there have been to what is kept.
    changes: AtomicU64,
}

impl<V> Default for Cache<V> {
    fn default() -> Self {
        Self {
            objects: RwLock::default(),
            synced: watch::Sender::new(false),
            changes: AtomicU64::new(0),
        }
    }
}

impl<V: Slim> Cache<V> {
    /// What is kept of one object.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        self.objects
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
    }

    /// What is kept of every object, in no order.
    #[must_use]
    pub fn all(&self) -> Vec<(ObjectKey, Arc<V>)> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Whether a complete list has arrived.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// How many changes there have been. As long as that is the same, so is [`Self::all`], if this is
    /// asked first.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Waits until a complete list has arrived.
    pub async fn synced(&self) {
        let mut synced = self.synced.subscribe();
        let _ = synced.wait_for(|done| *done).await;
    }

    /// Follows the API server for as long as the future is polled, and tells every change to what
    /// is kept. Interruptions are retried with backoff; what vanished meanwhile is told as gone
    /// after the next complete list.
    pub async fn follow(
        &self,
        api: Api<V::Object>,
        config: watcher::Config,
        mut tell: impl FnMut(Change<V>),
    ) {
        let mut stream = super::watch(api, config).boxed();
        let mut listed = None;
        while let Some(event) = stream.next().await {
            match event {
                watcher::Event::Init => listed = Some(Vec::new()),
                watcher::Event::InitApply(object) => {
                    let key = ObjectKey::of(&object);
                    if let Some(listed) = &mut listed {
                        listed.push(key.clone());
                    }
                    self.put(key, V::slim(object), &mut tell);
                }
                watcher::Event::InitDone => {
                    self.keep_only(&listed.take().unwrap_or_default(), &mut tell);
                    self.synced.send_replace(true);
                }
                watcher::Event::Apply(object) => {
                    self.put(ObjectKey::of(&object), V::slim(object), &mut tell);
                }
                watcher::Event::Delete(object) => {
                    self.remove(ObjectKey::of(&object), &mut tell);
                }
            }
        }
    }

    fn put(&self, key: ObjectKey, value: V, tell: &mut impl FnMut(Change<V>)) {
        let value = Arc::new(value);
        let old = {
            let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
            objects.insert(key.clone(), value.clone())
        };
        if old.as_ref() != Some(&value) {
            self.changes.fetch_add(1, Ordering::Release);
            tell(Change {
                key,
                old,
                new: Some(value),
            });
        }
    }

    fn remove(&self, key: ObjectKey, tell: &mut impl FnMut(Change<V>)) {
        let old = {
            let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
            objects.remove(&key)
        };
        if old.is_some() {
            self.changes.fetch_add(1, Ordering::Release);
            tell(Change {
                key,
                old,
                new: None,
            });
        }
    }

    fn keep_only(&self, listed: &[ObjectKey], tell: &mut impl FnMut(Change<V>)) {
        let listed: std::collections::HashSet<_> = listed.iter().collect();
        for (key, _) in self.all() {
            if !listed.contains(&key) {
                self.remove(key, tell);
            }
        }
    }
}
