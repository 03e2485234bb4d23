//! What is planned, in tables; the end state is compared each time.

mod certificates;
mod drains;
mod firewalls;
mod properties;
mod simulation;

use std::sync::Arc;
use std::time::Duration;

use mooring_common::engine::{Impact, Step as _};

use super::plan;
use crate::cloud_provider::Attachment;
use crate::cloud_provider::load_balancers::{
    HealthTarget, LoadBalancerRequest, Others, ReconcileError,
};
use crate::cloud_provider::secrets::{ReadSecret, Secrets};
use crate::clouds::linode::api::node_balancers::NodeBalancer;
use crate::clouds::linode::load_balancers::NodeBalancers;
use crate::clouds::linode::load_balancers::desired::{Desired, desired};
use crate::clouds::linode::load_balancers::model::FirewallWish;
use crate::clouds::linode::load_balancers::observed::{Config, Observed};
use crate::clouds::linode::load_balancers::options::tests::{read, service, settings};
use crate::clouds::linode::load_balancers::step::Step;
use crate::engine::members::{MachineOf, Members};
use crate::engine::provider::Provider as _;
use crate::views::service_view::ServiceView;
use serde_json::{Value, json};
use simulation::{OWN, Simulation, built};

/// What a Service with these ports and annotations is to have on Nodes at 192.168.128.…
fn wanted(ports: &str, annotations: &[(&str, &str)], hosts: &[u8]) -> Desired {
    with_secrets(ports, annotations, hosts, Secrets::default())
}

fn with_secrets(
    ports: &str,
    annotations: &[(&str, &str)],
    hosts: &[u8],
    secrets: Secrets,
) -> Desired {
    let service = service(ports, annotations);
    let (options, _) = read(&service, &settings()).unwrap();
    let machine = |host: &u8| MachineOf {
        node: format!("node-{host}"),
        id: format!("m{host}"),
        zone: None,
        attachments: vec![Attachment {
            address: std::net::IpAddr::from([192, 168, 128, *host]),
            subnet: String::new(),
        }],
    };
    let members = Members {
        found: hosts.iter().map(machine).collect(),
        are_complete: true,
        ..Members::default()
    };
    desired(&request(service, secrets), &options, &members)
}

fn request(service: ServiceView, secrets: Secrets) -> LoadBalancerRequest {
    LoadBalancerRequest {
        service: Arc::new(service),
        nodes: [].into(),
        other_nodes: [].into(),
        others: Others::default(),
        cluster: Some("prod".to_owned()),
        settle_time: Duration::from_secs(90),
        may_take_over: false,
        health: HealthTarget::default(),
        endpoints: None,
        secrets,
    }
}

/// A Service that goes to another class, or has named another NodeBalancer, is not deleted.
#[test]
fn reserved_address_is_kept_only_by_a_service_that_goes_on_with_another_nodebalancer() {
    let listed = json!({"id": 7, "label": "web", "ipv4": "198.51.100.1"});
    let listed: NodeBalancer = serde_json::from_value(listed).unwrap();
    let released = |annotations: &[(&str, &str)]| {
        let request = request(service(PORTS, annotations), Secrets::default());
        let steps = NodeBalancers::removal(&request, &listed);
        match steps.as_slice() {
            [Step::DeleteBalancer { release, .. }] => release.is_some(),
            other => panic!("{other:?}"),
        }
    };
    let given_up = ("retain-reserved-ipv4", "false");
    assert!(released(&[given_up]));
    assert!(released(&[given_up, ("nodebalancer-id", "7")]));
    assert!(!released(&[given_up, ("nodebalancer-id", "8")]));
    assert!(!released(&[]));
}

/// The steps as texts; the state after them is checked, and that all is done then.
fn steps(desired: &Desired, observed: &Observed) -> Vec<String> {
    steps_with(desired, observed, [OWN])
}

fn steps_with(
    desired: &Desired,
    observed: &Observed,
    ours: impl IntoIterator<Item = u64>,
) -> Vec<String> {
    let steps = plan(desired, Some(observed)).unwrap();
    let mut simulation = Simulation::of(observed.clone(), ours);
    steps.steps().iter().for_each(|step| simulation.take(step));
    let after = &simulation.observed;
    let rest = plan(desired, Some(after)).unwrap();
    assert!(rest.is_empty(), "{steps}\n{rest}\n{after:#?}");
    steps.steps().iter().map(text).collect()
}

fn text(step: &Step) -> String {
    match step.impact() {
        Impact::None => step.to_string(),
        impact => format!("{step}: {impact}"),
    }
}

