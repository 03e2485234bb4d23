use k8s_openapi::api::core::v1::Node;
use mooring_common::k8s::Slim as _;
use serde_json::json;

use super::super::observe::Applicant;
use super::*;

fn node(name: &str) -> Arc<NodeView> {
    let node: Node =
        serde_json::from_value(json!({ "metadata": { "name": name, "uid": name } })).unwrap();
    Arc::new(NodeView::slim(node))
}

fn taken(name: &str, cidrs: &[&str]) -> (Arc<NodeView>, Vec<IpNet>) {
    (
        node(name),
        cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
    )
}

fn applicant(name: &str, ipv6: Option<&str>) -> Applicant {
    Applicant {
        node: node(name),
        given: Vec::new(),
        ipv6: ipv6.map(|cidr| cidr.parse().unwrap()),
    }
}

fn planned(observed: &Observed) -> Decisions {
    plan(observed, Pool::new("10.0.0.0/22".parse().unwrap(), 24), 0)
}

fn given(decisions: &Decisions) -> Vec<String> {
    let steps = decisions.plan.steps().iter();
    steps.map(ToString::to_string).collect()
}

#[test]
fn nobody_gets_what_another_has_in_whichever_order() {
    let observed = Observed {
        taken: vec![
            taken("old", &["10.0.0.0/24", "fd00::/112"]),
            taken("v6-first", &["fd00:1::/112", "10.0.1.0/24"]),
        ],
        unseen: vec!["10.0.2.0/24".parse().unwrap()],
        applicants: vec![
            applicant("new", Some("fd00:2::/112")),
            applicant("late", None),
        ],
        ..Observed::default()
    };
    let decisions = planned(&observed);
    assert_eq!(
        given(&decisions),
        ["give new the pod CIDRs 10.0.3.0/24, fd00:2::/112"]
    );
    let exhausted: Vec<&str> = decisions.exhausted.iter().map(|node| &*node.name).collect();
    assert_eq!((exhausted, decisions.used), (vec!["late"], 4));
}

/// A patch whose outcome is not known is repeated as it was.
#[test]
fn what_was_given_stays_given() {
    let observed = Observed {
        unseen: vec!["10.0.2.0/24".parse().unwrap()],
        applicants: vec![
            Applicant {
                given: vec!["10.0.2.0/24".parse().unwrap()],
                ..applicant("again", None)
            },
            applicant("new", None),
        ],
        ..Observed::default()
    };
    let decisions = plan(&observed, Pool::new("10.0.0.0/22".parse().unwrap(), 24), 2);
    let expected = [
        "give again the pod CIDRs 10.0.2.0/24",
        "give new the pod CIDRs 10.0.3.0/24",
    ];
    assert_eq!(given(&decisions), expected);
}

#[test]
fn pod_cidrs_of_two_nodes_are_told_on_the_younger() {
    let observed = Observed {
        taken: vec![
            taken("old", &["10.0.0.0/24", "fd00::/112"]),
            taken("young", &["10.0.0.0/24"]),
        ],
        applicants: vec![applicant("same-machine", Some("fd00::/112"))],
        ..Observed::default()
    };
    let decisions = planned(&observed);
    let twice = decisions.twice.iter();
    let twice: Vec<String> = twice
        .map(|(node, cidr, owner)| format!("{} {cidr} {owner}", node.name))
        .collect();
    assert_eq!(
        twice,
        ["young 10.0.0.0/24 old", "same-machine fd00::/112 old"]
    );
    assert!(decisions.plan.is_empty());
    assert_eq!(
        decisions.used, 1,
        "nothing is taken for a Node that gets nothing"
    );
}
