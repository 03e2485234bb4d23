//! What has to be written on a Node, given what is known of its machine.
//!
//! Both programs describe Nodes: `mooring-node` its own, `mooring-central` those whose daemon has
//! not done it, or is wrong. The rules are the same, so they are here: [`plan`] is pure, [`Writer`]
//! writes.
//!
//! Order: addresses first, the `uninitialized` taint off last, together with provider ID and
//! labels. So no pod is placed on a Node before its addresses are known, and an interruption at any
//! point leaves a Node that is still tainted.

mod apply;
mod description;
mod init_states;
mod refused;

use std::fmt;

pub use apply::{CarriedOut, WriteFailure, Writer, remove_taint};
pub use description::{Description, is_reserved};
pub use init_states::InitStates;

use std::time::Duration;

use crate::engine::{Plan, Step};
use crate::names::{annotations, reasons};
use crate::node_addresses::{self, AddressType, NodeAddress, ProvidedNodeIpError};
use crate::node_facts::NodeFacts;
use crate::node_view::NodeView;
use crate::provider_id::ProviderId;

/// One write to a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStep {
    /// Replaces `status.addresses`.
    SetAddresses(Vec<NodeAddress>),
    /// Writes provider ID, labels and annotations.
    Describe(Description),
    /// The same, and takes the `uninitialized` taint off in the same patch.
    Initialize(Description),
}

impl fmt::Display for NodeStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetAddresses(addresses) => {
                f.write_str("set addresses ")?;
                let all: Vec<_> = addresses.iter().map(ToString::to_string).collect();
                f.write_str(&all.join(", "))
            }
            Self::Describe(description) => write!(f, "describe: {description}"),
            Self::Initialize(description) => {
                write!(f, "take the uninitialized taint off; {description}")
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
    #[error(
        "no address of the machine is known; give it one in the cloud, or describe its addresses \
         in the machines file"
    )]
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

/// How soon a change of a Node that is initialised is looked at: two who keep changing the same
/// label then do so once in this time, and not as fast as they can write.
const SOON: Duration = Duration::from_secs(1);

