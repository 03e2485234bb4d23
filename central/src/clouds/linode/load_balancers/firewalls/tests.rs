use super::*;
use crate::engine::canonical::network;

const LABEL: &str = "ccm-0123456789ab";

/// What is changed about a firewall, how, and what becomes of that.
type Case = (&'static str, fn(&mut Value), bool);

/// A firewall for the Service `web`.
fn wanted(allows: bool, networks: &[&str], ports: &[(u16, bool)]) -> FirewallSpec {
    let networks = networks.iter().map(|text| network(text).unwrap()).collect();
    FirewallSpec::of(&Acl { allows, networks }, ports, "web", LABEL.to_owned())
}

/// So many networks of each family.
fn many(v4: u32, v6: u32) -> Vec<String> {
    let v4 = (0..v4).map(|index| format!("10.{}.{}.0/24", index / 256, index % 256));
    let v6 = (0..v6).map(|index| format!("2001:db8:{index:x}::/48"));
    v4.chain(v6).collect()
}

/// Protocol, number of ports, and numbers of addresses of each rule.
fn sizes(spec: &FirewallSpec) -> Vec<(&str, usize, usize, usize)> {
    let rules = spec.rules.inbound.iter();
    let size = |rule: &'_ Rule| {
        (
            rule.ports.split(',').count(),
            rule.addresses.ipv4.len(),
            rule.addresses.ipv6.len(),
        )
    };
    rules
        .map(|rule| {
            let (ports, v4, v6) = size(rule);
            (rule.protocol.as_str(), ports, v4, v6)
        })
        .collect()
}

#[test]
fn allowed_are_accepted_and_denied_are_dropped() {
    let rule = |action: &str, protocol: &str, ports: &str| Rule {
        action: action.to_owned(),
        label: format!("{action}-web"),
        description: String::new(),
        ports: ports.to_owned(),
        protocol: protocol.to_owned(),
        addresses: Addresses {
            ipv4: vec!["192.0.2.0/24".to_owned()],
            ipv6: vec!["2001:db8::/32".to_owned()],
        },
    };
    let networks = ["2001:db8::1/32", "192.0.2.0/24"];
    let mut allows = wanted(true, &networks, &[(443, false), (80, false), (53, true)]);
    assert_eq!(allows.rules.inbound_policy, "DROP");
    let texts = allows
        .rules
        .inbound
        .iter_mut()
        .map(|rule| std::mem::take(&mut rule.description));
    let texts: Vec<String> = texts.collect();
    assert_eq!(
        texts,
        [
            "Rule 0, Created by linode-ccm: ACCEPT-web, for web",
            "Rule 1, Created by linode-ccm: ACCEPT-web, for web",
        ]
    );
    assert_eq!(
        allows.rules.inbound,
        [rule("ACCEPT", "TCP", "443,80"), rule("ACCEPT", "UDP", "53")]
    );
    let mut denies = wanted(false, &networks, &[(80, false)]);
    assert_eq!(denies.rules.inbound_policy, "ACCEPT");
    let text = std::mem::take(&mut denies.rules.inbound[0].description);
    assert_eq!(text, "Created by linode-ccm: DROP-web, for web");
    assert_eq!(denies.rules.inbound, [rule("DROP", "TCP", "80")]);
    assert_eq!(denies.told_rules()["outbound_policy"], "ACCEPT");
}

