//! All Nodes, and what the cloud says of their machines.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use mooring_common::node_facts::Presence;
use mooring_common::node_view::{NodeView, Readiness};
use mooring_common::provider_id::ProviderId;
use tokio::time::{Instant, timeout};

use super::node_states::NodeStates;
use crate::cloud_provider::{Instances, Lookup};
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
    /// A second look has kept it a moment ago, though the listing lacks its machine.
    pub(super) reprieved: bool,
}

/// How old a listing may be that has the machines of Nodes which are not Ready: six
/// `--node-monitor-period`s, and half of that if somebody has shortened the period to know sooner.
#[must_use]
pub fn oldest_listing(monitor_period: Duration) -> Duration {
    const DEFAULT_PERIOD: Duration = Duration::from_secs(5);
    monitor_period
        * if monitor_period < DEFAULT_PERIOD {
            3
        } else {
            6
        }
}

/// How long a cloud is waited for in one pass: one that hangs must not hold up what is to be done
/// for the Nodes of another. Its listing goes on meanwhile, and a later pass finds it.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

pub(super) async fn observe(
    context: &Context,
    node_states: &NodeStates,
    monitor_period: Duration,
) -> Vec<Observed> {
    let mut nodes: Vec<_> = context.nodes.all().into_iter().map(|(_, n)| n).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    look_at(nodes, &*context.instances, node_states, monitor_period).await
}

/// Nodes that are not Ready come first, because they may call for a listing. The others are then
/// compared with that one too: what it lacks all at once shows only if nothing older is believed.
async fn look_at(
    nodes: Vec<Arc<NodeView>>,
    instances: &dyn Instances,
    node_states: &NodeStates,
    monitor_period: Duration,
) -> Vec<Observed> {
    let (ready, unready): (Vec<_>, Vec<_>) = nodes
        .into_iter()
        .partition(|node| node.readiness == Readiness::Ready);
    // The first that falls ill calls for a listing at once, further ones wait their turn.
    let oldest = node_states
        .unhealthy_since(unready.is_empty())
        .max(Instant::now().checked_sub(oldest_listing(monitor_period)));
    let mut observed = Vec::with_capacity(ready.len() + unready.len());
    for (nodes, since) in [(unready, oldest), (ready, None)] {
        let each = nodes.iter().map(|node| ask(instances, node, since));
        let machines = join_all(each).await;
        observed.extend(
            nodes
                .into_iter()
                .zip(machines)
                .map(|(node, machine)| Observed::new(node, &machine, instances, node_states)),
        );
    }
    let uids: HashSet<&str> = observed.iter().map(|o| o.node.uid.as_str()).collect();
    node_states.keep_only(&uids);
    observed
}

async fn ask(instances: &dyn Instances, node: &NodeView, since: Option<Instant>) -> Lookup {
    timeout(LONGEST_LOOK, instances.look_up(node, since))
        .await
        .unwrap_or_else(|_| Lookup::Unavailable {
            why: format!("no answer within {} s", LONGEST_LOOK.as_secs()),
            retry_after: None,
        })
}

impl Observed {
    fn new(
        node: Arc<NodeView>,
        machine: &Lookup,
        instances: &dyn Instances,
        node_states: &NodeStates,
    ) -> Self {
        let presence = machine.presence();
        Self {
            presence,
            foreign: matches!(machine, Lookup::Foreign(_)),
            unmatched: matches!(
                machine,
                Lookup::Missing
                    | Lookup::Unlisted(_)
                    | Lookup::Unsure(_)
                    | Lookup::Unavailable { .. }
                    | Lookup::Ambiguous(_)
            ),
            ours: match machine {
                Lookup::Foreign(_) => None,
                _ => our_id(instances, &node),
            },
            seen_for: node_states.seen_for(&node),
            settling: node_states.is_settling(&node),
            reprieved: node_states.is_reprieved(&node, presence),
            node,
        }
    }
}

fn our_id(instances: &dyn Instances, node: &NodeView) -> Option<ProviderId> {
    let id = instances.read_id(node.provider_id.as_deref()?)?;
    id.ok()
}

#[cfg(test)]
mod tests;
