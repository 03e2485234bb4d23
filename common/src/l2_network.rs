//! The `L2Network` custom resource: one layer-2 segment on which service addresses live.
//!
//! A person writes it (on PhoenixNAP, central does); central allocates addresses from its ranges,
//! and each node daemon that its selector matches announces them on the segment's interface.
//! What one object alone can show to be wrong is refused by the API server, by the CEL rules
//! below; what takes two objects to see, central reports in a condition.

#![expect(
    unreachable_pub,
    reason = "KubeSchema copies each struct into a function, with its pub"
)]

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, MicroTime};
use kube::{CustomResource, KubeSchema, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::control_plane::{ControlPlaneEndpoint, ControlPlaneEntry, ControlPlaneNode};
pub use self::interfaces::{InterfaceEntry, InterfacePattern, SegmentInterface};
pub use self::preferred_nodes::{Preference, PreferredNodes};
use crate::address_range::AddressRange;
use crate::go_duration;

/// What an L2Network is to be.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "mooring.dev",
    version = "v1alpha1",
    kind = "L2Network",
    plural = "l2networks",
    status = "L2NetworkStatus",
    doc = "One layer-2 segment on which service addresses live.",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"VLAN","type":"integer","jsonPath":".spec.vlan"}"#,
    printcolumn = r#"{"name":"Ranges","type":"string","jsonPath":".spec.ranges"}"#,
    printcolumn = r#"{"name":"Used","type":"integer","jsonPath":".status.usedAddresses"}"#,
    printcolumn = r#"{"name":"Free-v4","type":"integer","jsonPath":".status.ipv4.free"}"#,
    printcolumn = r#"{"name":"Free-v6","type":"integer","jsonPath":".status.ipv6.free","priority":1}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name":"Speakers","type":"string","jsonPath":".status.speakers"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].reason","priority":1}"#,
    printcolumn = r#"{"name":"Quorum","type":"string","jsonPath":".status.conditions[?(@.type=='Quorum')].reason","priority":1}"#,
    printcolumn = r#"{"name":"Voters","type":"string","jsonPath":".status.voters.nodes","priority":1}"#,
    printcolumn = r#"{"name":"Signed","type":"string","jsonPath":".status.conditions[?(@.type=='HeartbeatsSigned')].status","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::ranges_lie_within_subnets())]
#[x_kube(validation = rules::has_addresses())]
#[x_kube(validation = rules::parent_or_interfaces())]
pub struct L2NetworkSpec {
    /// The 802.1Q VLAN id, 1 to 4094. Absent: the segment is untagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094), extend("format" = "int32"))]
    pub vlan: Option<u16>,
    /// The interface that the segment is on (the VLAN's parent, where there is a VLAN). Absent:
    /// the daemon takes the one that has an address in one of the subnets, and keeps to it; else
    /// the one of the default route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 15))]
    pub parent: Option<String>,
    /// The same where Nodes differ: of these, in order, the first that counts on a Node and is there. Not
    /// beside `parent`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub interfaces: Vec<SegmentInterface>,
    /// The MTU of the VLAN interface, in bytes. Absent: that of its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1280, max = 65535), extend("format" = "int32"))]
    pub mtu: Option<u16>,
    /// The subnets of the segment, at most one of each family being usual.
    #[schemars(length(min = 1, max = 8))]
    pub subnets: Vec<Subnet>,
    /// Where service addresses are allocated from: CIDR blocks, of which every address is used
    /// (`192.0.2.16/28`, `2001:db8::100/120`), or IPv4 addresses from first to last
    /// (`192.0.2.10-192.0.2.20`).
    #[serde(default)]
    #[schemars(schema_with = "rules::ranges")]
    #[x_kube(validation = rules::ranges_do_not_overlap())]
    pub ranges: Vec<String>,
    /// Further addresses to allocate from, each pool with rules of its own. Absent: `ranges` are all there is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pools: Vec<AddressPool>,
    /// Which Nodes are on the segment. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// Whether Nodes with the label `node.kubernetes.io/exclude-from-external-load-balancers` speak too. Set it
    /// where all Nodes have it, as on a cluster of one Node that kubeadm has made. Absent: they do not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub include_excluded_nodes: bool,
    /// Which Nodes are to have the addresses before others. Those with the highest sum of weights have them
    /// while they can speak, and share them evenly; they get them back a minute after they have returned, one
    /// after the other, without a gap. Absent: all Nodes alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    pub preferred_nodes: Vec<PreferredNodes>,
    /// What becomes of the addresses when half of the voters or more are lost at once. Absent:
    /// `SurviveViaApi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_quorum_loss: Option<QuorumLoss>,
    /// How a Node has the addresses that it speaks for. `Responder` (absent: the same): on no
    /// interface; the daemon answers for them. `Kernel`: on the segment's interface, for programs of
    /// the Node that need them there; two Nodes may then have an address for up to 2.4 s after a
    /// Node has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_mode: Option<AddressMode>,
    /// Whether an address is asked for on the segment before its first use, so that one that another host has
    /// is left to that. Absent: it is. `false`: for segments on which a router or switch answers for every
    /// address, as with private VLANs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_addresses: Option<bool>,
    /// For how long connections stay with the Node that they began at when an address moves while that Node
    /// lives, as `15m` or `2h`, 24 hours at most. The new Node's kernel passes their segments on to it. `0s` (absent:
    /// the same): they are reset when the address moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 16))]
    #[x_kube(validation = rules::keeps_connections_for_a_time())]
    pub keep_connections: Option<String>,
    /// Which namespaces may have addresses of it, by their labels. Absent: all. A Service keeps what
    /// it has when its namespace is no longer selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<LabelSelector>,
    /// How many of its addresses the Services of one namespace may have together. Absent: any number.
    /// Services keep what they have when it is lowered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000), extend("format" = "int32"))]
    pub max_addresses_per_namespace: Option<u32>,
    /// Whether Services of different namespaces may share an address by the same key, in the annotation
    /// `mooring.dev/allow-shared-ip`. Whoever may write Services in one of them can then disturb those of the
    /// others that have this key. Absent: only Services of one namespace share.
    #[serde(default, skip_serializing_if = "is_false")]
    pub share_across_namespaces: bool,
    /// The address of the control plane, which no Service is given. Its nodes announce it by a file that lies on each of
    /// them: this entry neither announces nor changes it, and its nodes say in the status whether the two are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<ControlPlaneEntry>,
}

