//! What is remembered of each Service while this process leads: so that Events tell news.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mooring_common::k8s::ObjectKey;
use mooring_common::names::annotations;
use tokio::time::Instant;

use crate::cloud_provider::load_balancers::{Endpoints, Notice};
use crate::views::service_view::ServiceView;

/// After how long a notice is reported again that still holds.
const NOTICE_AGAIN: Duration = Duration::from_secs(3600);

/// Why there may be something to do for a Service. The later, the more it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// Its endpoints are on other Nodes than when its load balancer was last as wanted.
    Endpoints,
    /// Nodes have changed since its load balancer was last as wanted.
    Nodes,
    /// Neither has changed: somebody has changed what is in the cloud.
    Drift,
    /// It is new, or has changed.
    Service,
}

/// A Service that is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gone {
    pub(super) uid: String,
    /// Whether its load balancer was not removed before, as far as is known.
    pub(super) left_something: bool,
}

/// All Services that have been looked at.
#[derive(Debug, Default)]
pub(super) struct ServiceStates {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_uid: HashMap<String, ServiceState>,
    uids: HashMap<ObjectKey, String>,
    /// Those that could not be given what they ask for: another one may have it.
    refused: HashSet<ObjectKey>,
}

#[derive(Debug, Default)]
struct ServiceState {
    /// For what it last was as wanted.
    ensured: Option<Ensured>,
    /// What was begun and has not come to its end.
    begun: Option<(Arc<ServiceView>, Cause)>,
    /// The disruptive steps that were told of.
    disruption: Option<String>,
    /// Whether something was there to remove, and its removal was told of.
    removing: bool,
    told: HashMap<Notice, Instant>,
    /// As it was when it was last to be provided.
    seen: Option<Arc<ServiceView>>,
    /// Annotations that were written, as they were: that they are there is no change of what is wanted.
    written: HashMap<&'static str, String>,
    /// Nothing in the cloud is its any more although it lives on.
    elsewhere: bool,
    /// Its class was another's: the finalizer is too.
    foreign: bool,
}

/// What a load balancer that is as wanted goes by.
#[derive(Clone, Debug)]
pub(super) struct Ensured {
    /// The Service.
    pub(super) service: Arc<ServiceView>,
    /// How many changes of Nodes there had been.
    pub(super) node_changes: u64,
    /// Where its endpoints were. `None`: that is not followed, or something of it is left to do.
    pub(super) endpoints: Option<Endpoints>,
}

impl ServiceStates {
    /// This Service is looked at. Returns what was known of another that had its name.
    pub(super) fn looks_at(&self, service: &ServiceView, is_ours: bool) -> Option<Gone> {
        let mut state = self.lock();
        let entry = state.by_uid.entry(service.uid.clone()).or_default();
        // The class goes when the type changes.
        if service.is_load_balancer {
            entry.foreign = !is_ours;
        }
        let before = state.uids.insert(service.key.clone(), service.uid.clone());
        state.forget(before.filter(|uid| *uid != service.uid)?)
    }

    /// The Service of this name is gone. Returns what was known of it.
    pub(super) fn gone(&self, key: &ObjectKey) -> Option<Gone> {
        let mut state = self.lock();
        let uid = state.uids.remove(key)?;
        state.forget(uid)
    }

    /// Whether another's class was on it.
    pub(super) fn is_foreign(&self, service: &ServiceView) -> bool {
        let state = self.lock();
        let entry = state.by_uid.get(&service.uid);
        entry.is_some_and(|entry| entry.foreign)
    }

    /// Why there may be something to do, with this many changes of Nodes by now, and with endpoints
    /// there.
    pub(super) fn cause(
        &self,
        service: &ServiceView,
        node_changes: u64,
        endpoints: Option<&Endpoints>,
    ) -> Cause {
        let state = self.lock();
        let entry = state.by_uid.get(&service.uid);
        match entry.and_then(|entry| entry.ensured.as_ref()) {
            Some(before) if state.alike(&before.service, service) => {
                if before.node_changes != node_changes {
                    Cause::Nodes
                } else if before.endpoints.as_ref() != endpoints {
                    Cause::Endpoints
                } else {
                    Cause::Drift
                }
            }
            _ => Cause::Service,
        }
    }

    /// Whether this process has provided it before.
    pub(super) fn was_ensured(&self, service: &ServiceView) -> bool {
        self.as_ensured(service).is_some()
    }

    /// As it was when this process had provided it last.
    pub(super) fn as_ensured(&self, service: &ServiceView) -> Option<Arc<ServiceView>> {
        let state = self.lock();
        let ensured = state.by_uid.get(&service.uid)?.ensured.as_ref()?;
        Some(ensured.service.clone())
    }

    /// Whether the same is wanted by both.
    pub(super) fn alike(&self, one: &ServiceView, other: &ServiceView) -> bool {
        self.lock().alike(one, other)
    }

    /// What was begun for it, if it is not through.
    pub(super) fn begun(&self, service: &ServiceView) -> Option<Cause> {
        let state = self.lock();
        let (begun, cause) = state.by_uid.get(&service.uid)?.begun.as_ref()?;
        state.alike(begun, service).then_some(*cause)
    }

    /// Something is begun for it. Whether that is news, or has a graver cause than before.
    pub(super) fn begin(&self, service: &Arc<ServiceView>, cause: Cause) -> bool {
        let is_news = self.begun(service).is_none_or(|before| before < cause);
        if is_news {
            let mut state = self.lock();
            let entry = state.by_uid.entry(service.uid.clone()).or_default();
            entry.begun = Some((service.clone(), cause));
            entry.elsewhere = false;
        }
        is_news
    }