/// Whether a change of a Node, from `old` to `new`, calls for a look, and after how long.
///
/// A change of the addresses of an initialised Node does not: if somebody else keeps writing them,
/// it is overwritten once per period, and not as fast as the two can write.
#[must_use]
pub fn calls_for_a_look(old: Option<&NodeView>, new: Option<&NodeView>) -> Option<Duration> {
    match (old, new) {
        (Some(old), Some(new)) => {
            if new.is_uninitialized()
                || old.uid != new.uid
                || old.provided_node_ip() != new.provided_node_ip()
                || old.provider_id != new.provider_id
            {
                Some(Duration::ZERO)
            } else if old.labels != new.labels || old.annotations != new.annotations {
                Some(SOON)
            } else {
                None
            }
        }
        _ => Some(Duration::ZERO),
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

/// Plans what to write on a Node. A Node that is initialised already gets its addresses and labels
/// corrected; one without a provider ID, which somebody else has initialised, its addresses only.
///
/// # Errors
/// [`Refusal`] if the Node must stay as it is until something changes.
pub fn plan(node: &NodeView, facts: &NodeFacts) -> Result<Plan<NodeStep>, Refusal> {
    refuse_other_machine(node, facts)?;
    let mut plan = Plan::default();
    let kept = kept_addresses(node, facts);
    if !facts.addresses.is_empty() {
        let mut all = facts.addresses.clone();
        all.extend(kept.iter().cloned());
        let wanted = node_addresses::wanted(&all, &node.addresses, node.provided_node_ip())?;
        if !are_in_place(&wanted, node) {
            plan.push(NodeStep::SetAddresses(wanted));
        }
    }
    if !node.is_uninitialized() {
        let mut description = Description::refreshed(node, facts);
        if node.annotation(annotations::KUBELET_ADDRESSES).is_none() {
            note_kept(&mut description, node, facts, &kept);
        }
        if node.provider_id.is_some() && !description.is_empty() {
            plan.push(NodeStep::Describe(description));
        }
        return Ok(plan);
    }
    if facts.provider_id.is_none() && node.provider_id.is_none() {
        return Err(Refusal::NoProviderId);
    }
    if facts.addresses.is_empty() {
        if node.addresses.is_empty() {
            return Err(Refusal::NoAddresses);
        }
        node_addresses::wanted(&node.addresses, &node.addresses, node.provided_node_ip())?;
    }
    let mut description = Description::new(node, facts);
    note_kept(&mut description, node, facts, &kept);
    plan.push(NodeStep::Initialize(description));
    Ok(plan)
}

/// Plans what to write on a Node of whose machine too little is known to initialise it: what is
/// known, and what is `missing`, in words. The taint stays, and so do the addresses: a part of them
/// would pass for all. An initialised Node gets only the note of what is missing, by which central
/// knows that it need not wait; unless central has had the last word already.
///
/// # Errors
/// [`Refusal`] if the Node must stay as it is until something changes.
pub fn plan_partly(
    node: &NodeView,
    facts: &NodeFacts,
    missing: &str,
) -> Result<Plan<NodeStep>, Refusal> {
    refuse_other_machine(node, facts)?;
    let mut description = if node.is_uninitialized() {
        Description::new(node, facts)
    } else if node.annotation(annotations::CORRECTED_BY_CENTRAL).is_some() {
        return Ok(Plan::default());
    } else {
        Description::default()
    };
    description.annotate(node, annotations::LEFT_TO_CENTRAL, Some(missing.to_owned()));
    Ok((!description.is_empty())
        .then_some(NodeStep::Describe(description))
        .into_iter()
        .collect())
}

/// The plan of a node daemon that knows all that it left to central before: with the note of that
/// taken off.
#[must_use]
pub fn without_note(node: &NodeView, plan: Plan<NodeStep>) -> Plan<NodeStep> {
    let key = annotations::LEFT_TO_CENTRAL;
    if node.annotation(key).is_none() {
        return plan;
    }
    let mut steps = plan.steps().to_vec();
    let described = steps.iter_mut().find_map(|step| match step {
        NodeStep::Describe(description) | NodeStep::Initialize(description) => Some(description),
        NodeStep::SetAddresses(_) => None,
    });
    match described {
        Some(description) => description.annotate(node, key, None),
        None => {
            let mut description = Description::default();
            description.annotate(node, key, None);
            steps.push(NodeStep::Describe(description));
        }
    }
    steps.into_iter().collect()
}

fn refuse_other_machine(node: &NodeView, facts: &NodeFacts) -> Result<(), Refusal> {
    match (&node.provider_id, &facts.provider_id) {
        (Some(node), Some(machine)) if !names_same_machine(node, machine) => {
            Err(Refusal::ProviderIdConflict {
                node: node.clone(),
                machine: machine.to_string(),
            })
        }
        _ => Ok(()),
    }
}

/// The InternalIPs that the kubelet has reported and the cloud does not know. Which those were is
/// written on the Node when it is initialised; on one that another controller has initialised, when
/// it is first seen, and all that the cloud does not know then count as the kubelet's.
fn kept_addresses(node: &NodeView, facts: &NodeFacts) -> Vec<NodeAddress> {
    if !facts.keeps_reported_internal_ips {
        return Vec::new();
    }
    let noted = match node.annotation(annotations::KUBELET_ADDRESSES) {
        Some(noted) if !node.is_uninitialized() => Some(noted),
        _ => None,
    };
    let provided = node.provided_node_ip().unwrap_or_default();
    let is_kept = |address: &NodeAddress| {
        let is = |text: &str| text.split(',').any(|kept| kept.trim() == address.address);
        address.kind == AddressType::InternalIP
            && noted.is_none_or(|noted| is(noted) || is(provided))
            && facts.addresses.iter().all(|a| a.address != address.address)
    };
    node.addresses
        .iter()
        .filter(|a| is_kept(a))
        .cloned()
        .collect()
}

fn note_kept(
    description: &mut Description,
    node: &NodeView,
    facts: &NodeFacts,
    kept: &[NodeAddress],
) {
    if facts.keeps_reported_internal_ips {
        let kept: Vec<_> = kept.iter().map(|kept| kept.address.as_str()).collect();
        description.annotate(node, annotations::KUBELET_ADDRESSES, Some(kept.join(",")));
    }
}

/// The kubelet's `--node-ip` says which address is the primary one, and so does the machine's own
/// order once, at initialisation. After that the order is left as it is, or a cloud that lists the
/// same addresses in another order would change the Node each time.
fn are_in_place(wanted: &[NodeAddress], node: &NodeView) -> bool {
    if node.provided_node_ip().is_some() || node.is_uninitialized() {
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

#[cfg(test)]
mod tests;
