//! From what is wanted and what is there to the steps between: pure.

mod devices;
mod paths;

use std::time::Instant;

use mooring_common::engine::Plan;

use super::MarkMask;
use super::observe::Observed;
use super::reconcile_state::ReconcileState;
use super::step::Step;
use super::wanted::Wanted;

pub use self::paths::ReturnPath;

/// What to do, and what else there is to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// The steps, in order.
    pub plan: Plan<Step>,
    /// Return paths for which there is no mark.
    pub without_mark: Vec<(String, ReturnPath)>,
}

/// Decides what to do. `reconcile_state` has noted what is wanted and observed.
#[must_use]
pub fn plan(
    wanted: &Wanted,
    observed: &Observed,
    reconcile_state: &ReconcileState,
    mask: MarkMask,
    now: Instant,
) -> Planned {
    let mut planned = Planned::default();
    devices::plan(wanted, observed, reconcile_state, now, &mut planned.plan);
    paths::plan(wanted, observed, mask, &mut planned);
    planned
}

#[cfg(test)]
mod tests;
