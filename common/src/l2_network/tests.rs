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
