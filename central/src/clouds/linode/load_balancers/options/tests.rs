//! linode.md 1.1 to 1.4: what each annotation does, in tables.

mod ports;
mod vpcs;

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use mooring_common::k8s::Slim;
use serde_json::{Value, json};

use super::*;
use crate::cloud_provider::load_balancers::{InvalidField, Notice};
use crate::clouds::linode::{BackendSubnet, Flags, VpcChoice};

/// What the flags are if nobody says any.
pub(in super::super) fn settings() -> Settings {
    Settings {
        region: "us-ord".to_owned(),
        hostname_only: false,
        external_subnet: None,
        routes_max_age: Duration::ZERO,
        flags: Flags {
            cluster_name: None,
            drain_period: Duration::ZERO,
            ..Flags::default()
        },
    }
}

/// A Service with these ports (`tcp/80 udp/53`) and annotations, the beginning of their keys left out.
pub(in super::super) fn service(ports: &str, annotations: &[(&str, &str)]) -> ServiceView {
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(key, value)| (format!("{}{key}", keys::PREFIX), json!(value)))
        .collect();
    let ports: Vec<Value> = ports
        .split_whitespace()
        .map(|port| {
            let (protocol, number) = port.split_once('/').unwrap();
            let number: u16 = number.parse().unwrap();
            json!({
                "name": port.replace('/', "-"), "protocol": protocol.to_uppercase(), "port": number,
                "nodePort": 30000 + number,
            })
        })
        .collect();
    let service = json!({
        "metadata": {
            "namespace": "default", "name": "web", "uid": "deadbeef", "annotations": annotations,
        },
        "spec": {"type": "LoadBalancer", "ports": ports},
    });
    ServiceView::slim(serde_json::from_value::<Service>(service).unwrap())
}

/// What a Service asks for, and what is taken as it is and means little.
pub(in super::super) fn read(
    service: &ServiceView,
    settings: &Settings,
) -> Result<(Options, Vec<Notice>), Vec<InvalidField>> {
    let mut reader = Reader::new(service);
    let options = Options::read(&mut reader, settings, "ccm-0123456789ab".to_owned());
    Ok((options, reader.finish()?))
}

/// The same of one TCP port without faults.
fn options(annotations: &[(&str, &str)]) -> (Options, Vec<Notice>) {
    read(&service("tcp/80", annotations), &settings()).unwrap()
}

/// All that is wrong.
fn faults(ports: &str, annotations: &[(&str, &str)]) -> Vec<String> {
    let faults = read(&service(ports, annotations), &settings()).unwrap_err();
    faults.iter().map(ToString::to_string).collect()
}

/// The only fault of one TCP port with one annotation. It names key, value and remedy.
fn fault(key: &str, value: &str) -> String {
    let all = faults("tcp/80", &[(key, value)]);
    let [fault] = all.as_slice() else {
        panic!("{key} {value:?}: {all:?}");
    };
    let place = format!("annotation {}{key}: ", keys::PREFIX);
    assert!(fault.starts_with(&place), "{fault}");
    fault.clone()
}