/// 255 addresses and 15 ports at most, and no rule without addresses.
#[test]
fn rules_are_as_many_as_it_takes() {
    let tcp = |count: u16| -> Vec<(u16, bool)> { (1..=count).map(|port| (port, false)).collect() };
    let mixed = [(80, false), (80, true)];
    for (v4, v6, ports, expected) in [
        (1, 0, tcp(1), &[("TCP", 1, 1, 0)][..]),
        (200, 55, tcp(1), &[("TCP", 1, 200, 55)]),
        (255, 1, tcp(1), &[("TCP", 1, 255, 0), ("TCP", 1, 0, 1)]),
        (256, 0, tcp(1), &[("TCP", 1, 255, 0), ("TCP", 1, 1, 0)]),
        (0, 256, tcp(1), &[("TCP", 1, 0, 255), ("TCP", 1, 0, 1)]),
        (1, 0, tcp(15), &[("TCP", 15, 1, 0)]),
        (1, 0, tcp(16), &[("TCP", 15, 1, 0), ("TCP", 1, 1, 0)]),
        (1, 1, mixed.to_vec(), &[("TCP", 1, 1, 1), ("UDP", 1, 1, 1)]),
        (1, 0, vec![(53, true)], &[("UDP", 1, 1, 0)]),
    ] {
        let networks = many(v4, v6);
        let networks: Vec<&str> = networks.iter().map(String::as_str).collect();
        let spec = wanted(true, &networks, &ports);
        assert_eq!(sizes(&spec), expected, "{v4} {v6} {ports:?}");
        let listed = spec
            .rules
            .inbound
            .iter()
            .flat_map(|rule| &rule.addresses.ipv4);
        assert_eq!(listed.count() % v4.max(1) as usize, 0);
    }
    let networks = many(25 * 255, 0);
    let networks: Vec<&str> = networks.iter().map(String::as_str).collect();
    assert_eq!(
        wanted(true, &networks, &tcp(1)).rules.inbound.len(),
        MOST_RULES
    );
}

#[test]
fn names_are_cut_to_what_a_rule_takes() {
    let networks = [network("10.0.0.0/8").unwrap()].into();
    let acl = Acl {
        allows: true,
        networks,
    };
    let spec = FirewallSpec::of(
        &acl,
        &[(80, false), (80, true)],
        &"x".repeat(63),
        LABEL.to_owned(),
    );
    let rule = &spec.rules.inbound[0];
    assert_eq!(rule.label, format!("ACCEPT-{}", "x".repeat(25)));
    assert_eq!(rule.description.len(), 100);
    assert!(rule.description.ends_with("xxx..."));
}

/// What the Go controller made for TCP ports 443 and 80, attached to NodeBalancer 1.
fn made_by_go() -> Value {
    json!({
        "id": 7, "label": LABEL, "tags": [], "status": "enabled",
        "rules": {
            "inbound": [{
                "action": "ACCEPT", "label": "ACCEPT-web", "ports": "80, 443", "protocol": "TCP",
                "description": "Created by linode-ccm: ACCEPT-web, for web",
                "addresses": {"ipv4": ["192.0.2.9/24"], "ipv6": ["2001:DB8::/32"]},
            }],
            "inbound_policy": "DROP", "outbound": null, "outbound_policy": "ACCEPT",
        },
        "entities": [{"id": 1, "type": "nodebalancer", "label": LABEL, "url": "/v4/nodebalancers/1"}],
    })
}

fn listed(change: impl FnOnce(&mut Value)) -> Firewall {
    let mut firewall = made_by_go();
    change(&mut firewall);
    serde_json::from_value(firewall).unwrap()
}

fn rule(firewall: &mut Value) -> &mut Value {
    &mut firewall["rules"]["inbound"][0]
}

