//! brightbox.md 1.2 and 7.3: what follows from options and Nodes, in tables.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::options::tests::{NAME, read, service};
use super::*;
use crate::cloud_provider::load_balancers::{HealthTarget, Others};
use crate::cloud_provider::secrets::Secrets;
use crate::engine::members::MachineOf;

/// What a Service is to have on these servers.
pub(in super::super) fn wanted(
    ports: &str,
    annotations: &[(&str, &str)],
    spec: &Value,
    servers: &[&str],
) -> Desired {
    asked(ports, annotations, spec, servers, HealthTarget::default())
}

fn asked(
    ports: &str,
    annotations: &[(&str, &str)],
    spec: &Value,
    servers: &[&str],
    health: HealthTarget,
) -> Desired {
    let service = service(ports, annotations, spec);
    let (options, _) = read(&service).unwrap();
    let machine = |server: &&str| MachineOf {
        node: (*server).to_owned(),
        id: (*server).to_owned(),
        zone: None,
        attachments: Vec::new(),
    };
    let members = Members {
        found: servers.iter().map(machine).collect(),
        are_complete: true,
        ..Members::default()
    };
    let request = LoadBalancerRequest {
        service: Arc::new(service),
        nodes: [].into(),
        other_nodes: [].into(),
        others: Others::default(),
        cluster: Some("prod".to_owned()),
        settle_time: Duration::from_secs(90),
        may_take_over: false,
        health,
        endpoints: None,
        secrets: Secrets::default(),
    };
    desired(&request, &options, &members)
}

fn local() -> Value {
    json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32080})
}

#[test]
fn health_check_follows_protocol_and_traffic_policy() {
    let none = json!({});
    for (annotations, spec, expected) in [
        (&[][..], &none, "http 30443 /healthz"),
        (&[("listener-protocol", "tcp")], &none, "tcp 30443 /"),
        (
            &[
                ("listener-protocol", "tcp"),
                ("healthcheck-protocol", "http"),
            ],
            &none,
            "http 30443 /healthz",
        ),
        (&[], &local(), "http 32080 /healthz"),
        (
            &[("listener-protocol", "tcp")],
            &local(),
            "http 32080 /healthz",
        ),
        (&[("healthcheck-protocol", "tcp")], &local(), "tcp 32080 /"),
        (&[("healthcheck-request", "/x")], &none, "http 30443 /x"),
        (&[("healthcheck-request", "")], &none, "http 30443 "),
    ] {
        let check = wanted("443 80", annotations, spec, &[]).check;
        let request = check.request.unwrap_or_default();
        let shown = format!("{} {} {request}", check.kind, check.port);
        assert_eq!(shown, expected, "{annotations:?} {spec}");
    }
}

#[test]
fn node_daemon_is_asked_unless_the_service_says_otherwise() {
    let by_daemon = |annotations| {
        let health = HealthTarget::NodeDaemon { port: 10256 };
        let desired = asked("80", annotations, &json!({}), &[], health);
        (
            desired.check.port,
            desired.rules[0].destination_port.clone(),
        )
    };
    assert_eq!(by_daemon(&[]), (10256, "30080,10256".to_owned()));
    assert_eq!(
        by_daemon(&[("healthcheck-request", "/x")]),
        (30080, "30080".to_owned())
    );
}

#[test]
fn rules_have_fifteen_ports_at_most_and_let_load_balancers_in() {
    let shown = |ports: &str, spec: &Value| -> Vec<String> {
        let rules = wanted(ports, &[], spec, &[]).rules;
        let shown = rules.iter().map(|rule| {
            format!(
                "{} {} {}",
                rule.source, rule.destination_port, rule.description
            )
        });
        shown.collect()
    };
    assert_eq!(
        shown("443 80", &local()),
        [format!("10.0.0.0/8 30443,30080,32080 {NAME}")]
    );
    let many: Vec<String> = (1..=16).map(|port: u16| port.to_string()).collect();
    let rules = shown(&many.join(" "), &json!({}));
    assert_eq!(rules.len(), 2);
    assert_eq!(rules[1], format!("10.0.0.0/8 30016 {NAME}"));
    // Nobody would be served through the load balancer if they were let in instead of it.
    let ranges = json!({"loadBalancerSourceRanges": ["192.0.2.0/24", "2001:db8::/32"]});
    assert_eq!(shown("80", &ranges), [format!("10.0.0.0/8 30080 {NAME}")]);
}

#[test]
fn listeners_are_in_the_order_of_the_ports() {
    let annotations = [
        ("listener-idle-timeout", "4294967"),
        ("listener-proxy-protocol", "v2-ssl"),
    ];
    let desired = wanted("443 80", &annotations, &json!({}), &["srv-b", "srv-a"]);
    let listener = |protocol: &str, port| Listener {
        protocol: protocol.to_owned(),
        port,
        target: 30000 + port,
        timeout: Some(4_294_967),
        proxy_protocol: Some("v2-ssl".to_owned()),
    };
    assert_eq!(
        desired.listeners,
        [listener("https", 443), listener("http", 80)]
    );
    assert_eq!(
        desired.servers.iter().collect::<Vec<_>>(),
        ["srv-a", "srv-b"]
    );
    assert_eq!(desired.mark, "mooring.dev cluster=prod service=deadbeef");
}
