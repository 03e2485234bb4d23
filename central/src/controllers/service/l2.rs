//! Services whose addresses come from L2Networks.
//!
//! **Guarantees.** The finalizer is set before anything is held for the Service; status and record
//! are written in one patch; all of it is released before the finalizer goes. A request that cannot
//! be met is told in an Event, and the Service keeps what it has.
//!
//! **Assumptions.** Services with a `loadBalancerClass`, and those whose status somebody else has
//! filled, are not ours, and are not touched; nor are their addresses given out. But a status
//! without our record whose addresses are an L2Network's, and nobody else's, is taken for ours: the
//! controller before us wrote it, or somebody has replaced the Service and lost our annotations.

mod apply;
mod observe;
mod patch;
mod plan;
mod request;

use std::sync::Arc;
use std::time::Duration;

use mooring_common::engine::Outcome;
use mooring_common::k8s::{Cache, Events, ObjectKey};
use mooring_common::names::components;

use super::api::{fresh, fresh_all};
use super::routing::{Routing, Server};
use super::{Failure, Queue};
use crate::controllers::Context;
use crate::controllers::address_pool::{Allocations, Claim};
use crate::service_view::ServiceView;

/// Gives Services addresses of L2Networks, and takes them back.
pub(super) struct L2Services {
    context: Context,
    services: Arc<Cache<ServiceView>>,
    allocations: Arc<Allocations>,
    queue: Arc<Queue>,
    routing: Routing,
    events: Events,
    /// Called when an address was given out or came back.
    changed: Box<dyn Fn() + Send + Sync>,
}

impl L2Services {
    /// `changed` is called when an address was given out or came back.
    pub(super) fn new(
        context: Context,
        services: Arc<Cache<ServiceView>>,
        allocations: Arc<Allocations>,
        queue: Arc<Queue>,
        routing: Routing,
        changed: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            events: context.events(components::SERVICE),
            services,
            allocations,
            queue,
            routing,
            context,
            changed,
        }
    }

    /// Waits until the networks are known: without them, a Service would be refused that is served
    /// a moment later.
    pub(super) async fn ready(&self) {
        self.allocations.pools_known().await;
    }

    /// Reads all Services from the API server itself, not from a cache that may lag, before the
    /// first address is given out: the leader before us may have just given out one.
    pub(super) async fn seed(&self) {
        let mut services = loop {
            match fresh_all(&self.context.client).await {
                Ok(listed) => break listed,
                Err(error) => tracing::warn!(%error, "cannot list Services, will retry"),
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        services.sort_by(|a, b| (a.created, &a.key).cmp(&(b.created, &b.key)));
        let claims: Vec<Claim> = services.into_iter().map(claim_of).collect();
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
        let observed = observe::observe(&service, &self.allocations);
        let decision = plan::plan(&service, &observed);
        self.apply(service, decision).await
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
        let wants_nothing = cached.as_ref().is_none_or(|s| !s.wants_load_balancer());
        if wants_nothing && self.allocations.held(key).is_some() {
            return fresh(&self.context.client, key).await;
        }
        Ok(cached.map(|service| (*service).clone()))
    }

    /// Services that wait for an address are looked at again.
    fn address_came_back(&self) {
        (self.changed)();
        for (key, service) in self.services.all() {
            let is_served = self.routing.server(&service) == Some(Server::L2Networks);
            if is_served && service.wants_load_balancer() && self.allocations.held(&key).is_none() {
                self.queue.add(key);
            }
        }
    }
}

fn claim_of(service: ServiceView) -> Claim {
    Claim {
        recorded: observe::recorded(&service).filter(|_| service.has_finalizer()),
        status: service.status,
        key: service.key,
    }
}
