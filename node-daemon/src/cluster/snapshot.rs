//! The world as far as announcing and `/livez` look at it: slim forms of the API objects, and one
//! [`Snapshot`] of all of them.
//!
//! The same snapshot decides where an address goes and what `/livez` answers, so that the two can
//! never contradict each other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use mooring_common::k8s::ObjectKey;
use mooring_common::l2_network::{self, InvalidL2Network, L2Network, Segment, SegmentNode, Voters};
use mooring_common::maintenance::Maintenance;
use mooring_common::names::{annotations as keys, labels, taints as taint_keys};
use mooring_common::node_view::{NodeView, Readiness};
use mooring_common::taints;

use super::saved_health::SavedHealth;
use super::service_proxy::{Confirmed, ServiceProxy, UnservedServices};
use crate::protocol::Weight;
use crate::protocol::mac::Mac;
use crate::vlan;

/// The share of a Node that is not Ready, beside the usual one.
const SHARE_NOT_READY: u16 = 25;

/// Everything that was observed, as of one moment. Cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Services of type LoadBalancer.
    pub services: Arc<BTreeMap<ObjectKey, Arc<ServiceView>>>,
    /// The EndpointSlices of each Service, of whatever type.
    pub slices: Arc<BTreeMap<ObjectKey, Vec<Arc<SliceView>>>>,
    /// All L2Networks, by name.
    pub networks: Arc<BTreeMap<ObjectKey, Arc<L2NetworkView>>>,
    /// The Node that this daemon runs on; `None` if there is none.
    pub node: Option<Arc<NodeView>>,
    /// This machine's clock when it was last looked at: what a person has limited until before is over.
    pub looked_at: Timestamp,
    /// Which of these have been listed whole.
    pub synced: Synced,
    /// Whether this daemon may write and announce anything: see [`crate::fence`].
    pub may_write: bool,
    /// When the API server was last heard of.
    pub heard: Option<std::time::Instant>,
    /// What hinders the VLANs of segments: always as it is now.
    pub vlan_faults: vlan::Faults,
    /// What this node's service proxy says of itself.
    pub service_proxy: ServiceProxy,
    /// What it says of single Services, where it is asked.
    pub refused: UnservedServices,
    /// The Services of which it has confirmed that they have an endpoint here.
    pub confirmed: Confirmed,
    /// What the process before this one has answered health checks from, where it counts until all is
    /// known anew.
    pub saved_health: Option<Arc<SavedHealth>>,
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
    /// The own Node.
    pub node: bool,
}

impl Snapshot {
    /// Whether health can be answered: Services, their endpoints and the own Node are known.
    #[must_use]
    pub const fn answers_health(&self) -> bool {
        self.synced.services && self.synced.slices && self.synced.node
    }

    /// Whether it is known, and may be told, what there is to announce.
    #[must_use]
    pub const fn decides_speakers(&self) -> bool {
        self.may_write && self.answers_health() && self.synced.networks
    }

    /// Whether this Node is to carry no (more) traffic: being deleted, excluded by label, about to
    /// be removed by the autoscaler, declared lost, or in maintenance. A Node that is not there is
    /// not drained: it may be about to register. Nor is one that takes no new Pods: those that it
    /// has go on.
    #[must_use]
    pub fn draining(&self) -> bool {
        let node = self.node.as_deref();
        let excluded = node.is_some_and(NodeView::is_excluded);
        excluded || self.leaves()
    }

    /// The same for one segment, which may take Nodes that are excluded by label.
    #[must_use]
    pub fn drains_on(&self, segment: &Segment) -> bool {
        if segment.includes_excluded {
            return self.leaves();
        }
        self.draining()
    }

    /// The same for the segment of this name; one that cannot be read takes none of them.
    #[must_use]
    pub fn drains_on_named(&self, network: &str) -> bool {
        let network = self.networks.get(&ObjectKey::cluster_wide(network));
        let segment = network.and_then(|network| network.segment.as_ref().ok());
        segment.map_or_else(|| self.draining(), |segment| self.drains_on(segment))
    }

    /// Whether it is to carry no traffic for another reason than its label.
    fn leaves(&self) -> bool {
        let maintenance = self.maintenance().lasts(self.looked_at);
        self.node.as_ref().is_some_and(|node| {
            node.is_going() || taints::has(&node.taints, taint_keys::OUT_OF_SERVICE) || maintenance
        })
    }

    /// Whether the Node is about to shut down, if its daemon ends now: it is cordoned, as before every
    /// reboot, or its kubelet says that it is not ready, as at the beginning of a graceful shutdown. An
    /// update of the daemon alone leaves Nodes as they are.
    #[must_use]
    pub fn shuts_down(&self) -> bool {
        self.node
            .as_ref()
            .is_some_and(|node| node.unschedulable || node.readiness == Readiness::NotReady)
    }

