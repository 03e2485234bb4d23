//! The world as far as announcing and `/livez` look at it: slim forms of the API objects, and one
//! [`Snapshot`] of all of them.
//!
//! The same snapshot decides where an address goes and what `/livez` answers, so that the two can
//! never contradict each other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ObjectReference, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use mooring_common::k8s::ObjectKey;
use mooring_common::l2_network::{self, InvalidL2Network, L2Network, Segment, SegmentNode};
use mooring_common::names::{annotations, labels, node_lease, taints as taint_keys};
use mooring_common::node_view::NodeView;
use mooring_common::taints;

use super::mac::Mac;
use crate::vlan;

/// Everything that was observed, as of one moment. Cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Services of type LoadBalancer.
    pub services: Arc<BTreeMap<ObjectKey, Arc<ServiceView>>>,
    /// The EndpointSlices of each Service, of whatever type.
    pub slices: Arc<BTreeMap<ObjectKey, Vec<Arc<SliceView>>>>,
    /// All L2Networks, by name.
    pub networks: Arc<BTreeMap<ObjectKey, Arc<NetworkView>>>,
    /// The Leases of the node daemons.
    pub leases: Arc<BTreeMap<ObjectKey, Arc<LeaseView>>>,
    /// The Node that this daemon runs on; `None` if there is none.
    pub node: Option<Arc<NodeView>>,
    /// Which of these have been listed whole.
    pub synced: Synced,
    /// Whether this daemon may write and announce anything: see [`crate::fence`].
    pub may_write: bool,
    /// When the API server was last heard of.
    pub heard: Option<std::time::Instant>,
    /// What hinders the VLANs of segments: always as it is now.
    pub vlan_faults: vlan::Faults,
}

/// Which kinds have been listed whole. Before that, an absence means nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// Services.
    pub services: bool,
    /// EndpointSlices.
    pub slices: bool,
    /// L2Networks.
    pub networks: bool,
    /// Leases.
    pub leases: bool,
    /// The own Node.
    pub node: bool,
}

impl Snapshot {
    /// Whether health can be answered: Services, their endpoints and the own Node are known.
    #[must_use]
    pub const fn answers_health(&self) -> bool {
        self.synced.services && self.synced.slices && self.synced.node
    }

    /// Whether it can and may be decided who announces what.
    #[must_use]
    pub const fn decides_speakers(&self) -> bool {
        self.may_write && self.answers_health() && self.synced.networks && self.synced.leases
    }

    /// Whether this Node is to carry no (more) traffic: being deleted, excluded by label, about to
    /// be removed by the autoscaler, or declared lost. A Node that is not there is not drained:
    /// it may be about to register.
    #[must_use]
    pub fn draining(&self) -> bool {
        self.node.as_ref().is_some_and(|node| {
            !node.carries_traffic() || taints::has(&node.taints, taint_keys::OUT_OF_SERVICE)
        })
    }

    /// The EndpointSlices of a Service.
    #[must_use]
    pub fn slices_of(&self, service: &ObjectKey) -> &[Arc<SliceView>] {
        self.slices.get(service).map_or(&[], Vec::as_slice)
    }
}

/// Sorts EndpointSlices by the Service that each belongs to: what its label says, for a slice is
/// named after its Service only by custom.
#[must_use]
pub fn by_service(
    slices: &BTreeMap<ObjectKey, Arc<SliceView>>,
) -> BTreeMap<ObjectKey, Vec<Arc<SliceView>>> {
    let mut sorted: BTreeMap<ObjectKey, Vec<Arc<SliceView>>> = BTreeMap::new();
    for (key, slice) in slices {
        let service = ObjectKey::new(key.namespace.as_str(), slice.service.as_str());
        sorted.entry(service).or_default().push(Arc::clone(slice));
    }
    sorted
}

/// Where a Service accepts traffic from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrafficPolicy {
    /// On every node.
    Cluster,
    /// Only on nodes with endpoints of its own.
    Local,
}

/// What is looked at of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceView {
    /// `metadata.uid`.
    pub uid: String,
    /// The L2Network that its addresses live on, from central's annotation. None if it has a
    /// `spec.loadBalancerClass`: then it is another controller's, whatever is annotated.
    pub network: Option<String>,
    /// The addresses in its status, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// `spec.externalTrafficPolicy`.
    pub policy: TrafficPolicy,
}