/// A part of a segment's addresses, with rules of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddressPool {
    /// Its name, by which Services ask for it in the annotation `mooring.dev/address-pool`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    )]
    pub name: String,
    /// Its addresses, written like the network's `ranges`.
    #[schemars(schema_with = "rules::pool_ranges")]
    pub ranges: Vec<String>,
    /// Those of them that no Service is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::excluded_ranges")]
    pub excluded_ranges: Vec<String>,
    /// When it is allocated from, of all pools of all L2Networks that a Service may have addresses of: the
    /// lowest number first. Absent: last, like the network's `ranges`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "int32"))]
    pub priority: Option<u16>,
    /// Whether Services that do not ask for it are given its addresses. Absent: `Automatic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Allocation>,
    /// Which namespaces may have addresses of it, by their labels, of those that the network's
    /// `allowedNamespaces` selects. Absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<LabelSelector>,
    /// Which Services may have addresses of it, by their labels. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_services: Option<LabelSelector>,
    /// Whether IPv4 addresses that end with .0 or .255 are left out: old routers and firewalls take them for
    /// those of a network.
    #[serde(default, rename = "avoidBuggyIPs", skip_serializing_if = "is_false")]
    pub avoid_buggy_ips: bool,
}

/// To which Services a pool's addresses are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Allocation {
    /// To all that may have them.
    #[default]
    Automatic,
    /// To those alone that ask for the pool, or for one of its addresses.
    OnRequest,
}

/// What becomes of a segment's addresses when half of its voters or more are lost at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum QuorumLoss {
    /// The others go on after 30 s, if the API server says too that those voters are gone, and none
    /// of them is heard on the segment.
    #[default]
    SurviveViaApi,
    /// Nobody speaks until a majority of the voters hear each other again.
    Silent,
}

/// How a Node has the addresses that it speaks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AddressMode {
    /// On no interface: the daemon answers for them.
    #[default]
    Responder,
    /// On the segment's interface, with a lifetime that the daemon renews: the kernel answers.
    Kernel,
}

/// One subnet of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = rules::gateway_in_subnet())]
pub struct Subnet {
    /// The subnet, for example `192.0.2.0/24`.
    #[schemars(length(min = 3, max = 43))]
    #[x_kube(validation = rules::cidr_can_be_read())]
    pub cidr: String,
    /// The router of the subnet, an address within it. Absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 39))]
    pub gateway: Option<String>,
}

