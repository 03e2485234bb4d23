use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use mooring_common::k8s::Slim;
use mooring_common::names::{cloudscale_annotations as keys, reasons};
use mooring_common::node_view::NodeView;
use serde_json::{Value, json};

use super::super::options::tests::{options, service};
use super::*;
use crate::cloud_provider::Attachment;
use crate::cloud_provider::load_balancers::{HealthTarget, Notice, Others};
use crate::clouds::cloudscale::load_balancers::Balancers;
use crate::engine::members::{MachineOf, selected};
use crate::engine::notices;
use crate::engine::pool::Member as _;

const FIRST: &str = "11111111-1864-4608-853a-0771b6885a3a";
const SECOND: &str = "22222222-1864-4608-853a-0771b6885a3a";

fn machine(node: &str, zone: &str, addresses: &[(&str, &str)]) -> MachineOf {
    let attachment = |(address, subnet): &(&str, &str)| Attachment {
        address: address.parse().unwrap(),
        subnet: (*subnet).to_owned(),
    };
    MachineOf {
        node: node.to_owned(),
        id: node.to_owned(),
        zone: Some(zone.to_owned()),
        attachments: addresses.iter().map(attachment).collect(),
    }
}

fn two() -> Vec<MachineOf> {
    vec![
        machine("n1", "rma1", &[("10.0.0.1", FIRST)]),
        machine("n2", "rma1", &[("10.0.0.2", FIRST)]),
    ]
}

/// What is asked for, and by which options.
struct Case {
    request: LoadBalancerRequest,
    options: Options,
    members: Members,
}

impl Case {
    fn of(annotations: &[(&str, &str)], spec: &Value, machines: Vec<MachineOf>) -> Self {
        let service = service(annotations, spec);
        let node = |name: &str| {
            let labels = json!({"name": name, "labels": {"host": name}});
            let node: Node = serde_json::from_value(json!({"metadata": labels})).unwrap();
            Arc::new(NodeView::slim(node))
        };
        Self {
            options: options(&service).unwrap(),
            request: LoadBalancerRequest {
                service: Arc::new(service),
                nodes: [node("n1"), node("n2")].into(),
                other_nodes: [].into(),
                others: Others::default(),
                cluster: Some("c".to_owned()),
                settle_time: std::time::Duration::from_secs(90),
                may_take_over: false,
                health: HealthTarget::default(),
                endpoints: None,
                secrets: crate::cloud_provider::secrets::Secrets::default(),
            },
            members: Members {
                found: machines,
                are_complete: true,
                ..Members::default()
            },
        }
    }

    fn desired(&self) -> Desired {
        desired(&self.request, &self.options, &self.members())
    }

    fn notices(&self) -> Vec<Notice> {
        let desired = self.desired();
        let members = self.members();
        notices::of::<Balancers>(&self.request, &self.options, &desired, &members, None)
    }

    /// Those of the Nodes that are selected, as the engine gives them.
    fn members(&self) -> Members {
        let subnets = &self.options.allowed_subnets;
        self.members.clone().for_nodes(&self.selected(), subnets)
    }

    fn selected(&self) -> Vec<Arc<NodeView>> {
        selected(&self.request.nodes, &self.options.node_selector)
    }

    fn reasons(&self) -> Vec<&'static str> {
        self.notices().iter().map(|notice| notice.reason).collect()
    }
}

fn wanted(annotations: &[(&str, &str)], spec: &Value, machines: Vec<MachineOf>) -> Desired {
    Case::of(annotations, spec, machines).desired()
}

#[test]
fn names_match_go_controller() {
    let spec = json!({"ports": [
        {"protocol": "UDP", "name": "FOO", "port": 53, "nodePort": 1},
        {"protocol": "TCP", "port": 80, "nodePort": 443},
    ]});
    let machines = vec![machine(
        "n1",
        "rma1",
        &[("10.0.0.1", FIRST), ("::1", FIRST)],
    )];
    let desired = wanted(&[], &spec, machines.clone());
    assert_eq!(desired.balancer.name, "k8s-service-deadbeef");
    let [udp, tcp] = desired.pools.as_slice() else {
        panic!("{desired:?}");
    };
    assert_eq!((&*udp.spec.name, &*tcp.spec.name), ("udp/FOO", "tcp"));
    assert_eq!(
        (&*udp.listener.name, &*tcp.listener.name),
        ("udp/53", "tcp/80")
    );
    assert_eq!(
        (&*tcp.members[0].name, &*tcp.members[1].name),
        ("10.0.0.1:443", "[::1]:443")
    );
    assert_eq!(
        wanted(&[(keys::NAME, "foo")], &spec, machines)
            .balancer
            .name,
        "foo"
    );
}

