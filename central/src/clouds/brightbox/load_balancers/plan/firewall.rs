//! The server group of a Service, and the firewall policy that is applied to it.

use std::collections::BTreeSet;

use mooring_common::engine::Impact;

use super::super::super::api::firewall::{Group, MOST_PORTS, Policy, Rule, RuleSpec};
use super::super::bundle::Bundle;
use super::super::desired::Desired;
use super::super::step::Step;
use super::Made;
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::engine::step::PoolRef;

/// What is done before the load balancer changes, and after.
pub(super) struct Around {
    pub(super) first: Vec<Step>,
    pub(super) last: Vec<Step>,
}

/// The group with the servers that get traffic.
pub(super) struct GroupSteps {
    pub(super) reference: PoolRef,
    pub(super) first: Vec<Step>,
    pub(super) last: Vec<Step>,
}

pub(super) fn group(desired: &Desired, observed: Option<&Bundle>, made: &mut Made) -> GroupSteps {
    let known = observed.and_then(|bundle| bundle.groups.first());
    let (reference, mut first) = match known {
        Some(group) => (PoolRef::Known(group.id.clone()), Vec::new()),
        None => {
            let create = Step::CreateGroup {
                name: desired.name.clone(),
                description: desired.mark.clone(),
            };
            (made.next(), vec![create])
        }
    };
    let none = BTreeSet::new();
    let there = known.map_or(&none, |group: &Group| &group.servers);
    let joining: BTreeSet<String> = desired.servers.difference(there).cloned().collect();
    let mut leaving: BTreeSet<String> = there.difference(&desired.servers).cloned().collect();
    leaving.retain(|_| desired.servers_are_complete);
    if !joining.is_empty() {
        first.push(Step::AddServers {
            group: reference.clone(),
            servers: joining,
        });
    }
    let last = known.filter(|_| !leaving.is_empty());
    let last = last.map(|group| Step::RemoveServers {
        group: group.id.clone(),
        servers: leaving,
    });
    GroupSteps {
        reference,
        first,
        last: last.into_iter().collect(),
    }
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
) -> Result<Around, ReconcileError> {
    let known = observed.and_then(|bundle| bundle.policies.first());
    let Some(policy) = known else {
        let policy = made.next();
        let create = Step::CreatePolicy {
            name: desired.name.clone(),
            group: group.clone(),
        };
        let rules = desired.rules.iter().map(|rule| permit(&policy, rule));
        return Ok(Around {
            first: std::iter::once(create).chain(rules).collect(),
            last: Vec::new(),
        });
    };
    let mut around = changes(desired, policy);
    match &policy.server_group {
        Some(applied) if *group == PoolRef::Known(applied.id.clone()) => {}
        Some(applied) => return Err(elsewhere(policy, &applied.id)),
        None => {
            let apply = Step::ApplyPolicy {
                policy: policy.id.clone(),
                group: group.clone(),
            };
            around.first.push(apply);
        }
    }
    Ok(around)
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

fn changes(desired: &Desired, policy: &Policy) -> Around {
    let reference = PoolRef::Known(policy.id.clone());
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
    let mut around = Around {
        first: Vec::new(),
        last: Vec::new(),
    };
    for spec in wanted {
        let of_source =
            |rule: &&Rule| rule.spec.source == spec.source && rule.spec.protocol == spec.protocol;
        let Some(rule) = own
            .iter()
            .position(of_source)
            .map(|there| own.remove(there))
        else {
            around.first.push(permit(&reference, spec));
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
            around.first.push(exact());
        } else {
            if !after.is_subset(&before) {
                around.first.push(change(both.join(",")));
            }
            around.last.push(exact());
        }
    }
    around
        .last
        .extend(own.into_iter().map(|rule| Step::DeleteRule {
            id: rule.id.clone(),
            rule: rule.spec.clone(),
        }));
    around
}

fn is_same(one: &RuleSpec, other: &RuleSpec) -> bool {
    one.protocol == other.protocol && one.source == other.source && ports(one) == ports(other)
}

fn ports(rule: &RuleSpec) -> BTreeSet<&str> {
    rule.destination_port.split(',').map(str::trim).collect()
}
