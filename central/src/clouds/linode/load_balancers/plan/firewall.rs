//! The firewall: whose it is, and what it takes to have the right one.
//!
//! Only firewalls that bear the Service's mark, or that the Go controller has made for this NodeBalancer
//! alone, are changed or deleted. Any other is attached and detached at most, and only where the Service asks
//! for another one, or asked for it before and does so no more: the NodeBalancer bears a mark since before it was
//! attached, or the Service says that it named it when all was as wanted last. One that does just what the
//! Service asks of one of its own is left where it is.

use std::collections::BTreeSet;

use super::super::desired::Desired;
use super::super::firewalls::Firewall;
use super::super::model::FirewallWish;
use super::super::observed::Observed;
use super::super::step::Step;
use crate::clouds::linode::annotations as keys;
use crate::clouds::linode::api::node_balancers::{MARKS, firewall_mark};
use crate::engine::step::PoolRef;

const WITHOUT_RIGHT: &str = "the firewall of the NodeBalancer is not as the Service asks, and the token may not list \
                             firewalls; give it the right to read and write them";

/// Why nothing can be done about it, if somebody else's firewall stands in the way, or a right is missing.
pub(super) fn obstacle(desired: &Desired, observed: &Observed) -> Option<String> {
    let attached = &observed.attached;
    if attached.len() > 1 {
        return Some(several(attached));
    }
    let mut steps = steps(desired, observed).into_iter();
    let is_permitted = observed.may_list || steps.all(|step| matches!(step, Step::Attach { .. }));
    if !is_permitted {
        return Some(WITHOUT_RIGHT.to_owned());
    }
    let FirewallWish::Own(wanted) = &desired.firewall else {
        return None;
    };
    let strange = attached.first().filter(|firewall| {
        let is_anothers = firewall.tags.iter().any(|tag| MARKS.is_mark(tag));
        is_strange(firewall, desired, observed) && (is_anothers || !firewall.is_as(wanted))
    });
    strange.map(not_ours)
}

/// What is to be done about it where there is no [`obstacle`].
pub(super) fn steps(desired: &Desired, observed: &Observed) -> Vec<Step> {
    let is_ours = |firewall: &&Firewall| is_ours(firewall, desired, observed);
    let attached = observed.attached.first();
    let own = attached.filter(is_ours);
    let former = attached.filter(|firewall| is_former(firewall, desired, observed));
    let strange = attached.filter(|firewall| is_strange(firewall, desired, observed));
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
        // It does as wanted: the Go controller has written its rules, or somebody has.
        FirewallWish::Own(_) if strange.is_some() => kept = strange.map(|firewall| firewall.id),
        FirewallWish::Own(wanted) => {
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
    let marks = unmarked.map(|firewall| {
        let tags = firewall.tags.iter().chain(&desired.marks);
        Step::MarkFirewall {
            id: firewall.id,
            name: firewall.label.clone(),
            tags: tags.cloned().collect(),
        }
    });
    steps.splice(..0, marks);
    let unneeded = unneeded.into_iter();
    steps.extend(unneeded.map(|firewall| Step::DeleteFirewall {
        id: firewall.id,
        name: firewall.label.clone(),
    }));
    steps
}

/// Whether it bears the Service's mark, or the Go controller has made it and the Service did not name it.
fn is_ours(firewall: &Firewall, desired: &Desired, observed: &Observed) -> bool {
    let mut marks = desired.marks.iter();
    let is_marked = marks.all(|mark| firewall.tags.contains(mark));
    is_marked
        || (firewall.is_made_by_go(&observed.balancer.label)
            && !is_former(firewall, desired, observed))
}

/// Whether it was attached because the Service named it.
fn is_former(firewall: &Firewall, desired: &Desired, observed: &Observed) -> bool {
    let mark = firewall_mark(firewall.id);
    observed.balancer.firewall_marks().contains(&mark)
        || desired.former_firewall == Some(firewall.id)
}

/// Whether somebody has attached it by hand.
fn is_strange(firewall: &Firewall, desired: &Desired, observed: &Observed) -> bool {
    !is_ours(firewall, desired, observed) && !is_former(firewall, desired, observed)
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

fn several(attached: &[Firewall]) -> String {
    let shown: Vec<String> = attached.iter().map(shown).collect();
    format!(
        "too many firewalls attached to a nodebalancer: {}; detach all but one",
        shown.join(", ")
    )
}

fn not_ours(firewall: &Firewall) -> String {
    format!(
        "the NodeBalancer has the firewall {}, which was not made for this Service and is not changed; detach it, \
         or name it in the annotation {} instead of asking for one of the Service's own",
        shown(firewall),
        keys::FIREWALL_ID.key
    )
}
