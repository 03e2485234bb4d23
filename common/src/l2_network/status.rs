//! What is found about an L2Network: its status.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ControlPlaneNode, is_false};

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
    /// How it does with the address of the control plane, where the L2Network has `controlPlane`, or a range with the
    /// address. Absent: it has no part in that.
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
