//! All L2Networks, and how many of their addresses are held.

use std::sync::Arc;

use mooring_common::k8s::Cache;
use mooring_common::l2_network::AddressCounts;

use super::{Allocations, Family, NetworkView};

/// One network with its use.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) network: Arc<NetworkView>,
    pub(super) used: i64,
    /// Of IPv4 and of IPv6.
    pub(super) counts: [Option<AddressCounts>; 2],
}

/// Sorted: the oldest first, since of two that overlap the older is right. Of two made within the
/// same second, the one that is allocated from already counts as the older.
pub(super) fn observe(networks: &Cache<NetworkView>, allocations: &Allocations) -> Vec<Observed> {
    let mut observed: Vec<Observed> = networks
        .all()
        .into_iter()
        .map(|(_, network)| Observed {
            used: allocations.used(&network.name),
            counts: [Family::V4, Family::V6]
                .map(|family| allocations.counts(&network.name, family)),
            network,
        })
        .collect();
    oldest_first(&mut observed);
    observed
}

/// The order in which networks are looked at.
pub(super) fn oldest_first(observed: &mut [Observed]) {
    observed.sort_by(|a, b| age(&a.network).cmp(&age(&b.network)));
}

fn age(network: &NetworkView) -> (i64, bool, &str) {
    let ready = network.status.as_ref().is_some_and(|status| status.ready);
    (network.created, !ready, &network.name)
}