/// How Events refer to an L2Network.
#[must_use]
pub fn reference(name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(L2Network::api_version(&()).into_owned()),
        kind: Some(L2Network::kind(&()).into_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

/// What central, and each node that the selector matches, has found about an L2Network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct L2NetworkStatus {
    /// `Ready`: whether addresses are allocated from it, and if not, why. `Quorum`: whether a
    /// majority of the voters hear each other. `HeartbeatsSigned`: whether the daemons know each
    /// other by a secret. `SegmentFiltered`: whether a switch keeps heartbeats off the segment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How many addresses of it Services hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_addresses: Option<i64>,
    /// How many IPv4 addresses it has. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<AddressCounts>,
    /// How many IPv6 addresses it has. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<AddressCounts>,
    /// Which Node speaks for which address, since when and why, in one line. Written by central from
    /// what the Nodes say below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub speakers: Option<String>,
    /// The Nodes whose daemons decide together who speaks. Written by the daemons, each change by
    /// compare-and-swap, and only as most of those named before approve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voters: Option<Voters>,
    /// By the name of a Node, the next voters that its daemon approves. Written by that daemon alone;
    /// removed when the voters change.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 500))]
    pub approvals: BTreeMap<String, Voters>,
    /// The Nodes that the selector matches, each with what its daemon says of itself. The first
    /// 500: on a larger segment the rest is told by Events and metrics alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub nodes: Vec<SegmentNode>,
}

/// How many addresses of one family an L2Network has. What is more than an `i64` can say counts as the most
/// that it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddressCounts {
    /// How many Services can have at all.
    pub total: i64,
    /// How many of these Services have, of Mooring or of another implementation.
    pub used: i64,
    /// How many are left.
    pub free: i64,
}

/// The Nodes whose daemons decide together who speaks on a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Voters {
    /// Goes up by one with each change; by two where the API server had forgotten some of them.
    #[schemars(range(min = 1))]
    pub generation: i64,
    /// Their names.
    #[schemars(length(min = 1, max = 7), inner(length(min = 1, max = 253)))]
    pub nodes: Vec<String>,
    /// Of two voters, the one that goes on alone as long as it reads its name here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub primary: Option<String>,
}

/// Whether one Node can speak on a segment, and what it speaks for. Written by its daemon, when it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SegmentNode {
    /// The Node's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Whether it can announce service addresses there.
    pub ready: bool,
    /// `Ready`, or in one word why it is not.
    #[schemars(length(min = 1, max = 64))]
    pub reason: String,
    /// Why it is not ready, and what to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub message: String,
    /// The interface that it speaks on, or would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15))]
    pub interface: Option<String>,
    /// The MAC address that it speaks from, such as `02:00:00:00:00:01`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 17))]
    pub mac: Option<String>,
    /// Where its daemon hears heartbeats that come over the node network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 39))]
    pub address: Option<String>,
    /// Whether it is not on the segment, and only votes there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub witness: bool,
    /// What else is to be known of it, each in one word: `HeartbeatsUnsigned`, `SegmentFiltered`,
    /// `QuorumLost`, `BegunAnew`, `ServiceProxyUnhealthy`, `AddressRefused`, `AddressConflict`, `KernelAnswers`,
    /// `ConnectionsNotKept`, `ControlPlaneFileDiffers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 12), inner(length(min = 1, max = 64)))]
    pub notices: Vec<String>,
    /// The addresses that it speaks for. The first 1,000: metrics tell of the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<SpokenFor>,
    /// How it does with the address of the control plane, where the L2Network has `controlPlane`. Absent: it has no
    /// part in that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<ControlPlaneNode>,
}

/// An address that a Node speaks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpokenFor {
    /// The address.
    #[schemars(length(min = 2, max = 39))]
    pub address: String,
    /// Since when. In microseconds, so that the last of two that began within a second is known.
    pub since: MicroTime,
    /// Why it began: `Unclaimed` (nobody spoke for it), `TakenOver` (its speaker fell silent),
    /// `HandedOver`, `GivenBack` (it was only lent to another) or `Inherited` (from the process
    /// before, on the same Node).
    #[schemars(length(min = 1, max = 64))]
    pub reason: String,
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// What is wrong with an L2Network that the API server let pass (an old object, or an API server
/// without CEL): every fault at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("L2Network {name}: {}", faults.join("; "))]
pub struct InvalidL2Network {
    /// The object's name.
    pub name: String,
    /// One sentence per fault, with field, value and remedy.
    pub faults: Vec<String>,
}

