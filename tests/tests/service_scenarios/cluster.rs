//! A cluster of one's own whose Services of type LoadBalancer are served by one simulated cloud.

pub(crate) mod facts;
mod load_balancer_cloud;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use mooring_cloud_sim::Calls;
use mooring_cloud_sim::cloud::{CloudSim, Server};
use mooring_common::names::reasons;
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::control_plane::AuditLog;
use mooring_test_cluster::objects::{
    EventNote, NodeBuilder, ServiceBuilder, create_namespace, events_for, events_in, unique,
};
use mooring_test_cluster::shipped::{CENTRAL_USER, Central, CentralFlags};
use mooring_test_support::wait::{eventually, eventually_or};
use serde_json::{Value, json};

use super::cloud::SuiteCloud;
pub(crate) use facts::{assert_none, has_finalizer, ingress, wanted};
pub(crate) use load_balancer_cloud::{Balancer, LoadBalancerCloud, Served};

/// What "eventually" means to these suites.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// How long to wait for what comes after several retries.
pub(crate) const AFTER_RETRIES: Duration = Duration::from_secs(60);

/// What the names of markers begin with.
pub(crate) const MARKER: &str = "marker";

/// One test's cluster and its cloud.
pub(crate) struct CloudCluster {
    pub(crate) cluster: Cluster,
    /// Where its Services are.
    pub(crate) namespace: String,
    /// The cloud.
    pub(crate) cloud: SuiteCloud,
}

impl Deref for CloudCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl CloudCluster {
    /// A cluster of two Nodes, `n1` and `n2`. Their cloud has one more machine, which is no Node.
    pub(crate) async fn start() -> Self {
        let cluster = Self::without_nodes().await;
        cluster.join(1).await;
        cluster.join(2).await;
        cluster
    }

    pub(crate) async fn without_nodes() -> Self {
        let cluster = Cluster::exclusive().await;
        let cluster = Self {
            namespace: unique("services"),
            cloud: SuiteCloud::start(&cluster).await,
            cluster,
        };
        create_namespace(&cluster.admin, &cluster.namespace)
            .await
            .unwrap();
        // What takes its time is for the tests that are about that.
        cluster.cloud.provision_in(Duration::ZERO);
        let other = Server::named("somebody-elses").private("10.250.0.1");
        cluster.cloud.add(other);
        cluster
    }

    /// Asserts that central was not refused anything by the API server, asked nothing of the cloud that
    /// no good client asks, and told nothing that is not for people.
    pub(crate) async fn finish(self) {
        self.cloud.assert_well_behaved();
        events_in(&self.admin, &self.namespace).await.unwrap();
        self.cluster.finish().await;
    }

    // --- Nodes --------------------------------------------------------------------------------

    /// The machine of the n-th Node: `n1`. Gives its provider ID.
    pub(crate) fn machine(&self, n: usize) -> String {
        self.cloud.add(self.cloud.machine(n))
    }

    /// The n-th Node, which is not in the cluster yet.
    pub(crate) fn node(&self, n: usize) -> NodeBuilder {
        let id = self.machine(n);
        let node = NodeBuilder::new(&format!("n{n}")).provider_id(&id);
        SuiteCloud::node(node, n).ready()
    }

    /// The n-th Node joins.
    pub(crate) async fn join(&self, n: usize) {
        self.node(n).create(&self.admin).await.unwrap();
    }

    // --- central ------------------------------------------------------------------------------

    /// Central as a user starts it for Services in this cloud.
    pub(crate) fn flags(&self) -> CentralFlags {
        self.flags_at(&self.cloud)
    }

    /// The same but for the account, which is that of another cloud.
    pub(crate) fn flags_at(&self, account: &CloudSim) -> CentralFlags {
        let flags = CentralFlags::alone().cloud(account).without_endpoints();
        self.cloud.flags(flags.with("--controllers=service"))
    }

    pub(crate) async fn central(&self) -> Central {
        self.central_with(self.flags()).await
    }

    pub(crate) async fn central_with(&self, flags: CentralFlags) -> Central {
        self.cluster.start_central(flags).await
    }

