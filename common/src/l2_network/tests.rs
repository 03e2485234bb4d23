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
fn a_dual_stack_segment_is_read() {
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
fn every_fault_is_told_at_once() {
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
