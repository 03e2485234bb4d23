use super::*;
use mooring_common::l2_network::{AddressPool, L2NetworkSpec, Subnet};
use serde_json::json;

fn network() -> L2Network {
    let subnet = Subnet {
        cidr: "192.0.2.0/24".to_owned(),
        gateway: Some("192.0.2.1".to_owned()),
    };
    let pool = |name: &str, range: &str| AddressPool {
        name: name.to_owned(),
        ranges: vec![range.to_owned()],
        ..AddressPool::default()
    };
    L2Network::new(
        "lan",
        L2NetworkSpec {
            subnets: vec![subnet],
            pools: vec![pool("a", "192.0.2.0/26"), pool("b", "192.0.2.64/26")],
            ..L2NetworkSpec::default()
        },
    )
}

fn service(name: &str, address: &str, port: u16) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": port}]},
        "status": {"loadBalancer": {"ingress": [{"ip": address}]}},
    })
}

#[test]
fn says_who_keeps_the_address_and_why_not() {
    let mut objects = Objects::default();
    let node = json!({"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.11"}]}});
    objects.add("Node", node);
    for (name, address, port) in [
        ("first", "192.0.2.0", 80),
        ("kept", "192.0.2.70", 80),
        ("node", "192.0.2.11", 80),
        ("other", "203.0.113.9", 80),
        ("router", "192.0.2.1", 80),
        ("shared-a", "192.0.2.20", 80),
        ("shared-b", "192.0.2.20", 53),
        ("twice-a", "192.0.2.21", 80),
        ("twice-b", "192.0.2.21", 80),
    ] {
        objects.add("Service", service(name, address, port));
    }
    objects.add(
        "Service",
        json!({"metadata": {"name": "new", "namespace": "shop"}, "spec": {"type": "LoadBalancer"}}),
    );
    objects.add(
        "Service",
        json!({"metadata": {"name": "internal"}, "spec": {"type": "ClusterIP"}}),
    );
    let mut findings = Findings::default();
    let mut networks = [network()];
    permit_sharing(&objects, &mut networks, &mut findings);
    assert!(!networks[0].spec.share_across_namespaces);
    let rows = rows(&objects, &networks, &mut findings);
    let shown: Vec<String> = rows
        .iter()
        .map(|row| match &row.after {
            After::Kept { network, pools } => {
                format!("{} {network}/{}", row.service, pools.join(" "))
            }
            After::Allocated => format!("{} allocated", row.service),
            After::Left(reason) => format!("{} {reason}", row.service),
        })
        .collect();
    let expected = [
        ("shop/first", "the first address"),
        ("shop/kept", "lan/b"),
        ("shop/new", "allocated"),
        ("shop/node", "address of a Node"),
        ("shop/other", "in no L2Network"),
        ("shop/router", "the router"),
        ("shop/shared-a", "lan/a"),
        ("shop/shared-b", "lan/a"),
        ("shop/twice-a", "shop/twice-b too"),
        ("shop/twice-b", "shop/twice-a too"),
    ];
    assert_eq!(shown.len(), expected.len(), "{shown:#?}");
    for (shown, (service, words)) in shown.iter().zip(expected) {
        assert!(
            shown.starts_with(service) && shown.contains(words),
            "{shown}: {words}"
        );
    }
    assert_eq!(findings.sorted().len(), 6);
    assert!(!findings.is_complete());
}

#[test]
fn services_of_several_namespaces_go_on_sharing() {
    let mut objects = Objects::default();
    let mut other = service("b", "192.0.2.20", 53);
    other["metadata"]["namespace"] = json!("web");
    objects.add("Service", service("a", "192.0.2.20", 80));
    objects.add("Service", other);
    let (mut networks, mut findings) = ([network()], Findings::default());
    permit_sharing(&objects, &mut networks, &mut findings);
    assert!(networks[0].spec.share_across_namespaces);
    assert!(findings.is_complete() && findings.sorted().len() == 1);
}
