use super::*;
use crate::k8s::Slim;
use crate::node_addresses::AddressType;
use serde_json::json;

use super::description::Guarded;

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
            .map(|(k, v)| (k.into(), Some(v.into())))
            .into(),
        ..NodeFacts::default()
    }
}

#[test]
fn addresses_first_taint_last() {
    let plan = plan(&tainted(&json!({})), &facts()).unwrap();
    let [NodeStep::SetAddresses(_), NodeStep::Initialize(description)] = plan.steps() else {
        panic!("{plan}")
    };
    assert_eq!(description.provider_id.as_deref(), Some("cloudlycke://n1"));
    let keys: Vec<_> = description.labels.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "beta.kubernetes.io/instance-type",
            "failure-domain.beta.kubernetes.io/zone",
            "node.kubernetes.io/instance-type",
            "topology.kubernetes.io/zone"
        ]
    );
    let guarded: Vec<_> = description.guarded_labels.keys().collect();
    assert_eq!(guarded, ["rack"]);
    let owned = description.annotations.get("mooring.dev/owned-labels");
    assert_eq!(owned, Some(&Some("rack=r1".to_owned())));
}

/// The Node of [`facts`], initialised, with changes.
fn initialised(extra: &serde_json::Value) -> NodeView {
    let mut node = json!({
        "metadata": {
            "labels": {
                "mine": "kept",
                "rack": "r1",
                "node.kubernetes.io/instance-type": "vbox",
                "beta.kubernetes.io/instance-type": "vbox",
                "topology.kubernetes.io/zone": "laptop",
                "failure-domain.beta.kubernetes.io/zone": "laptop",
            },
            "annotations": {"mooring.dev/owned-labels": "rack=r1"},
        },
        "spec": {"taints": null, "providerID": "cloudlycke://n1"},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
    });
    json_patch::merge(&mut node, extra);
    tainted(&node)
}

fn description(node: &NodeView, facts: &NodeFacts) -> Description {
    let plan = plan(node, facts).unwrap();
    match plan.steps() {
        [] => Description::default(),
        [NodeStep::Describe(description)] => description.clone(),
        _ => panic!("{plan}"),
    }
}

fn some<'a>((key, value): (&'a str, &str)) -> (&'a str, Option<String>) {
    (key, Some(value.to_owned()))
}

fn map<V: Clone>(pairs: &[(&str, V)]) -> std::collections::BTreeMap<String, V> {
    let owned = |(key, value): &(&str, V)| ((*key).to_owned(), value.clone());
    pairs.iter().map(owned).collect()
}

#[test]
fn node_initialised_by_others_gets_addresses_only() {
    let node = tainted(&json!({"spec": {"taints": null}}));
    let plan = plan(&node, &facts()).unwrap();
    assert!(
        matches!(plan.steps(), [NodeStep::SetAddresses(_)]),
        "{plan}"
    );
}

#[test]
fn labels_follow_machine() {
    assert!(description(&initialised(&json!({})), &facts()).is_empty());
    let resized = NodeFacts {
        instance_type: Some("bigger".into()),
        ..facts()
    };
    let followed = description(&initialised(&json!({})), &resized).labels;
    let both = [
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
    ];
    assert_eq!(followed, map(&both.map(|key| (key, "bigger".to_owned()))));

    for edited in [json!("elsewhere"), json!(null)] {
        let labels = json!({"topology.kubernetes.io/zone": edited});
        let node = initialised(&json!({"metadata": {"labels": labels}}));
        let restored = description(&node, &facts()).labels;
        assert_eq!(
            restored,
            map(&[("topology.kubernetes.io/zone", "laptop".to_owned())])
        );
    }
}

#[test]
fn current_label_follows_older_one_without_cloud_fact() {
    let labels = json!({
        "topology.kubernetes.io/region": "new",
        "failure-domain.beta.kubernetes.io/region": "old",
    });
    let node = initialised(&json!({"metadata": {"labels": labels}}));
    let followed = description(&node, &facts()).labels;
    assert_eq!(
        followed,
        map(&[("topology.kubernetes.io/region", "old".to_owned())])
    );
}

