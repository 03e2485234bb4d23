//! All Nodes, and what the cloud says of their machines.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mooring_common::node_facts::Presence;
use mooring_common::node_view::NodeView;
use mooring_common::provider_id::ProviderId;

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

pub(super) async fn observe(context: &Context, memories: &Memories) -> Vec<Observed> {
    let scheme = context.instances.scheme();
    let mut nodes = context.nodes.all();
    nodes.sort_by(|a, b| a.0.cmp(&b.0));
    let mut observed = Vec::with_capacity(nodes.len());
    for (_, node) in nodes {
        let machine = context.instances.look_up(&node).await;
        let ours = match machine {
            Lookup::Foreign(_) => None,
            _ => our_id(&node, &scheme),
        };
        observed.push(Observed {
            presence: machine.presence(),
            foreign: matches!(machine, Lookup::Foreign(_)),
            unmatched: matches!(
                machine,
                Lookup::Missing | Lookup::Unsure(_) | Lookup::Ambiguous(_)
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

fn our_id(node: &NodeView, scheme: &str) -> Option<ProviderId> {
    let instance = node
        .provider_id
        .as_deref()?
        .strip_prefix(&format!("{scheme}://"))?;
    ProviderId::new(scheme, instance).ok()
}
