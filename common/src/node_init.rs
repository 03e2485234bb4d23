//! What has to be written on a Node, given what is known of its machine.
//!
//! Both programs initialise Nodes: `mooring-node` its own, `mooring-central` those whose daemon has
//! not done it. The rules are the same, so they are here: [`plan`] is pure, [`Writer`] writes.
//!
//! Order: addresses first, the `uninitialized` taint off last, together with provider ID and
//! labels. So no pod is placed on a Node before its addresses are known, and an interruption at any
//! point leaves a Node that is still tainted.

mod apply;
mod memory;

use std::collections::BTreeMap;
use std::fmt;

pub use apply::{CarriedOut, WriteFailure, Writer, remove_taint};
pub use memory::Memories;

use crate::engine::{Plan, Step};
use crate::names::{labels, reasons};
use crate::node_addresses::{self, NodeAddress, ProvidedNodeIpError};
use crate::node_facts::NodeFacts;
use crate::node_view::NodeView;
use crate::provider_id::ProviderId;

/// One write to a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStep {
    /// Replaces `status.addresses`.
    SetAddresses(Vec<NodeAddress>),
    /// Sets provider ID and labels, and takes the `uninitialized` taint off, in one patch.
    Initialize {
        /// Set only if the Node has none.
        provider_id: Option<String>,
        /// Labels to set, whatever value they have now.
        labels: BTreeMap<String, String>,
        /// Labels to set unless somebody has set them meanwhile.
        additional_labels: BTreeMap<String, String>,
    },
}

impl fmt::Display for NodeStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetAddresses(addresses) => {
                f.write_str("set addresses ")?;
                let all: Vec<_> = addresses.iter().map(ToString::to_string).collect();
                f.write_str(&all.join(", "))
            }
            Self::Initialize {
                provider_id,
                labels,
                additional_labels,
            } => {
                f.write_str("take the uninitialized taint off")?;
                if let Some(id) = provider_id {
                    write!(f, ", set provider ID {id}")?;
                }
                for (key, value) in labels.iter().chain(additional_labels) {
                    write!(f, ", label {key}={value}")?;
                }
                Ok(())
            }
        }
    }
}

impl Step for NodeStep {}

/// Why a Node is left as it is, with what a person can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The kubelet's `--node-ip` contradicts the machine's addresses.
    #[error(transparent)]
    ProvidedNodeIp(#[from] ProvidedNodeIpError),
    /// Nobody knows the provider ID, and without it no load balancer can have this Node.
    #[error(
        "the machine's provider ID is not known; start the kubelet with --provider-id, or describe \
         the machine in the machines file"
    )]
    NoProviderId,
    /// Nobody knows an address.
    #[error("no address of the machine is known; describe its addresses in the machines file")]
    NoAddresses,
    /// The Node's provider ID, which cannot be changed, is not that of its machine.
    #[error(
        "the Node's provider ID is {node}, but its machine's is {machine}; a provider ID cannot be \
         changed: delete the Node and let it register again, or correct the machines file"
    )]
    ProviderIdConflict {
        /// The Node's.
        node: String,
        /// The machine's.
        machine: String,
    },
}

/// Whether a change of a Node, from `old` to `new`, calls for a look at once.
///
/// A change of the addresses of an initialised Node does not: if somebody else keeps writing them,
/// it is overwritten once per period, and not as fast as the two can write.
#[must_use]
pub fn calls_for_a_look(old: Option<&NodeView>, new: Option<&NodeView>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => {
            new.is_uninitialized()
                || old.uid != new.uid
                || old.provided_node_ip != new.provided_node_ip
                || old.provider_id != new.provider_id
        }
        _ => true,
    }
}

impl Refusal {
    /// The reason of the Event that tells of it.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::ProviderIdConflict { .. } => reasons::UNKNOWN_PROVIDER_ID,
            Self::ProvidedNodeIp(_) | Self::NoProviderId | Self::NoAddresses => {
                reasons::INITIALIZATION_REFUSED
            }
        }
    }
}

