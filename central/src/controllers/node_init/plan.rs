//! What to do about one Node. Pure.

use std::time::Duration;

use mooring_common::engine::Plan;
use mooring_common::names::{annotations, reasons};
use mooring_common::node_facts::{NodeFacts, Presence};
use mooring_common::node_init::{self, Description, NodeStep};
use mooring_common::node_view::NodeView;

use super::observe::{Observed, SOONEST, patience};
use crate::cloud_provider::Lookup;
use crate::flags::NodeFlags;

/// What a pass comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Take these steps; none: all is well.
    Act(Plan<NodeStep>),
    /// The same to correct what the Node's own daemon wrote, once that has had its time.
    Correct(Plan<NodeStep>),
    /// Nothing is to be done, or not yet; look again after this long.
    Wait(Duration),
    /// Leave it alone, silently.
    Leave(&'static str),
    /// Leave it alone, say why, and look again after this long.
    Refuse {
        reason: &'static str,
        note: String,
        after: Duration,
    },
}

/// How long a cloud that cannot be asked goes unmentioned on a Node that waits for it.
const DAEMON_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn plan(observed: &Observed, flags: &NodeFlags) -> Decision {
    let node = &observed.node;
    if node.deleting {
        return Decision::Leave("it is being deleted");
    }
    let uninitialized = node.is_uninitialized();
    let left_to_us = node.annotation(annotations::LEFT_TO_CENTRAL).is_some();
    if uninitialized
        && !left_to_us
        && let Some(left) = flags.daemon_grace.checked_sub(observed.seen_for)
        && !left.is_zero()
    {
        return Decision::Wait(left);
    }
    let facts = match facts(observed, flags) {
        Ok(facts) => facts,
        Err(decision) => return decision,
    };
    if let Some(other) = &observed.taken_by {
        let id = node.provider_id.clone();
        let id = id.or_else(|| facts.provider_id.as_ref().map(ToString::to_string));
        return Decision::Refuse {
            reason: reasons::DUPLICATE_PROVIDER_ID,
            note: format!(
                "Node {other} has the provider ID {} already, and two Nodes cannot be one machine. \
                 Delete the Node that is wrong (after a renaming: the old one), or tell the \
                 machines apart.",
                id.unwrap_or_default()
            ),
            after: flags.address_period,
        };
    }
    let later = flags.address_period;
    match node_init::plan(node, facts) {
        Ok(plan) if plan.is_empty() || uninitialized => Decision::Act(plan),
        Ok(plan) => {
            let corrected = node.annotation(annotations::CORRECTED_BY_CENTRAL).is_some();
            let undescribed = node.provider_id.is_none() || node.addresses.is_empty();
            if flags.daemon_grace.is_zero() || corrected || left_to_us || undescribed {
                Decision::Act(plan)
            } else {
                Decision::Correct(plan)
            }
        }
        Err(refusal) => Decision::Refuse {
            reason: refusal.reason(),
            note: refusal.to_string(),
            // A new machine may get its addresses a moment after it is listed.
            after: if uninitialized {
                patience(observed.seen_for).min(later)
            } else {
                later
            },
        },
    }
}

/// What is known of the machine, or what to do where that is not enough.
fn facts<'a>(observed: &'a Observed, flags: &NodeFlags) -> Result<&'a NodeFacts, Decision> {
    let later = flags.address_period;
    let sooner = patience(observed.seen_for).min(later);
    let refuse = |reason, note: &str, after| match observed.node.is_uninitialized() {
        true => Decision::Refuse {
            reason,
            note: note.to_owned(),
            after,
        },
        false => Decision::Wait(later),
    };
    Err(match &observed.machine {
        Lookup::Known {
            presence: Presence::Gone,
            ..
        }
        | Lookup::Missing => refuse(
            reasons::INITIALIZATION_REFUSED,
            "The cloud has no such machine, so this Node stays uninitialised.",
            sooner,
        ),
        Lookup::Known { facts, .. } => return Ok(facts),
        Lookup::Unlisted(why) | Lookup::Unsure(why) => {
            refuse(reasons::INITIALIZATION_REFUSED, why, sooner)
        }
        Lookup::Unavailable { why, retry_after } => {
            let after = retry_after.unwrap_or(sooner).max(SOONEST);
            if observed.seen_for < DAEMON_TIMEOUT {
                Decision::Wait(after)
            } else {
                refuse(reasons::INITIALIZATION_REFUSED, why, after)
            }
        }
        Lookup::Ambiguous(which) => refuse(reasons::AMBIGUOUS_INSTANCE, which, sooner),
        Lookup::Foreign(how) => Decision::Refuse {
            reason: reasons::UNKNOWN_PROVIDER_ID,
            note: how.clone(),
            after: later,
        },
    })
}

