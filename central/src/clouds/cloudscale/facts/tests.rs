use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cloud_provider::servers::{machines, parse_id};

const UUID: &str = "47cec963-fcd2-482f-bdb6-24461b2d47b1";

#[expect(
    clippy::needless_pass_by_value,
    reason = "reads better where it is called"
)]
fn server(more: Value) -> Server {
    let mut all = json!({
        "uuid": UUID,
        "name": "worker-1",
        "status": "running",
        "zone": {"slug": "rma1"},
        "flavor": {"slug": "flex-4-2", "name": "Flex-4-2"},
        "interfaces": [
            {"type": "public", "addresses": [
                {"version": 4, "address": "5.102.144.1", "subnet": null},
                {"version": 6, "address": "2a06:c01:bb::1"},
            ]},
            {"type": "private", "network": {}, "addresses": [{"address": "10.0.0.1"}]},
        ],
    });
    for (key, value) in more.as_object().unwrap() {
        all[key] = value.clone();
    }
    serde_json::from_value(all).unwrap()
}

/// The machine behind a server.
fn machine(server: Server) -> Result<Machine, String> {
    machines::<Cloudscale>(&[server]).map(|mut all| all.remove(0))
}

fn shown(machine: &Machine) -> Vec<String> {
    machine
        .facts
        .addresses
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// cloudscale.md 7.4, TestInstanceMetadata.
#[test]
fn describes_server_like_go_controller() {
    let machine = machine(server(json!({}))).unwrap();
    let facts = &machine.facts;
    assert_eq!(machine.id.to_string(), format!("cloudscale://{UUID}"));
    assert_eq!(facts.provider_id.as_ref(), Some(&machine.id));
    assert_eq!(
        (machine.names.len(), machine.names[0].as_str()),
        (1, "worker-1")
    );
    assert_eq!(facts.instance_type.as_deref(), Some("flex-4-2"));
    assert_eq!(
        (facts.zone.as_deref(), facts.region.as_deref()),
        (Some("rma1"), Some("rma"))
    );
    assert!(machine.found_by.is_empty() && !facts.keeps_reported_internal_ips);
    let expected = [
        "Hostname worker-1",
        "ExternalIP 5.102.144.1",
        "ExternalIP 2a06:c01:bb::1",
        "InternalIP 10.0.0.1",
    ];
    assert_eq!(shown(&machine), expected);
}

#[test]
fn invalid_address_means_none() {
    for interfaces in [
        json!(null),
        json!([]),
        json!([{"type": "public", "addresses": []}]),
        json!([{"type": "public", "addresses": [{"address": "5.102.144.1"}, {"address": "x"}]}]),
        json!([{"type": "public", "addresses": [{"address": "5.102.144.1"}, {"address": null}]}]),
        json!([{"addresses": [{"address": "5.102.144.1"}]}]),
    ] {
        let machine = machine(server(json!({"interfaces": interfaces}))).unwrap();
        assert_eq!(shown(&machine), [""; 0], "{interfaces}");
    }
}

#[test]
fn lists_server_with_missing_fields() {
    let odd = json!({"uuid": UUID, "name": 1, "zone": "rma1", "flavor": null, "status": {}});
    for entry in [json!({"uuid": UUID}), odd] {
        let bare: Server = serde_json::from_value(entry).unwrap();
        let machine = machine(bare).unwrap();
        assert_eq!(machine.presence, Presence::Running);
        assert_eq!((machine.names.len(), machine.facts.zone), (0, None));
    }
}

#[test]
fn rejects_server_without_uuid() {
    assert!(machine(server(json!({"uuid": "7"}))).is_err());
    assert!(serde_json::from_value::<Server>(json!({"name": "a"})).is_err());
}

#[test]
fn only_stopped_server_is_stopped() {
    for (status, presence) in [
        ("running", Presence::Running),
        ("stopped", Presence::Stopped),
        ("started", Presence::Running),
        ("changing", Presence::Running),
    ] {
        let machine = machine(server(json!({"status": status}))).unwrap();
        assert_eq!(machine.presence, presence, "{status}");
    }
}

/// cloudscale.md 7.1, TestParseProviderID.
#[test]
fn ids_are_normalised() {
    let hex = UUID.replace('-', "");
    for form in [
        UUID.to_owned(),
        UUID.to_uppercase(),
        hex.clone(),
        hex.to_uppercase(),
        format!(" {UUID} "),
        format!("{{{UUID}}}"),
        format!("urn:uuid:{UUID}"),
    ] {
        let id = parse_id::<Cloudscale>(&format!("cloudscale://{form}")).unwrap();
        assert_eq!(id.to_string(), format!("cloudscale://{UUID}"), "{form}");
    }
    for text in [
        "cloudscale".to_owned(),
        String::new(),
        format!("cloudscale:/{UUID}"),
        format!("://{UUID}"),
        "cloudscale://".to_owned(),
        "cloudscale://foo".to_owned(),
        format!("bigcorp://{UUID}"),
        format!("cloudscal://{UUID}"),
    ] {
        assert!(
            parse_id::<Cloudscale>(&text)
                .unwrap_err()
                .contains("cloudscale://"),
            "{text}"
        );
    }
}

proptest! {
    #[test]
    fn entry_with_uuid_is_a_server(name in ".{0,300}", slug in ".{0,80}", ip in ".{0,20}") {
        let entry = json!({
            "uuid": UUID, "name": name, "zone": {"slug": slug}, "flavor": {"slug": slug},
            "interfaces": [{"type": slug, "addresses": [{"address": ip}]}],
        });
        let server: Server = serde_json::from_value(entry).unwrap();
        prop_assert!(machine(server).is_ok());
    }
}
