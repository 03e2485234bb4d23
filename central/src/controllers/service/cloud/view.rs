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
    nodes: NodesView,
    services: ServicesView,
}

/// By name.
#[derive(Clone, Debug)]
struct NodesView {
    /// Those that carry traffic.
    carriers: Arc<[Arc<NodeView>]>,
    /// The others.
    others: Arc<[Arc<NodeView>]>,
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
            nodes: NodesView::new(nodes),
            services: ServicesView::new(services, routing, provider),
        }
    }

    /// What a pass over a Service goes by. Who is asked about its health, where its endpoints are, what
    /// its Secrets say, and what it may take over, is not said here.
    #[must_use]
    pub fn request(&self, service: &Arc<ServiceView>) -> LoadBalancerRequest {
        LoadBalancerRequest {
            service: service.clone(),
            nodes: self.nodes.carriers.clone(),
            other_nodes: self.nodes.others.clone(),
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

impl NodesView {
    fn new(mut nodes: Vec<Arc<NodeView>>) -> Self {
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let (carriers, others): (Vec<_>, Vec<_>) =
            nodes.into_iter().partition(|node| node.carries_traffic());
        Self {
            carriers: carriers.into(),
            others: others.into(),
        }
    }
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
    nodes: Latest<NodesView>,
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
                .as_of(changes.nodes, || NodesView::new(cluster.nodes())),
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

#[cfg(test)]
mod tests {
    use mooring_common::k8s::Slim as _;
    use serde_json::json;

    use super::*;
    use crate::views::service_view::tests::service;

    /// What they have is no Service's either.
    #[test]
    fn nodes_without_traffic_are_seen_apart() {
        let node = |name: &str, label: &str| {
            let node = json!({"metadata": {"name": name, "labels": {label: ""}}});
            Arc::new(NodeView::slim(serde_json::from_value(node).unwrap()))
        };
        let excluded = mooring_common::names::labels::EXCLUDE_FROM_LOAD_BALANCERS;
        let nodes = vec![node("b", ""), node("master", excluded), node("a", "")];
        let routing = Routing {
            own_classes: Vec::new(),
            serves_classless: true,
            l2_networks: false,
            clouds: vec!["cloud"],
        };
        let view = ClusterView::new(nodes, Vec::new(), &routing, "cloud");
        let request = view.request(&Arc::new(service()));
        let names = |nodes: &[Arc<NodeView>]| {
            let names = nodes.iter().map(|node| node.name.clone());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(&request.nodes), ["a", "b"]);
        assert_eq!(names(&request.other_nodes), ["master"]);
    }
}