#[test]
fn zone_is_given_or_that_of_all_nodes() {
    let zone = |annotations: &[(&str, &str)], machines| {
        let desired = wanted(annotations, &json!({}), machines);
        (desired.balancer.zone, desired.zone_of_nodes)
    };
    let both = vec![machine("n1", "lpg1", &[]), machine("n2", "rma1", &[])];
    let said = Some("rma1".to_owned());
    assert_eq!(zone(&[], both.clone()), (None, None));
    assert_eq!(zone(&[(keys::ZONE, "rma1")], both), (said.clone(), None));
    assert_eq!(zone(&[], two()), (None, said));
    assert_eq!(zone(&[], Vec::new()), (None, None));
}

#[test]
fn each_port_has_pool_with_every_node() {
    let spec = json!({"ports": [
        {"protocol": "TCP", "name": "http", "port": 80, "nodePort": 30080},
        {"protocol": "TCP", "name": "https", "port": 443, "nodePort": 30443},
    ]});
    let desired = wanted(&[], &spec, two());
    assert_eq!(desired.balancer.flavor, "lb-standard");
    assert!(desired.balancer.vips.is_empty() && desired.members_are_complete);
    let names = [("tcp/http", 80, 30080), ("tcp/https", 443, 30443)];
    assert_eq!(desired.pools.len(), names.len());
    for (pool, (name, port, node_port)) in desired.pools.iter().zip(names) {
        assert_eq!((&*pool.spec.name, &*pool.spec.protocol), (name, "tcp"));
        assert_eq!(pool.spec.algorithm, "round_robin");
        assert_eq!(pool.listener.place(), ("tcp", port));
        assert_eq!((&*pool.monitor.kind, &pool.monitor.http), ("tcp", &None));
        let targets: Vec<_> = pool.members.iter().map(MemberSpec::target).collect();
        assert_eq!(targets, [("10.0.0.1", node_port), ("10.0.0.2", node_port)]);
        assert!(
            pool.members
                .iter()
                .all(|m| m.monitor_port == Some(node_port) && m.subnet == FIRST)
        );
    }
    let uid = ("mooring-service-uid".to_owned(), "deadbeef".to_owned());
    assert_eq!(
        desired.balancer.tags,
        [uid, ("mooring-cluster".to_owned(), "c".to_owned())].into()
    );
}

#[test]
fn udp_ports_ignore_protocol_annotations() {
    let udp = [
        (keys::MONITOR_TYPE, "udp-connect"),
        (keys::MONITOR_DELAY_S, "3"),
        (keys::MONITOR_TIMEOUT_S, "2"),
        (keys::POOL_PROTOCOL, "proxy"),
    ];
    let spec = json!({"ports": [
        {"protocol": "UDP", "name": "udp", "port": 53, "nodePort": 30053},
        {"protocol": "TCP", "name": "tcp", "port": 53, "nodePort": 30053},
    ]});
    let desired = wanted(&udp, &spec, two());
    let protocols = desired
        .pools
        .iter()
        .map(|p| (&*p.spec.protocol, &*p.listener.protocol));
    assert_eq!(
        protocols.collect::<Vec<_>>(),
        [("udp", "udp"), ("proxy", "tcp")]
    );
    for pool in &desired.pools {
        let monitor = &pool.monitor;
        assert_eq!(
            (&*monitor.kind, monitor.delay_s, monitor.timeout_s),
            ("udp-connect", Some(3), Some(2))
        );
    }
    assert!(Case::of(&udp, &spec, two()).reasons().is_empty());
    let told = Case::of(&[], &spec, two()).reasons();
    assert_eq!(told, [reasons::HEALTH_MONITOR_UNFIT]);
}

