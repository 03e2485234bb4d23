//! The Nodes and Services that passes go by: sorted and chosen once for each change of them, and not by
//! each pass anew.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mooring_common::k8s::ObjectKey;
use mooring_common::node_view::NodeView;

use super::cluster::Cluster;
use crate::cloud_provider::load_balancers::{HealthTarget, LoadBalancerRequest, Others};
use crate::cloud_provider::secrets::Secrets;
use crate::controllers::service::Routing;
use crate::views::service_view::ServiceView;

/// The Service that every API server makes, and whose UID tells clusters apart.
pub(super) fn cluster_service() -> ObjectKey {
    ObjectKey::new("default", "kubernetes")
}

/// What a pass over any Service goes by.
#[derive(Clone, Debug)]
pub struct ClusterView {
    nodes: Arc<[Arc<NodeView>]>,
    services: ServicesView,
}

#[derive(Clone, Debug)]
struct ServicesView {
    /// Those that have, or are to have, a load balancer of the cloud.
    wanting: Arc<[Arc<ServiceView>]>,
    cluster: Option<String>,
}

impl ClusterView {
    /// Of a cluster with these Nodes and Services, for the cloud of this provider.
    #[must_use]
    pub fn new(
        nodes: Vec<Arc<NodeView>>,
        services: Vec<Arc<ServiceView>>,
        routing: &Routing,
        provider: &str,
    ) -> Self {
        Self {
            nodes: carriers(nodes),
            services: ServicesView::new(services, routing, provider),
        }
    }

    /// What a pass over a Service goes by. Who is asked about its health, where its endpoints are, what
    /// its Secrets say, and what it may take over, is not said here.
    #[must_use]
    pub fn request(&self, service: &Arc<ServiceView>) -> LoadBalancerRequest {
        LoadBalancerRequest {
            service: service.clone(),
            nodes: self.nodes.clone(),
            others: Others::of(self.services.wanting.clone(), &service.uid),
            cluster: self.services.cluster.clone(),
            may_take_over: false,
            settle_time: Duration::ZERO,
            health: HealthTarget::default(),
            endpoints: None,
            secrets: Secrets::default(),
        }
    }
}

fn carriers(mut nodes: Vec<Arc<NodeView>>) -> Arc<[Arc<NodeView>]> {
    nodes.retain(|node| node.carries_traffic());
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes.into()
}

impl ServicesView {
    fn new(mut services: Vec<Arc<ServiceView>>, routing: &Routing, provider: &str) -> Self {
        let mut all = services.iter();
        let cluster = all.find(|service| service.key == cluster_service());
        let cluster = cluster.map(|service| service.uid.clone());
        services.retain(|service| routing.wanted_of(service) == Some(provider));
        services.sort_by(|a, b| a.key.cmp(&b.key));
        Self {
            wanting: services.into(),
            cluster,
        }
    }
}

/// The view as of the last change.
#[derive(Debug, Default)]
pub(super) struct Views {
    nodes: Latest<Arc<[Arc<NodeView>]>>,
    services: Latest<ServicesView>,
}

impl Views {
    pub(super) fn now(
        &self,
        cluster: &dyn Cluster,
        routing: &Routing,
        provider: &str,
    ) -> ClusterView {
        let changes = cluster.changes();
        let services = || ServicesView::new(cluster.services(), routing, provider);
        ClusterView {
            nodes: self
                .nodes
                .as_of(changes.nodes, || carriers(cluster.nodes())),
            services: self.services.as_of(changes.services, services),
        }
    }
}

/// What was made last, and after how many changes.
#[derive(Debug)]
struct Latest<T>(Mutex<Option<(u64, T)>>);

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Latest<T> {
    fn as_of(&self, changes: u64, make: impl FnOnce() -> T) -> T {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*latest {
            Some((made_after, made)) if *made_after == changes => made.clone(),
            _ => {
                let made = make();
                *latest = Some((changes, made.clone()));
                made
            }
        }
    }
}