/// The plan that corrects what the Node's daemon wrote, with a note to it on the Node.
pub(super) fn with_note(node: &NodeView, plan: &Plan<NodeStep>) -> Plan<NodeStep> {
    let mut noted = Description::default();
    let mut steps = Vec::new();
    let mut what = Vec::new();
    for step in plan.steps() {
        match step {
            NodeStep::Describe(description) => {
                what.push("labels");
                noted = description.clone();
            }
            NodeStep::SetAddresses(_) => {
                what.push("addresses");
                steps.push(step.clone());
            }
            NodeStep::Initialize(_) => steps.push(step.clone()),
        }
    }
    let key = annotations::CORRECTED_BY_CENTRAL;
    noted.annotate(node, key, Some(what.join(", ")));
    // The note comes first, so that the daemon does not write against it.
    std::iter::once(NodeStep::Describe(noted))
        .chain(steps)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Node;
    use mooring_common::k8s::Slim;
    use mooring_common::node_addresses::{AddressType, NodeAddress};
    use mooring_common::node_facts::NodeFacts;
    use mooring_common::node_view::NodeView;

    fn flags(grace: u64) -> NodeFlags {
        NodeFlags {
            daemon_grace: Duration::from_secs(grace),
            address_period: Duration::from_secs(300),
            monitor_period: Duration::from_secs(5),
            deletion_grace: Duration::from_secs(30),
            max_deletions_percent: 20,
            concurrent_syncs: 1,
        }
    }

    fn observed(tainted: bool, machine: Lookup, seen_for: u64) -> Observed {
        let mut node = serde_json::json!({"metadata": {"name": "n1", "uid": "u1"}});
        if tainted {
            let key = "node.cloudprovider.kubernetes.io/uninitialized";
            node["spec"] = serde_json::json!({"taints": [{"key": key, "effect": "NoSchedule"}]});
        }
        let node: Node = serde_json::from_value(node).unwrap();
        Observed {
            node: NodeView::slim(node),
            machine,
            seen_for: Duration::from_secs(seen_for),
            taken_by: None,
        }
    }

    fn known(presence: Presence) -> Lookup {
        Lookup::Known {
            facts: NodeFacts {
                provider_id: Some("cloudlycke://n1".parse().unwrap()),
                addresses: vec![NodeAddress::new(AddressType::InternalIP, "10.0.0.1")],
                ..NodeFacts::default()
            },
            presence,
        }
    }

    #[test]
    fn waits_for_daemon_only_within_grace_period() {
        let early = plan(&observed(true, known(Presence::Running), 10), &flags(30));
        assert_eq!(early, Decision::Wait(Duration::from_secs(20)));
        let due = plan(&observed(true, known(Presence::Running), 30), &flags(30));
        assert!(matches!(due, Decision::Act(plan) if plan.steps().len() == 2));
        let nobody = plan(&observed(true, known(Presence::Running), 0), &flags(0));
        assert!(matches!(nobody, Decision::Act(_)));
    }

    #[test]
    fn does_not_wait_for_daemon_that_defers_to_central() {
        let mut left = observed(true, known(Presence::Running), 1);
        let key = annotations::LEFT_TO_CENTRAL.to_owned();
        left.node.annotations = Some([(key, "the instance type".to_owned())].into());
        let Decision::Act(plan) = plan(&left, &flags(30)) else {
            panic!("waits")
        };
        assert_eq!(plan.steps().len(), 2, "{plan}");
        left.node.taints.clear();
        let later = super::plan(&left, &flags(30));
        assert!(matches!(later, Decision::Act(_)), "{later:?}");
    }

    #[test]
    fn corrects_daemon_writes_and_asks_it_to_defer() {
        let mut initialised = observed(false, known(Presence::Running), 0);
        let nobodys = plan(&initialised, &flags(30));
        assert!(
            matches!(nobodys, Decision::Act(_)),
            "no daemon has described it"
        );
        initialised.node.provider_id = Some("cloudlycke://n1".into());
        initialised.node.addresses = vec![NodeAddress::new(AddressType::InternalIP, "10.9.9.9")];
        assert!(matches!(plan(&initialised, &flags(0)), Decision::Act(_)));
        let Decision::Correct(plan) = plan(&initialised, &flags(30)) else {
            panic!("a daemon is expected")
        };
        let noted = with_note(&initialised.node, &plan);
        let [NodeStep::Describe(note), NodeStep::SetAddresses(_)] = noted.steps() else {
            panic!("{noted}")
        };
        let key = annotations::CORRECTED_BY_CENTRAL;
        assert_eq!(
            note.annotations.get(key),
            Some(&Some("addresses".to_owned()))
        );

        let mut corrected = initialised;
        corrected.node.annotations = Some([(key.to_owned(), "addresses".to_owned())].into());
        let again = super::plan(&corrected, &flags(30));
        assert!(matches!(again, Decision::Act(_)), "{again:?}");
    }

    #[test]
    fn missing_machine_is_looked_up_with_backoff() {
        let after = |seen_for| match plan(&observed(true, Lookup::Missing, seen_for), &flags(0)) {
            Decision::Refuse { after, .. } => after.as_secs(),
            other => panic!("{other:?}"),
        };
        assert_eq!([0, 8, 40, 1000].map(after), [1, 2, 10, 60]);
    }

    /// A cloud may list a new machine a moment before its addresses.
    #[test]
    fn machine_without_addresses_is_retried_like_missing_one() {
        let machine = Lookup::Known {
            facts: NodeFacts {
                provider_id: Some("cloudlycke://n1".parse().unwrap()),
                ..NodeFacts::default()
            },
            presence: Presence::Running,
        };
        let decision = plan(&observed(true, machine, 8), &flags(0));
        let soon = Duration::from_secs(2);
        assert!(
            matches!(decision, Decision::Refuse { after, .. } if after == soon),
            "{decision:?}"
        );
    }

    #[test]
    fn honours_retry_after_of_unavailable_cloud() {
        let away = |seen_for| {
            let machine = Lookup::Unavailable {
                why: "away".into(),
                retry_after: Some(Duration::from_secs(40)),
            };
            plan(&observed(true, machine, seen_for), &flags(0))
        };
        let after = Duration::from_secs(40);
        assert_eq!(away(1), Decision::Wait(after), "no Event for a hiccup");
        assert!(matches!(away(60), Decision::Refuse { after: wait, .. } if wait == after));
    }

    #[test]
    fn initialises_node_of_stopped_machine() {
        let decision = plan(&observed(true, known(Presence::Stopped), 0), &flags(0));
        assert!(matches!(decision, Decision::Act(_)));
    }

    #[test]
    fn does_nothing_on_uncertain_answer() {
        for machine in [
            Lookup::Missing,
            known(Presence::Gone),
            Lookup::Unsure("u".into()),
            Lookup::Ambiguous("a".into()),
            Lookup::Foreign("f".into()),
        ] {
            let tainted = plan(&observed(true, machine.clone(), 0), &flags(0));
            assert!(
                matches!(tainted, Decision::Refuse { .. }),
                "{machine:?}: {tainted:?}"
            );
            let well = plan(&observed(false, machine.clone(), 0), &flags(0));
            assert!(!matches!(well, Decision::Act(_)), "{machine:?}: {well:?}");
        }
    }
}
