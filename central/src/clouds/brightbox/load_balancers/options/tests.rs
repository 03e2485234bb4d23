//! brightbox.md 1 and 7.1: what each annotation does, in tables.

use k8s_openapi::api::core::v1::Service;
use mooring_common::k8s::Slim;
use serde_json::{Value, json};

use super::*;
use crate::cloud_provider::load_balancers::{InvalidField, Notice};

/// The name of what the Service of these tests has.
pub(in super::super) const NAME: &str = "web.default.kubernetes";

/// A Service with these ports (`80 443 tcp/53`), each with a name after its number, and annotations, the
/// beginning of their keys left out. `spec`: more of it.
pub(in super::super) fn service(
    ports: &str,
    annotations: &[(&str, &str)],
    spec: &Value,
) -> ServiceView {
    let key = |key: &str| match key.contains('/') {
        true => key.to_owned(),
        false => format!("{}{key}", keys::PREFIX),
    };
    let annotations = annotations
        .iter()
        .map(|(end, value)| (key(end), json!(value)));
    let annotations: serde_json::Map<String, Value> = annotations.collect();
    let port = |port: &str| {
        let (protocol, number) = port.split_once('/').unwrap_or(("tcp", port));
        let number: u16 = number.parse().unwrap();
        json!({
            "name": format!("p{number}"), "protocol": protocol.to_uppercase(), "port": number,
            "nodePort": 30000 + u32::from(number),
        })
    };
    let ports: Vec<Value> = ports.split_whitespace().map(port).collect();
    let mut service = json!({
        "metadata": {"namespace": "default", "name": "web", "uid": "deadbeef", "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ports": ports},
    });
    json_patch::merge(&mut service["spec"], spec);
    ServiceView::slim(serde_json::from_value::<Service>(service).unwrap())
}

/// What a Service asks for, and what is taken as it is and means little.
pub(in super::super) fn read(
    service: &ServiceView,
) -> Result<(Options, Vec<Notice>), Vec<InvalidField>> {
    let mut reader = Reader::new(service);
    let options = Options::read(&mut reader, NAME.to_owned());
    let notices = reader.finish()?;
    Ok((options, notices))
}

fn protocols(ports: &str, annotations: &[(&str, &str)]) -> String {
    let (options, _) = read(&service(ports, annotations, &json!({}))).unwrap();
    let all = options.listeners.iter();
    let all: Vec<String> = all
        .map(|one| format!("{}={}", one.port, one.protocol))
        .collect();
    all.join(" ")
}

#[test]
fn port_443_and_listed_ports_are_https() {
    for (ports, annotations, expected) in [
        ("80 443", &[][..], "80=http 443=https"),
        ("80 443", &[("listener-protocol", "tcp")], "80=tcp 443=tcp"),
        (
            "80 443",
            &[("listener-protocol", "https")],
            "80=https 443=https",
        ),
        (
            "443 80 5050 3030",
            &[
                ("ssl-ports", "p5050, 3030"),
                ("ssl-domains", "a.example.com"),
            ],
            "443=https 80=http 5050=https 3030=https",
        ),
        (
            "443 80",
            &[("ssl-ports", "*"), ("ssl-domains", "")],
            "443=https 80=http",
        ),
    ] {
        assert_eq!(protocols(ports, annotations), expected, "{annotations:?}");
    }
}

