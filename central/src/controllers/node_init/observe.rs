//! One Node, what the cloud says of its machine, and how long it has been waiting.

use std::time::Duration;

use mooring_common::k8s::ObjectKey;
use mooring_common::node_init::{self, InitStates};
use mooring_common::node_view::NodeView;
use tokio::time::Instant;

use crate::cloud_provider::Lookup;
use crate::controllers::Context;

/// How old a listing may be that has the machine of a new Node.
const RECENT: Duration = Duration::from_secs(10);

/// What a pass goes by.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) node: NodeView,
    pub(super) machine: Lookup,
    /// Since this process first saw the Node.
    pub(super) seen_for: Duration,
    /// Another Node that bears the provider ID of this one's machine, and was there first.
    pub(super) taken_by: Option<String>,
}

/// `None`: there is no such Node.
pub(super) async fn observe(
    context: &Context,
    init_states: &InitStates,
    name: &str,
) -> Option<Observed> {
    let node = context.nodes.get(&ObjectKey::cluster_wide(name))?;
    Some(observe_node(context, init_states, (*node).clone()).await)
}

/// The same for a Node that was just read.
pub(super) async fn observe_node(
    context: &Context,
    init_states: &InitStates,
    node: NodeView,
) -> Observed {
    let seen_for = init_states.first_seen(&node.name, &node.uid).elapsed();
    let machine = look_up(context, &node, seen_for).await;
    Observed {
        taken_by: taken_by(context, &node, &machine),
        seen_for,
        machine,
        node,
    }
}

/// The same by a listing that was begun at `since` or later.
pub(super) async fn observe_again(context: &Context, before: Observed, since: Instant) -> Observed {
    let node = &before.node;
    let machine = context.instances.look_up(node, Some(since)).await;
    Observed {
        taken_by: taken_by(context, node, &machine),
        machine,
        ..before
    }
}

/// An initialised Node is compared with the last listing. For a new one, a listing that lacks its
/// machine, or what the Node needs of it, is made anew: at once at first, and less and less often
/// the longer it is lacking.
async fn look_up(context: &Context, node: &NodeView, seen_for: Duration) -> Lookup {
    let instances = &context.instances;
    let ago = |age| Instant::now().checked_sub(age);
    if !node.is_uninitialized() {
        return instances.look_up(node, None).await;
    }
    let age = patience(seen_for);
    match instances.look_up(node, ago(age.max(RECENT))).await {
        Lookup::Missing | Lookup::Unlisted(_) | Lookup::Ambiguous(_) => {
            instances.look_up(node, ago(age)).await
        }
        Lookup::Known { facts, .. } if node_init::plan(node, &facts).is_err() => {
            instances.look_up(node, ago(age)).await
        }
        found => found,
    }
}

/// A new Node gives way to any other, an initialised one to an older one.
fn taken_by(context: &Context, node: &NodeView, machine: &Lookup) -> Option<String> {
    let Lookup::Known { facts, .. } = machine else {
        return None;
    };
    let written = node.provider_id.clone();
    let id = written.or_else(|| facts.provider_id.as_ref().map(ToString::to_string))?;
    let mut others = context
        .provider_ids
        .others(&context.canonical(&id), &node.name)
        .into_iter()
        .filter_map(|other| context.nodes.get(&ObjectKey::cluster_wide(&*other)));
    if node.is_uninitialized() {
        return others.next().map(|other| other.name.clone());
    }
    let age = |node: &NodeView| (node.created, node.name.clone());
    others
        .find(|other| age(other) < age(node))
        .map(|other| other.name.clone())
}

/// How soon, and how late at the latest, a new Node is looked at again whose machine is lacking.
pub(super) const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(60);

/// After how long a new Node is looked at again that was first seen so long ago, and how old the
/// listing may be then.
pub(super) fn patience(seen_for: Duration) -> Duration {
    (seen_for / 4).clamp(SOONEST, LATEST)
}
