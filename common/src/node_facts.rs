//! What is known of the machine behind a Node.

use std::collections::BTreeMap;

use crate::node_addresses::NodeAddress;
use crate::provider_id::ProviderId;

/// What a metadata source or a cloud says of one machine. Whatever it does not know is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The machine's provider ID.
    pub provider_id: Option<ProviderId>,
    /// The machine's type, already a valid label value.
    pub instance_type: Option<String>,
    /// The failure domain within the region, already a valid label value.
    pub zone: Option<String>,
    /// The region, already a valid label value.
    pub region: Option<String>,
    /// The machine's addresses in the order to report them. Empty: not known, never "none".
    pub addresses: Vec<NodeAddress>,
    /// Whether the InternalIPs that the Node reports already are kept after [`Self::addresses`].
    /// Linode's controller kept those of the kubelet, since the cloud does not know every address.
    pub keeps_reported_internal_ips: bool,
    /// Labels in the provider's own domain. They are the provider's: they follow the machine,
    /// whoever wrote them before.
    pub provider_labels: BTreeMap<String, String>,
    /// Annotations in the provider's own domain; the same holds for them.
    pub provider_annotations: BTreeMap<String, String>,
    /// Further labels; those in a `kubernetes.io` or `k8s.io` domain are never set, and one that
    /// somebody else has set is never overwritten. `None`: whether the machine has it, and with which
    /// value, cannot be known here, so what stands on the Node is left.
    pub additional_labels: BTreeMap<String, Option<String>>,
}

/// Whether a machine exists and runs.
///
/// `Unsure` is not an error: it covers stale listings, timeouts and refused calls, and never leads
/// to a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// It exists and runs.
    Running,
    /// It exists and is shut down.
    Stopped,
    /// It is provably gone.
    Gone,
    /// Nobody can tell.
    Unsure,
}
