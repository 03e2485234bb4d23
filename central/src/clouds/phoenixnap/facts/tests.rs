use serde_json::json;

use super::*;

fn servers(list: Value) -> Vec<Server> {
    serde_json::from_value(list).unwrap()
}

fn only(server: Value) -> Machine {
    let (mut machines, _) = machines(&servers(Value::Array(vec![server])));
    assert_eq!(machines.len(), 1);
    machines.remove(0)
}

fn told(machine: &Machine) -> Vec<String> {
    let addresses = machine.facts.addresses.iter();
    addresses
        .map(|a| format!("{:?} {}", a.kind, a.address))
        .collect()
}

/// phoenixnap.md 2.1.
#[test]
fn reads_all_id_forms() {
    let id = "60473c2509268bc77fd06d29";
    for text in [
        format!("phoenixnap://{id}"),
        id.to_owned(),
        format!("bmc://servers/{id}"),
    ] {
        assert!(is_ours(&text), "{text}");
        assert_eq!(
            parse_id(&text).unwrap().to_string(),
            format!("phoenixnap://{id}"),
            "{text}"
        );
    }
    let uuid = "phoenixnap://5f0c7a0e-5e0f-4d61-9b6c-0f4e3f5d8a11";
    assert_eq!(parse_id(uuid).unwrap().to_string(), uuid);
}

#[test]
fn reports_id_that_names_no_server() {
    for text in [
        "phoenixnap://",
        "phoenixnap:///abc",
        "phoenixnap://a://b",
        "phoenixnap://a/../b",
        "bmc://abc",
        "bmc://servers/",
        "bmc://servers/a/b",
    ] {
        assert!(is_ours(text), "{text}");
        let told = parse_id(text).unwrap_err();
        assert!(told.contains("names no server; write it like"), "{text}");
    }
    for text in ["", "aws://x", "linode://7", "a b", "bmcd://servers/a"] {
        assert!(!is_ours(text), "{text}");
    }
}

/// 2.3: what the Go controller reports, in its order.
#[test]
fn server_describes_node() {
    let machine = only(json!({
        "id": "a1", "hostname": "web-1", "type": "s2.c1.medium", "location": "PHX",
        "status": "powered-on",
        "publicIpAddresses": ["131.153.1.2", "131.153.1.3"], "privateIpAddresses": ["10.0.0.11"],
    }));
    let facts = &machine.facts;
    assert_eq!(
        facts.provider_id.as_ref().unwrap().to_string(),
        "phoenixnap://a1"
    );
    assert_eq!(facts.instance_type.as_deref(), Some("s2.c1.medium"));
    assert_eq!(facts.region.as_deref(), Some("PHX"), "in capitals");
    assert_eq!(facts.zone, None);
    assert_eq!(
        told(&machine),
        [
            "Hostname web-1",
            "ExternalIP 131.153.1.2",
            "ExternalIP 131.153.1.3",
            "InternalIP 10.0.0.11"
        ]
    );
}

/// The Go controller refuses the first two (B8).
#[test]
fn reports_all_addresses_of_server() {
    for (public, private, expected) in [
        (
            json!(null),
            json!(["10.0.0.11"]),
            &["InternalIP 10.0.0.11"][..],
        ),
        (
            json!(["131.153.1.2"]),
            json!([]),
            &["ExternalIP 131.153.1.2"],
        ),
        (
            json!(["131.153.1.2", "131.153.1.2", "2001:db8:0::2", "2001:db8::2"]),
            json!(["131.153.1.2", "10.0.0.11"]),
            &[
                "ExternalIP 131.153.1.2",
                "ExternalIP 2001:db8::2",
                "InternalIP 10.0.0.11",
            ],
        ),
        (
            json!(["131.153.1.2"]),
            json!(["10.0.0.11 - 10.0.0.15", "10.0.0.9"]),
            &["ExternalIP 131.153.1.2", "InternalIP 10.0.0.9"],
        ),
        // A list with a gap would take an address off the Node.
        (json!(["131.153.1.2", "soon"]), json!(["10.0.0.11"]), &[]),
        (json!("131.153.1.2"), json!(["10.0.0.11"]), &[]),
        (json!([]), json!(null), &[]),
    ] {
        let machine =
            only(json!({"id": "a1", "publicIpAddresses": public, "privateIpAddresses": private}));
        assert_eq!(told(&machine), expected, "{public} {private}");
    }
}

