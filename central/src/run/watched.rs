//! What of the cluster is followed.

use std::net::IpAddr;
use std::sync::Arc;

use kube::runtime::watcher;
use kube::{Api, Client};
use mooring_common::k8s::{Cache, Change};
use mooring_common::node_init::calls_for_a_look;
use mooring_common::node_view::NodeView;
use mooring_common::work_queue::Queues;
use tokio::sync::Notify;

use crate::cloud_provider::Instances;
use crate::controllers::address_pool::{self, Allocations, NetworkView};
use crate::controllers::{
    ProviderIdIndex, canonical, node_init, node_ipam, node_lifecycle, routes, service,
};
use crate::views::namespace_view::NamespaceView;
use crate::views::service_view::ServiceView;

/// What is followed beside Nodes: only what the controllers need, for nothing else may be permitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Follows {
    pub(super) services: bool,
    pub(super) networks: bool,
    pub(super) endpoints: bool,
    /// Of Nodes: what routes to their Pods go by.
    pub(super) routes: bool,
    /// The same of pod CIDRs.
    pub(super) pod_cidrs: bool,
}

/// The caches, warm on the leader and on those that stand by, and the queues that they feed.
#[derive(Clone)]
pub(super) struct Watched {
    pub(super) nodes: Arc<Cache<NodeView>>,
    pub(super) provider_ids: Arc<ProviderIdIndex>,
    pub(super) services: Arc<Cache<ServiceView>>,
    pub(super) node_changes: Arc<service::NodeChanges>,
    pub(super) slices: Arc<Cache<service::SliceView>>,
    pub(super) endpoint_changes: Arc<service::EndpointChanges>,
    pub(super) networks: Arc<Cache<NetworkView>>,
    pub(super) allocations: Arc<Allocations>,
    pub(super) namespaces: Arc<Cache<NamespaceView>>,
    /// Told once an L2Network asks for the labels of namespaces.
    namespaces_needed: Arc<Notify>,
    pub(super) node_queue: Arc<node_init::Queue>,
    pub(super) lifecycle_queue: Arc<node_lifecycle::Queue>,
    pub(super) service_queue: Arc<service::Queue>,
    pub(super) network_queue: Arc<address_pool::Queue>,
    pub(super) route_history: Arc<routes::RouteHistory>,
    pub(super) route_queue: Arc<routes::Queue>,
    pub(super) ipam_queue: Arc<node_ipam::Queue>,
}

impl Watched {
    pub(super) fn new() -> Self {
        Self {
            nodes: Arc::default(),
            provider_ids: Arc::default(),
            services: Arc::default(),
            node_changes: Arc::default(),
            slices: Arc::default(),
            endpoint_changes: Arc::default(),
            networks: Arc::default(),
            allocations: Arc::default(),
            namespaces: Arc::default(),
            namespaces_needed: Arc::default(),
            node_queue: node_init::queue(),
            lifecycle_queue: node_lifecycle::queue(),
            service_queue: service::queue(),
            network_queue: address_pool::queue(),
            route_history: Arc::default(),
            route_queue: routes::queue(),
            ipam_queue: node_ipam::queue(),
        }
    }

    /// The queues, for what is counted of them.
    pub(super) fn queues(&self) -> Queues {
        let mut queues = Queues::default();
        queues.add("node", &self.node_queue);
        queues.add("node_lifecycle", &self.lifecycle_queue);
        queues.add("service", &self.service_queue);
        queues.add("l2network", &self.network_queue);
        queues.add("route", &self.route_queue);
        queues.add("node_ipam", &self.ipam_queue);
        queues
    }