/// A row of a table: what is said, and what follows.
fn check<T: PartialEq + std::fmt::Debug>(
    key: &str,
    table: impl IntoIterator<Item = (Option<&'static str>, T, bool)>,
    value: impl Fn(&Options) -> T,
) {
    for (said, expected, is_questioned) in table {
        let annotations: Vec<_> = said.iter().map(|said| (key, *said)).collect();
        let (options, notices) = options(&annotations);
        assert_eq!(value(&options), expected, "{key}: {said:?}");
        assert_eq!(
            !notices.is_empty(),
            is_questioned,
            "{key}: {said:?} {notices:?}"
        );
        for notice in notices {
            let named = format!("{}{key}: {:?}", keys::PREFIX, said.unwrap());
            assert!(
                notice.note.contains(&named) && notice.note.contains("write"),
                "{}",
                notice.note
            );
        }
    }
}

#[test]
fn throttle_is_cut_and_never_an_error() {
    let table = [
        (None, 0, false),
        (Some(""), 0, false),
        (Some("0"), 0, false),
        (Some("7"), 7, false),
        (Some("+7"), 7, false),
        (Some("20"), 20, false),
        (Some("21"), 20, true),
        (Some("-1"), 0, true),
        (Some("abc"), 0, true),
        (Some(" 7"), 0, true),
        (Some("99999999999999999999"), 0, true),
    ];
    check("throttle", table, |options| options.balancer.throttle);
}

#[test]
fn type_is_read_in_any_case_or_is_that_of_the_flag() {
    let table = [
        (None, "common", false),
        (Some("premium"), "premium", false),
        (Some("Premium_40GB"), "premium_40gb", false),
        (Some("COMMON"), "common", false),
        (Some(""), "common", true),
        (Some("dedicated"), "common", true),
    ];
    let table = table.map(|(said, kind, is_questioned)| (said, kind.to_owned(), is_questioned));
    check("nodebalancer-type", table, |options| {
        options.balancer.kind.clone()
    });
    let mut settings = settings();
    settings.flags.kind = "premium";
    for annotations in [&[][..], &[("nodebalancer-type", "dedicated")]] {
        let (options, _) = read(&service("tcp/80", annotations), &settings).unwrap();
        assert_eq!(options.balancer.kind.as_str(), "premium");
    }
}

/// What Go's `strconv.ParseBool` takes, and nothing else.
const TRUE: [&str; 6] = ["1", "t", "T", "TRUE", "true", "True"];
const FALSE: [&str; 6] = ["0", "f", "F", "FALSE", "false", "False"];
const NEITHER: [&str; 6] = ["", "yes", "on", "tRue", " true", "2"];

#[test]
fn booleans_are_those_of_go_and_anything_else_is_false_and_told() {
    let table = |default| {
        let row = |said, is_true, is_questioned| (Some(said), is_true, is_questioned);
        std::iter::once((None, default, false))
            .chain(TRUE.map(|said| row(said, true, false)))
            .chain(FALSE.map(|said| row(said, false, false)))
            .chain(NEITHER.map(|said| row(said, false, true)))
    };
    check("hostname-only-ingress", table(false), |options| {
        options.hostname_only
    });
    check("enable-ipv6-ingress", table(false), |options| {
        options.ipv6_ingress
    });
    check("enable-ipv6-backends", table(false), |options| {
        options.ipv6_backends
    });
    // What gives something up is only done on a clear word.
    for (said, keeps, retains) in std::iter::once((None, false, true))
        .chain(TRUE.map(|said| (Some(said), true, true)))
        .chain(FALSE.map(|said| (Some(said), false, false)))
        .chain(NEITHER.map(|said| (Some(said), false, true)))
    {
        let of = |key| {
            let annotations: Vec<_> = said.iter().map(|said| (key, *said)).collect();
            let (_, notices) = options(&annotations);
            let is_clear = said.is_none_or(|said| !NEITHER.contains(&said));
            assert_eq!(notices.is_empty(), is_clear, "{key}: {said:?}");
            service("tcp/80", &annotations)
        };
        assert_eq!(preserves(&of("preserve")), keeps, "{said:?}");
        assert_eq!(
            retains_address(&of("retain-reserved-ipv4")),
            retains,
            "{said:?}"
        );
    }
}

#[test]
fn false_wins_over_the_flag() {
    let mut settings = settings();
    settings.hostname_only = true;
    settings.flags.ipv6_ingress = true;
    settings.flags.ipv6_backends = true;
    for (said, expected) in [
        (None, true),
        (Some("true"), true),
        (Some("f"), false),
        (Some("no"), false),
    ] {
        let keys = [
            "hostname-only-ingress",
            "enable-ipv6-ingress",
            "enable-ipv6-backends",
        ];
        let annotations: Vec<_> = keys.iter().filter_map(|key| Some((*key, said?))).collect();
        let (options, _) = read(&service("tcp/80", &annotations), &settings).unwrap();
        let all = [
            options.hostname_only,
            options.ipv6_ingress,
            options.ipv6_backends,
        ];
        assert_eq!(all, [expected; 3], "{said:?}");
    }
}

#[test]
fn tags_are_a_set_after_cluster_and_flags() {
    let mut settings = settings();
    settings.flags.cluster_name = Some("prod".to_owned());
    settings.flags.tags = vec!["team".to_owned(), "prod".to_owned()];
    for (said, expected) in [
        (None, &["prod", "team"][..]),
        (Some(""), &["prod", "team"]),
        (
            Some("web, team ,,blue,web"),
            &["prod", "team", "web", "blue"],
        ),
    ] {
        let annotations: Vec<_> = said.iter().map(|said| ("tags", *said)).collect();
        let (options, _) = read(&service("tcp/80", &annotations), &settings).unwrap();
        assert_eq!(options.balancer.tags, expected, "{said:?}");
    }
}

/// Whoever may write a Service could make its NodeBalancer pass for another Service's.
#[test]
fn marks_are_no_tags() {
    for mark in [
        "k8s-service-other",
        "k8s-cluster-other",
        "K8s-Service-other",
    ] {
        let said = format!("web, {mark}");
        assert!(fault("tags", &said).contains("mark"), "{said}");
    }
}

#[test]
fn numbers_are_positive_and_plain() {
    for key in [
        "nodebalancer-id",
        "firewall-id",
        "backend-subnet-id",
        "frontend-subnet-id",
    ] {
        for value in ["0", "-1", "abc", "1.5", "12 a"] {
            let fault = fault(key, value);
            assert!(fault.contains(&format!("{value:?}")), "{fault}");
            assert!(
                fault.contains("write") && fault.contains("take the annotation off"),
                "{fault}"
            );
        }
    }
    for key in ["firewall-id", "backend-subnet-id", "frontend-subnet-id"] {
        assert!(fault(key, "").contains("is no number"));
    }
    options(&[("nodebalancer-id", "")]);
    options(&[("nodebalancer-id", " 7 ")]);
    // A NodeBalancer of this number would never be found.
    assert!(fault("nodebalancer-id", "+7").contains("is no number"));
    assert!(fault("nodebalancer-id", "007").contains("is no number"));
}

#[test]
fn addresses_and_modes() {
    check(
        "reserved-ipv4",
        [(None, None, false), (Some(""), None, false)],
        |options| options.balancer.ipv4.clone(),
    );
    let (with_address, _) = options(&[("reserved-ipv4", "192.0.2.1")]);
    assert_eq!(with_address.balancer.ipv4.as_deref(), Some("192.0.2.1"));
    let table = [
        (None, None, false),
        (Some("VIP"), Some("VIP"), false),
        (Some("Proxy"), Some("Proxy"), false),
    ];
    check("ip-mode", table, |options| options.ip_mode);
    for value in ["", "vip", "none"] {
        assert!(fault("ip-mode", value).contains("write VIP or Proxy"));
    }
}

/// A firewall of its own for TCP port 80.
fn acl(allows: bool, texts: &[&str]) -> FirewallWish {
    let networks = texts.iter().map(|text| text.parse().unwrap()).collect();
    let acl = Acl { allows, networks };
    FirewallWish::Own(FirewallSpec::of(
        &acl,
        &[(80, false)],
        "web",
        "ccm-0123456789ab".to_owned(),
    ))
}

#[test]
fn firewall_is_named_or_asked_for_by_an_acl() {
    let v4 = r#"{"allowList": {"ipv4": ["192.0.2.0/24"]}}"#;
    let both = r#"{"denyList": {"ipv4": ["192.0.2.7"], "ipv6": ["2001:DB8::/32"]}, "allowList": null, "x": 1}"#;
    let cased = r#"{"AllowList": {"IPv4": ["10.1.2.3/8"], "ipv6": null}}"#;
    for (annotations, expected, is_questioned) in [
        (&[][..], FirewallWish::None, false),
        (&[("firewall-id", "7")], FirewallWish::Id(7), false),
        (&[("firewall-acl", v4)], acl(true, &["192.0.2.0/24"]), false),
        (
            &[("firewall-acl", both)],
            acl(false, &["192.0.2.7/32", "2001:db8::/32"]),
            false,
        ),
        (
            &[("firewall-acl", cased)],
            acl(true, &["10.0.0.0/8"]),
            false,
        ),
        (
            &[("firewall-id", "7"), ("firewall-acl", v4)],
            FirewallWish::Id(7),
            true,
        ),
        (
            &[("firewall-id", "7"), ("firewall-acl", "{")],
            FirewallWish::Id(7),
            true,
        ),
    ] {
        let (options, notices) = options(annotations);
        assert_eq!(options.firewall, expected, "{annotations:?}");
        assert_eq!(!notices.is_empty(), is_questioned, "{annotations:?}");
    }
}

#[test]
fn acl_that_cannot_be_understood_is_told_with_an_example() {
    let xor = "specify either an allowList or a denyList for a firewall";
    for (acl, words) in [
        ("", "is not the JSON that is understood"),
        ("{", "is not the JSON that is understood"),
        ("[]", "is not the JSON that is understood"),
        (
            r#"{"allowList": {"ipv4": ["10.0.0.0/8"]}} x"#,
            "is not the JSON that is understood",
        ),
        (
            r#"{"allowList": {"ipv4": "10.0.0.0/8"}}"#,
            "is not the JSON that is understood",
        ),
        ("{}", xor),
        (r#"{"allowlists": {}}"#, xor),
        (
            r#"{"allowList": {"ipv4": ["10.0.0.0/8"]}, "denyList": {}}"#,
            xor,
        ),
        (r#"{"allowList": {}}"#, "has no networks"),
    ] {
        let fault = fault("firewall-acl", acl);
        assert!(fault.contains(words), "{acl}: {fault}");
        assert!(
            fault.contains(r#"write it like {"allowList""#),
            "{acl}: {fault}"
        );
    }
    let several = r#"{"allowList": {"ipv4": ["10.0.0.0/8", "10.0.0.0/33", "host"]}}"#;
    let faults = faults("tcp/80", &[("firewall-acl", several)]);
    assert_eq!(faults.len(), 2, "{faults:?}");
    for (fault, value) in faults.iter().zip(["10.0.0.0/33", "host"]) {
        assert!(
            fault.contains(&format!("{value:?} is no network; write it like")),
            "{fault}"
        );
    }
}

#[test]
fn source_ranges_are_an_allow_list_unless_an_annotation_says_something() {
    let mut service = service("tcp/80", &[]);
    service.source_ranges = vec!["10.1.2.3/8".to_owned(), "2001:db8::/32".to_owned()];
    let asked = |service: &ServiceView| read(service, &settings()).unwrap().0.firewall;
    assert_eq!(asked(&service), acl(true, &["10.0.0.0/8", "2001:db8::/32"]));
    let mut with = |key: &str, value: &str| {
        service.annotations.clear();
        service.annotations.insert(key.to_owned(), value.to_owned());
        asked(&service)
    };
    assert_eq!(with(keys::FIREWALL_ID.key, "7"), FirewallWish::Id(7));
    let deny = with(
        keys::FIREWALL_ACL.key,
        r#"{"denyList": {"ipv4": ["192.0.2.0/24"]}}"#,
    );
    assert_eq!(deny, acl(false, &["192.0.2.0/24"]));
    // An annotation is taken at its word.
    let ipv4_alone = r#"{"allowList": {"ipv4": ["0.0.0.0/0"]}}"#;
    let all = with(keys::FIREWALL_ACL.key, ipv4_alone);
    assert_eq!(all, acl(true, &["0.0.0.0/0"]));
    service.annotations.clear();
    for (ranges, expected) in [
        (&["0.0.0.0/0"][..], FirewallWish::None),
        (&["192.0.2.0/24", " 0.0.0.0/0"], FirewallWish::None),
        (&["::/0", "0.0.0.0/0"], FirewallWish::None),
        (&["::/0"], acl(true, &["::/0"])),
        (&["0.0.0.0/1"], acl(true, &["0.0.0.0/1"])),
    ] {
        service.source_ranges = ranges.iter().map(ToString::to_string).collect();
        assert_eq!(asked(&service), expected, "{ranges:?}");
    }
    service.source_ranges = vec!["host".to_owned()];
    let faults = read(&service, &settings()).unwrap_err();
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].place, "spec.loadBalancerSourceRanges");
}

/// 25 rules for 255 networks each; UDP ports have rules of their own.
#[test]
fn acl_must_fit_into_a_firewall() {
    let of = |networks: usize, ports: &str, by_annotation: bool| {
        let all: Vec<String> = (0..networks)
            .map(|index| format!("10.{}.{}.0/24", index / 256, index % 256))
            .collect();
        let acl = json!({"allowList": {"ipv4": all}}).to_string();
        let mut service = match by_annotation {
            true => service(ports, &[("firewall-acl", &acl)]),
            false => service(ports, &[]),
        };
        if !by_annotation {
            service.source_ranges = all;
        }
        read(&service, &settings())
    };
    assert!(of(25 * 255, "tcp/80 tcp/443", true).is_ok());
    for (networks, ports, by_annotation, place) in [
        (
            25 * 255 + 1,
            "tcp/80",
            true,
            "annotation service.beta.kubernetes.io/linode-loadbalancer-firewall-acl",
        ),
        (
            13 * 255,
            "tcp/80 udp/53",
            true,
            "annotation service.beta.kubernetes.io/linode-loadbalancer-firewall-acl",
        ),
        (
            25 * 255 + 1,
            "tcp/80",
            false,
            "spec.loadBalancerSourceRanges",
        ),
    ] {
        let faults = of(networks, ports, by_annotation).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].place, place);
        let words = "too many IPs in this ACL, will exceed rules per firewall limit";
        assert!(
            faults[0].remedy.contains(words) && faults[0].remedy.contains("write fewer"),
            "{faults:?}"
        );
    }
}