/// 2.4, with the two that the Go controller does not know.
#[test]
fn maps_status() {
    for (status, expected) in [
        ("creating", Some(Presence::Running)),
        ("powered-on", Some(Presence::Running)),
        ("rebooting", Some(Presence::Running)),
        ("resetting", Some(Presence::Running)),
        ("reinstating", Some(Presence::Running)),
        ("error", Some(Presence::Running)),
        ("what-is-new", Some(Presence::Running)),
        ("powered-off", Some(Presence::Stopped)),
        ("POWERED_OFF", Some(Presence::Stopped)),
        ("deleting", Some(Presence::Stopped)),
        ("reserved", None),
        ("RESERVED", None),
    ] {
        let (machines, _) = machines(&servers(json!([{"id": "a1", "status": status}])));
        let presence = machines.first().map(|machine| machine.presence);
        assert_eq!(presence, expected, "{status}");
    }
}

/// 2.2 and B29.
#[test]
fn finds_node_by_host_name_of_running_server() {
    let list = servers(json!([
        {"id": "capitals", "hostname": "Web-1", "status": "powered-on"},
        {"id": "twin-on", "hostname": "twin", "status": "powered-on"},
        {"id": "twin-off", "hostname": "TWIN", "status": "powered-off"},
        {"id": "both-1", "hostname": "both", "status": "powered-on"},
        {"id": "both-2", "hostname": "both", "status": "powered-on"},
        {"id": "leaving", "hostname": "web-1", "status": "deleting"},
        {"id": "reserved", "hostname": "web-1", "status": "reserved"},
        {"id": "long", "hostname": "db.example.com", "status": "powered-on"},
        {"id": "short", "hostname": "cache", "status": "powered-on"},
        {"id": "long-cache", "hostname": "cache.example.com", "status": "powered-on"},
        {"id": "nameless"},
    ]));
    let (machines, _) = machines(&list);
    let called = |name: &str| {
        let all = machines.iter();
        all.filter(|machine| machine.names.iter().any(|own| own == name))
            .map(|machine| machine.id.instance())
            .collect::<Vec<_>>()
    };
    assert_eq!(called("web-1"), ["capitals"]);
    assert_eq!(called("twin"), ["twin-on"]);
    assert_eq!(called("both"), ["both-1", "both-2"], "none is chosen");
    assert_eq!(called("db"), ["long"]);
    assert_eq!(called("db.example.com"), ["long"]);
    assert_eq!(called("cache"), ["short"], "the whole name counts for more");
    assert_eq!(called(""), [""; 0]);
}

#[test]
fn matches_nodes_by_public_address_only() {
    let machine = only(json!({
        "id": "a1", "publicIpAddresses": ["131.153.1.2"], "privateIpAddresses": ["10.0.0.11"],
    }));
    let public: IpAddr = "131.153.1.2".parse().unwrap();
    assert_eq!(machine.found_by, [public]);
}

/// One odd server hides no other, and its name is not another's because of that.
#[test]
fn leaves_out_server_without_readable_identifier() {
    let (machines, unread) = machines(&servers(json!([
        {"id": "a1", "hostname": "web-1", "status": "powered-on"},
        {"id": "b/2", "hostname": "web-2", "status": "powered-on"},
        {"id": "b3", "hostname": "web-2", "status": "powered-on"},
        {"id": 4, "hostname": "web-4"},
        {"hostname": "web-5"},
    ])));
    let told: Vec<_> = machines
        .iter()
        .map(|m| (m.id.instance(), m.names.clone()))
        .collect();
    assert_eq!(told, [("a1", vec!["web-1".to_owned()]), ("b3", Vec::new())]);
    let named = unread.iter().zip(["web-2", "web-4", "web-5"]);
    assert!(
        unread.len() == 3 && named.clone().all(|(why, name)| why.contains(name)),
        "{unread:?}"
    );
}