    // --- Services -----------------------------------------------------------------------------

    /// A Service of type LoadBalancer with one port, 80, that is not in the cluster yet.
    pub(crate) fn service(&self, name: &str) -> ServiceBuilder {
        ServiceBuilder::load_balancer(&self.namespace, name).port(80, 8080)
    }

    /// Makes such a Service.
    pub(crate) async fn create(&self, name: &str) -> Service {
        self.make(self.service(name)).await
    }

    pub(crate) async fn make(&self, service: ServiceBuilder) -> Service {
        service.create(&self.admin).await.unwrap()
    }

    /// Makes such a Service, and waits until it is served.
    pub(crate) async fn provide(&self, name: &str) -> Service {
        self.create(name).await;
        self.provided(name).await
    }

    /// Makes as many as there is room for, and waits until all are served. Gives their names.
    pub(crate) async fn provide_many(&self) -> Vec<String> {
        let names: Vec<String> = (0..SuiteCloud::MANY).map(|n| format!("web-{n}")).collect();
        for name in &names {
            self.create(name).await;
        }
        for name in &names {
            self.provided_at_last(name).await;
        }
        names
    }

    /// Waits until central has looked at its own writes on Services that are served: it looks at them
    /// in order, and at this one after them.
    pub(crate) async fn settle(&self) {
        self.provide("settled").await;
    }

    pub(crate) fn services(&self) -> Api<Service> {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    pub(crate) async fn get(&self, name: &str) -> Service {
        self.services().get(name).await.unwrap()
    }

    /// Waits until a Service is as wanted.
    pub(crate) async fn is(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Service) -> bool,
    ) -> Service {
        let what = format!("{name} {what}");
        let look = async || self.services().get(name).await.ok().filter(|it| wanted(it));
        eventually_or(&what, SOON, look, async || self.explain(name).await).await
    }

    /// Waits until a Service has its finalizer and an address, and its load balancer all members.
    pub(crate) async fn provided(&self, name: &str) -> Service {
        self.is(name, "has an address", |service| {
            has_finalizer(service) && !ingress(service).is_empty()
        })
        .await
    }

    /// The same, after several attempts.
    pub(crate) async fn provided_at_last(&self, name: &str) -> Service {
        self.provided_within(name, AFTER_RETRIES).await
    }

    pub(crate) async fn provided_within(&self, name: &str, limit: Duration) -> Service {
        let what = format!("{name} has an address");
        let look = async || Some(self.get(name).await).filter(|it| !ingress(it).is_empty());
        eventually_or(&what, limit, look, async || self.explain(name).await).await
    }

    /// Why a Service is not as a test waits for: what it is, what was told of it, what the cloud was asked.
    async fn explain(&self, name: &str) -> String {
        let service = self.services().get_opt(name).await;
        let (events, calls) = (self.events(name).await, self.cloud.calls().summary());
        format!("{service:?}\ntold: {events:?}\n{calls}")
    }

    /// Writes on a Service as a user does, with a merge patch.
    pub(crate) async fn patch(&self, name: &str, patch: &Value) -> Service {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.services().patch(name, &params, &patch).await.unwrap()
    }

    /// Changes the specification of a Service.
    pub(crate) async fn respecify(&self, name: &str, spec: Value) -> Service {
        self.patch(name, &json!({ "spec": spec })).await
    }

