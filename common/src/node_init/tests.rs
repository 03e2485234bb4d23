use super::*;
use crate::k8s::Slim;
use crate::node_addresses::AddressType;
use serde_json::json;

fn tainted(extra: &serde_json::Value) -> NodeView {
    let mut node = json!({
        "metadata": {"name": "n1", "uid": "u1", "labels": {"mine": "kept"}},
        "spec": {"taints": [
            {"key": "x", "effect": "NoExecute", "value": "1"},
            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"},
        ]},
    });
    json_patch::merge(&mut node, extra);
    NodeView::slim(serde_json::from_value(node).unwrap())
}

fn facts() -> NodeFacts {
    NodeFacts {
        provider_id: Some("cloudlycke://n1".parse().unwrap()),
        instance_type: Some("vbox".into()),
        zone: Some("laptop".into()),
        region: None,
        addresses: vec![NodeAddress::new(AddressType::InternalIP, "10.0.0.1")],
        additional_labels: [("mine", "other"), ("rack", "r1"), ("a.k8s.io/b", "x")]
            .map(|(k, v)| (k.into(), v.into()))
            .into(),
        ..NodeFacts::default()
    }
}

#[test]
fn addresses_come_first_and_the_taint_goes_last() {
    let plan = plan(&tainted(&json!({})), &facts()).unwrap();
    let [
        NodeStep::SetAddresses(_),
        NodeStep::Initialize {
            provider_id,
            labels,
            additional_labels,
        },
    ] = plan.steps()
    else {
        panic!("{plan}")
    };
    assert_eq!(provider_id.as_deref(), Some("cloudlycke://n1"));
    let keys: Vec<_> = labels.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "beta.kubernetes.io/instance-type",
            "failure-domain.beta.kubernetes.io/zone",
            "node.kubernetes.io/instance-type",
            "topology.kubernetes.io/zone"
        ]
    );
    assert_eq!(additional_labels.keys().collect::<Vec<_>>(), ["rack"]);
}

#[test]
fn an_initialised_node_gets_nothing_but_addresses() {
    let node = tainted(&json!({"spec": {"taints": null}}));
    let plan = plan(&node, &facts()).unwrap();
    assert!(
        matches!(plan.steps(), [NodeStep::SetAddresses(_)]),
        "{plan}"
    );
}

#[test]
fn nothing_is_written_twice() {
    let node = tainted(&json!({
        "spec": {"taints": null},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
    }));
    assert!(plan(&node, &facts()).unwrap().is_empty());
}

#[test]
fn what_cannot_be_right_is_refused() {
    let conflict = tainted(&json!({"spec": {"providerID": "cloudlycke://n2"}}));
    assert!(matches!(
        plan(&conflict, &facts()),
        Err(Refusal::ProviderIdConflict { .. })
    ));

    let nobody = NodeFacts {
        provider_id: None,
        ..facts()
    };
    assert_eq!(
        plan(&tainted(&json!({})), &nobody),
        Err(Refusal::NoProviderId)
    );

    let nowhere = NodeFacts {
        addresses: vec![],
        ..facts()
    };
    assert_eq!(
        plan(&tainted(&json!({})), &nowhere),
        Err(Refusal::NoAddresses)
    );

    let annotation = json!({"metadata": {"annotations": {
        "alpha.kubernetes.io/provided-node-ip": "10.9.9.9"}}});
    assert!(matches!(
        plan(&tainted(&annotation), &facts()),
        Err(Refusal::ProvidedNodeIp(_))
    ));
}

#[test]
fn a_provider_id_that_the_node_has_is_enough() {
    let node = tainted(&json!({"spec": {"providerID": "cloudlycke://n1"}}));
    let plan = plan(
        &node,
        &NodeFacts {
            provider_id: None,
            ..facts()
        },
    )
    .unwrap();
    assert!(
        matches!(
            plan.steps().last(),
            Some(NodeStep::Initialize {
                provider_id: None,
                ..
            })
        ),
        "{plan}"
    );
}

#[test]
fn kubernetes_own_label_domains_are_reserved() {
    for key in [
        "kubernetes.io/a",
        "k8s.io/a",
        "x.k8s.io/a",
        "node.kubernetes.io/a",
    ] {
        assert!(is_reserved(key), "{key}");
    }
    for key in ["a", "notk8s.io/a", "k8s.io.example.com/a", "mooring.dev/a"] {
        assert!(!is_reserved(key), "{key}");
    }
}

#[test]
fn a_scheme_written_twice_is_no_conflict() {
    let node = tainted(&json!({"spec": {"providerID": "cloudlycke://cloudlycke://n1"}}));
    assert!(plan(&node, &facts()).is_ok());
}

#[test]
fn another_order_is_written_only_where_somebody_has_chosen_it() {
    let two = NodeFacts {
        addresses: ["10.0.0.2", "10.0.0.1"]
            .map(|address| NodeAddress::new(AddressType::InternalIP, address))
            .into(),
        ..facts()
    };
    let other_order = json!([
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "InternalIP", "address": "10.0.0.2"},
    ]);
    let tainted = tainted(&json!({"status": {"addresses": other_order}}));
    assert_eq!(plan(&tainted, &two).unwrap().steps().len(), 2);
    let initialised = NodeView {
        taints: vec![],
        ..tainted
    };
    assert!(plan(&initialised, &two).unwrap().is_empty());
}

#[test]
fn foreign_addresses_call_for_no_look_at_once() {
    let tainted = tainted(&json!({}));
    let old = NodeView {
        taints: vec![],
        ..tainted.clone()
    };
    let new = NodeView {
        addresses: facts().addresses,
        ..old.clone()
    };
    assert!(!calls_for_a_look(Some(&old), Some(&new)));
    assert!(calls_for_a_look(Some(&old), Some(&tainted)));
    assert!(calls_for_a_look(None, Some(&new)));
    assert!(calls_for_a_look(Some(&new), None));
    let again = NodeView {
        uid: "u2".into(),
        ..new.clone()
    };
    assert!(calls_for_a_look(Some(&new), Some(&again)));
}