    /// All is as this Service wants it; these annotations are ours.
    pub(super) fn ensured(&self, ensured: Ensured, annotations: &[(&'static str, String)]) {
        self.wrote(&ensured.service, annotations);
        let mut state = self.lock();
        let uid = ensured.service.uid.clone();
        let entry = state.by_uid.entry(uid).or_default();
        entry.ensured = Some(ensured);
        entry.elsewhere = false;
        entry.begun = None;
        entry.disruption = None;
        entry.removing = false;
    }

    /// These annotations are ours.
    pub(super) fn wrote(&self, service: &ServiceView, annotations: &[(&'static str, String)]) {
        let mut state = self.lock();
        let entry = state.by_uid.entry(service.uid.clone()).or_default();
        entry.written.extend(annotations.iter().cloned());
    }

    /// It is to be provided like this. Gives how it was before.
    pub(super) fn sees(&self, service: &Arc<ServiceView>) -> Option<Arc<ServiceView>> {
        let mut state = self.lock();
        let entry = state.by_uid.entry(service.uid.clone()).or_default();
        entry.seen.replace(service.clone())
    }

    /// Whether these steps were not told of yet.
    pub(super) fn is_news_to_disrupt(&self, service: &ServiceView, steps: &str) -> bool {
        let mut state = self.lock();
        let entry = state.by_uid.entry(service.uid.clone()).or_default();
        let before = entry.disruption.replace(steps.to_owned());
        before.as_deref() != Some(steps)
    }

    /// Those of the notices that were not told of within the last hour.
    pub(super) fn news(&self, service: &ServiceView, notices: &[Notice]) -> Vec<Notice> {
        let now = Instant::now();
        let mut state = self.lock();
        let told = &mut state.by_uid.entry(service.uid.clone()).or_default().told;
        told.retain(|_, at| now - *at < NOTICE_AGAIN);
        let is_news = |notice: &&Notice| !told.contains_key(notice);
        let news: Vec<Notice> = notices.iter().filter(is_news).cloned().collect();
        told.extend(news.iter().map(|notice| (notice.clone(), now)));
        news
    }

    /// A pass has come to its end, and no other notices hold than these: the others are news when they
    /// come back.
    pub(super) fn hold(&self, service: &ServiceView, notices: &[&[Notice]]) {
        let mut state = self.lock();
        let told = &mut state.by_uid.entry(service.uid.clone()).or_default().told;
        told.retain(|notice, _| notices.iter().any(|some| some.contains(notice)));
    }

    /// Its removal begins. Whether that is news.
    pub(super) fn removes(&self, service: &ServiceView) -> bool {
        let mut state = self.lock();
        let entry = state.by_uid.entry(service.uid.clone()).or_default();
        !std::mem::replace(&mut entry.removing, true)
    }

    /// It cannot be given what it asks for as things are.
    pub(super) fn refused(&self, key: &ObjectKey) {
        self.lock().refused.insert(key.clone());
    }

    /// Those that were refused since this was asked last.
    pub(super) fn take_refused(&self) -> HashSet<ObjectKey> {
        std::mem::take(&mut self.lock().refused)
    }

    /// Nothing in the cloud is its any more.
    pub(super) fn removed(&self, service: &ServiceView) {
        let mut state = self.lock();
        let entry = state.by_uid.entry(service.uid.clone()).or_default();
        *entry = ServiceState {
            elsewhere: true,
            foreign: entry.foreign,
            ..ServiceState::default()
        };
    }

    /// Nothing in the cloud is its, since another serves it from the beginning. Returns what was known of
    /// another Service that had its name.
    pub(super) fn begins_elsewhere(&self, service: &ServiceView) -> Option<Gone> {
        let mut state = self.lock();
        let entry = state.by_uid.entry(service.uid.clone()).or_default();
        entry.elsewhere = true;
        let before = state.uids.insert(service.key.clone(), service.uid.clone());
        state.forget(before.filter(|uid| *uid != service.uid)?)
    }

    /// Whether something in the cloud may be its. `None`: this process has neither provided it nor found
    /// something of it, one before may have provided it.
    pub(super) fn may_hold(&self, service: &ServiceView) -> Option<bool> {
        let state = self.lock();
        let entry = state.by_uid.get(&service.uid)?;
        let is_here = entry.begun.is_some() || entry.ensured.is_some() || entry.removing;
        match entry.elsewhere {
            true => Some(false),
            false => is_here.then_some(true),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget(&mut self, uid: String) -> Option<Gone> {
        let entry = self.by_uid.remove(&uid)?;
        let left_something = entry.ensured.is_some() || entry.begun.is_some();
        Some(Gone {
            uid,
            left_something,
        })
    }

    fn alike(&self, one: &ServiceView, other: &ServiceView) -> bool {
        let written = self.by_uid.get(&one.uid).map(|entry| &entry.written);
        let is_own = |key: &String, value: &String| {
            written.and_then(|written| written.get(key.as_str())) == Some(value)
        };
        let wishes = |service: &'_ ServiceView| -> Vec<(String, String)> {
            // Nobody's wish: what central notes of its own work.
            let all = service.annotations.iter();
            let all = all.filter(|(key, _)| *key != annotations::APPLIED);
            let all = all.filter(|(key, value)| !is_own(key, value));
            all.map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        one.uid == other.uid
            && one.is_load_balancer == other.is_load_balancer
            && one.class == other.class
            && one.ports == other.ports
            && one.source_ranges == other.source_ranges
            && one.wants_session_affinity == other.wants_session_affinity
            && one.load_balancer_ip == other.load_balancer_ip
            && one.is_local == other.is_local
            && one.health_check_node_port == other.health_check_node_port
            && one.ip_families == other.ip_families
            && one.requires_dual_stack == other.requires_dual_stack
            && wishes(one) == wishes(other)
    }
}

#[cfg(test)]
mod tests;
