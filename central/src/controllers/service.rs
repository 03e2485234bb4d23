//! Gives Services of type LoadBalancer their addresses, and takes them back.
//!
//! **Flow.** One key per Service for all work on it. A Service is looked at when it changes, when
//! the L2Networks change, and, if it lacks an address, when another gives one back.

mod l2;

use std::sync::Arc;

use mooring_common::engine::Outcome;
use mooring_common::k8s::{Cache, ObjectKey};
use mooring_common::work_queue::{Backoff, WorkQueue, work};
use tokio_util::sync::CancellationToken;

use super::Context;
use super::address_pool::Allocations;
use crate::service_view::ServiceView;
use l2::L2Services;

/// Services to look at.
pub type Queue = WorkQueue<ObjectKey>;

/// An empty queue.
#[must_use]
pub fn queue() -> Arc<Queue> {
    Arc::new(WorkQueue::new(Backoff::SERVICES))
}

struct Controller {
    services: Arc<Cache<ServiceView>>,
    l2: L2Services,
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
        services: services.clone(),
        l2: L2Services::new(context, services, allocations, queue.clone(), changed),
    });
    controller.l2.ready().await;
    controller.services.synced().await;
    controller.l2.seed().await;
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
    /// One look at one Service.
    #[tracing::instrument(name = "service", skip_all, fields(service = %key))]
    async fn pass(&self, key: &ObjectKey) -> Outcome<l2::Failure> {
        self.l2.pass(key).await
    }
}
