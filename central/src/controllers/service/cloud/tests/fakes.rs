//! A cluster and a cloud without servers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Node, Service};
use mooring_common::k8s::Slim;
use mooring_common::node_view::NodeView;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::cluster::Changes;
use super::super::*;
use super::secrets::FakeSecrets;
use crate::cloud_api::CloudError;
use crate::cloud_provider::load_balancers::{
    InvalidField, LoadBalancerStatus, MadeFor, Notice, Orphan, PlanSummary, PlannedStep,
    PreparedPlan, Presence, Progress, ReconcileError, Stop, WriteGuard,
};
use crate::cloud_provider::secrets::ReadSecret;
use crate::controllers::service::Freshness;
use crate::election::NotLeading;
use crate::views::service_view::Ingress;

/// Places in [`FakeCluster::changes`].
const NODES: usize = 0;
const SERVICES: usize = 1;

/// An API server: Services as JSON.
#[derive(Default)]
pub(super) struct FakeCluster {
    pub(super) services: Mutex<BTreeMap<ObjectKey, Value>>,
    /// What the cache says although the API server says otherwise.
    pub(super) stale: Mutex<HashMap<ObjectKey, Value>>,
    pub(super) nodes: Mutex<Vec<Arc<NodeView>>>,
    pub(super) deposed: AtomicBool,
    pub(super) ending: CancellationToken,
    pub(super) drops_ip_mode: AtomicBool,
    pub(super) patches: AtomicUsize,
    /// How many changes there were of Nodes, and of Services.
    pub(super) changes: [AtomicUsize; 2],
    /// How many Nodes and Services were listed altogether.
    pub(super) listed: AtomicUsize,
    pub(super) secrets: FakeSecrets,
    pub(super) events: Mutex<Vec<(Reporter, &'static str, String)>>,
}

impl FakeCluster {
    fn changed(&self, kind: usize) {
        self.changes[kind].fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn put(&self, service: Value) {
        self.changed(SERVICES);
        self.services
            .lock()
            .unwrap()
            .insert(key_of(&service), service);
    }

    /// A Service is gone.
    pub(super) fn remove(&self, key: &ObjectKey) {
        self.services.lock().unwrap().remove(key);
        self.changed(SERVICES);
    }

    /// All Nodes are gone.
    pub(super) fn leave_all(&self) {
        self.nodes.lock().unwrap().clear();
        self.changed(NODES);
    }

    /// Changes a Service as a user does.
    pub(super) fn edit(&self, key: &ObjectKey, change: impl Fn(&mut Value)) {
        let mut services = self.services.lock().unwrap();
        let service = services.get_mut(key).unwrap();
        change(service);
        raise_version(service);
        self.changed(SERVICES);
    }

    pub(super) fn json(&self, key: &ObjectKey) -> Value {
        self.services.lock().unwrap()[key].clone()
    }

    pub(super) fn join(&self, name: &str) {
        let node = json!({"metadata": {"name": name, "uid": name}});
        let node: Node = serde_json::from_value(node).unwrap();
        let node = Arc::new(NodeView::slim(node));
        self.nodes.lock().unwrap().push(node);
        self.changed(NODES);
    }

    /// The reasons of the Events since the last call.
    pub(super) fn reasons(&self) -> Vec<&'static str> {
        let events = std::mem::take(&mut *self.events.lock().unwrap());
        events.into_iter().map(|(_, reason, _)| reason).collect()
    }
}

fn key_of(service: &Value) -> ObjectKey {
    let text = |name: &str| service["metadata"][name].as_str().unwrap().to_owned();
    ObjectKey::new(text("namespace"), text("name"))
}

fn raise_version(service: &mut Value) {
    let version = &mut service["metadata"]["resourceVersion"];
    let number: u64 = version.as_str().unwrap().parse().unwrap();
    *version = json!((number + 1).to_string());
}

fn view(service: Value) -> ServiceView {
    ServiceView::slim(serde_json::from_value::<Service>(service).unwrap())
}

#[async_trait]
impl Cluster for FakeCluster {
    fn service(&self, key: &ObjectKey) -> Option<Arc<ServiceView>> {
        let stale = self.stale.lock().unwrap().get(key).cloned();
        let service = stale.or_else(|| self.services.lock().unwrap().get(key).cloned());
        service.map(|service| Arc::new(view(service)))
    }