    fn node_changed(&self, change: &Change<NodeView>, instances: &dyn Instances, follows: Follows) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let name = &change.key.name;
        self.node_changes.node(old, new);
        let (before, now) = (addresses(old), addresses(new));
        if before != now {
            for holder in self.allocations.node_changed(name, &before, &now) {
                self.service_queue.add(holder);
            }
        }
        if let Some(delay) = calls_for_a_look(old, new) {
            self.node_queue.add_after(name.clone(), delay);
        }
        let id = |node: Option<&NodeView>| {
            let id = node?.provider_id.as_deref()?;
            Some(canonical(instances, id))
        };
        let waits = new.is_some_and(|node| node.provider_id.is_none() && node.is_uninitialized());
        // Another Node may have been refused because this one had its machine.
        let others = self
            .provider_ids
            .changed(name, id(old).as_deref(), id(new).as_deref(), waits);
        for other in others {
            self.node_queue.add(other);
        }
        if node_lifecycle::concerns(old, new) {
            // Together with what else changes meanwhile: a pass looks at all Nodes.
            self.lifecycle_queue
                .add_after(node_lifecycle::AllNodes, node_lifecycle::SOON);
        }
        if follows.routes && routes::concerns(old, new) {
            self.route_history.changed(old, new, instances);
            self.route_queue.add_after(routes::AllRoutes, routes::SOON);
        }
        if follows.pod_cidrs && node_ipam::concerns(old, new) {
            self.ipam_queue
                .add_after(node_ipam::AllNodes, node_ipam::SOON);
        }
    }

    fn slice_changed(&self, change: &Change<service::SliceView>) {
        for (key, delay) in self.endpoint_changes.slice(change) {
            let service = self.services.get(&key);
            // Of one that is not known yet there will be a look anyway.
            if service.is_some_and(|service| service.is_local && service.is_load_balancer) {
                self.service_queue.add_after(key, delay);
            }
        }
    }

    /// Its Services may have addresses of other L2Networks now.
    fn namespace_changed(&self, change: &Change<NamespaceView>) {
        for (key, service) in self.services.all() {
            if key.namespace == change.key.name && service.is_load_balancer {
                self.service_queue.add(key);
            }
        }
    }

    pub(super) async fn follow(
        self,
        client: Client,
        instances: Arc<dyn Instances>,
        follows: Follows,
    ) {
        let config = watcher::Config::default;
        let nodes = self
            .nodes
            .follow(Api::all(client.clone()), config(), |change| {
                self.node_changed(&change, &*instances, follows);
            });
        let services = async {
            if follows.services {
                let tell = |change: Change<ServiceView>| {
                    // Whoever has just failed waits for its time, not for its own mark.
                    if !is_only_our_mark(change.old.as_deref(), change.new.as_deref()) {
                        self.service_queue.add(change.key);
                    }
                };
                let api = Api::all(client.clone());
                self.services.follow(api, config(), tell).await;
            }
        };
        let networks = async {
            if follows.networks {
                let tell = |change: Change<NetworkView>| {
                    let segment = change.new.as_ref().map(|network| &network.segment);
                    if let Some(Ok(segment)) = segment
                        && segment.allowed_namespaces.is_some()
                    {
                        self.namespaces_needed.notify_one();
                    }
                    self.network_queue.add(address_pool::AllNetworks);
                };
                let api = Api::all(client.clone());
                self.networks.follow(api, config(), tell).await;
            }
        };
        let slices = async {
            if follows.endpoints {
                let tell = |change| self.slice_changed(&change);
                let api = Api::all(client.clone());
                self.slices
                    .follow(api, service::watched_slices(), tell)
                    .await;
            }
        };
        // An older ClusterRole does not permit it: nobody who does not need it shall hear of that.
        let namespaces = async {
            self.namespaces_needed.notified().await;
            let tell = |change| self.namespace_changed(&change);
            let api = Api::all(client.clone());
            self.namespaces.follow(api, config(), tell).await;
        };
        tokio::join!(nodes, services, networks, slices, namespaces);
    }

    pub(super) async fn synced(&self, follows: Follows) {
        self.nodes.synced().await;
        if follows.services {
            self.services.synced().await;
        }
        if follows.networks {
            self.networks.synced().await;
        }
    }
}

fn addresses(node: Option<&NodeView>) -> Vec<IpAddr> {
    let all = node.into_iter().flat_map(|node| &node.addresses);
    let all = all.filter_map(|address| address.address.parse().ok());
    let mut all: Vec<IpAddr> = all.collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Whether all that has changed about a Service is that it bears a mark of ours now: the finalizer, or
/// that a load balancer is asked for.
fn is_only_our_mark(old: Option<&ServiceView>, new: Option<&ServiceView>) -> bool {
    let (Some(old), Some(new)) = (old, new) else {
        return false;
    };
    let is_held = !old.has_finalizer() && new.has_finalizer();
    let is_asked = new.creation_asked.is_some() && old.creation_asked != new.creation_asked;
    let mut marked = ServiceView {
        resource_version: new.resource_version.clone(),
        ..old.clone()
    };
    if is_held {
        marked.finalizers.clone_from(&new.finalizers);
    }
    if is_asked {
        marked.creation_asked.clone_from(&new.creation_asked);
        marked.has_annotations = true;
    }
    (is_held || is_asked) && marked == *new
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::service_view::tests::service;
    use mooring_common::names::finalizers;

    #[test]
    fn own_marks_are_no_change() {
        let bare = service();
        let marked = ServiceView {
            finalizers: Some(vec![finalizers::SERVICE.to_owned()]),
            resource_version: "8".to_owned(),
            ..service()
        };
        assert!(is_only_our_mark(Some(&bare), Some(&marked)));
        assert!(!is_only_our_mark(Some(&marked), Some(&bare)));
        assert!(!is_only_our_mark(None, Some(&marked)));
        let asked = |at: &str| ServiceView {
            creation_asked: Some(at.to_owned()),
            has_annotations: true,
            ..marked.clone()
        };
        let without_annotations = ServiceView {
            has_annotations: false,
            ..marked.clone()
        };
        let first = asked("1");
        assert!(is_only_our_mark(Some(&without_annotations), Some(&first)));
        assert!(is_only_our_mark(Some(&marked), Some(&first)));
        assert!(is_only_our_mark(Some(&asked("1")), Some(&asked("2"))));
        assert!(!is_only_our_mark(Some(&asked("2")), Some(&marked)));
        let changed = ServiceView {
            deleting: true,
            ..marked
        };
        assert!(!is_only_our_mark(Some(&bare), Some(&changed)));
    }
}