    /// What a person says of the Node's maintenance.
    #[must_use]
    pub fn maintenance(&self) -> Maintenance {
        let node = self.node.as_ref();
        Maintenance::read(node.and_then(|node| node.annotation(keys::MAINTENANCE)))
    }

    /// How much of all addresses this Node should get: less where its kubelet is not well, which
    /// may be a fault of the kubelet alone.
    #[must_use]
    pub fn share(&self) -> u16 {
        match self.node.as_ref().map(|node| node.readiness) {
            Some(Readiness::NotReady | Readiness::Unknown) => SHARE_NOT_READY,
            Some(Readiness::Ready) | None => Weight::USUAL.share(),
        }
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TrafficPolicy {
    /// On every node.
    #[default]
    Cluster,
    /// Only on nodes with endpoints of its own.
    Local,
}

/// What is looked at of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceView {
    /// `metadata.uid`.
    pub uid: String,
    /// The L2Network that its addresses live on, from central's annotation. None if it has a
    /// `spec.loadBalancerClass`: then it is another controller's, whatever is annotated.
    pub network: Option<String>,
    /// The addresses in its status, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// The addresses that central has given it, by its annotation: none if that cannot be read whole.
    pub recorded: Vec<IpAddr>,
    /// `spec.externalTrafficPolicy`.
    pub policy: TrafficPolicy,
    /// `spec.healthCheckNodePort`, 0 counting as absent.
    pub health_check_node_port: Option<u16>,
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
        let mut annotations = meta.annotations.unwrap_or_default();
        let recorded = annotations.remove(keys::ALLOCATED_ADDRESSES);
        let recorded = recorded.unwrap_or_default();
        let recorded: Result<Vec<IpAddr>, _> = recorded
            .split(',')
            .map(|text| text.trim().parse())
            .collect();
        let recorded = recorded.unwrap_or_default();
        if spec.load_balancer_class.is_some() {
            // It may be another implementation's by now, which gives it addresses of its own.
            addresses.retain(|address| recorded.contains(address));
        }
        Some(Self {
            uid: meta.uid.unwrap_or_default(),
            network: annotations.remove(keys::ALLOCATED_NETWORK),
            addresses,
            recorded,
            policy: match spec.external_traffic_policy.as_deref() {
                Some("Local") => TrafficPolicy::Local,
                _ => TrafficPolicy::Cluster,
            },
            health_check_node_port: spec
                .health_check_node_port
                .and_then(|port| u16::try_from(port).ok())
                .filter(|port| *port != 0),
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
pub struct L2NetworkView {
    /// `metadata.uid`.
    pub uid: String,
    /// The segment, if it could be read.
    pub segment: Result<Segment, InvalidL2Network>,
    /// What its status says of this Node.
    pub entry: Option<SegmentNode>,
    /// The other Nodes that its status speaks of, by name. Of them only that is kept which seldom
    /// changes: what they write of their addresses must not look like a change here.
    pub others: BTreeMap<String, PeerNode>,
    /// Who votes.
    pub voters: Option<Voters>,
    /// The next voters that each Node's daemon approves, by its name.
    pub approvals: BTreeMap<String, Voters>,
}

/// Another Node on a segment, or a witness of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerNode {
    /// Where it hears heartbeats over the node network.
    pub address: Option<IpAddr>,
    /// The MAC address that it speaks from.
    pub mac: Option<Mac>,
    /// Whether it only votes.
    pub witness: bool,
}

impl L2NetworkView {
    /// How Events refer to it.
    #[must_use]
    pub fn reference(&self, name: &str) -> ObjectReference {
        l2_network::reference(name, &self.uid)
    }
}

impl L2NetworkView {
    /// Takes what is needed.
    #[must_use]
    pub fn read(network: L2Network, own_node: &str) -> Self {
        let segment = Segment::try_from(&network);
        let status = network.status.unwrap_or_default();
        let mut entry = None;
        let mut others = BTreeMap::new();
        for node in status.nodes {
            if node.name == own_node {
                entry = Some(node);
            } else {
                let other = PeerNode {
                    address: node
                        .address
                        .and_then(|text| text.parse().ok())
                        .filter(is_one_host),
                    mac: node.mac.and_then(|text| text.parse().ok()),
                    witness: node.witness,
                };
                others.insert(node.name, other);
            }
        }
        Self {
            segment,
            entry,
            others,
            voters: status.voters,
            approvals: status.approvals,
            uid: network.metadata.uid.unwrap_or_default(),
        }
    }
}

/// Whether it can be the address of another machine. Anybody who can write an entry can write any text.
fn is_one_host(address: &IpAddr) -> bool {
    let special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    !special && !matches!(address, IpAddr::V4(address) if address.is_broadcast())
}

#[cfg(test)]
mod tests;