impl ServiceView {
    /// How Events refer to it.
    #[must_use]
    pub fn reference(&self, key: &ObjectKey) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Service".to_owned()),
            namespace: Some(key.namespace.clone()),
            name: Some(key.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

impl ServiceView {
    /// Takes what is needed; `None` if it is not of type LoadBalancer.
    #[must_use]
    pub fn read(service: Service) -> Option<Self> {
        let meta = service.metadata;
        let spec = service.spec.unwrap_or_default();
        if spec.type_.as_deref() != Some("LoadBalancer") {
            return None;
        }
        let ingress = service
            .status
            .and_then(|status| status.load_balancer)
            .and_then(|balancer| balancer.ingress)
            .unwrap_or_default();
        let mut addresses: Vec<IpAddr> = ingress
            .iter()
            .filter_map(|ingress| ingress.ip.as_deref()?.parse().ok())
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        Some(Self {
            uid: meta.uid.unwrap_or_default(),
            network: meta
                .annotations
                .filter(|_| spec.load_balancer_class.is_none())
                .and_then(|mut all| all.remove(annotations::ALLOCATED_NETWORK)),
            addresses,
            policy: match spec.external_traffic_policy.as_deref() {
                Some("Local") => TrafficPolicy::Local,
                _ => TrafficPolicy::Cluster,
            },
        })
    }
}

/// What is looked at of an EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceView {
    /// The Service it belongs to, in its own namespace.
    pub service: String,
    /// Nodes with a ready endpoint.
    pub ready_nodes: BTreeSet<String>,
    /// Nodes with an endpoint that terminates and still serves.
    pub leaving_nodes: BTreeSet<String>,
    /// Whether there is a ready endpoint, on a Node or elsewhere.
    pub any_ready: bool,
    /// Whether there is an endpoint that terminates and still serves, on a Node or elsewhere.
    pub any_leaving: bool,
    /// Ready endpoints on this Node: what its weight is counted from.
    pub local_ready: BTreeSet<IpAddr>,
}

impl SliceView {
    /// Takes what is needed; `None` if it belongs to no Service.
    #[must_use]
    pub fn read(slice: EndpointSlice, own_node: &str) -> Option<Self> {
        let mut view = Self {
            service: slice.metadata.labels?.remove(labels::SERVICE_NAME)?,
            ..Self::default()
        };
        for endpoint in slice.endpoints.into_iter().flatten() {
            view.add(endpoint, own_node);
        }
        Some(view)
    }

    /// discovery/v1: `ready` that is absent counts as true, `serving` that is absent as `ready`,
    /// `terminating` that is absent as false.
    fn add(&mut self, endpoint: Endpoint, own_node: &str) {
        let conditions = endpoint.conditions.unwrap_or_default();
        let ready = conditions.ready.unwrap_or(true);
        let terminating = conditions.terminating.unwrap_or(false);
        let leaving = !ready && terminating && conditions.serving.unwrap_or(ready);
        self.any_ready |= ready;
        self.any_leaving |= leaving;
        let Some(node) = endpoint.node_name else {
            return;
        };
        if ready {
            if node == own_node {
                let addresses = endpoint
                    .addresses
                    .iter()
                    .filter_map(|a| a.parse::<IpAddr>().ok());
                self.local_ready.extend(addresses);
            }
            self.ready_nodes.insert(node);
        } else if leaving {
            self.leaving_nodes.insert(node);
        }
    }
}

/// An L2Network: read whole, or what is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkView {
    /// `metadata.uid`.
    pub uid: String,
    /// The segment, if it could be read.
    pub segment: Result<Segment, InvalidL2Network>,
    /// What its status says of this Node. Of the others nothing is kept: what they write must not
    /// look like a change here.
    pub entry: Option<SegmentNode>,
}

impl NetworkView {
    /// How Events refer to it.
    #[must_use]
    pub fn reference(&self, name: &str) -> ObjectReference {
        l2_network::reference(name, &self.uid)
    }
}

impl NetworkView {
    /// Takes what is needed.
    #[must_use]
    pub fn read(network: L2Network, own_node: &str) -> Self {
        Self {
            segment: Segment::try_from(&network),
            entry: network
                .status
                .into_iter()
                .flat_map(|status| status.nodes)
                .find(|entry| entry.name == own_node),
            uid: network.metadata.uid.unwrap_or_default(),
        }
    }
}

/// What is looked at of a node daemon's Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// The Node that the daemon runs on.
    pub node: String,
    /// `metadata.resourceVersion`: changes with every renewal, and is only compared for equality.
    pub version: String,
    /// `spec.holderIdentity`; empty once released.
    pub holder: String,
    /// The segments it can speak on, and its MAC address on each.
    pub segments: BTreeMap<String, Mac>,
}

impl LeaseView {
    /// Takes what is needed; `None` if it is not the Lease of a node daemon.
    #[must_use]
    pub fn read(lease: Lease) -> Option<Self> {
        let meta = lease.metadata;
        let name = meta.name?;
        let (_, node) = name.split_once('-')?;
        if node_lease(node) != name {
            return None;
        }
        let segments = meta
            .annotations
            .and_then(|mut all| all.remove(annotations::LEASE_SEGMENTS))
            .map(|text| {
                serde_json::from_str(&text).unwrap_or_else(|error| {
                    tracing::warn!(lease = %name, %error, "ignoring segments that cannot be read");
                    BTreeMap::new()
                })
            })
            .unwrap_or_default();
        Some(Self {
            node: node.to_owned(),
            version: meta.resource_version.unwrap_or_default(),
            holder: lease
                .spec
                .and_then(|spec| spec.holder_identity)
                .unwrap_or_default(),
            segments,
        })
    }
}

impl LeaseView {
    /// Whether nobody holds it and it names no segment: as if it were not there.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.holder.is_empty() && self.segments.is_empty()
    }
}

#[cfg(test)]
impl LeaseView {
    /// A Lease without segments.
    pub(crate) fn test(node: &str, holder: &str, version: u64) -> Self {
        Self {
            node: node.to_owned(),
            version: version.to_string(),
            holder: holder.to_owned(),
            segments: BTreeMap::new(),
        }
    }

    /// Speaks on a segment, from a MAC made of a number.
    pub(crate) fn on(mut self, segment: &str, mac: u8) -> Self {
        let mac = Mac::new([2, 0, 0, 0, 0, mac]);
        self.segments.insert(segment.to_owned(), mac);
        self
    }
}

#[cfg(test)]
mod tests;
