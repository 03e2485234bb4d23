//! From what is to what should be, without a moment in which a listener has nothing behind it.
//!
//! What is new comes first, and what is old goes last. Only three things cut a port off for a
//! moment, since the cloud takes no two things in one place: a listener that moves to another pool,
//! a listener whose place another one holds, and a member that is replaced where it is the only one.
//! Each is taken away and made again at once, one after the other.

mod listeners;
mod monitors;
mod pools;
mod refusal;

use mooring_common::engine::Plan;

use super::desired::Desired;
use super::model::{BalancerSpec, MemberSpec};
use super::observed::Observed;
use super::step::Step;
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::engine::pool::MemberChanges;
use crate::engine::provider::Observed as _;
use pools::Pools;

/// The steps in order. Where there is no load balancer yet, it shows all that will follow on its
/// creation. Whether the cloud is at work is not asked here.
///
/// # Errors
/// [`ReconcileError::Refused`] if it cannot be done: all the reasons.
pub(super) fn plan(
    desired: &Desired,
    observed: Option<&Observed>,
) -> Result<Plan<Step>, ReconcileError> {
    match observed {
        Some(observed) => {
            refusal::of_changes(desired, observed)?;
            Ok(changes(desired, observed).into_iter().collect())
        }
        None => {
            refusal::of_creation(desired)?;
            let BalancerSpec { zone, .. } = desired.balancer.clone();
            let create = Step::CreateBalancer(BalancerSpec {
                zone: zone.or_else(|| desired.zone_of_nodes.clone()),
                ..desired.balancer.clone()
            });
            let made = Observed::created(&create, "");
            let parts = made.map(|made| changes(desired, &made)).unwrap_or_default();
            Ok(std::iter::once(create).chain(parts).collect())
        }
    }
}

fn changes(desired: &Desired, observed: &Observed) -> Vec<Step> {
    let pools = Pools::of(desired, observed);
    let pairs = pools.pairs.iter();
    let members: Vec<MemberChanges<'_, MemberSpec>> = pairs
        .map(|pair| pair.members(desired.members_are_complete))
        .collect();
    let mut steps = Vec::new();
    let (from, name) = (&observed.balancer.name, &desired.balancer.name);
    if from != name {
        steps.push(Step::RenameBalancer {
            from: from.clone(),
            name: name.clone(),
        });
    }
    steps.extend(pools.renamed());
    for (pair, members) in pools.pairs.iter().zip(&members) {
        steps.extend(pair.created());
        steps.extend(monitors::around(pair, members));
    }
    steps.extend(listeners::all(&pools, observed).steps());
    for (pair, members) in pools.pairs.iter().zip(&members) {
        if !monitors::must_wait(pair, members) {
            steps.extend(members.disabled().map(Step::Member));
        }
    }
    let leaves = members.iter().flat_map(MemberChanges::leaves);
    steps.extend(leaves.map(Step::Member));
    steps.extend(pools.deleted());
    let missing = desired.floating_ips.difference(&observed.floating_ips);
    steps.extend(missing.map(|address| Step::AssignFloatingIp {
        address: address.clone(),
    }));
    if !steps.is_empty() {
        steps.extend(marked(desired, observed));
    }
    steps
}

/// Marks a load balancer that was made by the Go controller, or by hand, once there is something to
/// do about it anyway: taking over what is right already writes nothing.
fn marked(desired: &Desired, observed: &Observed) -> Option<Step> {
    let (wanted, actual) = (&desired.balancer.tags, &observed.balancer.tags);
    let is_marked = |(key, value): (&String, &String)| actual.get(key) == Some(value);
    (!wanted.iter().all(is_marked)).then(|| {
        let mut tags = actual.clone();
        tags.extend(wanted.clone());
        Step::TagBalancer { tags }
    })
}

#[cfg(test)]
pub(super) mod tests;
