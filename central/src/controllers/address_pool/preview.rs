//! What could be allocated from, without a controller: for commands that show a plan.

use std::collections::HashSet;
use std::sync::Arc;

use super::observe::{Observed, oldest_first};
use super::plan::{Decisions, plan};
use super::{Allocations, NetworkView};

/// The pools of these L2Networks, as the controller would allocate from them. Nothing is held yet. The pool of a
/// machines file is not known here.
#[must_use]
pub fn preview(networks: impl IntoIterator<Item = NetworkView>) -> Allocations {
    let observe = |network| Observed {
        network: Arc::new(network),
        used: 0,
        counts: [None; 2],
    };
    let mut observed: Vec<Observed> = networks.into_iter().map(observe).collect();
    oldest_first(&mut observed);
    let names: HashSet<String> = observed
        .iter()
        .map(|one| one.network.name.clone())
        .collect();
    let Decisions {
        pools, reserved, ..
    } = plan(&observed, None);
    let allocations = Allocations::default();
    allocations.set_pools(pools, names, reserved);
    allocations
}
