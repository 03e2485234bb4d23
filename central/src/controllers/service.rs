//! Gives Services of type LoadBalancer their addresses, and takes them back.
//!
//! **Flow.** One key per Service for all work on it. Who serves it is decided anew in each pass:
//! L2Networks, a cloud, or somebody else. A Service is looked at when it changes, and when those who
//! serve it have a reason to.

mod api;
mod cloud;
mod failure;
mod l2;
mod patch;
mod restorations;
mod routing;
mod secret_api;
mod without_address;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use jiff::Timestamp;
use mooring_common::engine::Outcome;
use mooring_common::k8s::{Cache, ObjectKey};
use mooring_common::work_queue::{Backoff, WorkQueue, work};
use tokio_util::sync::CancellationToken;

use super::Context;
use super::address_pool::Allocations;
use crate::views::namespace_view::NamespaceView;
use crate::views::service_view::ServiceView;
use cloud::CloudServices;
pub use cloud::{
    Cloud, ClusterView, EndpointChanges, Metrics, NodeChanges, Options, SliceView, watched_slices,
};
use failure::Failure;
use l2::L2Services;
pub use l2::{L2Snapshot, preview as preview_l2};
pub use routing::{Routing, Server};
use secret_api::Freshness;
pub use secret_api::secrets as read_secrets;
use without_address::Reason;
pub use without_address::WithoutAddress;

/// Services to look at.
pub type Queue = WorkQueue<ObjectKey>;

/// An empty queue.
#[must_use]
pub fn queue() -> Arc<Queue> {
    Arc::new(WorkQueue::new(Backoff::SERVICES))
}

/// What Services need of L2Networks.
pub struct L2 {
    /// Who has which address.
    pub allocations: Arc<Allocations>,
    /// The namespaces, followed where an L2Network asks for their labels.
    pub namespaces: Arc<Cache<NamespaceView>>,
    /// Called when an address was given out or came back.
    pub changed: Box<dyn Fn() + Send + Sync>,
    /// Which Services have no address.
    pub without_address: WithoutAddress,
}

/// What the controller works on.
pub struct Work {
    /// `--concurrent-service-syncs`.
    pub concurrency: usize,
    /// All Services.
    pub services: Arc<Cache<ServiceView>>,
    /// Those to look at.
    pub queue: Arc<Queue>,
    /// `--load-balancer-class`.
    pub own_classes: Vec<String>,
    /// `--serve-classless-services`.
    pub serves_classless: bool,
    /// Which Services have no address.
    pub without_address: WithoutAddress,
}

struct Controller {
    services: Arc<Cache<ServiceView>>,
    queue: Arc<Queue>,
    routing: Routing,
    l2: Option<L2Services>,
    /// Whether the L2Networks are known.
    l2_ready: AtomicBool,
    clouds: Vec<CloudServices>,
    without_address: WithoutAddress,
}

/// Runs until cancelled, and then until what is under way has come to its end.
pub async fn run(
    context: Context,
    to_do: Work,
    l2: Option<L2>,
    clouds: Vec<Cloud>,
    cancel: CancellationToken,
) {
    let (services, queue) = (to_do.services, to_do.queue);
    let routing = Routing {
        own_classes: to_do.own_classes,
        serves_classless: to_do.serves_classless,
        l2_networks: l2.is_some(),
        clouds: clouds.iter().map(Cloud::provider).collect(),
    };
    let machines = context.instances.changes();
    let given = || (services.clone(), queue.clone(), routing.clone());
    let l2 = l2.map(|l2| {
        let (services, queue, routing) = given();
        L2Services::new(context.clone(), services, queue, routing, l2)
    });
    let clouds = clouds.into_iter().map(|cloud| {
        let (services, queue, routing) = given();
        CloudServices::new(context.clone(), services, queue, routing, cloud)
    });
    let clouds: Vec<_> = clouds.collect();
    let controller = Arc::new(Controller {
        services,
        queue: queue.clone(),
        routing,
        l2,
        l2_ready: AtomicBool::new(false),
        clouds,
        without_address: to_do.without_address,
    });
    let synced = cancel.run_until_cancelled(controller.services.synced());
    if synced.await.is_none() {
        return;
    }
    for cloud in &controller.clouds {
        cloud.expect_first_passes();
    }
    for (key, _) in controller.services.all() {
        queue.add(key);
    }
    let clouds = controller.clouds.iter();
    let followed = join_all(clouds.map(|cloud| cloud.follow(machines.clone())));
    let passes = work("service", queue, to_do.concurrency, cancel.clone(), {
        let controller = controller.clone();
        move |key| {
            let controller = controller.clone();
            async move { controller.counted_pass(&key).await }
        }
    });
    let prepared = cancel.run_until_cancelled(controller.prepare_l2());
    tokio::join!(passes, followed, prepared);
}