    fn services(&self) -> Vec<Arc<ServiceView>> {
        let keys: Vec<_> = self.services.lock().unwrap().keys().cloned().collect();
        self.listed.fetch_add(keys.len(), Ordering::SeqCst);
        keys.iter().filter_map(|key| self.service(key)).collect()
    }

    fn nodes(&self) -> Vec<Arc<NodeView>> {
        let nodes = self.nodes.lock().unwrap().clone();
        self.listed.fetch_add(nodes.len(), Ordering::SeqCst);
        nodes
    }

    fn changes(&self) -> Changes {
        let [nodes, services] = &self.changes;
        let count = |changes: &AtomicUsize| changes.load(Ordering::SeqCst) as u64;
        Changes {
            nodes: count(nodes),
            services: count(services),
        }
    }

    fn leads(&self) -> Result<(), NotLeading> {
        match self.deposed.load(Ordering::SeqCst) {
            true => Err(NotLeading::Lease),
            false if self.ending.is_cancelled() => Err(NotLeading::Ending),
            false => Ok(()),
        }
    }

    fn ending(&self) -> CancellationToken {
        self.ending.clone()
    }

    async fn fresh(&self, key: &ObjectKey) -> Result<Option<ServiceView>, kube::Error> {
        Ok(self.services.lock().unwrap().get(key).cloned().map(view))
    }

    async fn fresh_all(&self) -> Result<Vec<ServiceView>, kube::Error> {
        let services = self.services.lock().unwrap();
        Ok(services.values().cloned().map(view).collect())
    }

    async fn secret(&self, key: &ObjectKey, freshness: Freshness) -> Result<ReadSecret, String> {
        // The others go on meanwhile.
        tokio::task::yield_now().await;
        self.secrets.get(key, freshness)
    }

    async fn patch(&self, key: &ObjectKey, operations: Vec<Value>) -> Result<ServiceView, Failure> {
        let mut services = self.services.lock().unwrap();
        let service = services.get_mut(key).ok_or(Failure::Gone)?;
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(operations)).unwrap();
        json_patch::patch(service, &patch).map_err(|_| Failure::Conflict)?;
        if self.drops_ip_mode.load(Ordering::SeqCst)
            && let Some(ingress) = service["status"]["loadBalancer"]["ingress"].as_array_mut()
        {
            for entry in ingress {
                entry.as_object_mut().unwrap().remove("ipMode");
            }
        }
        raise_version(service);
        self.patches.fetch_add(1, Ordering::SeqCst);
        let written = view(service.clone());
        if written.deleting && written.finalizers.iter().flatten().next().is_none() {
            services.remove(key);
        }
        self.changed(SERVICES);
        Ok(written)
    }

    async fn patch_itself(
        &self,
        key: &ObjectKey,
        operations: Vec<Value>,
    ) -> Result<ServiceView, Failure> {
        self.patch(key, operations).await
    }

    async fn report(
        &self,
        by: Reporter,
        _: &ObjectReference,
        _: EventKind,
        reason: &'static str,
        note: &str,
    ) {
        self.events
            .lock()
            .unwrap()
            .push((by, reason, note.to_owned()));
    }
}

