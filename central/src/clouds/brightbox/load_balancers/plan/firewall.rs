//! The server group of a Service, and the firewall policy that is applied to it.

use std::collections::BTreeSet;

use super::super::super::api::{Group, MOST_PORTS, Policy, RuleSpec};
use super::super::bundle::Bundle;
use super::super::desired::Desired;
use super::super::step::Step;
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::engine::port_rules::{Edit, edits};
use crate::engine::stages::{Made, Stages};
use crate::engine::step::PoolRef;

/// The group with the servers that get traffic.
pub(super) fn group(desired: &Desired, observed: Option<&Bundle>, made: &mut Made) -> Stages<Step> {
    let known = observed.and_then(|bundle| bundle.groups.first());
    let mut steps = match known {
        Some(group) => Stages::of(PoolRef::Known(group.id.clone())),
        None => {
            let new = Group {
                name: desired.name.clone(),
                description: desired.mark.clone(),
                ..Group::default()
            };
            Stages::making(Step::CreateGroup(new), made)
        }
    };
    let none = BTreeSet::new();
    let there = known.map_or(&none, |group: &Group| &group.servers);
    let joining: BTreeSet<String> = desired.servers.difference(there).cloned().collect();
    let mut leaving: BTreeSet<String> = there.difference(&desired.servers).cloned().collect();
    leaving.retain(|_| desired.servers_are_complete);
    if !joining.is_empty() {
        steps.first.push(Step::AddServers {
            group: steps.reference.clone(),
            servers: joining,
        });
    }
    let last = known.filter(|_| !leaving.is_empty());
    steps.last.extend(last.map(|group| Step::RemoveServers {
        group: group.id.clone(),
        servers: leaving,
    }));
    steps
}

/// The policy with its rules. Those of another description are somebody else's.
///
/// # Errors
/// [`ReconcileError::Refused`] if somebody has applied it to another group.
pub(super) fn steps(
    desired: &Desired,
    observed: Option<&Bundle>,
    group: &PoolRef,
    made: &mut Made,
) -> Result<Stages<Step>, ReconcileError> {
    let about = |policy: &PoolRef, edits: Vec<Edit<RuleSpec>>| -> Vec<Step> {
        let rule = |edit| Step::Rule(policy.clone(), edit);
        edits.into_iter().map(rule).collect()
    };
    let known = observed.and_then(|bundle| bundle.policies.first());
    let Some(policy) = known else {
        let create = Step::CreatePolicy {
            name: desired.name.clone(),
            group: group.clone(),
        };
        let mut steps = Stages::making(create, made);
        let rules = desired.rules.iter().cloned().map(Edit::Create);
        let rules = about(&steps.reference, rules.collect());
        steps.first.extend(rules);
        return Ok(steps);
    };
    let own = policy.rules.iter().cloned();
    let own = own.filter(|rule| rule.spec.description == desired.name);
    let [first, last] = edits(own, &desired.rules, MOST_PORTS);
    let reference = PoolRef::Known(policy.id.clone());
    let mut steps = Stages {
        first: about(&reference, first),
        last: about(&reference, last),
        reference,
    };
    match &policy.server_group {
        Some(applied) if *group == PoolRef::Known(applied.id.clone()) => {}
        Some(applied) => return Err(elsewhere(policy, &applied.id)),
        None => {
            let apply = Step::ApplyPolicy {
                policy: policy.id.clone(),
                group: group.clone(),
            };
            steps.first.push(apply);
        }
    }
    Ok(steps)
}

fn elsewhere(policy: &Policy, group: &str) -> ReconcileError {
    ReconcileError::Refused(format!(
        "the firewall policy {} ({}) is applied to the server group {group}, which is not this Service's; take it \
         from there, or give it another name",
        policy.name, policy.id
    ))
}