/// Each row: a change of what the Go controller made, and whether it still does as wanted.
#[test]
fn only_the_meaning_of_rules_counts() {
    let wanted = wanted(
        true,
        &["192.0.2.0/24", "2001:db8::/32"],
        &[(443, false), (80, false)],
    );
    let table: [Case; 14] = [
        ("as it is", |_| {}, true),
        ("names", |f| rule(f)["label"] = json!("x"), true),
        (
            "description",
            |f| rule(f)["description"] = Value::Null,
            true,
        ),
        ("order", |f| rule(f)["ports"] = json!("443,80"), true),
        (
            "several rules",
            |f| {
                let mut second = rule(f).clone();
                second["ports"] = json!("443");
                rule(f)["ports"] = json!("80");
                f["rules"]["inbound"].as_array_mut().unwrap().push(second);
            },
            true,
        ),
        ("missing port", |f| rule(f)["ports"] = json!("80"), false),
        (
            "other port",
            |f| rule(f)["ports"] = json!("80, 443, 22"),
            false,
        ),
        ("all ports", |f| rule(f)["ports"] = Value::Null, false),
        (
            "missing network",
            |f| rule(f)["addresses"]["ipv6"] = Value::Null,
            false,
        ),
        (
            "other network",
            |f| rule(f)["addresses"]["ipv4"] = json!(["192.0.2.0/24", "10.0.0.0/8"]),
            false,
        ),
        (
            "policy",
            |f| f["rules"]["inbound_policy"] = json!("ACCEPT"),
            false,
        ),
        ("action", |f| rule(f)["action"] = json!("DROP"), false),
        ("protocol", |f| rule(f)["protocol"] = json!("UDP"), false),
        (
            "no rules",
            |f| f["rules"] = json!({"inbound": null, "inbound_policy": "DROP"}),
            false,
        ),
    ];
    for (what, change, expected) in table {
        assert_eq!(listed(change).is_as(&wanted), expected, "{what}");
    }
    let mut taken = listed(|f| f["rules"] = Value::Null);
    taken.take(&wanted);
    assert!(taken.is_as(&wanted));
}

/// Each row: a change of what the Go controller made, and whether that still shows who made it.
#[test]
fn made_by_the_go_controller_is_told_by_name_rules_and_use() {
    let table: [Case; 11] = [
        ("as it is", |_| {}, true),
        (
            "other prefix",
            |f| f["label"] = json!("my-cluster_1-00ff00ff00ff"),
            true,
        ),
        (
            "number",
            |f| rule(f)["description"] = json!("Rule 0, Created by linode-ccm: x"),
            true,
        ),
        ("user's name", |f| f["label"] = json!("office"), false),
        (
            "no digits",
            |f| f["label"] = json!("ccm-0123456789xy"),
            false,
        ),
        (
            "fewer digits",
            |f| f["label"] = json!("ccm-0123456789a"),
            false,
        ),
        (
            "user's rule",
            |f| {
                let mut second = rule(f).clone();
                second["description"] = json!("ssh");
                f["rules"]["inbound"].as_array_mut().unwrap().push(second);
            },
            false,
        ),
        ("no rules", |f| f["rules"]["inbound"] = json!([]), false),
        (
            "used elsewhere",
            |f| {
                f["entities"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"id": 2, "type": "linode"}));
            },
            false,
        ),
        ("unused", |f| f["entities"] = json!([]), false),
        (
            "another Service's",
            |f| f["tags"] = json!(["k8s-service-other"]),
            false,
        ),
    ];
    for (what, change, expected) in table {
        assert_eq!(listed(change).is_made_by_go("ccm-1"), expected, "{what}");
    }
    // Whoever else attaches it: it is called as the NodeBalancer that it was made for.
    let shared = listed(|f| f["entities"] = json!([{"id": 1, "type": "nodebalancer"}, {"id": 2}]));
    assert!(!shared.is_made_by_go("ccm-1"));
    assert!(shared.is_made_by_go(&shared.label));
}

#[test]
fn what_a_firewall_protects_is_never_overlooked() {
    for (entities, expected) in [
        (json!(null), 0),
        (
            json!([{"id": null, "type": null}, {}, {"id": "x", "type": 7}]),
            3,
        ),
    ] {
        let there = listed(|f| f["entities"] = entities.clone());
        assert_eq!(there.users().len(), expected, "{entities}");
    }
    let torn = json!({"id": 1, "entities": [7]});
    assert!(serde_json::from_value::<Firewall>(torn).is_err());
}

#[test]
fn protects_what_is_a_nodebalancer_of_this_number() {
    assert!(listed(|_| {}).protects("1"));
    assert!(!listed(|_| {}).protects("11"));
    assert!(!listed(|f| f["entities"][0]["type"] = json!("linode")).protects("1"));
}
