//! What to do about one Node. Pure.

use std::time::Duration;

use mooring_common::engine::Plan;
use mooring_common::names::reasons;
use mooring_common::node_facts::Presence;
use mooring_common::node_init::{self, NodeStep};

use super::observe::Observed;
use crate::clouds::Lookup;
use crate::flags::NodeFlags;

/// What a pass comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Take these steps; none: all is well.
    Act(Plan<NodeStep>),
    /// Nothing is to be done, or not yet; look again after this long.
    Wait(Duration),
    /// Leave it alone, silently.
    Leave(&'static str),
    /// Leave it alone, and say why.
    Refuse { reason: &'static str, note: String },
}

pub(super) fn plan(observed: &Observed, flags: &NodeFlags) -> Decision {
    let node = &observed.node;
    if node.deleting {
        return Decision::Leave("it is being deleted");
    }
    let uninitialized = node.is_uninitialized();
    if uninitialized
        && let Some(left) = flags.daemon_grace.checked_sub(observed.seen_for)
        && !left.is_zero()
    {
        return Decision::Wait(left);
    }
    let refuse = |reason, note: &str| match uninitialized {
        true => Decision::Refuse {
            reason,
            note: note.to_owned(),
        },
        false => Decision::Wait(flags.address_period),
    };
    let facts = match &observed.machine {
        Lookup::Known {
            presence: Presence::Gone,
            ..
        }
        | Lookup::Missing => {
            return refuse(
                reasons::INITIALIZATION_REFUSED,
                "The cloud has no such machine, so this Node stays uninitialised.",
            );
        }
        Lookup::Known { facts, .. } => facts,
        Lookup::Unsure(why) => return refuse(reasons::INITIALIZATION_REFUSED, why),
        Lookup::Ambiguous(which) => return refuse(reasons::AMBIGUOUS_INSTANCE, which),
        Lookup::Foreign(how) => {
            return Decision::Refuse {
                reason: reasons::UNKNOWN_PROVIDER_ID,
                note: how.clone(),
            };
        }
    };
    if let (Some(other), Some(id)) = (&observed.taken_by, &facts.provider_id) {
        return refuse(
            reasons::AMBIGUOUS_INSTANCE,
            &format!(
                "Node {other} has the provider ID {id} already, and two Nodes cannot be one \
                 machine. Delete the Node that is wrong, or tell them apart in the machines file."
            ),
        );
    }
    match node_init::plan(node, facts) {
        Ok(plan) => Decision::Act(plan),
        Err(refusal) => Decision::Refuse {
            reason: refusal.reason(),
            note: refusal.to_string(),
        },
    }
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
    fn the_daemon_is_given_its_grace_and_no_longer() {
        let early = plan(&observed(true, known(Presence::Running), 10), &flags(30));
        assert_eq!(early, Decision::Wait(Duration::from_secs(20)));
        let due = plan(&observed(true, known(Presence::Running), 30), &flags(30));
        assert!(matches!(due, Decision::Act(plan) if plan.steps().len() == 2));
        let nobody = plan(&observed(true, known(Presence::Running), 0), &flags(0));
        assert!(matches!(nobody, Decision::Act(_)));
    }

    #[test]
    fn a_stopped_machine_is_initialised_all_the_same() {
        let decision = plan(&observed(true, known(Presence::Stopped), 0), &flags(0));
        assert!(matches!(decision, Decision::Act(_)));
    }

    #[test]
    fn nothing_uncertain_is_acted_on() {
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
