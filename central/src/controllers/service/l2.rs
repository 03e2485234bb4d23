//! Services whose addresses come from L2Networks.
//!
//! **Guarantees.** The finalizer is set before anything is held for the Service; status and record
//! are written in one patch; all of it is released before the finalizer goes. A request that cannot
//! be met is told in an Event, and the Service keeps what it has.
//!
//! **Assumptions.** Services of a `loadBalancerClass` that is not ours, and those whose status somebody
//! else has filled, are not touched; nor are their addresses given out. But a status
//! without our record whose addresses are an L2Network's, and nobody else's, is taken for ours: the
//! controller before us wrote it, or somebody has replaced the Service and lost our annotations. The
//! status is what a user cannot write; the record in the annotations counts beside it.

mod apply;
mod observe;
mod patch;
mod plan;
mod preview;
mod request;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mooring_common::engine::Outcome;
use mooring_common::errors::with_causes;
use mooring_common::k8s::{Cache, Events, ObjectKey};
use mooring_common::names::components;

use super::api::{fresh, fresh_all};
use super::restorations::Restorations;
use super::routing::{Routing, Server};
use super::{Failure, L2, Queue, WithoutAddress};
use crate::controllers::Context;
use crate::controllers::address_pool::{Allocations, Claim, Namespace};
use crate::views::namespace_view::NamespaceView;
use crate::views::service_view::ServiceView;
use observe::{Allocated, Obstacle};
pub use preview::{L2Snapshot, preview};

/// How long to wait for the namespaces at the start, where an L2Network asks for their labels: without
/// them, Services would be refused that are served a moment later.
const NAMESPACES_TIMEOUT: Duration = Duration::from_secs(5);

/// Gives Services addresses of L2Networks, and takes them back.
pub(super) struct L2Services {
    context: Context,
    services: Arc<Cache<ServiceView>>,
    routing: Routing,
    namespaces: Arc<Cache<NamespaceView>>,
    allocations: Arc<Allocations>,
    queue: Arc<Queue>,
    events: Events,
    /// Called when an address was given out or came back.
    changed: Box<dyn Fn() + Send + Sync>,
    /// Services that were refused an address: they are looked at again when one comes back.
    waiting: Mutex<HashSet<ObjectKey>>,
    restorations: Restorations,
    without_address: WithoutAddress,
}

impl L2Services {
    pub(super) fn new(
        context: Context,
        services: Arc<Cache<ServiceView>>,
        queue: Arc<Queue>,
        routing: Routing,
        l2: L2,
    ) -> Self {
        Self {
            events: context.events(components::SERVICE),
            services,
            routing,
            namespaces: l2.namespaces,
            allocations: l2.allocations,
            queue,
            context,
            changed: l2.changed,
            waiting: Mutex::default(),
            restorations: Restorations::default(),
            without_address: l2.without_address,
        }
    }

    /// Waits until the networks are known: without them, a Service would be refused that is served
    /// a moment later.
    pub(super) async fn ready(&self) {
        self.allocations.pools_known().await;
        if self.allocations.asks_for_namespaces() {
            let listed = tokio::time::timeout(NAMESPACES_TIMEOUT, self.namespaces.synced());
            if listed.await.is_err() {
                tracing::warn!(
                    "cannot list Namespaces: nothing is given out from L2Networks with \
                     spec.allowedNamespaces until that is possible"
                );
            }
        }
    }