/// What happens at one write, before it is made.
pub(super) type Interruption = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
pub(super) struct CloudState {
    /// By the Service's UID: the members of its load balancer.
    pub(super) balancers: HashMap<String, Vec<String>>,
    /// Failures of the next plans, the last first.
    pub(super) failures: Vec<ReconcileError>,
    pub(super) notices: Vec<Notice>,
    pub(super) impact: mooring_common::engine::Impact,
    /// How often creation says that it takes more time.
    pub(super) waits: usize,
    pub(super) before_write: Option<Interruption>,
    pub(super) forgotten: Vec<String>,
    pub(super) fails_late: Option<ReconcileError>,
    /// By the Service's UID: the Secrets that it names.
    pub(super) secrets: HashMap<String, BTreeSet<String>>,
    /// The address of each load balancer. `None`: 192.0.2.1.
    pub(super) address: Option<String>,
    /// Of each removal that was planned: whether the Service's status counts.
    pub(super) removals: Vec<bool>,
    /// It gives no answer about what there is to remove.
    pub(super) hangs: bool,
}

/// A cloud whose load balancers are lists of members: one write for each. What they present is among them.
#[derive(Clone, Default)]
pub(super) struct FakeCloud {
    pub(super) state: Arc<Mutex<CloudState>>,
    pub(super) writes: Arc<AtomicUsize>,
    pub(super) plans: Arc<AtomicUsize>,
    pub(super) anew: Arc<AtomicUsize>,
}

struct FakePlan {
    cloud: FakeCloud,
    uid: String,
    /// Empty for a removal.
    wanted: Option<Vec<String>>,
    shown: PlanSummary,
}

impl FakeCloud {
    pub(super) fn members(&self, uid: &str) -> Option<Vec<String>> {
        self.state.lock().unwrap().balancers.get(uid).cloned()
    }

    fn plan(
        &self,
        request: &LoadBalancerRequest,
        wanted: Option<Vec<String>>,
    ) -> Result<Box<dyn PreparedPlan>, ReconcileError> {
        self.plans.fetch_add(1, Ordering::SeqCst);
        let mut state = self.state.lock().unwrap();
        if let Some(failure) = state.failures.pop() {
            return Err(failure);
        }
        let uid = request.service.uid.clone();
        let is_as_wanted = state.balancers.get(&uid) == wanted.as_ref();
        let step = PlannedStep {
            step: format!("make it {wanted:?}"),
            impact: state.impact,
        };
        let shown = PlanSummary {
            steps: if is_as_wanted { vec![] } else { vec![step] },
            notices: state.notices.clone(),
            refused: None,
        };
        Ok(Box::new(FakePlan {
            cloud: self.clone(),
            uid,
            wanted,
            shown,
        }))
    }

    fn write(
        &self,
        guard: &dyn WriteGuard,
        change: impl FnOnce(&mut CloudState),
    ) -> Result<(), Stop> {
        let interruption = self.state.lock().unwrap().before_write.take();
        if let Some(interrupt) = interruption {
            interrupt();
        }
        guard.before_write()?;
        change(&mut self.state.lock().unwrap());
        self.writes.fetch_add(1, Ordering::SeqCst);
        guard.written();
        Ok(())
    }
}

#[async_trait]
impl PreparedPlan for FakePlan {
    fn summary(&self) -> &PlanSummary {
        &self.shown
    }

    async fn carry_out(
        self: Box<Self>,
        guard: &dyn WriteGuard,
    ) -> Result<Progress, ReconcileError> {
        let uid = self.uid;
        let Some(wanted) = self.wanted else {
            if self.cloud.members(&uid).is_some() {
                self.cloud.write(guard, |state| {
                    state.balancers.remove(&uid);
                })?;
            }
            return Ok(Progress::Removed);
        };
        if self.cloud.members(&uid).is_none() {
            guard.before_creation().await?;
            self.cloud.write(guard, |state| {
                state.balancers.insert(uid.clone(), Vec::new());
            })?;
        }
        {
            let mut state = self.cloud.state.lock().unwrap();
            if let Some(error) = state.fails_late.take() {
                return Err(error);
            }
            if state.waits > 0 {
                state.waits -= 1;
                return Ok(Progress::Wait {
                    after: Duration::from_secs(2),
                    what: "the cloud".to_owned(),
                });
            }
        }
        let there = self.cloud.members(&uid).unwrap_or_default();
        let there: HashSet<String> = there.into_iter().collect();
        for member in wanted.iter().filter(|member| !there.contains(*member)) {
            self.cloud.write(guard, |state| {
                let members = state.balancers.get_mut(&uid).unwrap();
                members.push(member.clone());
            })?;
        }
        self.cloud
            .state
            .lock()
            .unwrap()
            .balancers
            .insert(uid, wanted);
        let address = self.cloud.state.lock().unwrap().address.clone();
        let ingress = Ingress {
            ip: address.or_else(|| Some("192.0.2.1".to_owned())),
            hostname: None,
            ip_mode: Some("VIP".to_owned()),
        };
        Ok(Progress::Ensured(LoadBalancerStatus {
            ingress: vec![ingress],
            annotations: vec![("k8s.cloudscale.ch/loadbalancer-uuid", "lb".to_owned())],
            load_balancer_ip: None,
            again: None,
            notices: Vec::new(),
        }))
    }
}