/// An L2Network that has been read whole: what the rest of Mooring works with.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The L2Network's name.
    pub name: String,
    /// The 802.1Q VLAN id, or untagged.
    pub vlan: Option<u16>,
    /// The interface named by the user.
    pub parent: Option<String>,
    /// Or which it may be, in order: see [`Self::on_node`]. `None`: nothing is said of that.
    pub interfaces: Option<Vec<InterfaceEntry>>,
    /// The MTU named by the user, in bytes.
    pub mtu: Option<u16>,
    /// The subnets with their routers.
    pub subnets: Vec<(IpNet, Option<IpAddr>)>,
    /// All addresses that are allocated from it, by whatever pool.
    pub ranges: Vec<AddressRange>,
    /// The pools, that of `spec.ranges` first, which has no name.
    pub pools: Vec<Pool>,
    /// Which Nodes are on the segment.
    pub node_selector: kube::core::Selector,
    /// Whether Nodes speak too that are excluded from load balancers by their label.
    pub includes_excluded: bool,
    /// Which Nodes are to speak before others: see [`Self::preference_for`].
    pub preferred: Vec<Preference>,
    /// What becomes of the addresses when a majority of the voters is lost.
    pub on_quorum_loss: QuorumLoss,
    /// How a Node has the addresses that it speaks for.
    pub address_mode: AddressMode,
    /// Whether an address is asked for before its first use.
    pub probes_addresses: bool,
    /// For how long connections stay with the Node that they began at; zero: they do not.
    pub keep_connections: Duration,
    /// Which namespaces may have addresses of it; `None`: all.
    pub allowed_namespaces: Option<kube::core::Selector>,
    /// How many of its addresses one namespace may have.
    pub max_addresses_per_namespace: Option<u32>,
    /// Whether Services of different namespaces may share an address.
    pub shares_across_namespaces: bool,
    /// The address of the control plane, which no Service can have.
    pub control_plane: Option<ControlPlaneEndpoint>,
}

/// A part of a segment's addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    /// Its name; empty: it is `spec.ranges`.
    pub name: String,
    /// What is allocated from it, in the user's order, without what is excluded.
    pub ranges: Vec<AddressRange>,
    /// Which comes first: the lowest.
    pub priority: Option<u16>,
    /// To whom it is given.
    pub allocation: Allocation,
    /// Which namespaces may have addresses of it; `None`: all that may have some of the segment.
    pub allowed_namespaces: Option<kube::core::Selector>,
    /// Which Services; `None`: all.
    pub allowed_services: Option<kube::core::Selector>,
    /// Whether IPv4 addresses that end with .0 or .255 are left out.
    pub avoids_buggy: bool,
}

/// Why no Service can have an address of a segment, although it is in one of its subnets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It is the router of a subnet.
    Router,
    /// It is the first address of a subnet: of an IPv4 subnet the network itself, of an IPv6 subnet
    /// the anycast address of all its routers (RFC 4291, section 2.6.1).
    FirstOfSubnet,
    /// It is the broadcast address of an IPv4 subnet.
    Broadcast,
    /// It is that of the control plane.
    ControlPlane,
}

impl fmt::Display for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Router => "the router",
            Self::FirstOfSubnet => "the first address of a subnet",
            Self::Broadcast => "the broadcast address",
            Self::ControlPlane => "the address of the control plane",
        })
    }
}

impl Segment {
    /// The addresses that no Service can have, and why.
    pub fn reserved(&self) -> impl Iterator<Item = (IpAddr, Reserved)> + '_ {
        let control_plane = self.control_plane.iter().flat_map(|entry| &entry.addresses);
        let control_plane = control_plane.map(|address| (*address, Reserved::ControlPlane));
        let of_subnets = self.subnets.iter().flat_map(|(subnet, gateway)| {
            let first = (subnet.network(), Reserved::FirstOfSubnet);
            let edges = match subnet {
                IpNet::V4(v4) if v4.prefix_len() < 31 => {
                    let broadcast = (IpAddr::V4(v4.broadcast()), Reserved::Broadcast);
                    [Some(first), Some(broadcast)]
                }
                IpNet::V4(_) => [None, None],
                IpNet::V6(_) => [Some(first), None],
            };
            let router = gateway.map(|gateway| (gateway, Reserved::Router));
            edges.into_iter().chain([router]).flatten()
        });
        of_subnets.chain(control_plane)
    }

    /// Whether the Node with these labels is on the segment.
    #[must_use]
    pub fn includes(&self, labels: &BTreeMap<String, String>) -> bool {
        use kube::core::SelectorExt;
        self.node_selector.matches(labels)
    }

    /// Whether one of its ranges holds this address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }

    /// The router for this address' subnet, if the user named one.
    #[must_use]
    pub fn gateway_of(&self, address: IpAddr) -> Option<IpAddr> {
        self.subnets
            .iter()
            .find(|(subnet, _)| subnet.contains(&address))
            .and_then(|(_, gw)| *gw)
    }
}

