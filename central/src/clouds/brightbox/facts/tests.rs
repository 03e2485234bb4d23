use serde_json::{Value, json};

use super::*;
use crate::cloud_provider::servers;

fn machines(servers: &[Server]) -> Result<Vec<Machine>, String> {
    servers::machines::<Brightbox>(servers)
}

fn server(more: &Value) -> Server {
    let mut all = json!({
        "id": "srv-gdqms",
        "status": "active",
        "hostname": "Worker-1",
        "fqdn": "srv-gdqms.gb1.brightbox.com",
        "server_type": {"id": "typ-12345", "handle": "2gb.ssd"},
        "zone": {"id": "zon-12345", "handle": "gb1s-a"},
        "interfaces": [{"ipv4_address": "10.1.69.162", "ipv6_address": "2A02:1348:0::1"}],
        "cloud_ips": [
            {"public_ip": "109.107.50.0", "fqdn": "cip-12345.gb1.brightbox.com"},
            {"public_ip": "109.107.50.1", "fqdn": null},
        ],
    });
    for (key, value) in more.as_object().unwrap() {
        all[key] = value.clone();
    }
    serde_json::from_value(all).unwrap()
}

fn one(more: &Value) -> Machine {
    machines(&[server(more)]).unwrap().pop().unwrap()
}

fn shown(machine: &Machine) -> Vec<String> {
    let addresses = machine.facts.addresses.iter();
    addresses.map(ToString::to_string).collect()
}

#[test]
fn describes_server() {
    let machine = one(&json!({}));
    let facts = &machine.facts;
    assert_eq!(machine.id.to_string(), "brightbox://srv-gdqms");
    assert_eq!(machine.names, ["srv-gdqms", "worker-1"]);
    assert_eq!(facts.instance_type.as_deref(), Some("2gb.ssd"));
    assert_eq!(facts.zone.as_deref(), Some("gb1s-a"));
    assert_eq!(facts.region.as_deref(), Some("gb1s"));
    assert_eq!(
        shown(&machine),
        [
            "Hostname Worker-1",
            "ExternalDNS srv-gdqms.gb1.brightbox.com",
            "InternalIP 10.1.69.162",
            "ExternalIP 2a02:1348::1",
            "ExternalIP 109.107.50.0",
            "ExternalIP 109.107.50.1",
            "ExternalDNS cip-12345.gb1.brightbox.com",
        ]
    );
}

/// The default host name is the identifier.
#[test]
fn host_name_that_is_the_identifier_is_no_second_name() {
    for hostname in [
        json!("srv-gdqms"),
        json!("SRV-GDQMS"),
        json!(""),
        json!(null),
    ] {
        let machine = one(&json!({ "hostname": hostname }));
        assert_eq!(machine.names, ["srv-gdqms"], "{hostname}");
    }
}

#[test]
fn each_private_address_is_one_that_load_balancers_reach() {
    let interface = |v4: Value, v6: &str| json!({ "ipv4_address": v4, "ipv6_address": v6 });
    let interfaces = [
        interface(json!("10.1.69.162"), "fd00::1"),
        interface(json!(null), "2a02:1348::1"),
        interface(json!("10.1.69.163"), "fe00::1"),
    ];
    let machine = one(&json!({ "interfaces": interfaces, "cloud_ips": [], "fqdn": "" }));
    let reached = machine.attachments.iter();
    let reached: Vec<String> = reached.map(|one| one.address.to_string()).collect();
    assert_eq!(reached, ["10.1.69.162", "10.1.69.163"]);
    assert_eq!(
        shown(&machine),
        [
            "Hostname Worker-1",
            "InternalIP 10.1.69.162",
            "InternalIP fd00::1",
            "ExternalIP 2a02:1348::1",
            "InternalIP 10.1.69.163",
            "ExternalIP fe00::1",
        ]
    );
}

/// brightbox.md, section 3.
#[test]
fn reads_statuses() {
    for (status, expected) in [
        (json!("creating"), Some(Presence::Running)),
        (json!("active"), Some(Presence::Running)),
        (json!("deleting"), Some(Presence::Running)),
        (json!("inactive"), Some(Presence::Stopped)),
        (json!("unavailable"), Some(Presence::Stopped)),
        (json!("deleted"), None),
        (json!("failed"), None),
        (json!("hibernating"), Some(Presence::Running)),
        (json!(null), Some(Presence::Running)),
    ] {
        let found = machines(&[server(&json!({ "status": status }))]).unwrap();
        let presence = found.first().map(|machine| machine.presence);
        assert_eq!(presence, expected, "{status}");
    }
}

#[test]
fn unreadable_address_leaves_the_list_unknown() {
    let interface = |v4: Value, v6: Value| json!({ "interfaces": [{ "ipv4_address": v4, "ipv6_address": v6 }] });
    for (more, known) in [
        (interface(json!("10.0.0.1"), json!(null)), true),
        (
            interface(json!("::ffff:256.156.256.256"), json!(null)),
            false,
        ),
        (interface(json!("10.0.0.1"), json!("bust::edfe")), false),
        (
            json!({ "cloud_ips": [{ "public_ip": "300.30.300.30" }] }),
            false,
        ),
        (json!({ "cloud_ips": [{ "public_ip": null }] }), false),
        (json!({ "interfaces": null }), false),
        (json!({ "interfaces": [], "cloud_ips": [] }), false),
    ] {
        assert_eq!(!shown(&one(&more)).is_empty(), known, "{more}");
    }
}

#[test]
fn zone_without_region_gives_none() {
    let cases = [
        ("gb1-b", Some("gb1")),
        ("gb1-x-b", Some("gb1-x")),
        ("dummy", None),
    ];
    for (handle, region) in cases {
        let machine = one(&json!({ "zone": { "handle": handle } }));
        assert_eq!(machine.facts.region.as_deref(), region);
        assert_eq!(machine.facts.zone.as_deref(), Some(handle));
    }
}

#[test]
fn reads_provider_ids() {
    for (text, expected) in [
        ("brightbox://srv-gdqms", Some("brightbox://srv-gdqms")),
        (" brightbox:// srv-gdqms ", Some("brightbox://srv-gdqms")),
        ("brightbox://srv-", None),
        ("brightbox://lba-gdqms", None),
        ("brightbox://SRV-GDQMS", None),
        ("k3s://srv-gdqms", None),
        ("srv-gdqms", None),
    ] {
        let id = servers::parse_id::<Brightbox>(text).map(|id| id.to_string());
        assert_eq!(id.as_deref().ok(), expected, "{text}");
    }
}

#[test]
fn rejects_servers_that_cannot_be_told_apart() {
    for servers in [
        vec![server(&json!({ "id": "a" }))],
        vec![server(&json!({})), server(&json!({}))],
    ] {
        assert!(machines(&servers).is_err());
    }
}
