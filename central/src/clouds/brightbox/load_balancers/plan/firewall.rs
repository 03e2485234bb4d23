//! The server group of a Service, and the firewall policy that is applied to it.

use std::collections::BTreeSet;

use mooring_common::engine::Impact;

use super::super::super::api::firewall::{Group, MOST_PORTS, Policy, Rule, RuleSpec};
use super::super::bundle::Bundle;
use super::super::desired::Desired;
use super::super::step::Step;
use super::{Made, PartSteps};
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::engine::step::PoolRef;

/// The group with the servers that get traffic.
pub(super) fn group(desired: &Desired, observed: Option<&Bundle>, made: &mut Made) -> PartSteps {
    let known = observed.and_then(|bundle| bundle.groups.first());
    let mut steps = match known {
        Some(group) => PartSteps::of(PoolRef::Known(group.id.clone())),
        None => PartSteps {
            first: vec![Step::CreateGroup(Group {
                name: desired.name.clone(),
                description: desired.mark.clone(),
                ..Group::default()
            })],
            ..PartSteps::of(made.next())
        },
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
) -> Result<PartSteps, ReconcileError> {
    let known = observed.and_then(|bundle| bundle.policies.first());
    let Some(policy) = known else {
        let mut steps = PartSteps::of(made.next());
        steps.first.push(Step::CreatePolicy {
            name: desired.name.clone(),
            group: group.clone(),
        });
        let rules = desired.rules.iter();
        let rules = rules.map(|rule| permit(&steps.reference, rule));
        steps.first.extend(rules);
        return Ok(steps);
    };
    let mut steps = changes(desired, policy);
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

fn permit(policy: &PoolRef, rule: &RuleSpec) -> Step {
    Step::CreateRule {
        policy: policy.clone(),
        rule: rule.clone(),
    }
}

fn changes(desired: &Desired, policy: &Policy) -> PartSteps {
    let mut own: Vec<&Rule> = policy.rules.iter().collect();
    own.retain(|rule| rule.spec.description == desired.name);
    let mut wanted: Vec<&RuleSpec> = desired.rules.iter().collect();
    wanted.retain(
        |spec| match own.iter().position(|rule| is_same(&rule.spec, spec)) {
            Some(there) => {
                own.remove(there);
                false
            }
            None => true,
        },
    );
    let mut steps = PartSteps::of(PoolRef::Known(policy.id.clone()));
    for spec in wanted {
        let of_source =
            |rule: &&Rule| rule.spec.source == spec.source && rule.spec.protocol == spec.protocol;
        let Some(rule) = own
            .iter()
            .position(of_source)
            .map(|there| own.remove(there))
        else {
            steps.first.push(permit(&steps.reference, spec));
            continue;
        };
        let (before, after) = (ports(&rule.spec), ports(spec));
        let both: Vec<&str> = before.union(&after).copied().collect();
        let change = |ports: String| Step::ChangeRule {
            id: rule.id.clone(),
            rule: RuleSpec {
                destination_port: ports,
                ..spec.clone()
            },
            impact: match both.len() > MOST_PORTS {
                true => Impact::Brief,
                false => Impact::None,
            },
        };
        let exact = || change(spec.destination_port.clone());
        if before.is_subset(&after) || both.len() > MOST_PORTS {
            steps.first.push(exact());
        } else {
            if !after.is_subset(&before) {
                steps.first.push(change(both.join(",")));
            }
            steps.last.push(exact());
        }
    }
    steps
        .last
        .extend(own.into_iter().map(|rule| Step::DeleteRule {
            id: rule.id.clone(),
            rule: rule.spec.clone(),
        }));
    steps
}

fn is_same(one: &RuleSpec, other: &RuleSpec) -> bool {
    one.protocol == other.protocol && one.source == other.source && ports(one) == ports(other)
}

fn ports(rule: &RuleSpec) -> BTreeSet<&str> {
    rule.destination_port.split(',').map(str::trim).collect()
}
