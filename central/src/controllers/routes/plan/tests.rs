use k8s_openapi::api::core::v1::Node;
use mooring_common::k8s::Slim as _;
use serde_json::json;

use super::*;

const CLUSTER: &str = "10.128.0.0/16";

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn machine(number: u32) -> ProviderId {
    format!("cloud://{number}").parse().unwrap()
}

fn route(number: u32, range: &str) -> Route {
    Route {
        machine: machine(number),
        destination: net(range),
    }
}

/// The Node of this machine; those with smaller numbers are older.
fn node(number: u32, cidrs: &[&str]) -> NodeRoutes {
    let node: Node = serde_json::from_value(json!({
        "metadata": { "name": format!("n{number}"), "uid": format!("u{number}") },
        "spec": { "podCIDRs": cidrs },
    }))
    .unwrap();
    NodeRoutes {
        node: Arc::new(NodeView::slim(node)),
        machine: machine(number),
        pod_cidrs: cidrs.iter().map(|cidr| net(cidr)).collect(),
    }
}

/// As a process that has just started sees it: it has seen what the Nodes have now, and nothing else.
fn observed(nodes: &[NodeRoutes], table: &[(u32, &[&str])]) -> Observed {
    let called_for = nodes.iter().flat_map(|one| {
        one.pod_cidrs.iter().map(|destination| {
            let (machine, destination) = (one.machine.clone(), *destination);
            let route = Route {
                machine,
                destination,
            };
            (route, one.node.name.clone())
        })
    });
    Observed {
        nodes: nodes.to_vec(),
        table: table
            .iter()
            .map(|(number, ranges)| (machine(*number), ranges.iter().map(|r| net(r)).collect()))
            .collect(),
        seen: called_for.collect(),
    }
}

fn planned(observed: &Observed, delete_orphans: bool) -> Decisions {
    let rules = Rules {
        cluster_cidrs: &[net(CLUSTER), net("fd00::/32")],
        delete_orphans,
        can_write: &|destination| matches!(destination, IpNet::V4(_)),
    };
    plan(observed, &rules)
}

fn steps(decisions: &Decisions) -> Vec<String> {
    let steps = decisions.plan.steps().iter();
    steps.map(ToString::to_string).collect()
}

#[test]
fn creates_what_is_lacking_and_nothing_else() {
    let nodes = [
        node(1, &["10.128.1.0/24"]),
        node(2, &["10.128.2.0/24"]),
        node(3, &["10.128.3.0/24"]),
        node(4, &[]),
    ];
    let table: [(u32, &[&str]); 4] = [
        (1, &["10.128.1.0/24", "192.168.0.0/24"]),
        (2, &["10.64.0.0/24"]),
        (3, &["10.128.0.0/22"]),
        (4, &[]),
    ];
    let decisions = planned(&observed(&nodes, &table), false);
    let expected = ["create the route 10.128.2.0/24 to cloud://2 for n2"];
    assert_eq!(steps(&decisions), expected);
    assert!(decisions.refused.is_empty() && decisions.unclaimed.is_empty());
}

/// Of each kind of range one: where it lies, who has called for it, and what else is there.
#[test]
fn deletes_only_what_is_provably_ours() {
    let nodes = [node(1, &["10.128.1.0/24"]), node(2, &["10.128.2.0/24"])];
    for (what, number, range, was_seen, goes, goes_if_asked) in [
        (
            "of a Node that is gone",
            9,
            "10.128.9.0/24",
            true,
            true,
            true,
        ),
        (
            "by hand, on no Node's machine",
            9,
            "10.128.9.0/24",
            false,
            false,
            false,
        ),
        (
            "of a Node before it registered again",
            1,
            "10.128.9.0/24",
            true,
            true,
            true,
        ),
        (
            "by hand, on a Node's machine",
            1,
            "10.128.9.0/24",
            false,
            false,
            true,
        ),
        (
            "called for, and outside",
            1,
            "10.64.9.0/24",
            true,
            false,
            false,
        ),
        (
            "around the cluster CIDR",
            1,
            "10.128.0.0/15",
            true,
            false,
            false,
        ),
        (
            "another Node's, on a Node's machine",
            1,
            "10.128.2.0/24",
            false,
            true,
            true,
        ),
        (
            "another Node's, called for",
            9,
            "10.128.2.0/24",
            true,
            true,
            true,
        ),
        (
            "another Node's, elsewhere",
            9,
            "10.128.2.0/24",
            false,
            false,
            false,
        ),
        (
            "around its own pod CIDR",
            1,
            "10.128.0.0/23",
            false,
            false,
            false,
        ),
        (
            "of a family that cannot be written",
            1,
            "fd00:0:1::/64",
            true,
            false,
            false,
        ),
    ] {
        let mut observed = observed(&nodes, &[(1, &["10.128.1.0/24"]), (2, &[])]);
        observed
            .table
            .entry(machine(number))
            .or_default()
            .push(net(range));
        if was_seen {
            observed
                .seen
                .insert(route(number, range), "before".to_owned());
        }
        let delete = format!("delete the route {}", route(number, range));
        for (asked, expected) in [(false, goes), (true, goes_if_asked)] {
            let steps = steps(&planned(&observed, asked));
            assert_eq!(
                steps.contains(&delete),
                expected,
                "{what}, asked: {asked}: {steps:?}"
            );
            let deletions = steps
                .iter()
                .filter(|step| step.starts_with("delete"))
                .count();
            assert_eq!(deletions, usize::from(expected), "{what}: {steps:?}");
        }
    }
}

