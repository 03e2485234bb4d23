//! Services that a cloud gives load balancers.
//!
//! **Flow.** A Service is looked at when it changes; when Nodes have changed in a way that matters,
//! together with all others, and after whatever does not wait for Nodes; soon, when its endpoints are on
//! other Nodes than before, where that is followed; when a Secret that it names has changed; and
//! regularly, for somebody may have changed what is in the cloud. A pass asks the provider for a plan and
//! has it carried out; what takes its time in the cloud is waited for between passes.
//!
//! **Guarantees.** The finalizer is on before the first write in the cloud, and goes when the
//! provider says that nothing is left. Every write has asked first whether this process leads and
//! the Service is still the same; nothing is created that the API server itself does not want.
//! Events tell what is news.
//!
//! **Assumptions.** Services of other classes are others', their finalizers too. A status that another has
//! written proves nothing here (`hand_over.rs`).

mod changes;
mod cluster;
mod endpoints;
mod guard;
mod hand_over;
mod interruption;
mod metrics;
mod node_rounds;
mod orphans;
mod provide;
mod remove;
mod resync;
mod secrets;
mod service_states;
mod status;
mod view;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use mooring_common::engine::Outcome;
use mooring_common::k8s::{Cache, EventKind, ObjectKey};
use tokio::sync::watch;

use super::restorations::Restorations;
use super::routing::Routing;
use super::{Failure, Queue};
use crate::cloud_provider::load_balancers::{
    HealthTarget, LoadBalancerRequest, LoadBalancers, TakeOver,
};
use crate::controllers::Context;
use crate::election::NotLeading;
use crate::views::service_view::ServiceView;
use cluster::{Cluster, RealCluster, Reporter};
pub use endpoints::{EndpointChanges, SliceView, watched as watched_slices};
use hand_over::Unanswered;
pub use metrics::Metrics;
pub use node_rounds::NodeChanges;
use orphans::{LeadingCollector, Orphans};
use secrets::FollowedSecrets;
use service_states::{Gone, ServiceStates};
use status::Status;
pub use view::ClusterView;
use view::{Views, cluster_service};

/// What the flags say.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `--load-balancer-resync-period`; `None`: never.
    pub resync: Option<Duration>,
    /// `--delete-orphans`.
    pub delete_orphans: bool,
    /// `--health-target`.
    pub health: HealthTarget,
    /// `--take-over-namespaces`.
    pub take_over: TakeOver,
    /// `--creation-settle-time`.
    pub settle_time: Duration,
}

/// What Services need of a cloud.
#[derive(Clone)]
pub struct Cloud {
    /// Its load balancers.
    pub load_balancers: Arc<dyn LoadBalancers>,
    /// What the flags say.
    pub options: Options,
    /// Where changes of Nodes are counted.
    pub node_changes: Arc<NodeChanges>,
    /// Where endpoints are, if load balancers go by that (`--endpoint-aware-members`).
    pub endpoints: Option<Arc<EndpointChanges>>,
    /// What is counted.
    pub metrics: Metrics,
}

impl Cloud {
    /// Whose load balancers they are.
    #[must_use]
    pub fn provider(&self) -> &'static str {
        self.load_balancers.provider()
    }
}

/// After how long is looked again at a Service that has just changed, unless its change is told
/// before.
const SOON: Duration = Duration::from_secs(1);

/// Gives Services load balancers of a cloud, and takes them back.
pub(super) struct CloudServices {
    cloud: Arc<dyn LoadBalancers>,
    cluster: Arc<dyn Cluster>,
    queue: Arc<Queue>,
    routing: Routing,
    options: Options,
    node_changes: Arc<NodeChanges>,
    endpoints: Option<Arc<EndpointChanges>>,
    metrics: Metrics,
    service_states: ServiceStates,
    status: Status,
    restorations: Restorations,
    unanswered: Unanswered,
    orphans: Orphans,
    secrets: FollowedSecrets,
    views: Views,
}

impl CloudServices {
    pub(super) fn new(
        context: Context,
        services: Arc<Cache<ServiceView>>,
        queue: Arc<Queue>,
        routing: Routing,
        cloud: Cloud,
    ) -> Self {
        let component = cloud.load_balancers.component();
        let cluster = Arc::new(RealCluster::new(context, services, component));
        Self::of(cluster, queue, routing, cloud)
    }

    fn of(cluster: Arc<dyn Cluster>, queue: Arc<Queue>, routing: Routing, cloud: Cloud) -> Self {
        Self {
            cluster,
            queue,
            routing,
            cloud: cloud.load_balancers,
            options: cloud.options,
            node_changes: cloud.node_changes,
            endpoints: cloud.endpoints,
            metrics: cloud.metrics,
            service_states: ServiceStates::default(),
            status: Status::default(),
            restorations: Restorations::default(),
            unanswered: Unanswered::default(),
            orphans: Orphans::default(),
            secrets: FollowedSecrets::default(),
            views: Views::default(),
        }
    }