    /// Sets an annotation, or takes it off.
    pub(crate) async fn annotate(&self, name: &str, key: &str, value: Option<&str>) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.patch(name, &patch).await;
    }

    /// Asks for the deletion of a Service.
    pub(crate) async fn delete(&self, name: &str) {
        let params = DeleteParams::default();
        self.services().delete(name, &params).await.unwrap();
    }

    /// Waits until a Service is gone.
    pub(crate) async fn gone(&self, name: &str) {
        self.gone_within(name, SOON).await;
    }

    pub(crate) async fn gone_within(&self, name: &str, limit: Duration) {
        let what = format!("{name} is gone");
        let look = async || self.services().get_opt(name).await.unwrap().is_none();
        eventually_or(&what, limit, look, async || self.explain(name).await).await;
    }

    /// Another Service is made and served: what was there before has had its turn.
    pub(crate) async fn marker(&self) {
        let name = unique(MARKER);
        self.provide(&name).await;
    }

    /// What Events say of a Service, by central. The API server writes some itself.
    pub(crate) async fn events(&self, name: &str) -> Vec<EventNote> {
        let events = events_for(&self.admin, "Service", Some(&self.namespace), name).await;
        let mut events = events.unwrap();
        let ours = [
            mooring_common::names::components::SERVICE,
            SuiteCloud::COMPONENT,
        ];
        events.retain(|event| ours.contains(&event.reporter.as_str()));
        events
    }

    pub(crate) async fn reasons(&self, name: &str) -> BTreeSet<String> {
        let events = self.events(name).await.into_iter();
        events.map(|event| event.reason).collect()
    }

    pub(crate) async fn warnings(&self, name: &str) -> Vec<EventNote> {
        let mut events = self.events(name).await;
        events.retain(|event| event.kind == "Warning");
        events
    }

    /// Waits for an Event about a Service with this reason and these words.
    pub(crate) async fn told(&self, name: &str, reason: &str, words: &str) -> EventNote {
        eventually(&format!("{name}: {reason} ({words})"), SOON, async || {
            let events = self.events(name).await;
            let found = events
                .iter()
                .find(|event| event.reason == reason && event.note.contains(words));
            found.cloned().ok_or(events)
        })
        .await
    }

    /// Waits until an attempt has failed.
    pub(crate) async fn failed(&self, name: &str) -> EventNote {
        self.told(name, reasons::SYNC_LOAD_BALANCER_FAILED, "")
            .await
    }

    /// The notes about load balancers of Services that are no more.
    pub(crate) async fn orphans_told(&self) -> Vec<String> {
        let about = events_for(&self.admin, "Service", Some("default"), "kubernetes").await;
        let mut events = about.unwrap();
        events.retain(|event| event.reason == reasons::ORPHANED_LOAD_BALANCER);
        events.into_iter().map(|event| event.note).collect()
    }

    /// What central wrote on a Service, in order.
    pub(crate) async fn written(&self, name: &str) -> AuditLog {
        let log = self.audit().await.writes_by(CENTRAL_USER).of("services");
        log.in_namespace(&self.namespace).named(name)
    }

    // --- the cloud ----------------------------------------------------------------------------

    /// What was asked of the cloud to change something.
    pub(crate) fn writes(&self) -> Calls {
        self.cloud.calls().writes()
    }

    /// The load balancer of a Service, if it has one.
    pub(crate) fn balancer(&self, service: &Service) -> Option<Balancer> {
        self.cloud.balancer_of(service)
    }

    /// Waits until the load balancer of a Service is as wanted.
    pub(crate) async fn balanced(
        &self,
        service: &Service,
        what: &str,
        wanted: impl Fn(&Balancer) -> bool,
    ) -> Balancer {
        eventually(what, SOON, async || {
            let found = self.balancer(service);
            let found = found.ok_or_else(|| "no load balancer".to_owned())?;
            if wanted(&found) {
                Ok(found)
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await
    }

    /// Waits until a Service's load balancer has a listener for each of its ports, and before each
    /// of these Nodes, and nothing else; where it forwards nothing, until it is there.
    pub(crate) async fn serves(&self, name: &str, nodes: &[usize]) -> Balancer {
        let service = self.get(name).await;
        let wanted = wanted(&service, nodes);
        let what = format!("{name} is served as {wanted:?}");
        self.balanced(&service, &what, |balancer| balancer.served == wanted)
            .await
    }

    /// Waits until there is no load balancer (of Mooring's) at all.
    pub(crate) async fn nothing_is_left(&self) {
        eventually("no load balancer is left", SOON, async || {
            let left = self.cloud.left();
            if left.is_empty() { Ok(()) } else { Err(left) }
        })
        .await;
    }
}
