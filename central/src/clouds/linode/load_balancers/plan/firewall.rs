//! The firewall: whose it is, and what it takes to have the right one.
//!
//! Only firewalls that bear the Service's mark, or that the Go controller has made for this NodeBalancer
//! alone, are changed or deleted. Any other is attached and detached at most, and only where the Service asks
//! for another one, or asked for it before and does so no more: the NodeBalancer bears a mark since before it was
//! attached, or the Service says that it named it when all was as wanted last.

use std::collections::BTreeSet;

use super::super::desired::Desired;
use super::super::firewalls::Firewall;
use super::super::model::FirewallWish;
use super::super::observed::Observed;
use super::super::step::Step;
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::clouds::linode::annotations as keys;
use crate::clouds::linode::api::node_balancers::firewall_mark;
use crate::engine::step::PoolRef;

/// What is to be done about it.
///
/// # Errors
/// [`ReconcileError::Refused`] if somebody else's firewall stands in the way.
pub(super) fn steps(desired: &Desired, observed: &Observed) -> Result<Vec<Step>, ReconcileError> {
    let is_ours = |firewall: &&Firewall| {
        let is_marked = desired
            .marks
            .iter()
            .all(|mark| firewall.tags.contains(mark));
        is_marked || firewall.is_made_by_go(&observed.balancer.label)
    };
    let attached = &observed.attached;
    if attached.len() > 1 {
        return Err(several(attached));
    }
    let attached = attached.first();
    let own = attached.filter(is_ours);
    let marks = observed.balancer.firewall_marks();
    let former = attached.filter(|firewall| {
        let is_marked = marks.contains(&firewall_mark(firewall.id));
        is_marked || desired.former_firewall == Some(firewall.id)
    });
    let mut steps = Vec::new();
    let mut kept = None;
    match &desired.firewall {
        FirewallWish::None => {
            if own.or(former).is_some() {
                steps.push(attach(None, attached));
            }
        }
        FirewallWish::Id(id) => {
            if attached.is_none_or(|firewall| firewall.id != *id) {
                steps.push(attach(Some(PoolRef::Known(id.to_string())), attached));
            }
            kept = Some(*id);
        }
        FirewallWish::Own(wanted) => {
            if let Some(strange) = attached.filter(|_| own.or(former).is_none()) {
                return Err(not_ours(strange));
            }
            let there = own.or_else(|| observed.loose.iter().find(is_ours));
            kept = there.map(|firewall| firewall.id);
            let reference = match there {
                Some(firewall) => {
                    if !firewall.is_as(wanted) {
                        steps.push(Step::ChangeRules {
                            id: firewall.id,
                            spec: wanted.clone(),
                            enables: firewall.is_disabled,
                        });
                    }
                    PoolRef::Known(firewall.id.to_string())
                }
                None => {
                    steps.push(Step::CreateFirewall(wanted.clone()));
                    PoolRef::Planned(0)
                }
            };
            if own.is_none() {
                steps.push(attach(Some(reference), attached));
            }
        }
    }
    // What still protects another NodeBalancer goes when that has gone.
    let is_idle = |firewall: &&Firewall| is_ours(firewall) && firewall.entities.is_empty();
    let all = own.into_iter().chain(observed.loose.iter().filter(is_idle));
    let unneeded: Vec<&Firewall> = all.filter(|firewall| Some(firewall.id) != kept).collect();
    // Nothing else tells whose it is once it is detached.
    let by_go = |firewall: &&&Firewall| firewall.is_made_by_go(&observed.balancer.label);
    let unmarked = unneeded.iter().filter(by_go);
    let marks = unmarked.map(|firewall| Step::MarkFirewall {
        id: firewall.id,
        name: firewall.label.clone(),
        tags: firewall
            .tags
            .iter()
            .chain(&desired.marks)
            .cloned()
            .collect(),
    });
    steps.splice(..0, marks);
    let unneeded = unneeded.into_iter();
    steps.extend(unneeded.map(|firewall| Step::DeleteFirewall {
        id: firewall.id,
        name: firewall.label.clone(),
    }));
    Ok(steps)
}

/// What a NodeBalancer says of firewalls that were attached because its Service named them.
pub(super) struct Marks {
    /// Now.
    pub(super) there: BTreeSet<String>,
    /// Before any is attached or detached.
    pub(super) before: BTreeSet<String>,
    /// After that.
    pub(super) after: BTreeSet<String>,
}

impl Marks {
    /// One that was attached already when the Service came to name it gets none.
    pub(super) fn of(desired: &Desired, observed: &Observed) -> Self {
        let there = observed.balancer.firewall_marks();
        let mut before = there.clone();
        let mut after = BTreeSet::new();
        if let FirewallWish::Id(id) = desired.firewall {
            let mut attached = observed.attached.iter();
            if attached.all(|firewall| firewall.id != id) {
                before.insert(firewall_mark(id));
            }
            after.extend(before.get(&firewall_mark(id)).cloned());
        }
        Self {
            there,
            before,
            after,
        }
    }
}

fn attach(firewall: Option<PoolRef>, former: Option<&Firewall>) -> Step {
    Step::Attach {
        firewall,
        former: former.map(|firewall| (firewall.id, firewall.label.clone())),
    }
}

fn shown(firewall: &Firewall) -> String {
    format!("{} ({})", firewall.label, firewall.id)
}

fn several(attached: &[Firewall]) -> ReconcileError {
    let shown: Vec<String> = attached.iter().map(shown).collect();
    ReconcileError::Refused(format!(
        "too many firewalls attached to a nodebalancer: {}; detach all but one",
        shown.join(", ")
    ))
}

fn not_ours(firewall: &Firewall) -> ReconcileError {
    ReconcileError::Refused(format!(
        "the NodeBalancer has the firewall {}, which was not made for this Service and is not changed; detach it, \
         or name it in the annotation {} instead of asking for one of the Service's own",
        shown(firewall),
        keys::FIREWALL_ID.key
    ))
}