    /// Whose load balancers they are.
    pub(super) fn provider(&self) -> &'static str {
        self.cloud.provider()
    }

    /// Whether it is this cloud that is to give a Service a load balancer.
    fn is_wanted(&self, service: &ServiceView) -> bool {
        self.routing.wanted_of(service) == Some(self.provider())
    }

    /// Whether something in this cloud may be a Service's.
    fn may_hold(&self, service: &ServiceView) -> bool {
        let may_have = || service.has_finalizer() && self.cloud.may_have(service);
        self.service_states
            .may_hold(service)
            .unwrap_or_else(may_have)
    }

    /// From now on, all Services are looked at. Before each has been, nothing is an orphan.
    pub(super) fn expect_first_passes(&self) {
        self.orphans.expect_first_passes(self.served());
    }

    /// Follows Nodes and machines, and looks for what nobody tells, until this process is told to end.
    /// What is under way then comes to its end first.
    pub(super) async fn follow(&self, machines: watch::Receiver<u64>) {
        let ending = self.cluster.ending();
        let context = LeadingCollector(self);
        let tended = self.cloud.collect_garbage(&context);
        let changes = ending.run_until_cancelled(self.follow_changes(machines));
        tokio::join!(changes, self.sweep_orphans(), tended);
    }

    async fn follow_changes(&self, mut machines: watch::Receiver<u64>) {
        let addresses = async {
            while machines.changed().await.is_ok() {
                self.node_changes.bump();
            }
        };
        let rounds = self.node_changes.rounds(|| {
            self.all_later();
            self.cloud.nodes_changed();
        });
        let cost = || self.cloud.observation_cost();
        let resyncs = resync::regularly(self.options.resync, cost, || {
            self.cloud.observe_anew();
            self.all_later();
            self.orphans.look();
        });
        let renewals = self
            .secrets
            .follow(&*self.cluster, |key| self.queue.add(key));
        tokio::join!(addresses, rounds, resyncs, renewals);
    }

    /// Runs what only reads, and drops it when this process is told to end.
    async fn before_ending<F: Future>(&self, reads: F) -> Result<F::Output, interruption::Cause> {
        let ending = self.cluster.ending();
        let run = ending.run_until_cancelled(reads).await;
        run.ok_or_else(|| Failure::NotLeading(NotLeading::Ending).into())
    }

    /// One look at one Service.
    pub(super) async fn pass(&self, service: Arc<ServiceView>) -> Outcome<Failure> {
        if !self.is_wanted(&service) {
            self.secrets.unname(&service.key);
        }
        let outcome = self.look_at(&service).await;
        self.orphans.passed(&service.key);
        outcome
    }

    async fn look_at(&self, service: &Arc<ServiceView>) -> Outcome<Failure> {
        if !service.is_load_balancer && !service.has_finalizer() {
            return Outcome::NotOurs("it wants no load balancer".to_owned());
        }
        let is_ours = self.routing.is_ours(service);
        self.forget(self.service_states.looks_at(service, is_ours));
        if !is_ours || self.service_states.is_foreign(service) {
            if let Some(unfinished) = self.let_go(service).await {
                return unfinished;
            }
            return Outcome::NotOurs("its loadBalancerClass is another's".to_owned());
        }
        if self.is_wanted(service) {
            self.provide(service.clone()).await
        } else if service.has_finalizer() {
            self.remove(service.clone()).await
        } else {
            Outcome::NotOurs("it wants no load balancer".to_owned())
        }
    }

    /// The Service is gone.
    pub(super) fn gone(&self, key: &ObjectKey) {
        self.forget(self.service_states.gone(key));
        self.secrets.unname(key);
        self.orphans.passed(key);
    }

    fn forget(&self, gone: Option<Gone>) {
        let Some(gone) = gone else { return };
        self.look_at_refused();
        self.cloud.forget(&gone.uid);
        if gone.left_something {
            self.orphans.look();
        }
    }

    /// All Services that this cloud serves, or may have to clean up after.
    fn served(&self) -> Vec<ObjectKey> {
        let all = self.cluster.services().into_iter();
        let served = all.filter(|service| {
            let may_leave = self.routing.may_leave_something(service, self.provider());
            self.is_wanted(service) || may_leave && self.may_hold(service)
        });
        served.map(|service| service.key.clone()).collect()
    }

    fn all_later(&self) {
        for key in self.served() {
            self.queue.add_later(key);
        }
    }

    /// What another Service had may be free now.
    fn look_at_refused(&self) {
        for key in self.service_states.take_refused() {
            self.queue.add_later(key);
        }
    }

    fn request(&self, service: &Arc<ServiceView>) -> LoadBalancerRequest {
        let view = self
            .views
            .now(&*self.cluster, &self.routing, self.provider());
        // Elsewhere, Nodes without endpoints forward to others.
        let endpoints = self.endpoints.as_ref().filter(|_| service.is_local);
        LoadBalancerRequest {
            health: self.options.health,
            endpoints: endpoints.map(|endpoints| endpoints.of(&service.key)),
            settle_time: self.options.settle_time,
            may_take_over: self.options.take_over.permits(&service.key.namespace),
            ..view.request(service)
        }
    }

    async fn normal(&self, about: &ObjectReference, reason: &'static str, note: &str) {
        let (by, kind) = (Reporter::Controller, EventKind::Normal);
        self.cluster.report(by, about, kind, reason, note).await;
    }

    async fn warn(&self, about: &ObjectReference, reason: &'static str, note: &str) {
        let (by, kind) = (Reporter::Controller, EventKind::Warning);
        self.cluster.report(by, about, kind, reason, note).await;
    }
}

#[cfg(test)]
mod tests;
