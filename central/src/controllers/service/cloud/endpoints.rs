//! Where the endpoints of Services are, as EndpointSlices say, and when a change of that is looked at.
//!
//! Kept of a slice are the names of Nodes alone, so that all that Pods do on Nodes where others of
//! their Service are too is no change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::runtime::watcher;
use mooring_common::k8s::{Change, ObjectKey, Slim};
use mooring_common::names::labels;
use tokio::time::Instant;

use crate::cloud_provider::load_balancers::Endpoints;

/// How long further changes are waited for: long against the gaps between those that come together,
/// short against the seconds that a Pod serves after SIGTERM.
const GATHER: Duration = Duration::from_millis(100);
/// How far apart two looks at one Service are at least.
const GAP: Duration = Duration::from_secs(1);

/// For how long a Node that has lost its last ready endpoint counts as one that is about to: a health
/// monitor has noticed by then.
const LOST: Duration = Duration::from_secs(30);

/// What is kept of an EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceView {
    /// The Service that it belongs to.
    service: Option<ObjectKey>,
    endpoints: Endpoints,
}

/// The EndpointSlices that load balancers may go by.
#[must_use]
pub fn watched() -> watcher::Config {
    let selector = format!("{},!{}", labels::SERVICE_NAME, labels::HEADLESS);
    watcher::Config::default().labels(&selector)
}

impl Slim for SliceView {
    type Object = EndpointSlice;

    fn slim(slice: EndpointSlice) -> Self {
        let meta = slice.metadata;
        let service = meta.labels.unwrap_or_default().remove(labels::SERVICE_NAME);
        let namespace = meta.namespace.unwrap_or_default();
        let mut endpoints = Endpoints::default();
        for endpoint in slice.endpoints.into_iter().flatten() {
            add(&mut endpoints, endpoint);
        }
        Self {
            service: service.map(|name| ObjectKey::new(namespace, name)),
            endpoints,
        }
    }
}

/// discovery/v1: `ready` that is absent counts as true, `terminating` that is absent as false.
fn add(endpoints: &mut Endpoints, endpoint: Endpoint) {
    let conditions = endpoint.conditions.unwrap_or_default();
    let Some(node) = endpoint.node_name else {
        return;
    };
    if conditions.terminating.unwrap_or(false) {
        endpoints.terminating.insert(node);
    } else if conditions.ready.unwrap_or(true) {
        endpoints.ready.insert(node);
    }
}

/// The endpoints of all Services.
#[derive(Debug, Default)]
pub struct EndpointChanges {
    services: Mutex<HashMap<ObjectKey, OfService>>,
}

#[derive(Debug, Default)]
struct OfService {
    /// By their keys.
    slices: BTreeMap<ObjectKey, Arc<SliceView>>,
    /// Nodes that have lost their last ready endpoint, which no load balancer shows yet, and when. What
    /// terminates may be gone before anybody has looked.
    lost: BTreeMap<String, Instant>,
    /// When it is to be looked at, or was last.
    look: Option<Instant>,
    /// Since when there is a change that no load balancer shows.
    since: Option<Instant>,
}

impl EndpointChanges {
    /// A slice came, changed or went. Gives the Services whose endpoints are elsewhere since, and when
    /// to look at each.
    pub fn slice(&self, change: &Change<SliceView>) -> Vec<(ObjectKey, Duration)> {
        let service = |slice: &Option<Arc<SliceView>>| slice.as_ref()?.service.clone();
        let (old, new) = (service(&change.old), service(&change.new));
        let mut concerned: Vec<ObjectKey> = old.iter().chain(&new).cloned().collect();
        concerned.dedup();
        let mut services = self.lock();
        let mut looks = Vec::new();
        for key in concerned {
            let of_service = services.entry(key.clone()).or_default();
            let before = of_service.endpoints();
            match change.new.as_ref().filter(|_| new.as_ref() == Some(&key)) {
                Some(slice) => of_service.slices.insert(change.key.clone(), slice.clone()),
                None => of_service.slices.remove(&change.key),
            };
            of_service.note_lost(before.ready.clone());
            if of_service.endpoints() != before {
                looks.push((key.clone(), of_service.next_look()));
            }
            if of_service.slices.is_empty() {
                services.remove(&key);
            }
        }
        looks
    }

    /// Where the endpoints of a Service are.
    #[must_use]
    pub fn of(&self, service: &ObjectKey) -> Endpoints {
        let services = self.lock();
        services
            .get(service)
            .map(OfService::endpoints)
            .unwrap_or_default()
    }

    /// A load balancer shows these. Gives how long the first of the changes took.
    pub(super) fn followed(&self, service: &ObjectKey, shown: &Endpoints) -> Option<Duration> {
        let mut services = self.lock();
        let of_service = services.get_mut(service)?;
        let lost = &mut of_service.lost;
        lost.retain(|node, _| !shown.terminating.contains(node));
        Some(of_service.since.take()?.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, OfService>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OfService {
    fn endpoints(&self) -> Endpoints {
        let mut all = Endpoints::default();
        for slice in self.slices.values() {
            all.ready.extend(slice.endpoints.ready.iter().cloned());
            let terminating = slice.endpoints.terminating.iter().cloned();
            all.terminating.extend(terminating);
        }
        let lost = self.lost.iter().filter(|(_, at)| at.elapsed() < LOST);
        all.terminating.extend(lost.map(|(node, _)| node.clone()));
        all
    }

    /// Compares what is ready with what was.
    fn note_lost(&mut self, before: BTreeSet<String>) {
        let now = Instant::now();
        self.lost.extend(before.into_iter().map(|node| (node, now)));
        let slices = self.slices.values();
        let is_ready = |node: &String| {
            let mut slices = slices.clone();
            slices.any(|slice| slice.endpoints.ready.contains(node))
        };
        self.lost
            .retain(|node, at| !is_ready(node) && at.elapsed() < LOST);
    }

    /// Soon after the first change, and some time after the last look: what changes until then is looked
    /// at together.
    fn next_look(&mut self) -> Duration {
        let now = Instant::now();
        self.since.get_or_insert(now);
        let planned = self.look.filter(|look| *look > now);
        let look = planned.unwrap_or_else(|| {
            let earliest = self.look.map_or(now, |last| last + GAP);
            earliest.max(now + GATHER)
        });
        self.look = Some(look);
        look - now
    }
}

#[cfg(test)]
mod tests;