    /// Reads all Services from the API server itself, not from a cache that may lag, before the
    /// first address is given out: the leader before us may have just given out one.
    pub(super) async fn seed(&self) {
        let mut services = loop {
            match fresh_all(&self.context.client).await {
                Ok(listed) => break listed,
                Err(error) => tracing::warn!(
                    error = with_causes(&error),
                    "cannot list Services, will retry"
                ),
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        services.sort_by(|a, b| (a.created, &a.key).cmp(&(b.created, &b.key)));
        let claims = services.into_iter().map(|service| self.claim_of(service));
        let claims: Vec<Claim> = claims.collect();
        self.allocations.seed(&claims);
        (self.changed)();
    }

    /// One look at one Service.
    pub(super) async fn pass(&self, key: &ObjectKey) -> Outcome<Failure> {
        let service = match self.look(key).await {
            Ok(Some(service)) => service,
            Ok(None) => {
                self.let_go(key);
                return Outcome::Done;
            }
            Err(error) => return Outcome::Backoff(error.into()),
        };
        let observed = self.observe(&service);
        let decision = plan::plan(&service, &observed);
        self.apply(service, decision).await
    }

    fn observe(&self, service: &ServiceView) -> Allocated {
        let is_ours = self.serves(service);
        let terms = is_ours.then(|| request::terms(service));
        if self.allocations.set_terms(&service.key, terms) {
            self.look_at_waiting();
        }
        if !is_ours {
            return Err(Obstacle::NotOurs);
        }
        let waits = |observed: &Allocated| {
            let obstacle = observed.as_ref().err();
            obstacle.is_some_and(|obstacle| obstacle.unavailable().is_some())
        };
        let look = || {
            let namespace = self.namespace(&service.key);
            observe::observe(service, namespace, &self.allocations)
        };
        let mut observed = look();
        if waits(&observed) {
            self.waiting().insert(service.key.clone());
            // What came back before that has woken nobody.
            observed = look();
        }
        if !waits(&observed) {
            self.waiting().remove(&service.key);
        }
        observed
    }

    fn serves(&self, service: &ServiceView) -> bool {
        self.routing.server(service) == Some(Server::L2Networks)
    }

    fn waiting(&self) -> MutexGuard<'_, HashSet<ObjectKey>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the namespace of a Service.
    fn namespace(&self, key: &ObjectKey) -> Namespace {
        let name = ObjectKey::cluster_wide(key.namespace.as_str());
        match self.namespaces.get(&name) {
            Some(view) => Namespace::Known(view.labels.clone()),
            None if self.namespaces.is_synced() => Namespace::Absent,
            None => Namespace::NotListed,
        }
    }

    fn claim_of(&self, service: ServiceView) -> Claim {
        let namespace = self.namespace(&service.key);
        let serves = self.serves(&service);
        claim_of(service, namespace, serves)
    }

    /// The Service is gone, or another serves it: what it holds goes to others.
    pub(super) fn let_go(&self, key: &ObjectKey) {
        if self.allocations.release(key) {
            self.address_came_back();
        }
    }

    /// The Service, from the cache; but from the API server itself before anything that it holds is
    /// taken for free: a cache may lag behind what the last leader did.
    async fn look(&self, key: &ObjectKey) -> Result<Option<ServiceView>, kube::Error> {
        let cached = self.services.get(key);
        let wants = |service: &ServiceView| service.wants_load_balancer() && self.serves(service);
        let wants_nothing = !cached.as_deref().is_some_and(wants);
        if wants_nothing && self.allocations.held(key).is_some() {
            return fresh(&self.context.client, key).await;
        }
        Ok(cached.map(|service| (*service).clone()))
    }

    /// Others may have what a Service had.
    fn address_came_back(&self) {
        (self.changed)();
        self.look_at_waiting();
    }

    /// Services that wait for an address are looked at again.
    fn look_at_waiting(&self) {
        let waiting = std::mem::take(&mut *self.waiting());
        for key in waiting {
            self.queue.add(key);
        }
    }
}

/// What is known of a Service at the start. `serves`: whether it is for L2Networks.
fn claim_of(service: ServiceView, namespace: Namespace, serves: bool) -> Claim {
    Claim {
        recorded: observe::recorded(&service).filter(|_| service.has_finalizer()),
        namespace,
        terms: serves.then(|| request::terms(&service)),
        status: service.status,
        labels: service.labels,
        key: service.key,
    }
}