/// Plans what to write on a Node. A Node that is initialised already gets its addresses corrected,
/// and nothing else.
///
/// # Errors
/// [`Refusal`] if the Node must stay as it is until something changes.
pub fn plan(node: &NodeView, facts: &NodeFacts) -> Result<Plan<NodeStep>, Refusal> {
    let mut plan = Plan::default();
    if let (Some(node), Some(machine)) = (&node.provider_id, &facts.provider_id)
        && !names_same_machine(node, machine)
    {
        return Err(Refusal::ProviderIdConflict {
            node: node.clone(),
            machine: machine.to_string(),
        });
    }
    if !facts.addresses.is_empty() {
        let provided = node.provided_node_ip.as_deref();
        let wanted = node_addresses::wanted(&facts.addresses, &node.addresses, provided)?;
        if !are_in_place(&wanted, node) {
            plan.push(NodeStep::SetAddresses(wanted));
        }
    }
    if !node.is_uninitialized() {
        return Ok(plan);
    }
    if facts.provider_id.is_none() && node.provider_id.is_none() {
        return Err(Refusal::NoProviderId);
    }
    if facts.addresses.is_empty() {
        if node.addresses.is_empty() {
            return Err(Refusal::NoAddresses);
        }
        let provided = node.provided_node_ip.as_deref();
        node_addresses::wanted(&node.addresses, &node.addresses, provided)?;
    }
    plan.push(NodeStep::Initialize {
        provider_id: match node.provider_id {
            Some(_) => None,
            None => facts.provider_id.as_ref().map(ToString::to_string),
        },
        labels: topology_labels(node, facts),
        additional_labels: additional_labels(node, facts),
    });
    Ok(plan)
}

/// The kubelet's `--node-ip` says which address is the primary one, and so does the machine's own
/// order once, at initialisation. After that the order is left as it is, or a cloud that lists the
/// same addresses in another order would change the Node each time.
fn are_in_place(wanted: &[NodeAddress], node: &NodeView) -> bool {
    if node.provided_node_ip.is_some() || node.is_uninitialized() {
        node_addresses::same(wanted, &node.addresses)
    } else {
        node_addresses::same_in_any_order(wanted, &node.addresses)
    }
}

/// A scheme that stands there twice counts once: the Go provider of Cloudlycke wrote such IDs, and
/// they cannot be changed.
fn names_same_machine(node: &str, machine: &ProviderId) -> bool {
    let scheme = machine.scheme();
    node.strip_prefix(&format!("{scheme}://"))
        .and_then(|instance| ProviderId::new(scheme, instance).ok())
        .is_some_and(|node| node == *machine)
}

fn topology_labels(node: &NodeView, facts: &NodeFacts) -> BTreeMap<String, String> {
    let known = [
        (
            &facts.instance_type,
            [labels::INSTANCE_TYPE, labels::INSTANCE_TYPE_BETA],
        ),
        (&facts.zone, [labels::ZONE, labels::ZONE_BETA]),
        (&facts.region, [labels::REGION, labels::REGION_BETA]),
    ];
    known
        .into_iter()
        .filter_map(|(value, keys)| value.as_ref().map(|value| (value, keys)))
        .flat_map(|(value, keys)| keys.map(|key| (key, value)))
        .filter(|(key, value)| node.label(key) != Some(value.as_str()))
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .collect()
}

fn additional_labels(node: &NodeView, facts: &NodeFacts) -> BTreeMap<String, String> {
    facts
        .additional_labels
        .iter()
        .filter(|(key, _)| !is_reserved(key) && node.label(key).is_none())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Whether a label key belongs to Kubernetes: its domain is `kubernetes.io` or `k8s.io`, or below.
#[must_use]
pub fn is_reserved(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return false;
    };
    ["kubernetes.io", "k8s.io"]
        .into_iter()
        .any(|reserved| domain == reserved || domain.ends_with(&format!(".{reserved}")))
}

#[cfg(test)]
mod tests;