/// With a name for each, and what to write instead.
#[test]
fn all_that_is_wrong_is_told_together() {
    let all = [
        ("nodebalancer-id", "mine"),
        ("default-protocol", "ftp"),
        ("default-proxy-protocol", ""),
        ("default-algorithm", "random"),
        ("check-type", "HTTP"),
        ("check-interval", "soon"),
        ("check-passive", "yes"),
        ("firewall-acl", "{}"),
        ("backend-subnet-id", "x"),
        ("frontend-vpc-name", "vpc"),
        ("ip-mode", "vip"),
        ("port-80", "{}{}"),
    ];
    let faults = faults("tcp/80 sctp/81", &all);
    for (key, value) in all {
        let key = match key {
            "frontend-vpc-name" => "frontend-subnet-id",
            other => other,
        };
        let named = format!("annotation {}{key}: {value:?} ", keys::PREFIX);
        let mut of_key = faults.iter().filter(|fault| fault.starts_with(&named));
        let fault = of_key
            .next()
            .unwrap_or_else(|| panic!("{named}: {faults:#?}"));
        assert!(fault.contains("write"), "{fault}");
    }
    assert!(
        faults
            .iter()
            .any(|fault| fault.starts_with("spec.ports[1].protocol: \"SCTP\""))
    );
    assert_eq!(faults.len(), all.len() + 1, "{faults:#?}");
}