#[test]
fn what_is_in_the_way_is_deleted_first_or_refused() {
    let nodes = [node(1, &["10.128.1.0/24"]), node(2, &["10.128.2.0/24"])];
    let table: [(u32, &[&str]); 3] = [(1, &["10.128.2.0/24"]), (2, &[]), (9, &["10.128.1.0/24"])];
    let decisions = planned(&observed(&nodes, &table), false);
    let expected = [
        "delete the route 10.128.2.0/24 to cloud://1",
        "create the route 10.128.2.0/24 to cloud://2 for n2",
    ];
    assert_eq!(steps(&decisions), expected);
    let [refused] = decisions.refused.as_slice() else {
        panic!("{decisions:?}")
    };
    let machine = machine(9);
    assert_eq!(refused.why, Refusal::Elsewhere { machine });
    assert_eq!(refused.route, route(1, "10.128.1.0/24"));
}

#[test]
fn refuses_what_the_cloud_cannot_have() {
    let nodes = [
        node(1, &["10.128.1.0/24", "fd00:0:1::/112"]),
        node(2, &["10.128.2.0/24", "fd00:0:2::/112"]),
        node(3, &["10.128.3.0/24"]),
        node(4, &["10.128.1.0/24"]),
    ];
    let table: [(u32, &[&str]); 3] = [(1, &["fd00:0:1::/64"]), (2, &["fd00:0:1::/64"]), (4, &[])];
    let decisions = planned(&observed(&nodes, &table), false);
    let refused = decisions.refused.iter();
    let refused: HashMap<String, &Refusal> = refused
        .map(|one| {
            (
                format!("{} {}", one.node.name, one.route.destination),
                &one.why,
            )
        })
        .collect();
    let by = "n1".to_owned();
    assert_eq!(
        refused.get("n4 10.128.1.0/24"),
        Some(&&Refusal::Claimed { by })
    );
    let family = Refusal::Unroutable(Unroutable::Family);
    assert_eq!(refused.get("n2 fd00:0:2::/112"), Some(&&family));
    let interface = Refusal::Unroutable(Unroutable::NoInterface);
    assert_eq!(refused.get("n3 10.128.3.0/24"), Some(&&interface));
    assert_eq!(refused.len(), 3, "{refused:?}");
    assert_eq!(steps(&decisions).len(), 2);
}

#[test]
fn conditions_are_written_where_they_differ() {
    let says = |one: NodeRoutes, says: Option<bool>| {
        let node = NodeView {
            network_unavailable: says,
            ..(*one.node).clone()
        };
        NodeRoutes {
            node: Arc::new(node),
            ..one
        }
    };
    let routed: &[&str] = &["10.128.1.0/24"];
    let nodes = [
        says(node(1, routed), None),
        says(node(2, routed), Some(false)),
        says(node(3, routed), Some(true)),
        says(node(4, &[]), None),
        says(node(5, &[]), Some(true)),
        says(node(6, routed), Some(false)),
    ];
    let observed = observed(&nodes, &[]);
    let changed = conditions(&observed, &HashSet::from(["u6".to_owned()]));
    let changed: Vec<(&str, bool)> = changed
        .iter()
        .map(|(node, is)| (&*node.name, *is))
        .collect();
    assert_eq!(
        changed,
        [("n1", false), ("n3", false), ("n4", true), ("n6", true)]
    );
}
