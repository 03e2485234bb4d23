//! What to write on the own Node. Pure.

use mooring_common::engine::Plan;
use mooring_common::names::annotations;
use mooring_common::node_init::{self, NodeStep};

use super::metadata::Completeness;
use super::observe::Observed;

/// What a pass comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Take these steps; none: all is well.
    Act(Plan<NodeStep>),
    /// There is nothing to do until the Node changes.
    Wait(String),
    /// Leave it alone for now (to central, or as it is), and look again after the usual period:
    /// what the source says may change without the Node changing.
    Leave(String),
    /// Ask the source again.
    Retry { note: String },
    /// Leave it alone, and say why.
    Refuse { reason: &'static str, note: String },
}

pub(super) fn plan(observed: &Observed) -> Decision {
    let node = &observed.node;
    if node.deleting {
        return Decision::Wait("the Node is being deleted".to_owned());
    }
    let answer = match observed.machine.as_ref() {
        Ok(answer) => answer,
        Err(error) if error.is_retryable() => {
            return Decision::Retry {
                note: error.to_string(),
            };
        }
        Err(error) if node.is_uninitialized() => {
            return Decision::Refuse {
                reason: error.reason(),
                note: error.to_string(),
            };
        }
        Err(error) => return Decision::Leave(error.to_string()),
    };
    if !node.is_uninitialized() && node.annotation(annotations::CORRECTED_BY_CENTRAL).is_some() {
        return Decision::Leave("central has corrected what was known here".to_owned());
    }
    let planned = match &answer.completeness {
        Completeness::Whole => {
            node_init::plan(node, &answer.facts).map(|plan| node_init::without_note(node, plan))
        }
        Completeness::Partial { missing } => {
            node_init::plan_partly(node, &answer.facts, &missing.join(" and "))
        }
    };
    match planned {
        Ok(plan) => Decision::Act(plan),
        Err(refusal) => Decision::Refuse {
            reason: refusal.reason(),
            note: refusal.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mooring_common::k8s::Slim;
    use mooring_common::node_addresses::{AddressType, NodeAddress};
    use mooring_common::node_facts::NodeFacts;
    use mooring_common::node_view::NodeView;
    use serde_json::json;

    use super::*;
    use crate::report::metadata::{MetadataError, SourceAnswer};

    fn observed(machine: Result<SourceAnswer, MetadataError>) -> Observed {
        let key = "node.cloudprovider.kubernetes.io/uninitialized";
        let node = json!({
            "metadata": {"name": "n1", "uid": "u"},
            "spec": {"taints": [{"key": key, "effect": "NoSchedule"}]},
        });
        let node = NodeView::slim(serde_json::from_value(node).unwrap());
        Observed {
            node,
            machine: Arc::new(machine),
        }
    }

    fn facts() -> NodeFacts {
        NodeFacts {
            provider_id: Some("cloudlycke://n1".parse().unwrap()),
            addresses: vec![NodeAddress::new(AddressType::InternalIP, "10.0.0.1")],
            ..NodeFacts::default()
        }
    }

    #[test]
    fn partial_facts_are_left_to_central() {
        let whole = plan(&observed(Ok(SourceAnswer::of(facts()))));
        assert!(matches!(whole, Decision::Act(plan) if plan.steps().len() == 2));
        for partial in [
            NodeFacts {
                provider_id: None,
                ..facts()
            },
            NodeFacts {
                addresses: vec![],
                ..facts()
            },
        ] {
            let decision = plan(&observed(Ok(SourceAnswer::of(partial))));
            let Decision::Act(plan) = decision else {
                panic!("{decision:?}")
            };
            assert!(matches!(plan.steps(), [NodeStep::Describe(_)]), "{plan}");
        }
    }

    #[test]
    fn leaves_corrections_of_central_alone() {
        let mut corrected = observed(Ok(SourceAnswer::of(facts())));
        let key = annotations::CORRECTED_BY_CENTRAL.to_owned();
        corrected.node.annotations = Some([(key, "addresses".to_owned())].into());
        assert!(matches!(plan(&corrected), Decision::Act(_)), "a new Node");
        corrected.node.taints.clear();
        let decision = plan(&corrected);
        assert!(matches!(decision, Decision::Leave(_)), "{decision:?}");
    }

    #[test]
    fn error_writes_nothing() {
        let missing = Err(MetadataError::NoMachinesFile);
        assert!(matches!(plan(&observed(missing)), Decision::Refuse { .. }));
        let unreadable = Err(MetadataError::Read {
            path: "/x".into(),
            source: std::io::Error::other("x"),
        });
        let decision = plan(&observed(unreadable));
        assert!(
            matches!(&decision, Decision::Retry { note } if note.contains("/x")),
            "{decision:?}"
        );
    }

    #[test]
    fn stops_only_for_node_being_deleted() {
        let mut initialised = observed(Err(MetadataError::NoMachinesFile));
        initialised.node.taints.clear();
        let decision = plan(&initialised);
        assert!(matches!(decision, Decision::Leave(_)), "{decision:?}");
        initialised.node.deleting = true;
        let decision = plan(&initialised);
        assert!(matches!(decision, Decision::Wait(_)), "{decision:?}");
    }
}
