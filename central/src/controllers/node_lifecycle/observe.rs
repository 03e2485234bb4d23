//! All Nodes, and what the cloud says of their machines.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mooring_common::node_facts::Presence;
use mooring_common::node_view::{NodeView, Readiness};
use mooring_common::provider_id::ProviderId;

use tokio::time::Instant;

use super::memory::Memories;
use crate::clouds::Lookup;
use crate::controllers::Context;

/// One Node with its machine.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) node: Arc<NodeView>,
    /// The provider ID, if it is provably one of ours.
    pub(super) ours: Option<ProviderId>,
    pub(super) presence: Presence,
    /// Which machine it is, nobody can say, though it is no other provider's.
    pub(super) unmatched: bool,
    /// It is another provider's.
    pub(super) foreign: bool,
    /// Since this process first saw the Node.
    pub(super) seen_for: Duration,
    /// What was last done to it does not show yet.
    pub(super) settling: bool,
}

/// The machines of Nodes that are not Ready are taken from a listing that is at most this many
/// `--node-monitor-period`s old.
const PERIODS: u32 = 6;

pub(super) async fn observe(
    context: &Context,
    memories: &Memories,
    monitor_period: Duration,
) -> Vec<Observed> {
    let mut nodes = context.nodes.all();
    let unready = |node: &NodeView| node.readiness != Readiness::Ready;
    // Those that call for a new listing come first, so that the guard compares all with that one.
    nodes.sort_by(|(a, one), (b, other)| (!unready(one), a).cmp(&(!unready(other), b)));
    let healthy = !nodes.iter().any(|(_, node)| unready(node));
    // The first that falls ill calls for a listing at once, further ones wait their turn.
    let oldest = memories
        .unhealthy_since(healthy)
        .max(Instant::now().checked_sub(monitor_period * PERIODS));
    let mut observed = Vec::with_capacity(nodes.len());
    for (_, node) in nodes {
        let since = oldest.filter(|_| unready(&node));
        let machine = context.instances.look_up(&node, since).await;
        let ours = match machine {
            Lookup::Foreign(_) => None,
            _ => our_id(context, &node),
        };
        observed.push(Observed {
            presence: machine.presence(),
            foreign: matches!(machine, Lookup::Foreign(_)),
            unmatched: matches!(
                machine,
                Lookup::Missing
                    | Lookup::Unlisted(_)
                    | Lookup::Unsure(_)
                    | Lookup::Unavailable { .. }
                    | Lookup::Ambiguous(_)
            ),
            seen_for: memories.seen_for(&node),
            settling: memories.is_settling(&node),
            node,
            ours,
        });
    }
    let uids: HashSet<&str> = observed.iter().map(|o| o.node.uid.as_str()).collect();
    memories.keep_only(&uids);
    observed
}

fn our_id(context: &Context, node: &NodeView) -> Option<ProviderId> {
    let id = context.instances.read_id(node.provider_id.as_deref()?)?;
    id.ok()
}
