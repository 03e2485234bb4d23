//! One Node, what the cloud says of its machine, and how long it has been waiting.

use std::time::Duration;

use mooring_common::k8s::ObjectKey;
use mooring_common::node_init::Memories;
use mooring_common::node_view::NodeView;

use crate::clouds::Lookup;
use crate::controllers::Context;

/// What a pass goes by.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) node: NodeView,
    pub(super) machine: Lookup,
    /// Since this process first saw the Node.
    pub(super) seen_for: Duration,
    /// Another Node that bears the provider ID of this one's machine.
    pub(super) taken_by: Option<String>,
}

/// `None`: there is no such Node.
pub(super) async fn observe(
    context: &Context,
    memories: &Memories,
    name: &str,
) -> Option<Observed> {
    let node = context.nodes.get(&ObjectKey::cluster_wide(name))?;
    Some(observe_node(context, memories, (*node).clone()).await)
}

/// The same for a Node that was just read.
pub(super) async fn observe_node(
    context: &Context,
    memories: &Memories,
    node: NodeView,
) -> Observed {
    let name = node.name.clone();
    let machine = context.instances.look_up(&node).await;
    Observed {
        seen_for: memories.first_seen(&name, &node.uid).elapsed(),
        taken_by: other_bearer(context, &name, &machine),
        machine,
        node,
    }
}

fn other_bearer(context: &Context, name: &str, machine: &Lookup) -> Option<String> {
    let Lookup::Known { facts, .. } = machine else {
        return None;
    };
    let id = facts.provider_id.as_ref()?.to_string();
    let nodes = context.nodes.all();
    let mut others = nodes.iter().filter(|(key, _)| key.name != name);
    let (key, _) = others.find(|(_, node)| node.provider_id.as_deref() == Some(&id))?;
    Some(key.name.clone())
}
