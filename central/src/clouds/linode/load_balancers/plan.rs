//! From what is to what should be, without a moment in which a port that stays is not served.
//!
//! After the marks the firewall comes first, so that nobody gets in who is not to. What is new comes before what is
//! old goes.

mod configs;
mod firewall;

use std::collections::BTreeSet;

use mooring_common::engine::Plan;

use super::desired::{Desired, DesiredConfig};
use super::model::{BalancerSpec, FirewallWish, NodeSpec};
use super::observed::Observed;
use super::step::{NewBalancer, Step};
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::clouds::linode::api::node_balancers::{MARKS, firewall_mark};
use crate::engine::pool::Member as _;
use crate::engine::provider::Unready;

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
    if let FirewallWish::Id(id) = desired.firewall {
        tags.push(firewall_mark(id));
    }
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
    if let Some(why) = firewall::obstacle(desired, observed) {
        // The Nodes are followed while a person decides. Nothing is opened that a firewall is to protect.
        let configs = configs::steps(desired, observed, 0).into_iter();
        let nodes: Vec<Step> = configs.filter(|one| matches!(one, Step::Node(_))).collect();
        return match nodes.is_empty() {
            true => Err(ReconcileError::Refused(why)),
            false => Ok(nodes.into_iter().collect()),
        };
    }
    let mut steps = firewall::steps(desired, observed);
    let firewall_marks = firewall::Marks::of(desired, observed);
    let created = steps.iter();
    let planned = created.filter(|step| matches!(step, Step::CreateFirewall(_)));
    let configs = configs::steps(desired, observed, planned.count());
    let throttle = Some(desired.balancer.throttle);
    let throttle =
        throttle.filter(|wanted| observed.balancer.throttle.unwrap_or_default() != *wanted);
    let is_marked = |mark: &String| observed.balancer.tags.contains(mark);
    let is_tagged = MARKS.are_unmarked(&observed.balancer.tags, &desired.balancer.tags);
    let marks_follow = !steps.is_empty() || !configs.is_empty() || throttle.is_some();
    let with = |marks: &BTreeSet<String>| -> Vec<String> {
        let asked = desired.balancer.tags.iter().chain(&desired.marks);
        asked.chain(marks).cloned().collect()
    };
    // What the Go controller has made gets its marks once there is something to do about it anyway: taking
    // over what is right already writes nothing. They come first, since they lead to what is made then.
    let tags = (!is_tagged
        || marks_follow && !desired.marks.iter().all(is_marked)
        || firewall_marks.before != firewall_marks.there)
        .then(|| with(&firewall_marks.before));
    if firewall_marks.after != firewall_marks.before {
        steps.push(Step::ChangeBalancer {
            throttle: None,
            tags: Some(with(&firewall_marks.after)),
        });
    }
    let first =
        (throttle.is_some() || tags.is_some()).then_some(Step::ChangeBalancer { throttle, tags });
    let first = first.into_iter().chain(steps);
    Ok(first.chain(configs).collect())
}

/// What a person has to put right, although the Nodes are followed.
pub(super) fn unready(desired: &Desired, observed: &Observed) -> Option<Unready> {
    firewall::obstacle(desired, observed).map(Unready::Failed)
}

#[cfg(test)]
mod tests;
