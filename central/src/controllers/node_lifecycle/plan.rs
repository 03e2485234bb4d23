//! What becomes of each Node. Pure.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use mooring_common::engine::{Impact, Plan, Step};
use mooring_common::names::taints as keys;
use mooring_common::node_facts::Presence;
use mooring_common::node_view::{NodeView, Readiness};
use mooring_common::provider_id::ProviderId;
use mooring_common::taints;

use super::observe::Observed;
use crate::flags::NodeFlags;

/// One change to a Node.
#[derive(Clone, Debug)]
pub(super) enum LifecycleStep {
    AddShutdownTaint(Arc<NodeView>),
    RemoveShutdownTaint(Arc<NodeView>),
    Delete {
        node: Arc<NodeView>,
        machine: ProviderId,
    },
}

impl fmt::Display for LifecycleStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddShutdownTaint(node) => write!(f, "add the shutdown taint to {}", node.name),
            Self::RemoveShutdownTaint(node) => {
                write!(f, "take the shutdown taint off {}", node.name)
            }
            Self::Delete { node, machine } => {
                write!(f, "delete {}, whose machine {machine} is gone", node.name)
            }
        }
    }
}

impl Step for LifecycleStep {
    fn impact(&self) -> Impact {
        match self {
            Self::Delete { .. } => Impact::Considerable,
            Self::AddShutdownTaint(_) | Self::RemoveShutdownTaint(_) => Impact::None,
        }
    }
}

/// How many Nodes may go one by one before their share of all is looked at: small clusters change.
const ONE_BY_ONE: usize = 10;

/// What a pass comes to.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    pub(super) plan: Plan<LifecycleStep>,
    /// Would be deleted, if not too many machines of their cloud seemed gone at once: with how many of
    /// how many.
    pub(super) held: Vec<(Arc<NodeView>, usize, usize)>,
    /// A Node is not Ready: look again after a while.
    pub(super) look_again: bool,
}

/// The Nodes of one cloud: a listing that lacks too many machines is that cloud's, however many Nodes
/// there are of others.
#[derive(Clone, Copy, Debug, Default)]
struct OfOneCloud {
    all: usize,
    /// Those whose machines seem gone.
    gone: usize,
    /// Those that were deleted lately.
    lately: usize,
}

impl OfOneCloud {
    fn too_many_seem_gone(self, flags: &NodeFlags) -> bool {
        let Self { all, gone, lately } = self;
        let share = |gone: usize, all| gone * 100 > all * usize::from(flags.max_deletions_percent);
        (gone > 1 && share(gone, all))
            || (gone + lately > ONE_BY_ONE && share(gone + lately, all + lately))
    }
}

/// By the scheme of the provider IDs.
fn counted<'a>(
    nodes: &'a [Observed],
    lately: &HashMap<String, usize>,
) -> HashMap<&'a str, OfOneCloud> {
    let mut clouds: HashMap<&str, OfOneCloud> = HashMap::new();
    for observed in nodes {
        let Some(id) = &observed.ours else {
            continue;
        };
        let scheme = id.scheme();
        let cloud = clouds.entry(scheme).or_insert_with(|| OfOneCloud {
            lately: lately.get(scheme).copied().unwrap_or_default(),
            ..OfOneCloud::default()
        });
        cloud.all += 1;
        cloud.gone += usize::from(observed.presence == Presence::Gone);
    }
    clouds
}

/// `lately`: how many Nodes of each cloud, by the scheme of its provider IDs, were deleted within
/// [`super::node_states::LATELY`].
pub(super) fn plan(
    nodes: &[Observed],
    lately: &HashMap<String, usize>,
    flags: &NodeFlags,
) -> Decisions {
    let mut decisions = Decisions::default();
    let clouds = counted(nodes, lately);
    let cloud_of = |id: &ProviderId| clouds.get(id.scheme()).copied().unwrap_or_default();
    decisions.look_again = nodes.iter().any(|o| o.settling);
    let mut deletions = Vec::new();
    let open = |o: &&Observed| !(o.node.deleting || o.settling || o.foreign);
    for observed in nodes.iter().filter(open) {
        let node = &observed.node;
        let tainted = taints::has(&node.taints, keys::SHUTDOWN);
        if node.readiness == Readiness::Ready {
            if tainted {
                decisions
                    .plan
                    .push(LifecycleStep::RemoveShutdownTaint(node.clone()));
            }
            continue;
        }
        decisions.look_again = true;
        match (observed.presence, &observed.ours) {
            (Presence::Stopped, _) if !tainted => {
                decisions
                    .plan
                    .push(LifecycleStep::AddShutdownTaint(node.clone()));
            }
            (Presence::Gone, Some(_)) if is_young(observed, flags) => {}
            (Presence::Gone, Some(machine)) if cloud_of(machine).too_many_seem_gone(flags) => {
                let OfOneCloud { all, gone, .. } = cloud_of(machine);
                decisions.held.push((node.clone(), gone, all));
            }
            (Presence::Gone, Some(_)) if observed.reprieved => {}
            (Presence::Gone, Some(machine)) => deletions.push(LifecycleStep::Delete {
                node: node.clone(),
                machine: machine.clone(),
            }),
            _ => {}
        }
    }
    // Last, because each asks the cloud once more, which may take its time.
    for deletion in deletions {
        decisions.plan.push(deletion);
    }
    decisions
}

/// A Node that was never initialised may be ahead of the cloud's listing.
fn is_young(observed: &Observed, flags: &NodeFlags) -> bool {
    observed.node.is_uninitialized() && observed.seen_for < flags.deletion_grace
}

#[cfg(test)]
mod tests;
