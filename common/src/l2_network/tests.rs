use std::collections::BTreeMap;
use std::time::Duration;

use super::*;

fn network(spec: L2NetworkSpec) -> L2Network {
    L2Network::new("lan", spec)
}

fn subnet(cidr: &str, gateway: Option<&str>) -> Subnet {
    Subnet {
        cidr: cidr.into(),
        gateway: gateway.map(Into::into),
    }
}

#[test]
fn reads_dual_stack_segment() {
    let segment = Segment::try_from(&network(L2NetworkSpec {
        subnets: vec![
            subnet("192.0.2.0/24", Some("192.0.2.1")),
            subnet("2001:db8::/64", Some("2001:db8::1")),
        ],
        ranges: vec!["192.0.2.10-192.0.2.20".into(), "2001:db8::100/120".into()],
        ..Default::default()
    }))
    .unwrap();
    assert!(segment.contains("192.0.2.20".parse().unwrap()));
    assert!(!segment.contains("192.0.2.21".parse().unwrap()));
    let v6 = "2001:db8::1ff".parse().unwrap();
    assert!(segment.contains(v6));
    assert_eq!(segment.gateway_of(v6), Some("2001:db8::1".parse().unwrap()));
    assert!(segment.includes(&std::collections::BTreeMap::new()));
}

#[test]
fn reads_time_for_which_connections_are_kept() {
    let read = |time: Option<&str>| {
        let spec = L2NetworkSpec {
            subnets: vec![subnet("192.0.2.0/24", None)],
            ranges: vec!["192.0.2.10-192.0.2.20".into()],
            keep_connections: time.map(Into::into),
            ..Default::default()
        };
        Segment::try_from(&network(spec)).map(|segment| segment.keep_connections)
    };
    assert_eq!(read(None), Ok(Duration::ZERO));
    assert_eq!(read(Some("0s")), Ok(Duration::ZERO));
    assert_eq!(read(Some("1h30m")), Ok(Duration::from_secs(5400)));
    assert_eq!(read(Some("24h")), Ok(Duration::from_secs(86_400)));
    for wrong in ["24h1s", "long", "-1s", ""] {
        let faults = read(Some(wrong)).unwrap_err().faults;
        assert_eq!(faults.len(), 1, "{wrong}");
        assert!(faults[0].contains("spec.keepConnections"), "{faults:?}");
    }
}

#[test]
fn reports_all_faults_at_once() {
    let error = Segment::try_from(&network(L2NetworkSpec {
        subnets: vec![
            subnet("192.0.2.0/24", Some("198.51.100.1")),
            subnet("nonsense", None),
        ],
        ranges: vec![
            "192.0.2.0/28".into(),
            "192.0.2.8-192.0.2.9".into(),
            "203.0.113.0/30".into(),
            "x".into(),
        ],
        ..Default::default()
    }))
    .unwrap_err();
    assert_eq!(error.faults.len(), 5, "{error}");
    for part in [
        "gateway",
        "subnets[1]",
        "ranges[1]",
        "ranges[2]",
        "ranges[3]",
    ] {
        assert!(
            error.to_string().contains(part),
            "{part} missing in {error}"
        );
    }
}

#[test]
fn reserves_routers_and_subnet_ends() {
    let segment = Segment::try_from(&network(L2NetworkSpec {
        subnets: vec![
            subnet("192.0.2.0/29", Some("192.0.2.1")),
            subnet("198.51.100.0/31", None),
            subnet("2001:db8::/64", None),
        ],
        ranges: vec!["192.0.2.0/29".into()],
        ..Default::default()
    }))
    .unwrap();
    let reserved: Vec<_> = segment
        .reserved()
        .map(|(address, why)| format!("{address} {why}"))
        .collect();
    assert_eq!(
        reserved,
        [
            "192.0.2.0 the first address of a subnet",
            "192.0.2.7 the broadcast address",
            "192.0.2.1 the router",
            "2001:db8:: the first address of a subnet",
        ]
    );
}

#[test]
fn reports_invalid_namespace_selector() {
    let mut wrong = network(L2NetworkSpec {
        subnets: vec![subnet("192.0.2.0/24", None)],
        ranges: vec!["192.0.2.16/28".into()],
        ..Default::default()
    });
    let selector = serde_json::json!({
        "matchExpressions": [{"key": "team", "operator": "Like", "values": ["red"]}],
    });
    wrong.spec.allowed_namespaces = Some(serde_json::from_value(selector).unwrap());
    let error = Segment::try_from(&wrong).unwrap_err();
    assert!(
        error.faults[0].starts_with("spec.allowedNamespaces"),
        "{error}"
    );
}

fn on_lan(more: &serde_json::Value) -> Result<Segment, InvalidL2Network> {
    let mut spec = serde_json::json!({
        "subnets": [{"cidr": "192.0.2.0/24"}], "ranges": ["192.0.2.16/28"],
    });
    let fields = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    Segment::try_from(&network(serde_json::from_value(spec).unwrap()))
}

fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    let labels = labels.iter();
    labels
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn lists_interfaces_of_each_node() {
    let segment = on_lan(&serde_json::json!({"interfaces": [
        {"name": "eth9", "nodeSelector": {"matchLabels": {"rack": "r1"}}},
        {"name": "eth0"},
        {"name": "bond*"},
    ]}))
    .unwrap();
    let names = |own: &[(&str, &str)]| {
        let entries = segment
            .on_node(&labels(own))
            .into_owned()
            .interfaces
            .unwrap();
        let names = entries.iter().map(|entry| entry.pattern.to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["eth0", "bond*"]);
    assert_eq!(names(&[("rack", "r1")]), ["eth9", "eth0", "bond*"]);
    let unnamed = on_lan(&serde_json::json!({})).unwrap();
    assert_eq!(unnamed.on_node(&labels(&[])).interfaces, None);
}

#[test]
fn adds_weights_of_preferred_nodes() {
    let segment = on_lan(&serde_json::json!({"preferredNodes": [
        {"weight": 100, "nodeSelector": {"matchLabels": {"edge": "yes"}}},
        {"weight": 30, "nodeSelector": {"matchExpressions": [{"key": "rack", "operator": "Exists"}]}},
    ]}))
    .unwrap();
    let of = |own: &[(&str, &str)]| segment.preference_for(&labels(own));
    assert_eq!(of(&[]), 0);
    assert_eq!(of(&[("edge", "yes")]), 100);
    assert_eq!(of(&[("edge", "yes"), ("rack", "r1")]), 130);
}

#[test]
fn reports_faults_of_interfaces_and_preferred_nodes() {
    let wrong = serde_json::json!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
    let entry = serde_json::json!({"weight": 1, "nodeSelector": {}});
    let error = on_lan(&serde_json::json!({
        "parent": "eth0",
        "interfaces": [{"name": "eth 0", "nodeSelector": wrong}],
        "preferredNodes": [{"weight": 101, "nodeSelector": wrong}, entry, entry, entry, entry, entry],
    }))
    .unwrap_err();
    for fault in [
        "spec.parent: \"eth0\" is named beside spec.interfaces",
        "spec.interfaces[0].name: \"eth 0\"",
        "spec.interfaces[0].nodeSelector",
        "spec.preferredNodes: 6 entries",
        "spec.preferredNodes[0].weight: 101",
        "spec.preferredNodes[0].nodeSelector",
    ] {
        assert!(
            error.to_string().contains(fault),
            "{fault} missing in {error}"
        );
    }
    assert_eq!(error.faults.len(), 6, "{error}");
}
