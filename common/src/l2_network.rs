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

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::control_plane::{ControlPlaneEndpoint, ControlPlaneEntry, ControlPlaneNode};
pub use self::interfaces::{InterfaceEntry, InterfacePattern, SegmentInterface};
pub use self::preferred_nodes::{Preference, PreferredNodes};
pub use self::segment::{InvalidL2Network, Pool, Reserved, Segment};
pub use self::status::{AddressCounts, L2NetworkStatus, SegmentNode, SpokenFor, Voters};

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

fn is_false(value: &bool) -> bool {
    !*value
}

mod control_plane;
mod interfaces;
mod pools;
mod preferred_nodes;
mod rules;
mod segment;
mod status;
#[cfg(test)]
mod tests;
