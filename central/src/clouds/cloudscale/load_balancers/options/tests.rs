use k8s_openapi::api::core::v1::Service;
use mooring_common::k8s::Slim;
use mooring_common::names::cloudscale_annotations as keys;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cloud_provider::load_balancers::{InvalidField, Notice};
use crate::views::service_view::ServiceView;

/// What a Service asks for, and what is taken as it is and means little.
pub(in super::super) fn noted(
    service: &ServiceView,
) -> Result<(Options, Vec<Notice>), Vec<InvalidField>> {
    let mut reader = Reader::new(service);
    let options = Options::read(&mut reader);
    Ok((options, reader.finish()?))
}

/// What a Service asks for.
pub(in super::super) fn options(service: &ServiceView) -> Result<Options, Vec<InvalidField>> {
    noted(service).map(|(options, _)| options)
}

/// A Service with one TCP port, these annotations, and more in its spec.
pub(in super::super) fn service(annotations: &[(&str, &str)], spec: &Value) -> ServiceView {
    let annotations: serde_json::Map<_, _> = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    let mut all = json!({
        "metadata": {
            "namespace": "default", "name": "web", "uid": "deadbeef", "annotations": annotations,
        },
        "spec": {
            "type": "LoadBalancer",
            "ports": [{"protocol": "TCP", "port": 80, "nodePort": 30080}],
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        all["spec"][key] = value.clone();
    }
    ServiceView::slim(serde_json::from_value::<Service>(all).unwrap())
}

fn read(key: &str, value: &str) -> Result<Options, Vec<InvalidField>> {
    options(&service(&[(key, value)], &json!({})))
}

fn faults(annotations: &[(&str, &str)], spec: &Value) -> Vec<String> {
    let faults = options(&service(annotations, spec)).unwrap_err();
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn defaults_match_go_controller() {
    let options = super::tests::options(&service(&[], &json!({}))).unwrap();
    assert_eq!(
        options,
        Options {
            balancer: BalancerSpec {
                name: "k8s-service-deadbeef".to_owned(),
                flavor: "lb-standard".to_owned(),
                zone: None,
                vips: Vec::new(),
                tags: Tags::new(),
            },
            floating_ips: BTreeSet::new(),
            force_hostname: None,
            ip_mode: "Proxy",
            pool: PoolSpec {
                name: String::new(),
                algorithm: "round_robin".to_owned(),
                protocol: "tcp".to_owned(),
            },
            monitor: MonitorSpec {
                kind: "tcp".to_owned(),
                delay_s: Some(2),
                timeout_s: Some(1),
                up_threshold: Some(2),
                down_threshold: Some(3),
                http: None,
            },
            listener: ListenerSpec {
                name: String::new(),
                protocol: "tcp".to_owned(),
                port: 0,
                allowed_cidrs: Vec::new(),
                timeout_client_data_ms: Some(50_000),
                timeout_member_connect_ms: Some(5_000),
                timeout_member_data_ms: Some(50_000),
            },
            allowed_subnets: BTreeSet::new(),
            node_selector: Selector::default(),
            ports: vec![Port {
                name: None,
                protocol: "tcp".to_owned(),
                port: 80,
                node_port: 30080,
            }],
        }
    );
}

#[test]
fn reads_each_annotation() {
    let uuid = "2db69ba3-1864-4608-853a-0771b6885a3a";
    let vips = format!(
        r#"[{{"subnet": "{}", "address": "FD00::0:9"}}]"#,
        uuid.to_uppercase()
    );
    let subnets = format!("\n\t[\"{uuid}\"]");
    let all = [
        (keys::UUID, uuid),
        (keys::NAME, "foo"),
        (keys::FLAVOR, "lb-large"),
        (keys::ZONE, "rma1"),
        (keys::VIP_ADDRESSES, vips.as_str()),
        (keys::FLOATING_IPS, r#"["203.0.113.9", "2001:DB8::7/128"]"#),
        (keys::POOL_ALGORITHM, "least_connections"),
        (keys::POOL_PROTOCOL, "proxyv2"),
        (keys::IP_MODE, "VIP"),
        (keys::MONITOR_DELAY_S, "+3"),
        (keys::MONITOR_TIMEOUT_S, "2"),
        (keys::MONITOR_UP_THRESHOLD, "4"),
        (keys::MONITOR_DOWN_THRESHOLD, "5"),
        (keys::MONITOR_TYPE, "https"),
        (
            keys::MONITOR_HTTP,
            r#"{"host": "example.com", "expected_codes": ["200-204"]}"#,
        ),
        (keys::LISTENER_PROTOCOL, "tcp"),
        (keys::ALLOWED_CIDRS, r#"["10.1.2.3/8", "10.0.0.0/8"]"#),
        (keys::ALLOWED_SUBNETS, subnets.as_str()),
        (keys::TIMEOUT_CLIENT_DATA_MS, "1"),
        (keys::TIMEOUT_MEMBER_CONNECT_MS, "2"),
        (keys::TIMEOUT_MEMBER_DATA_MS, "3"),
        (keys::NODE_SELECTOR, "env=prod"),
    ];
    let (options, notices) = noted(&service(&all, &json!({}))).unwrap();
    assert!(notices.is_empty(), "{notices:?}");
    let own = |text: &str| text.to_owned();
    let balancer = options.balancer;
    assert_eq!(
        (balancer.name, balancer.flavor),
        (own("foo"), own("lb-large"))
    );
    assert_eq!((balancer.zone, options.ip_mode), (Some(own("rma1")), "VIP"));
    assert_eq!(balancer.vips[0].subnet, Some(own(uuid)));
    assert_eq!(balancer.vips[0].address, Some(own("fd00::9")));
    let floating: Vec<_> = options.floating_ips.into_iter().collect();
    assert_eq!(floating, ["2001:db8::7", "203.0.113.9"]);
    assert_eq!(options.pool.algorithm, "least_connections");
    assert_eq!(options.pool.protocol, "proxyv2");
    let monitor = options.monitor;
    let numbers = [
        monitor.delay_s,
        monitor.timeout_s,
        monitor.up_threshold,
        monitor.down_threshold,
    ];
    assert_eq!(
        (monitor.kind, numbers),
        (own("https"), [3, 2, 4, 5].map(Some))
    );
    let http = HttpSpec {
        host: Some(own("example.com")),
        expected_codes: vec![own("200-204")],
        ..HttpSpec::default()
    };
    assert_eq!(monitor.http, Some(http));
    let listener = options.listener;
    assert_eq!(listener.allowed_cidrs, ["10.0.0.0/8"]);
    assert_eq!(listener.timeout_client_data_ms, Some(1));
    assert_eq!(listener.timeout_member_connect_ms, Some(2));
    assert_eq!(listener.timeout_member_data_ms, Some(3));
    assert!(options.allowed_subnets.contains(uuid));
    assert_eq!(options.node_selector.to_string(), "env=prod");
}

/// The Go controller's decoder does not tell upper from lower case.
#[test]
fn reads_json_keys_in_any_case() {
    let uuid = "2db69ba3-1864-4608-853a-0771b6885a3a";
    let text = format!(r#"[{{"Subnet": "{uuid}", "ADDRESS": "10.0.0.9"}}]"#);
    let vips = read(keys::VIP_ADDRESSES, &text).unwrap().balancer.vips;
    let vip = VipRequest {
        subnet: Some(uuid.to_owned()),
        address: Some("10.0.0.9".to_owned()),
    };
    assert_eq!(vips, [vip]);
    let text = r#"{"Method": "HEAD", "URL_Path": "/Ready", "expected_Codes": ["204"]}"#;
    let http = HttpSpec {
        method: "HEAD".to_owned(),
        url_path: "/Ready".to_owned(),
        expected_codes: vec!["204".to_owned()],
        ..HttpSpec::default()
    };
    assert_eq!(
        read(keys::MONITOR_HTTP, text).unwrap().monitor.http,
        Some(http)
    );
}

/// With UDP ports alone the Go controller looks at neither.
#[test]
fn protocols_are_those_of_tcp_ports() {
    let ports = |protocols: &[&str]| {
        let port = |(nth, protocol): (usize, &&str)| {
            let name = protocol.to_lowercase();
            json!({"name": name, "protocol": protocol, "port": 53, "nodePort": 30053 + nth})
        };
        json!({"ports": protocols.iter().enumerate().map(port).collect::<Vec<_>>()})
    };
    for key in [keys::POOL_PROTOCOL, keys::LISTENER_PROTOCOL] {
        for value in ["udp", "nonsense"] {
            let asked = [(key, value)];
            let with = |protocols: &[&str]| options(&service(&asked, &ports(protocols)));
            assert_eq!(
                with(&["UDP"]),
                options(&service(&[], &ports(&["UDP"]))),
                "{key}"
            );
            for some in [["TCP"].as_slice(), &["UDP", "TCP"]] {
                let faults = with(some).unwrap_err();
                assert!(
                    faults.len() == 1 && faults[0].place.contains(key),
                    "{faults:?}"
                );
            }
        }
    }
}

#[test]
fn floating_ips_are_addresses() {
    for text in ["203.0.113.9", "203.0.113.9/32", " 203.0.113.9/24"] {
        let read = read(keys::FLOATING_IPS, &json!([text]).to_string());
        let expected = ["203.0.113.9".to_owned()].into();
        assert_eq!(read.unwrap().floating_ips, expected, "{text}");
    }
}

#[test]
fn empty_annotations_keep_go_meaning() {
    for (key, value) in [
        (keys::UUID, ""),
        (keys::ZONE, ""),
        (keys::FORCE_HOSTNAME, ""),
        (keys::NODE_SELECTOR, ""),
        (keys::FLOATING_IPS, ""),
        (keys::ALLOWED_CIDRS, " \n"),
        (keys::ALLOWED_CIDRS, "null"),
        (keys::ALLOWED_SUBNETS, "[]"),
        (keys::VIP_ADDRESSES, "[]"),
        (keys::VIP_ADDRESSES, "null"),
        (keys::MONITOR_HTTP, "{}"),
        (keys::MONITOR_HTTP, "null"),
    ] {
        let empty = options(&service(&[], &json!({}))).unwrap();
        assert_eq!(read(key, value).unwrap(), empty, "{key} {value:?}");
    }
    // These happen to be the defaults, and are sent.
    let http = read(keys::MONITOR_HTTP, "{ }").unwrap().monitor.http;
    assert_eq!(http, Some(HttpSpec::default()));
    // Nobody uses it then.
    let hidden = [(keys::FORCE_HOSTNAME, "a.example"), (keys::IP_MODE, "vip")];
    assert!(options(&service(&hidden, &json!({}))).is_ok());
}

#[test]
fn invalid_annotation_error_names_key_value_and_remedy() {
    for (key, value, remedy) in [
        (keys::NAME, " ", "remove the annotation"),
        (keys::FLAVOR, "", "lb-standard"),
        (keys::VIP_ADDRESSES, "", "write it like"),
        (keys::VIP_ADDRESSES, "[{}]", "write it like"),
        (keys::VIP_ADDRESSES, r#"[{"address": "x"}]"#, "10.0.0.9"),
        (
            keys::VIP_ADDRESSES,
            r#"{"address": "10.0.0.1"}"#,
            "write it like",
        ),
        (keys::FLOATING_IPS, r#"["203.0.113.9""#, "write it like"),
        (keys::FLOATING_IPS, r#""203.0.113.9""#, "write it like"),
        (keys::FLOATING_IPS, r#"["203.0.113"]"#, "no network"),
        (keys::ALLOWED_CIDRS, "[1]", "write it like"),
        (keys::ALLOWED_CIDRS, "[null]", "write it like"),
        (keys::ALLOWED_CIDRS, "10.0.0.0/8", "write it like"),
        (keys::ALLOWED_SUBNETS, "{}", "write it like"),
        (
            keys::POOL_ALGORITHM,
            "random",
            "round_robin, least_connections or source_ip",
        ),
        (keys::POOL_PROTOCOL, "", "tcp, proxy or proxyv2"),
        (keys::IP_MODE, "vip", "Proxy or VIP"),
        (keys::LISTENER_PROTOCOL, "udp", "write tcp"),
        (keys::MONITOR_TYPE, "TCP", "udp-connect"),
        (keys::MONITOR_DELAY_S, "", "from 1 to"),
        (keys::MONITOR_TIMEOUT_S, "-1", "from 1 to"),
        (keys::MONITOR_TIMEOUT_S, " 1", "from 1 to"),
        (keys::MONITOR_UP_THRESHOLD, "1.5", "from 1 to"),
        (
            keys::MONITOR_DOWN_THRESHOLD,
            "99999999999999999999",
            "from 1 to",
        ),
        (keys::TIMEOUT_CLIENT_DATA_MS, "4294967295", "from 1 to"),
        (keys::MONITOR_HTTP, "", "write it like"),
        (keys::MONITOR_HTTP, "[]", "write it like"),
        (keys::MONITOR_HTTP, r#"{"method": 1}"#, "write it like"),
        (keys::MONITOR_HTTP, r#"{"method": "get"}"#, "GET"),
        (keys::MONITOR_HTTP, r#"{"url_path": "x"}"#, "/livez"),
        (keys::MONITOR_HTTP, r#"{"version": "2"}"#, "1.1 or 1.0"),
        (
            keys::MONITOR_HTTP,
            r#"{"version": "1.0", "host": "h"}"#,
            "version 1.1",
        ),
        (
            keys::MONITOR_HTTP,
            r#"{"expected_codes": ["ok"]}"#,
            "200-204",
        ),
        (
            keys::MONITOR_HTTP,
            r#"{"expected_codes": "200"}"#,
            "write it like",
        ),
        (
            keys::NODE_SELECTOR,
            "invalid===syntax",
            "unable to parse selector",
        ),
    ] {
        let text = faults(&[(key, value)], &json!({})).concat();
        assert!(
            text.contains(key) && text.contains(remedy),
            "{key} {value:?}: {text}"
        );
    }
}

/// The Go controller takes them: a Service that has worked with it goes on working.
#[test]
fn accepts_and_reports_what_go_controller_accepts() {
    for (key, value, told) in [
        (keys::MONITOR_TIMEOUT_S, "0", "write a number from 1 to"),
        (keys::MONITOR_UP_THRESHOLD, "0", "write a number from 1 to"),
        (
            keys::TIMEOUT_CLIENT_DATA_MS,
            "0",
            "write a number from 1 to",
        ),
        (keys::UUID, "abc", "found by its name"),
        (keys::UUID, "../servers", "found by its name"),
    ] {
        let (_, notices) = noted(&service(&[(key, value)], &json!({}))).unwrap();
        let notes: Vec<_> = notices.iter().map(|notice| &notice.note).collect();
        let is_told = |note: &&String| [key, value, told].iter().all(|part| note.contains(part));
        assert!(notes.len() == 1 && is_told(&notes[0]), "{key}: {notes:?}");
    }
    let options = read(keys::MONITOR_UP_THRESHOLD, "0").unwrap();
    assert_eq!(options.monitor.up_threshold, None);
}

#[test]
fn reports_everything_wrong_at_once() {
    let ports = json!({"ports": [
        {"name": "a", "protocol": "SCTP", "port": 1, "nodePort": 30001},
        {"name": "b", "protocol": "UDP", "port": 2},
    ]});
    let bad = [(keys::MONITOR_DELAY_S, "x"), (keys::IP_MODE, "y")];
    let all = faults(&bad, &ports).join("\n");
    for part in [
        keys::MONITOR_DELAY_S,
        keys::IP_MODE,
        r#"spec.ports[0].protocol: "SCTP""#,
        "spec.ports[1].nodePort",
        "allocateLoadBalancerNodePorts",
    ] {
        assert!(all.contains(part), "{all}");
    }
}

#[test]
fn quotes_values_short_on_one_line() {
    let long = format!("a\n\u{1b}{}", "ü".repeat(200));
    let fault = faults(&[(keys::POOL_ALGORITHM, &long)], &json!({})).concat();
    assert!(!fault.contains('\n') && !fault.contains('\u{1b}') && fault.len() < 400);
}

#[test]
fn source_ranges_come_from_one_of_three_places() {
    let legacy = (
        mooring_common::names::annotations::SOURCE_RANGES,
        "10.3.0.0/16, 10.4.0.0/16,",
    );
    let spec = json!({"loadBalancerSourceRanges": [" 10.2.0.0/16"]});
    let of = |annotations: &[(&str, &str)], spec: &Value| {
        let options = super::tests::options(&service(annotations, spec)).unwrap();
        options.listener.allowed_cidrs
    };
    let own = (keys::ALLOWED_CIDRS, r#"["10.1.0.0/16"]"#);
    assert_eq!(of(&[own, legacy], &spec), ["10.1.0.0/16"]);
    assert!(of(&[(keys::ALLOWED_CIDRS, "[]"), legacy], &spec).is_empty());
    assert_eq!(of(&[legacy], &spec), ["10.2.0.0/16"]);
    assert_eq!(of(&[legacy], &json!({})), ["10.3.0.0/16", "10.4.0.0/16"]);
    assert!(
        faults(&[(legacy.0, "x")], &json!({}))
            .concat()
            .contains("source-ranges")
    );
}

#[test]
fn reads_longest_value() {
    for value in
        ["[", "{\"a\":", "\"", "(", "a,", "1", "!"].map(|part| part.repeat(262_144 / part.len()))
    {
        for key in [
            keys::VIP_ADDRESSES,
            keys::MONITOR_HTTP,
            keys::NODE_SELECTOR,
            keys::UUID,
        ] {
            let told = read(key, &value).map_err(|faults| faults.len());
            assert!(told.is_ok() || told == Err(1));
        }
    }
}

proptest! {
    #[test]
    fn selector_parser_never_panics(text in "\\PC{0,60}|[\\[\\]{}\":,a-z0-9./]{0,40}", key in 0..24_usize) {
        let all = [
            keys::UUID, keys::NAME, keys::FLAVOR, keys::ZONE, keys::VIP_ADDRESSES, keys::FLOATING_IPS,
            keys::POOL_ALGORITHM, keys::POOL_PROTOCOL, keys::FORCE_HOSTNAME, keys::IP_MODE,
            keys::MONITOR_DELAY_S, keys::MONITOR_TIMEOUT_S, keys::MONITOR_UP_THRESHOLD,
            keys::MONITOR_DOWN_THRESHOLD, keys::MONITOR_TYPE, keys::MONITOR_HTTP,
            keys::LISTENER_PROTOCOL, keys::ALLOWED_CIDRS, keys::ALLOWED_SUBNETS,
            keys::TIMEOUT_CLIENT_DATA_MS, keys::TIMEOUT_MEMBER_CONNECT_MS,
            keys::TIMEOUT_MEMBER_DATA_MS, keys::NODE_SELECTOR, keys::CONFIG_VERSION,
        ];
        if let Err(faults) = read(all[key], &text) {
            prop_assert!(faults.iter().all(|fault| fault.place.contains(all[key])));
        }
    }
}