#[test]
fn follows_additional_labels_only_while_owned() {
    let gold = |rack: &str| NodeFacts {
        additional_labels: map(&[("mine", "other"), ("rack", rack)].map(some)),
        ..facts()
    };
    let moved = description(&initialised(&json!({})), &gold("r2"));
    let guarded = Guarded {
        from: Some("r1".into()),
        to: Some("r2".into()),
    };
    assert_eq!(moved.guarded_labels, map(&[("rack", guarded)]));
    assert_eq!(
        moved.annotations,
        map(&[("mooring.dev/owned-labels", Some("rack=r2".to_owned()))])
    );

    let users = initialised(&json!({"metadata": {"labels": {"rack": "mine"}}}));
    let left = description(&users, &gold("r2"));
    assert!(left.guarded_labels.is_empty(), "{left}");
    assert_eq!(left.annotations, map(&[("mooring.dev/owned-labels", None)]));

    let none = NodeFacts {
        additional_labels: map(&[]),
        ..facts()
    };
    let taken_off = description(&initialised(&json!({})), &none);
    let guarded = Guarded {
        from: Some("r1".into()),
        to: None,
    };
    assert_eq!(taken_off.guarded_labels, map(&[("rack", guarded)]));
    assert!(description(&users, &none).guarded_labels.is_empty());
}

/// The daemon knows the machine's asset tag, and central never does: one must not undo the other's work.
#[test]
fn labels_that_cannot_be_known_stay() {
    let unsure = |more: &[(&str, Option<String>)]| NodeFacts {
        additional_labels: map(&[more, &[("rack", None), ("never-set", None)][..]].concat()),
        ..facts()
    };
    assert!(description(&initialised(&json!({})), &unsure(&[])).is_empty());
    let described = description(&initialised(&json!({})), &unsure(&[some(("row", "7"))]));
    let keys: Vec<_> = described.guarded_labels.keys().collect();
    assert_eq!(keys, ["row"]);
    let owned = described.annotations.get("mooring.dev/owned-labels");
    assert_eq!(owned, Some(&Some("rack=r1,row=7".to_owned())));

    let users = initialised(&json!({"metadata": {"labels": {"rack": "mine"}}}));
    let left = description(&users, &unsure(&[]));
    assert!(left.guarded_labels.is_empty(), "{left}");
    assert_eq!(left.annotations, map(&[("mooring.dev/owned-labels", None)]));
}

#[test]
fn owned_labels_note_cannot_remove_kubernetes_labels() {
    let key = "node-role.kubernetes.io/control-plane";
    let node = initialised(&json!({"metadata": {
        "labels": {key: "x"},
        "annotations": {"mooring.dev/owned-labels": format!("rack=r1,{key}=x,garbage")},
    }}));
    assert!(description(&node, &facts()).guarded_labels.is_empty());
}

#[test]
fn provider_fields_follow_the_cloud() {
    let linode = NodeFacts {
        provider_labels: map(&[("node.k8s.linode.com/host-uuid", "h2".to_owned())]),
        provider_annotations: map(&[("node.k8s.linode.com/private-ip", "10.0.0.1".to_owned())]),
        ..facts()
    };
    let node = initialised(&json!({"metadata": {
        "labels": {"node.k8s.linode.com/host-uuid": "h1"},
    }}));
    let followed = description(&node, &linode);
    assert_eq!(followed.labels, linode.provider_labels);
    assert_eq!(
        followed.annotations,
        map(&[(
            "node.k8s.linode.com/private-ip",
            Some("10.0.0.1".to_owned())
        )])
    );
}

#[test]
fn keeps_kubelet_addresses_drops_old_cloud_ones() {
    let linode = NodeFacts {
        keeps_reported_internal_ips: true,
        ..facts()
    };
    let internal = |ips: &[&str]| -> Vec<_> {
        ips.iter()
            .map(|ip| json!({"type": "InternalIP", "address": ip}))
            .collect()
    };
    let set = |node: &NodeView, facts: &NodeFacts| -> Vec<String> {
        match plan(node, facts).unwrap().steps().first() {
            Some(NodeStep::SetAddresses(all)) => all.iter().map(|a| a.address.clone()).collect(),
            _ => vec![],
        }
    };
    let fresh = tainted(&json!({"status": {"addresses": internal(&["172.16.0.9"])}}));
    assert_eq!(set(&fresh, &linode), ["10.0.0.1", "172.16.0.9"]);
    assert_eq!(set(&fresh, &facts()), ["10.0.0.1"]);
    let plan = plan(&fresh, &linode).unwrap();
    let Some(NodeStep::Initialize(description)) = plan.steps().last() else {
        panic!("{plan}")
    };
    let noted = description.annotations.get("mooring.dev/kubelet-addresses");
    assert_eq!(noted, Some(&Some("172.16.0.9".to_owned())));

    let taken_over =
        initialised(&json!({"status": {"addresses": internal(&["10.0.0.1", "172.16.0.9"])}}));
    let noted = super::plan(&taken_over, &linode).unwrap();
    let [NodeStep::Describe(description)] = noted.steps() else {
        panic!("{noted}")
    };
    let noted = description.annotations.get("mooring.dev/kubelet-addresses");
    assert_eq!(noted, Some(&Some("172.16.0.9".to_owned())));

    let moved = initialised(&json!({
        "metadata": {"annotations": {"mooring.dev/kubelet-addresses": "172.16.0.9"}},
        "status": {"addresses": internal(&["10.0.0.7", "172.16.0.9"])},
    }));
    assert_eq!(set(&moved, &linode), ["10.0.0.1", "172.16.0.9"]);
}