impl TryFrom<&L2Network> for Segment {
    type Error = InvalidL2Network;

    /// Reads an L2Network whole.
    ///
    /// # Errors
    /// [`InvalidL2Network`] with every fault found: a subnet, gateway, range, interface, weight or
    /// selector that cannot be read, a gateway or range outside of all subnets, two ranges that overlap.
    fn try_from(network: &L2Network) -> Result<Self, Self::Error> {
        let name = network.metadata.name.clone().unwrap_or_default();
        let spec = &network.spec;
        let mut faults = Vec::new();
        let subnets = read_subnets(&spec.subnets, &mut faults);
        let (ranges, pools) = pools::read(spec, &subnets, &mut faults);
        let interfaces = interfaces::read(spec, &mut faults);
        let preferred = preferred_nodes::read(spec, &mut faults);
        let control_plane = control_plane::read(spec, &mut faults);
        let mut selector = |field: &str, selector: Option<&LabelSelector>| {
            pools::read_selector(field, selector, &mut faults)
        };
        let node_selector = selector("spec.nodeSelector", spec.node_selector.as_ref());
        let node_selector = node_selector.unwrap_or_default();
        let allowed = spec.allowed_namespaces.as_ref();
        let allowed_namespaces = selector("spec.allowedNamespaces", allowed);
        let keep_connections = read_time(spec.keep_connections.as_deref(), &mut faults);
        if faults.is_empty() {
            Ok(Self {
                name,
                vlan: spec.vlan,
                parent: spec.parent.clone(),
                interfaces,
                mtu: spec.mtu,
                subnets,
                ranges,
                pools,
                node_selector,
                includes_excluded: spec.include_excluded_nodes,
                preferred,
                on_quorum_loss: spec.on_quorum_loss.unwrap_or_default(),
                address_mode: spec.address_mode.unwrap_or_default(),
                probes_addresses: spec.probe_addresses.unwrap_or(true),
                keep_connections,
                allowed_namespaces,
                max_addresses_per_namespace: spec.max_addresses_per_namespace,
                shares_across_namespaces: spec.share_across_namespaces,
                control_plane,
            })
        } else {
            Err(InvalidL2Network { name, faults })
        }
    }
}

/// The longest time that `spec.keepConnections` takes.
const KEEP_AT_MOST: Duration = Duration::from_secs(24 * 60 * 60);

fn read_time(text: Option<&str>, faults: &mut Vec<String>) -> Duration {
    let Some(text) = text else {
        return Duration::ZERO;
    };
    match go_duration::parse(text) {
        Ok(time) if time <= KEEP_AT_MOST => time,
        _ => {
            faults.push(format!(
                "spec.keepConnections: {text:?} is no time up to 24h; write it like 15m, or 0s to keep none"
            ));
            Duration::ZERO
        }
    }
}

fn read_subnets(subnets: &[Subnet], faults: &mut Vec<String>) -> Vec<(IpNet, Option<IpAddr>)> {
    let mut read = Vec::new();
    for (index, subnet) in subnets.iter().enumerate() {
        let Ok(cidr) = subnet.cidr.parse::<IpNet>() else {
            faults.push(format!(
                "spec.subnets[{index}].cidr: {:?} is no subnet; write it like 192.0.2.0/24",
                subnet.cidr
            ));
            continue;
        };
        let gateway = match subnet
            .gateway
            .as_deref()
            .map(|text| (text, text.parse::<IpAddr>()))
        {
            None => None,
            Some((_, Ok(gateway))) if cidr.contains(&gateway) => Some(gateway),
            Some((text, _)) => {
                faults.push(format!(
                    "spec.subnets[{index}].gateway: {text:?} is no address within {cidr}; name \
                     the router's address there, or leave it out"
                ));
                None
            }
        };
        read.push((cidr, gateway));
    }
    read
}

mod control_plane;
mod interfaces;
mod pools;
mod preferred_nodes;
mod rules;
#[cfg(test)]
mod tests;