#[async_trait]
impl LoadBalancers for FakeCloud {
    fn provider(&self) -> &'static str {
        "fake"
    }

    fn component(&self) -> &'static str {
        "fake-controller"
    }

    fn secrets(&self, service: &ServiceView) -> BTreeSet<String> {
        let secrets = &self.state.lock().unwrap().secrets;
        secrets.get(&service.uid).cloned().unwrap_or_default()
    }

    async fn prepare(
        &self,
        request: &LoadBalancerRequest,
    ) -> Result<Box<dyn PreparedPlan>, ReconcileError> {
        let stays = |node: &&Arc<NodeView>| {
            let endpoints = request.endpoints.as_ref();
            endpoints.is_none_or(|endpoints| endpoints.on(&node.name) != Presence::Leaving)
        };
        let nodes = request.nodes.iter().filter(stays);
        let mut wanted: Vec<_> = nodes.map(|node| node.name.clone()).collect();
        let mut faults = Vec::new();
        for name in self.secrets(&request.service) {
            match request.secrets.usable(&name) {
                Ok(secret) => wanted.push(format!("{name}: {}", secret.certificate)),
                Err(remedy) => faults.push(InvalidField::new("annotation tls", &name, remedy)),
            }
        }
        match faults.is_empty() {
            true => self.plan(request, Some(wanted)),
            false => Err(ReconcileError::Invalid(faults)),
        }
    }

    async fn prepare_removal(
        &self,
        request: &LoadBalancerRequest,
    ) -> Result<Box<dyn PreparedPlan>, ReconcileError> {
        let counts = !request.service.ingress.is_empty();
        let hangs = {
            let mut state = self.state.lock().unwrap();
            state.removals.push(counts);
            state.hangs
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        self.plan(request, None)
    }

    fn may_have(&self, service: &ServiceView) -> bool {
        let is_recorded = !service.annotations.is_empty();
        is_recorded || !service.ingress.is_empty() || service.creation_asked_of("fake").is_some()
    }

    fn forget(&self, service_uid: &str) {
        let mut state = self.state.lock().unwrap();
        state.forgotten.push(service_uid.to_owned());
    }

    fn observe_anew(&self) {
        self.anew.fetch_add(1, Ordering::SeqCst);
    }

    fn observation_cost(&self) -> usize {
        1
    }

    async fn orphans(&self, _: &str, living: &[ServiceView]) -> Result<Vec<Orphan>, CloudError> {
        let state = self.state.lock().unwrap();
        let lives = |uid: &&String| living.iter().any(|service| service.uid == **uid);
        let uids = state.balancers.keys().filter(|uid| !lives(uid));
        let orphan = |uid: &String| Orphan {
            id: uid.clone(),
            name: format!("of {uid}"),
            made_for: MadeFor::Uid(uid.clone()),
        };
        Ok(uids.map(orphan).collect())
    }

    async fn remove_orphan(
        &self,
        _cluster: &str,
        orphan: &Orphan,
        guard: &dyn WriteGuard,
    ) -> Result<(), ReconcileError> {
        Ok(self.write(guard, |state| {
            state.balancers.remove(&orphan.id);
        })?)
    }
}