#[test]
fn members_come_from_allowed_subnets() {
    let machines = || {
        vec![
            machine("n1", "rma1", &[("10.0.1.1", FIRST), ("10.0.2.1", SECOND)]),
            machine("n2", "rma1", &[("10.0.1.2", FIRST), ("10.0.2.2", SECOND)]),
        ]
    };
    let addresses = |value: &str| {
        let desired = wanted(&[(keys::ALLOWED_SUBNETS, value)], &json!({}), machines());
        let members = desired.pools[0].members.iter();
        members
            .map(|member| member.address.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        addresses(""),
        ["10.0.1.1", "10.0.2.1", "10.0.1.2", "10.0.2.2"]
    );
    assert_eq!(
        addresses(&format!("\n\t\t[\"{FIRST}\"]")),
        ["10.0.1.1", "10.0.1.2"]
    );
    let other = r#"["33333333-1864-4608-853a-0771b6885a3a"]"#;
    assert!(addresses(other).is_empty());
    let case = Case::of(&[(keys::ALLOWED_SUBNETS, other)], &json!({}), machines());
    let notices = case.notices();
    assert_eq!(notices[0].reason, reasons::NO_MEMBER_ADDRESS);
    assert!(notices[0].note.contains("n1, n2") && notices[0].note.contains(keys::ALLOWED_SUBNETS));
}

#[test]
fn shared_address_is_one_member() {
    let twice = vec![
        machine("n1", "a", &[("10.0.0.1", FIRST)]),
        machine("n2", "a", &[("10.0.0.1", FIRST)]),
    ];
    assert_eq!(wanted(&[], &json!({}), twice).pools[0].members.len(), 1);
}

#[test]
fn local_policy_asks_kube_proxy() {
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000});
    let desired = wanted(&[(keys::MONITOR_TYPE, "ping")], &local, two());
    let pool = &desired.pools[0];
    assert!(
        pool.members
            .iter()
            .all(|member| member.monitor_port == Some(32000))
    );
    let http = pool.monitor.http.as_ref().unwrap();
    assert_eq!(
        (&*pool.monitor.kind, &*http.url_path, &*http.version),
        ("http", "/livez", "1.0")
    );
    assert_eq!((&*http.method, &http.host), ("GET", &None));
    let custom = [(keys::MONITOR_HTTP, r#"{"url_path": "/mine"}"#)];
    let case = Case::of(&custom, &local, two());
    let http = case.desired().pools.remove(0).monitor.http.unwrap();
    assert_eq!((&*http.url_path, &*http.version), ("/mine", "1.1"));
    assert_eq!(case.reasons(), [reasons::HEALTH_MONITOR_UNFIT]);
    let cluster = json!({"externalTrafficPolicy": "Cluster", "healthCheckNodePort": 32000});
    let pools = wanted(&[], &cluster, two()).pools;
    assert_eq!(pools[0].members[0].monitor_port, Some(30080));
}

#[test]
fn node_daemon_is_asked_about_service_or_node() {
    let daemon = |annotations: &[(&str, &str)], policy: &str| {
        let spec = json!({"externalTrafficPolicy": policy, "healthCheckNodePort": 32000});
        let mut case = Case::of(annotations, &spec, two());
        case.request.health = HealthTarget::NodeDaemon { port: 10266 };
        let pool = case.desired().pools.remove(0);
        let ports: BTreeSet<_> = pool.members.iter().filter_map(|m| m.monitor_port).collect();
        let http = pool.monitor.http.map(|http| (http.url_path, http.version));
        (ports, pool.monitor.kind, http, case.reasons())
    };
    let asked = |path: &str, reasons: &[&'static str]| {
        let http = Some((path.to_owned(), "1.0".to_owned()));
        ([10266].into(), "http".to_owned(), http, reasons.to_vec())
    };
    let of_service = "/services/default/web";
    assert_eq!(daemon(&[], "Local"), asked(of_service, &[]));
    assert_eq!(daemon(&[], "Cluster"), asked("/healthz", &[]));
    // Its `/livez` says nothing of endpoints, so that no other path may be asked.
    let custom = [(keys::MONITOR_HTTP, r#"{"url_path": "/livez"}"#)];
    let told = asked(of_service, &[reasons::HEALTH_MONITOR_UNFIT]);
    assert_eq!(daemon(&custom, "Local"), told);
    let (ports, kind, http, _) = daemon(&[(keys::MONITOR_TYPE, "ping")], "Cluster");
    assert_eq!((ports, &*kind, http), ([30080].into(), "ping", None));
}

#[test]
fn undescribed_http_has_cloud_defaults() {
    let desired = wanted(&[(keys::MONITOR_TYPE, "https")], &json!({}), two());
    assert_eq!(desired.pools[0].monitor.http, Some(HttpSpec::default()));
}

#[test]
fn missing_machines_are_ignorance_unless_none_is_selected() {
    assert!(!wanted(&[], &json!({}), Vec::new()).members_are_complete);
    let nobody = [(keys::NODE_SELECTOR, "nonexistent=value")];
    let case = Case::of(&nobody, &json!({}), Vec::new());
    assert!(case.desired().members_are_complete);
    let notices = case.notices();
    assert!(notices[0].by_provider && notices[0].reason == reasons::NO_VALID_NODES);
    assert!(notices[0].note.contains("nonexistent=value"));
    assert!(notices[0].note.contains(keys::NODE_SELECTOR));
    let one = Case::of(&[(keys::NODE_SELECTOR, "host in (n2)")], &json!({}), two());
    let chosen = one.selected();
    assert!(chosen.len() == 1 && chosen[0].name == "n2");
}

#[test]
fn reports_what_cloud_lacks() {
    let spec = json!({"sessionAffinity": "ClientIP"});
    assert_eq!(
        Case::of(&[], &spec, two()).reasons(),
        [reasons::UNSUPPORTED_FIELD]
    );
    let source = [(keys::POOL_ALGORITHM, "source_ip")];
    assert!(Case::of(&source, &spec, two()).reasons().is_empty());
}

#[test]
fn requests_only_usable_addresses() {
    let unmet = |annotations: &[(&str, &str)]| {
        let spec = json!({"loadBalancerIP": "203.0.113.9"});
        wanted(annotations, &spec, two()).unmet_address.is_some()
    };
    assert!(unmet(&[]));
    assert!(!unmet(&[(keys::FLOATING_IPS, r#"["203.0.113.9/32"]"#)]));
    assert!(!unmet(&[(
        keys::VIP_ADDRESSES,
        r#"[{"address": "203.0.113.9"}]"#
    )]));
    assert!(unmet(&[(
        keys::VIP_ADDRESSES,
        r#"[{"address": "203.0.113.8"}]"#
    )]));
}
