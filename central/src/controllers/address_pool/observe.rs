//! All L2Networks, and how many of their addresses are held.

use std::sync::Arc;

use mooring_common::k8s::Cache;

use super::{Allocations, NetworkView};

/// One network with its use.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) network: Arc<NetworkView>,
    pub(super) used: i64,
}

/// Sorted: the oldest first, since of two that overlap the older is right. Of two made within the
/// same second, the one that is allocated from already counts as the older.
pub(super) fn observe(networks: &Cache<NetworkView>, allocations: &Allocations) -> Vec<Observed> {
    let mut observed: Vec<Observed> = networks
        .all()
        .into_iter()
        .map(|(_, network)| Observed {
            used: allocations.used(&network.name),
            network,
        })
        .collect();
    observed.sort_by(|a, b| age(&a.network).cmp(&age(&b.network)));
    observed
}

fn age(network: &NetworkView) -> (i64, bool, &str) {
    let ready = network.status.as_ref().is_some_and(|status| status.ready);
    (network.created, !ready, &network.name)
}