/// Nobody knows what there is then, and to write it again would not show it either.
#[test]
fn what_an_answer_omits_is_no_difference() {
    let checked = [("check-type", "http_body"), ("check-body", "ok")];
    let http = [("port-80", r#"{"protocol": "http"}"#)];
    let connection = [("check-type", "connection")];
    for (ports, annotations) in [
        ("tcp/80", &checked[..]),
        ("tcp/80", &http),
        ("udp/53", &connection),
    ] {
        let desired = wanted(ports, annotations, &[1]);
        let steps = |field: &str, value: Option<Value>| {
            let mut observed = built(&desired);
            let mut shown = json!(observed.configs[0].part.spec);
            shown["id"] = json!(5);
            let fields = shown.as_object_mut().unwrap();
            fields.remove(field);
            fields.extend(value.map(|value| (field.to_owned(), value)));
            let read: Config = serde_json::from_value(shown).unwrap();
            observed.configs[0].part.spec = read.part.spec;
            steps(&desired, &observed)
        };
        let wanted = json!(desired.configs[0].spec);
        let told = wanted.as_object().unwrap().iter();
        let is_told = |(field, value): &(&String, &Value)| {
            let tells_places_apart = *field == "port" || *field == "protocol" && ports == "udp/53";
            !value.is_null() && !tells_places_apart
        };
        for (field, value) in told.filter(is_told) {
            let another = match value {
                Value::Bool(is) => json!(!is),
                Value::Number(_) => json!(77),
                _ => json!("another"),
            };
            assert_eq!(steps(field, Some(another)).len(), 1, "{field}");
            for nothing in [None, Some(Value::Null)] {
                assert!(steps(field, nothing).is_empty(), "{field}");
            }
        }
    }
}

fn refusal(desired: &Desired, observed: Option<&Observed>) -> String {
    match plan(desired, observed) {
        Err(ReconcileError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

const PORTS: &str = "tcp/80 udp/53";

#[test]
fn new_nodebalancer_is_made_with_all_its_parts() {
    let acl = r#"{"allowList": {"ipv4": ["192.0.2.0/24"]}}"#;
    let annotations = [("nodebalancer-type", "premium"), ("firewall-acl", acl)];
    let all = plan(&wanted(PORTS, &annotations, &[1, 2]), None).unwrap();
    let [Step::CreateBalancer(new)] = all.steps() else {
        panic!("{all}");
    };
    assert_eq!(
        new.to_string(),
        "create NodeBalancer ccm-0123456789ab of type premium in region us-ord: tcp/80, udp/53, 4 nodes, with a \
         firewall ccm-0123456789ab of its own"
    );
    let marks = ["k8s-service-deadbeef", "k8s-cluster-prod"];
    assert_eq!(new.spec.tags, marks);
    let FirewallWish::Own(firewall) = &new.firewall else {
        panic!("{all}");
    };
    assert_eq!(firewall.tags, marks);
    let node = |config: usize, node: usize| {
        let node = &new.configs[config].1[node];
        (
            node.label.as_str(),
            node.address.as_str(),
            node.mode.as_deref(),
        )
    };
    assert_eq!(
        node(0, 1),
        ("node-2", "192.168.128.2:30080", Some("accept"))
    );
    assert_eq!(node(1, 0), ("node-1", "192.168.128.1:30053", None));
    let named = plan(&wanted("tcp/80", &[("firewall-id", "7")], &[1]), None).unwrap();
    assert!(named.to_string().contains(", with firewall 7"), "{named}");
}

#[test]
fn labels_of_nodes_are_within_what_linode_takes() {
    let long = format!("{}.example", "n".repeat(40));
    for (name, expected) in [
        ("a", "node-a"),
        ("ab", "node-ab"),
        ("abc", "abc"),
        (&"n".repeat(32), &"n".repeat(32)),
    ] {
        let label = super::super::desired::node_label(name);
        assert_eq!(label, expected);
    }
    let one = super::super::desired::node_label(&long);
    let other = super::super::desired::node_label(&format!("{long}2"));
    assert!(
        one.len() == 32 && one.starts_with("nnn") && one != other,
        "{one} {other}"
    );
}

#[test]
fn nothing_to_do_is_an_empty_plan() {
    let acl = r#"{"denyList": {"ipv4": ["192.0.2.0/24"]}}"#;
    for annotations in [
        &[][..],
        &[
            ("default-protocol", "http"),
            ("check-type", "http_body"),
            ("check-body", "ok"),
        ],
        &[("throttle", "3"), ("tags", "b,a")],
        &[("firewall-id", "7")],
        &[("firewall-acl", acl)],
        &[
            ("nodebalancer-type", "premium"),
            ("reserved-ipv4", "192.0.2.1"),
        ],
    ] {
        let desired = wanted(PORTS.split(' ').next().unwrap(), annotations, &[1, 2]);
        let mut observed = built(&desired);
        observed.balancer.tags.reverse();
        assert!(
            plan(&desired, Some(&observed)).unwrap().is_empty(),
            "{annotations:?}"
        );
        // What cannot be changed is told, and changes nothing.
        observed.balancer.kind = Some("premium_40gb".to_owned());
        observed.balancer.ipv4 = Some("203.0.113.8".to_owned());
        assert!(
            plan(&desired, Some(&observed)).unwrap().is_empty(),
            "{annotations:?}"
        );
    }
    let desired = wanted(PORTS, &[], &[1, 2]);
    let mut observed = built(&desired);
    for node in observed
        .configs
        .iter_mut()
        .flat_map(|config| &mut config.nodes)
    {
        "renamed".clone_into(&mut node.spec.label);
        node.spec.weight = 1;
    }
    assert!(steps(&desired, &observed).is_empty());
}

/// Each row: annotations before, annotations now, and the only step.
#[test]
fn each_difference_is_one_step_with_its_impact() {
    let http = ("default-protocol", "http");
    let check = ("check-type", "http");
    for (before, now, expected) in [
        (
            &[][..],
            &[http][..],
            "set protocol to http, stickiness to table of config http/80 (c0): considerable",
        ),
        (
            &[http],
            &[],
            "set protocol to tcp of config tcp/80 (c0): considerable",
        ),
        (
            &[],
            &[("default-proxy-protocol", "v2")],
            "set proxy protocol to v2 of config tcp/80 (c0): considerable",
        ),
        (
            &[],
            &[("default-algorithm", "source")],
            "set algorithm to source of config tcp/80 (c0)",
        ),
        (
            &[http],
            &[http, ("default-stickiness", "none")],
            "set stickiness to none of config http/80 (c0)",
        ),
        (
            &[],
            &[check],
            "set check to http, check path to / of config tcp/80 (c0)",
        ),
        (
            &[check],
            &[check, ("check-path", "/live")],
            "set check path to /live of config tcp/80 (c0)",
        ),
        (
            &[check],
            &[("check-type", "http_body"), ("check-body", "ok")],
            "set check to http_body, check body to ok of config tcp/80 (c0)",
        ),
        (
            &[],
            &[("check-interval", "9")],
            "set check interval to 9 of config tcp/80 (c0)",
        ),
        (
            &[],
            &[("check-timeout", "4")],
            "set check timeout to 4 of config tcp/80 (c0)",
        ),
        (
            &[],
            &[("check-attempts", "9")],
            "set check attempts to 9 of config tcp/80 (c0)",
        ),
        (
            &[],
            &[("check-passive", "false")],
            "set passive check to false of config tcp/80 (c0)",
        ),
        (
            &[],
            &[("check-type", "none"), ("check-interval", "9")],
            "set check to none of config tcp/80 (c0)",
        ),
        (
            &[],
            &[("throttle", "3")],
            "set the connection throttle to 3 of the NodeBalancer",
        ),
        (
            &[],
            &[("tags", "web")],
            "set tags to web, k8s-service-deadbeef, k8s-cluster-prod of the NodeBalancer",
        ),
        (
            &[("tags", "web")],
            &[],
            "set tags to k8s-service-deadbeef, k8s-cluster-prod of the NodeBalancer",
        ),
        (
            &[],
            &[("throttle", "3"), ("tags", "web")],
            "set the connection throttle to 3 and tags to web, k8s-service-deadbeef, k8s-cluster-prod of the NodeBalancer",
        ),
    ] {
        let desired = wanted("tcp/80", now, &[1]);
        let observed = built(&wanted("tcp/80", before, &[1]));
        assert_eq!(steps(&desired, &observed), [expected], "{before:?} {now:?}");
    }
    let udp = |annotations: &[_]| wanted("udp/53", annotations, &[1]);
    assert_eq!(
        steps(&udp(&[("udp-check-port", "81")]), &built(&udp(&[]))),
        ["set UDP check port to 81 of config udp/53 (c0)"]
    );
}

/// All others are left as they are.
#[test]
fn ports_come_and_go_by_themselves() {
    for (before, now, expected) in [
        (
            "tcp/80",
            "tcp/80 tcp/443",
            &["create config tcp/443", "give config tcp/443 2 nodes"][..],
        ),
        ("tcp/80 tcp/443", "tcp/80", &["delete config tcp/443 (c1)"]),
        (
            "tcp/80 tcp/443",
            "tcp/80 tcp/444",
            &[
                "create config tcp/444",
                "give config tcp/444 2 nodes",
                "delete config tcp/443 (c1)",
            ],
        ),
        (
            "tcp/53",
            "tcp/53 udp/53",
            &["create config udp/53", "give config udp/53 2 nodes"],
        ),
        (
            "tcp/53",
            "udp/53",
            &[
                "create config udp/53",
                "give config udp/53 2 nodes",
                "delete config tcp/53 (c0)",
            ],
        ),
        (
            "tcp/1 tcp/2",
            "tcp/2 tcp/3 tcp/4",
            &[
                "create config tcp/3",
                "give config tcp/3 2 nodes",
                "create config tcp/4",
                "give config tcp/4 2 nodes",
                "delete config tcp/1 (c0)",
            ],
        ),
    ] {
        let desired = wanted(now, &[], &[1, 2]);
        let observed = built(&wanted(before, &[], &[1, 2]));
        assert_eq!(steps(&desired, &observed), expected, "{before} {now}");
    }
}

#[test]
fn nodes_that_stay_are_not_touched() {
    let of = |hosts: &[u8]| wanted("tcp/80", &[], hosts);
    for (before, now, expected) in [
        (
            &[1][..],
            &[1, 2][..],
            &["add node node-2 (192.168.128.2:30080) to config c0"][..],
        ),
        (
            &[1, 2],
            &[2],
            &["take node node-1 (192.168.128.1:30080) out of config c0"],
        ),
        (
            &[1],
            &[2],
            &[
                "add node node-2 (192.168.128.2:30080) to config c0",
                "take node node-1 (192.168.128.1:30080) out of config c0",
            ],
        ),
        (
            &[],
            &[1],
            &["add node node-1 (192.168.128.1:30080) to config c0"],
        ),
    ] {
        assert_eq!(
            steps(&of(now), &built(&of(before))),
            expected,
            "{before:?} {now:?}"
        );
    }
    // One that is wanted accepts, whoever has changed that.
    let desired = of(&[1, 2]);
    let mut observed = built(&desired);
    observed.configs[0].nodes[1].spec.mode = Some("reject".to_owned());
    assert_eq!(
        steps(&desired, &observed),
        ["set mode to accept of node node-2 (192.168.128.2:30080) of config c0"]
    );
}

#[test]
fn nothing_leaves_while_nodes_are_unknown() {
    let of = |hosts: &[u8]| wanted("tcp/80", &[], hosts);
    for (hosts, expected) in [
        (&[][..], &[][..]),
        (&[2], &[]),
        (
            &[3],
            &["add node node-3 (192.168.128.3:30080) to config c0"],
        ),
    ] {
        let mut desired = of(hosts);
        desired.members_are_complete = false;
        assert_eq!(steps(&desired, &built(&of(&[1, 2]))), expected, "{hosts:?}");
    }
}

#[test]
fn without_any_node_nothing_is_done() {
    let mut desired = wanted(PORTS, &[("throttle", "3")], &[]);
    let observed = built(&wanted(PORTS, &[], &[1]));
    let words = "no nodes available for nodebalancer";
    assert!(refusal(&desired, Some(&observed)).contains(words));
    assert!(refusal(&desired, None).contains(words));
    // One that serves nothing is not made, although its nodes may be known later.
    desired.members_are_complete = false;
    assert!(refusal(&desired, None).contains(words));
    assert!(plan(&desired, Some(&observed)).is_ok());
}

/// Taking over what is right already writes nothing.
#[test]
fn adopted_one_is_marked_before_anything_else_is_done() {
    let desired = wanted("tcp/80", &[], &[1]);
    let marks = "set tags to k8s-service-deadbeef, k8s-cluster-prod of the NodeBalancer";
    let mut observed = built(&desired);
    observed.balancer.tags.clear();
    assert!(steps(&desired, &observed).is_empty());
    let more = wanted("tcp/80", &[], &[1, 2]);
    assert_eq!(
        steps(&more, &observed),
        [marks, "add node node-2 (192.168.128.2:30080) to config c0"]
    );
    let throttled = wanted("tcp/80", &[("throttle", "3")], &[1]);
    assert_eq!(
        steps(&throttled, &observed),
        [
            "set the connection throttle to 3 and tags to k8s-service-deadbeef, k8s-cluster-prod of the NodeBalancer"
        ]
    );
    observed.balancer.tags = vec!["kubernetes".to_owned()];
    assert_eq!(steps(&desired, &observed), [marks]);
}
