//! Gives Services of type LoadBalancer their addresses, and takes them back.
//!
//! **Flow.** One key per Service for all work on it. A Service is looked at when it changes, when
//! the L2Networks change, and, if it lacks an address, when another gives one back.
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
mod view;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use kube::Api;
use mooring_common::engine::Outcome;
use mooring_common::k8s::{Cache, Events, ObjectKey, Slim};
use mooring_common::names::components;
use mooring_common::work_queue::{Backoff, WorkQueue, work};
use tokio_util::sync::CancellationToken;

use super::Context;
use super::address_pool::{Allocations, Claim};
use apply::Failure;
pub use view::ServiceView;

/// Services to look at.
pub type Queue = WorkQueue<ObjectKey>;

/// An empty queue.
#[must_use]
pub fn queue() -> Arc<Queue> {
    Arc::new(WorkQueue::new(Backoff::SERVICES))
}

struct Controller {
    context: Context,
    services: Arc<Cache<ServiceView>>,
    allocations: Arc<Allocations>,
    queue: Arc<Queue>,
    api: Api<Service>,
    events: Events,
    /// Called when an address was given out or came back.
    changed: Box<dyn Fn() + Send + Sync>,
}

/// Runs until cancelled. `changed` is called when an address was given out or came back.
pub async fn run(
    context: Context,
    concurrency: usize,
    services: Arc<Cache<ServiceView>>,
    allocations: Arc<Allocations>,
    queue: Arc<Queue>,
    changed: impl Fn() + Send + Sync + 'static,
    cancel: CancellationToken,
) {
    let controller = Arc::new(Controller {
        events: context.events(components::SERVICE),
        api: Api::all(context.client.clone()),
        services,
        allocations,
        queue: queue.clone(),
        context,
        changed: Box::new(changed),
    });
    // Without knowing the networks, a Service would be refused that is served a moment later.
    controller.allocations.pools_known().await;
    controller.services.synced().await;
    controller.seed().await;
    for (key, _) in controller.services.all() {
        queue.add(key);
    }
    work("service", queue, concurrency, cancel, move |key| {
        let controller = controller.clone();
        async move { controller.pass(&key).await }
    })
    .await;
}

impl Controller {
    /// Reads all Services from the API server itself, not from a cache that may lag, before the
    /// first address is given out: the leader before us may have just given out one.
    async fn seed(&self) {
        let listed = loop {
            match self.api.list(&kube::api::ListParams::default()).await {
                Ok(listed) => break listed,
                Err(error) => tracing::warn!(%error, "cannot list Services, will retry"),
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        };
        let mut services: Vec<ServiceView> =
            listed.items.into_iter().map(ServiceView::slim).collect();
        services.sort_by(|a, b| (a.created, &a.key).cmp(&(b.created, &b.key)));
        let claims: Vec<Claim> = services.into_iter().map(claim_of).collect();
        self.allocations.seed(&claims);
        (self.changed)();
    }

    /// One look at one Service.
    #[tracing::instrument(name = "service", skip_all, fields(service = %key))]
    async fn pass(&self, key: &ObjectKey) -> Outcome<Failure> {
        let service = match self.look(key).await {
            Ok(Some(service)) => service,
            Ok(None) => {
                if self.allocations.release(key) {
                    self.address_came_back();
                }
                return Outcome::Done;
            }
            Err(error) => return Outcome::Backoff(error.into()),
        };
        let observed = observe::observe(&service, &self.allocations);
        let decision = plan::plan(&service, &observed);
        self.apply(service, decision).await
    }

    /// The Service, from the cache; but from the API server itself before anything that it holds is
    /// taken for free: a cache may lag behind what the last leader did.
    async fn look(&self, key: &ObjectKey) -> Result<Option<ServiceView>, kube::Error> {
        let cached = self.services.get(key);
        let wants_nothing = cached.as_ref().is_none_or(|s| !s.wants_load_balancer());
        if wants_nothing && self.allocations.held(key).is_some() {
            let api = Api::<Service>::namespaced(self.context.client.clone(), &key.namespace);
            return Ok(api.get_opt(&key.name).await?.map(ServiceView::slim));
        }
        Ok(cached.map(|service| (*service).clone()))
    }

    /// Services that wait for an address are looked at again.
    fn address_came_back(&self) {
        (self.changed)();
        for (key, service) in self.services.all() {
            if service.wants_load_balancer() && self.allocations.held(&key).is_none() {
                self.queue.add(key);
            }
        }
    }
}

fn claim_of(service: ServiceView) -> Claim {
    Claim {
        recorded: service.recorded().filter(|_| service.has_finalizer()),
        status: service.status,
        key: service.key,
    }
}