impl Controller {
    /// Waits until the L2Networks are known. A cloud serves its Services meanwhile.
    async fn prepare_l2(&self) {
        let Some(l2) = &self.l2 else { return };
        l2.ready().await;
        l2.seed().await;
        self.l2_ready.store(true, Ordering::Release);
        for (key, _) in self.services.all() {
            self.queue.add(key);
        }
    }

    /// One look at one Service, and whether it has its address now.
    async fn counted_pass(&self, key: &ObjectKey) -> Outcome<Failure> {
        let outcome = self.pass(key).await;
        let service = self.services.get(key);
        let service = service.filter(|service| self.routing.server(service).is_some());
        let now = Timestamp::now().as_second();
        self.without_address
            .passed(key, service.as_deref(), &outcome, now);
        outcome
    }

    /// One look at one Service.
    #[tracing::instrument(name = "service", skip_all, fields(service = %key))]
    async fn pass(&self, key: &ObjectKey) -> Outcome<Failure> {
        let Some(service) = self.services.get(key) else {
            for cloud in &self.clouds {
                cloud.gone(key);
            }
            return self.by_l2(key).await;
        };
        match self.routing.server(&service) {
            Some(Server::Cloud(provider)) => {
                if let Some(l2) = self.ready_l2() {
                    l2.let_go(key);
                }
                match self.hand_over(&service, Some(provider)).await {
                    Some(unfinished) => unfinished,
                    None => self.by_cloud(provider, service).await,
                }
            }
            Some(Server::L2Networks) => match self.hand_over(&service, None).await {
                Some(unfinished) => unfinished,
                None => self.by_l2(key).await,
            },
            // What another has given it is not given out.
            None => {
                let outcome = self.by_none(&service).await;
                match self.ready_l2() {
                    Some(l2) if matches!(outcome, Outcome::NotOurs(_)) => l2.pass(key).await,
                    _ => outcome,
                }
            }
        }
    }

    async fn by_l2(&self, key: &ObjectKey) -> Outcome<Failure> {
        match self.ready_l2() {
            Some(l2) => l2.pass(key).await,
            None => Outcome::Done,
        }
    }

    async fn by_cloud(
        &self,
        provider: &'static str,
        service: Arc<ServiceView>,
    ) -> Outcome<Failure> {
        let mut clouds = self.clouds.iter();
        match clouds.find(|cloud| cloud.provider() == provider) {
            Some(cloud) => cloud.pass(service).await,
            None => Outcome::NotOurs(format!("{provider} has no load balancers")),
        }
    }

    /// It is another's: each cloud takes note of that, one of them after it has let go of it.
    async fn by_none(&self, service: &Arc<ServiceView>) -> Outcome<Failure> {
        let mut outcome = Outcome::NotOurs("no cloud of ours has load balancers".to_owned());
        for cloud in &self.clouds {
            let of_cloud = cloud.pass(service.clone()).await;
            if matches!(outcome, Outcome::NotOurs(_)) {
                outcome = of_cloud;
            }
        }
        outcome
    }

    /// What it has in other clouds than that of `provider` goes before it is served.
    async fn hand_over(
        &self,
        service: &Arc<ServiceView>,
        provider: Option<&str>,
    ) -> Option<Outcome<Failure>> {
        for cloud in &self.clouds {
            if Some(cloud.provider()) != provider
                && let Some(unfinished) = cloud.hand_over(service).await
            {
                return Some(unfinished);
            }
        }
        None
    }

    fn ready_l2(&self) -> Option<&L2Services> {
        let ready = self.l2_ready.load(Ordering::Acquire);
        self.l2.as_ref().filter(|_| ready)
    }
}