#[test]
fn every_fault_names_its_place() {
    let lbip = json!({"loadBalancerIP": "180.180.180.180"});
    let affine = json!({"sessionAffinity": "ClientIP"});
    let none = json!({});
    for (ports, annotations, spec, place) in [
        ("80", &[][..], &affine, "spec.sessionAffinity"),
        ("", &[], &none, "spec.ports"),
        ("80 udp/53", &[], &none, "spec.ports[1].protocol"),
        ("80", &[("policy", "magic-routing")], &none, "policy"),
        (
            "80",
            &[("listener-proxy-protocol", "v1-ssl")],
            &none,
            "listener-proxy-protocol",
        ),
        (
            "80",
            &[("listener-protocol", "gopher")],
            &none,
            "listener-protocol",
        ),
        (
            "80 443",
            &[("listener-protocol", "tcp"), ("ssl-domains", "a")],
            &none,
            "ssl-domains",
        ),
        (
            "80 443",
            &[("listener-protocol", "tcp"), ("ssl-ports", "80")],
            &none,
            "ssl-ports",
        ),
        (
            "80",
            &[("ssl-domains", "a.example.com")],
            &none,
            "ssl-domains",
        ),
        ("443", &[("ssl-ports", "443")], &none, "ssl-ports"),
        (
            "80",
            &[("healthcheck-protocol", "https")],
            &none,
            "healthcheck-protocol",
        ),
        (
            "80",
            &[("healthcheck-request", "fred")],
            &none,
            "healthcheck-request",
        ),
        (
            "80",
            &[("healthcheck-request", "/a?b")],
            &none,
            "healthcheck-request",
        ),
        (
            "80",
            &[("healthcheck-request", "/%41")],
            &none,
            "healthcheck-request",
        ),
        (
            "80",
            &[("healthcheck-interval", "-1")],
            &none,
            "healthcheck-interval",
        ),
        (
            "80",
            &[("healthcheck-interval", "0x56")],
            &none,
            "healthcheck-interval",
        ),
        (
            "80",
            &[("healthcheck-timeout", "4294967296")],
            &none,
            "healthcheck-timeout",
        ),
        (
            "80",
            &[("healthcheck-timeout", "+5")],
            &none,
            "healthcheck-timeout",
        ),
        (
            "80",
            &[("listener-idle-timeout", "4999")],
            &none,
            "listener-idle-timeout",
        ),
        ("80", &[("idle-timeout", "86400001")], &none, "idle-timeout"),
        (
            "80",
            &[("cloudip-allocations", "cip-123-45")],
            &none,
            "cloudip-allocations",
        ),
        (
            "80",
            &[("cloudip-allocations", "")],
            &none,
            "cloudip-allocations",
        ),
        (
            "80",
            &[("cloudip-allocations", "cip-found")],
            &lbip,
            "cloudip-allocations",
        ),
        (
            "80",
            &[],
            &json!({"loadBalancerIP": "fred"}),
            "spec.loadBalancerIP",
        ),
    ] {
        let faults = read(&service(ports, annotations, spec)).unwrap_err();
        let places: Vec<&str> = faults.iter().map(|fault| fault.place.as_str()).collect();
        assert!(
            places.len() == 1 && places[0].ends_with(place),
            "{annotations:?} {spec}: {places:?}"
        );
    }
}

#[test]
fn all_faults_are_told_together() {
    let annotations = [
        ("policy", "x"),
        ("healthcheck-timeout", "y"),
        ("ssl-ports", "80"),
    ];
    let faults = read(&service("80 udp/53", &annotations, &json!({}))).unwrap_err();
    // The one of ssl-ports lacks ssl-domains and a port 443.
    assert_eq!(faults.len(), 5, "{faults:?}");
}

#[test]
fn what_is_legal_is_read() {
    let annotations = [
        ("policy", "source-address"),
        ("listener-idle-timeout", "6000"),
        ("idle-timeout", "7000"),
        ("listener-proxy-protocol", "v2-ssl-cn"),
        ("ssl-domains", "b.example.com, a.example.com,"),
        ("healthcheck-request", "/livez"),
        ("healthcheck-timeout", "0"),
        ("healthcheck-healthy-threshold", "4294967295"),
        (keys::AWS_INTERVAL.key, "4000"),
    ];
    let (options, notices) = read(&service("443", &annotations, &json!({}))).unwrap();
    assert_eq!(notices, []);
    assert_eq!(options.policy, Some("source-address"));
    let expected = Listener {
        protocol: "https".to_owned(),
        port: 443,
        target: 30443,
        timeout: Some(6000),
        proxy_protocol: Some("v2-ssl-cn".to_owned()),
    };
    assert_eq!(options.listeners, [expected]);
    assert_eq!(
        options.domains.into_iter().collect::<Vec<_>>(),
        ["a.example.com", "b.example.com"]
    );
    let expected = HealthCheck {
        request: Some("/livez".to_owned()),
        interval: Some(4000),
        threshold_up: Some(u32::MAX),
        ..HealthCheck::default()
    };
    assert_eq!(options.check, expected);
    let both = [
        ("healthcheck-interval", "3000"),
        (keys::AWS_INTERVAL.key, "4000"),
    ];
    let (options, _) = read(&service("80", &both, &json!({}))).unwrap();
    assert_eq!(options.check.interval, Some(3000));
}

#[test]
fn what_means_little_is_told() {
    for annotations in [
        &[("buffer-size", "4096")][..],
        &[("ssl-ports", "nosuch"), ("ssl-domains", "a.example.com")],
    ] {
        let (_, notices) = read(&service("443", annotations, &json!({}))).unwrap();
        assert_eq!(notices.len(), 1, "{annotations:?}");
    }
}

#[test]
fn cloud_ip_is_asked_for_by_identifier_or_address() {
    let own = |annotations, spec: &Value| CloudIpWish::of(&service("80", annotations, spec));
    let address = json!({"loadBalancerIP": "109.107.39.92"});
    assert_eq!(own(&[], &json!({})), CloudIpWish::Own);
    assert_eq!(
        own(&[], &address),
        CloudIpWish::Address("109.107.39.92".parse().unwrap())
    );
    assert_eq!(
        own(&[("cloudip-allocations", "cip-vsalc")], &json!({})),
        CloudIpWish::Id("cip-vsalc".to_owned())
    );
    // What cannot be understood keeps nobody else from one.
    assert_eq!(
        own(&[("cloudip-allocations", "cip-vsalc")], &address),
        CloudIpWish::Own
    );
}