#[test]
fn partial_facts_keep_taint_and_name_missing_fields() {
    let partly = |node: &NodeView| plan_partly(node, &facts(), "the instance type").unwrap();
    let plan = partly(&tainted(&json!({})));
    let [NodeStep::Describe(description)] = plan.steps() else {
        panic!("{plan}")
    };
    assert_eq!(description.provider_id.as_deref(), Some("cloudlycke://n1"));
    assert_eq!(
        description.annotations.get("mooring.dev/left-to-central"),
        Some(&Some("the instance type".to_owned()))
    );
    let said = tainted(&json!({
        "metadata": {
            "labels": initialised(&json!({})).labels,
            "annotations": {
                "mooring.dev/left-to-central": "the instance type",
                "mooring.dev/owned-labels": "rack=r1",
            },
        },
        "spec": {"providerID": "cloudlycke://n1"},
    }));
    assert!(partly(&said).is_empty(), "nothing is said twice");
    let taken_back = |node: &NodeView| {
        let plan = without_note(node, super::plan(node, &facts()).unwrap());
        match plan.steps().last() {
            Some(NodeStep::Initialize(description) | NodeStep::Describe(description)) => {
                description
                    .annotations
                    .get("mooring.dev/left-to-central")
                    .cloned()
            }
            _ => None,
        }
    };
    assert_eq!(taken_back(&said), Some(None));
    let untainted = NodeView {
        taints: vec![],
        ..said
    };
    assert_eq!(taken_back(&untainted), Some(None));
    assert_eq!(taken_back(&initialised(&json!({}))), None);
    let other = tainted(&json!({"spec": {"providerID": "cloudlycke://n2"}}));
    assert!(plan_partly(&other, &facts(), "x").is_err());
}

/// As one that the Go controller has initialised: central goes by the note, and would wait otherwise.
#[test]
fn partial_facts_add_only_note_to_initialised_node() {
    let key = "mooring.dev/left-to-central";
    let partly = |node: &NodeView| plan_partly(node, &facts(), "an IP address").unwrap();
    let unlike = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "elsewhere"}}});
    let plan = partly(&initialised(&unlike));
    let [NodeStep::Describe(description)] = plan.steps() else {
        panic!("{plan}")
    };
    let noted = Description {
        annotations: map(&[(key, Some("an IP address".to_owned()))]),
        ..Description::default()
    };
    assert_eq!(*description, noted);
    for key in [key, "mooring.dev/corrected-by-central"] {
        let annotations = json!({"metadata": {"annotations": {key: "an IP address"}}});
        assert!(partly(&initialised(&annotations)).is_empty(), "{key}");
    }
}

#[test]
fn writes_nothing_twice() {
    let node = tainted(&json!({
        "spec": {"taints": null},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
    }));
    assert!(plan(&node, &facts()).unwrap().is_empty());
}

#[test]
fn rejects_impossible_facts() {
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
fn existing_provider_id_suffices() {
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
            Some(NodeStep::Initialize(Description {
                provider_id: None,
                ..
            }))
        ),
        "{plan}"
    );
}

#[test]
fn kubernetes_label_domains_are_reserved() {
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
fn repeated_scheme_is_no_conflict() {
    let node = tainted(&json!({"spec": {"providerID": "cloudlycke://cloudlycke://n1"}}));
    assert!(plan(&node, &facts()).is_ok());
}

#[test]
fn address_order_changes_only_when_chosen() {
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
fn foreign_addresses_trigger_no_immediate_pass() {
    let tainted = tainted(&json!({}));
    let old = NodeView {
        taints: vec![],
        ..tainted.clone()
    };
    let new = NodeView {
        addresses: facts().addresses,
        ..old.clone()
    };
    let at_once = Some(Duration::ZERO);
    assert_eq!(calls_for_a_look(Some(&old), Some(&new)), None);
    assert_eq!(calls_for_a_look(Some(&old), Some(&tainted)), at_once);
    assert_eq!(calls_for_a_look(None, Some(&new)), at_once);
    assert_eq!(calls_for_a_look(Some(&new), None), at_once);
    let relabelled = NodeView {
        labels: None,
        ..old.clone()
    };
    assert_eq!(calls_for_a_look(Some(&old), Some(&relabelled)), Some(SOON));
    let again = NodeView {
        uid: "u2".into(),
        ..new.clone()
    };
    assert_eq!(calls_for_a_look(Some(&new), Some(&again)), at_once);
}
