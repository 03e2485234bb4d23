//! From what is to what should be, without a moment in which a port that stays is not served.
//!
//! After the marks the firewall comes first, so that nobody gets in who is not to. What is new comes before what is
//! old goes.

mod configs;
mod firewall;

use mooring_common::engine::Plan;

use super::desired::{Desired, DesiredConfig};
use super::model::{BalancerSpec, NodeSpec};
use super::observed::Observed;
use super::step::{NewBalancer, Step};
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::engine::pool::Member as _;

/// The steps in order.
///
/// # Errors
/// [`ReconcileError::Refused`] or [`ReconcileError::Invalid`] if it cannot be done: all the reasons.
pub(super) fn plan(
    desired: &Desired,
    observed: Option<&Observed>,
) -> Result<Plan<Step>, ReconcileError> {
    let unusable = configs::without_certificate(desired, observed);
    if !unusable.is_empty() {
        return Err(ReconcileError::Invalid(unusable));
    }
    let accepts = |config: &DesiredConfig| config.nodes.iter().any(NodeSpec::is_enabled);
    let serves = desired.configs.iter().any(accepts);
    // Of one that is there, those that are not known stay.
    if !serves && (desired.members_are_complete || observed.is_none()) {
        return Err(no_nodes(observed));
    }
    match observed {
        Some(observed) => changes(desired, observed),
        None => Ok(std::iter::once(created(desired)).collect()),
    }
}

fn no_nodes(observed: Option<&Observed>) -> ReconcileError {
    let what = match observed {
        Some(_) => "the NodeBalancer stays as it is",
        None => "none is created",
    };
    ReconcileError::Refused(format!(
        "no nodes available for nodebalancer: no Node of this cluster is a Linode with an address that it \
         reaches; {what} until there is one"
    ))
}

fn created(desired: &Desired) -> Step {
    let mut tags = desired.balancer.tags.clone();
    tags.extend(desired.marks.iter().cloned());
    let configs = desired.configs.iter();
    Step::CreateBalancer(Box::new(NewBalancer {
        spec: BalancerSpec {
            tags,
            ..desired.balancer.clone()
        },
        configs: configs
            .map(|config| (config.spec.clone(), config.nodes.clone()))
            .collect(),
        firewall: desired.firewall.clone(),
    }))
}

fn changes(desired: &Desired, observed: &Observed) -> Result<Plan<Step>, ReconcileError> {
    let mut steps = firewall::steps(desired, observed)?;
    let planned = steps
        .iter()
        .filter(|step| matches!(step, Step::CreateFirewall(_)))
        .count();
    steps.extend(configs::steps(desired, observed, planned));
    let throttle = Some(desired.balancer.throttle);
    let throttle =
        throttle.filter(|wanted| observed.balancer.throttle.unwrap_or_default() != *wanted);
    let is_marked = |mark: &String| observed.balancer.tags.contains(mark);
    let is_tagged = observed.balancer.has_tags(&desired.balancer.tags);
    let marks_follow = !steps.is_empty() || throttle.is_some();
    // What the Go controller has made gets its marks once there is something to do about it anyway: taking
    // over what is right already writes nothing. They come first, since they lead to what is made then.
    let asked = desired.balancer.tags.iter();
    let tags = (!is_tagged || marks_follow && !desired.marks.iter().all(is_marked))
        .then(|| asked.chain(&desired.marks).cloned().collect());
    let first =
        (throttle.is_some() || tags.is_some()).then_some(Step::ChangeBalancer { throttle, tags });
    Ok(first.into_iter().chain(steps).collect())
}

#[cfg(test)]
mod tests;
