//! The server group of a Service, and the firewall policy that is applied to it.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::super::api::{Group, MOST_PORTS, Policy, RuleSpec, each};
use super::super::bundle::Bundle;
use super::super::desired::Desired;
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::engine::outcome::listed;
use crate::engine::port_rules::{Edit, edits};
use crate::engine::resource_step::ResourceStep;
use crate::engine::stages::{Made, Stages};
use crate::engine::step::PoolRef;

/// The group with the servers that get traffic, whose description is the mark.
pub(super) fn group(
    desired: &Desired,
    observed: Option<&Bundle>,
    made: &mut Made,
) -> Stages<ResourceStep> {
    let known = observed.and_then(|bundle| bundle.groups.first());
    let mut steps = match known {
        Some(group) => Stages::of(PoolRef::Known(group.id.clone())),
        None => {
            let mark = json!({"description": desired.mark});
            let create = ResourceStep::create_named::<Group>(&desired.name, mark);
            Stages::making(create, made)
        }
    };
    let none = BTreeSet::new();
    let there = known.map_or(&none, |group| &group.servers);
    let (joining, mut leaving) = (&desired.servers - there, there - &desired.servers);
    leaving.retain(|id| !desired.kept.keeps(id));
    if !joining.is_empty() {
        let words = format!("put {} into the server group", listed(&joining));
        let verb = ["add_servers", "add_servers"];
        let join = ResourceStep::act::<Group>(&steps.reference, verb, words)
            .telling(json!({"servers": each("server", &joining)}))
            .then(json!({"servers": there | &joining}));
        steps.first.push(join);
    }
    if !leaving.is_empty() {
        let leave = without(&steps.reference, &leaving);
        let left = json!({"servers": &(there | &desired.servers) - &leaving});
        steps.last.push(leave.then(left));
    }
    steps
}

/// Takes these servers out of a group.
pub(super) fn without(group: &PoolRef, servers: &BTreeSet<String>) -> ResourceStep {
    let words = format!("take {} out of the server group", listed(servers));
    ResourceStep::act::<Group>(group, ["remove_servers", "remove_servers"], words)
        .telling(json!({"servers": each("server", servers)}))
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
) -> Result<Stages<ResourceStep>, ReconcileError> {
    let known = observed.and_then(|bundle| bundle.policies.first());
    let mut steps = match known {
        Some(policy) => Stages::of(PoolRef::Known(policy.id.clone())),
        None => {
            let create = ResourceStep::create_named::<Policy>(&desired.name, json!({}));
            Stages::making(create.naming("server_group", group), made)
        }
    };
    let rules = known.into_iter().flat_map(|policy| &policy.rules);
    let own = rules.filter(|rule| rule.spec.description == desired.name);
    let [first, last] = edits(own.cloned(), &desired.rules, MOST_PORTS);
    let reference = steps.reference.clone();
    let step = |edit: Edit<RuleSpec>| edit.step("firewall_policy", &reference);
    steps.first.extend(first.into_iter().map(step));
    steps.last.extend(last.into_iter().map(step));
    match known.map(|policy| (policy, &policy.server_group)) {
        Some((policy, None)) => {
            let words = format!("apply firewall policy {} to the server group", policy.id);
            let verb = ["apply_to", "apply_firewall_policy"];
            let apply = ResourceStep::act::<Policy>(&reference, verb, words)
                .naming("server_group", group)
                .as_told();
            steps.first.push(apply);
        }
        Some((policy, Some(applied))) if *group != PoolRef::Known(applied.id.clone()) => {
            return Err(elsewhere(policy, &applied.id));
        }
        _ => {}
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
