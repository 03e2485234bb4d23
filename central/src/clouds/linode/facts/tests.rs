use proptest::prelude::*;
use serde_json::json;

use super::*;

#[expect(
    clippy::needless_pass_by_value,
    reason = "reads better where it is called"
)]
fn instance(more: Value) -> Instance {
    let mut all = json!({
        "id": 123,
        "label": "worker_1",
        "region": "us-east",
        "type": "g6-standard-2",
        "status": "running",
        "ipv4": ["198.51.100.7", "192.168.130.4"],
        "ipv6": "2600:3c00::1/128",
        "host_uuid": "3a3ddd59d9a78bb8de041391075df44de62bfec8",
    });
    for (key, value) in more.as_object().unwrap() {
        all[key] = value.clone();
    }
    serde_json::from_value(all).unwrap()
}

fn machine(more: Value) -> Machine {
    let nowhere = VpcAddresses::default();
    Describe::default()
        .machine(&instance(more), Some(&nowhere))
        .unwrap()
}

fn shown(machine: &Machine) -> Vec<String> {
    machine
        .facts
        .addresses
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// linode.md 3.2: the order of the Go controller.
#[test]
fn addresses_keep_order_of_go_controller() {
    let vpcs = VpcAddresses {
        ipv4: vec!["10.0.0.2".parse().unwrap(), "10.1.0.2".parse().unwrap()],
        ipv6: vec![
            ("fd00::2".parse().unwrap(), false),
            ("2600:3c01::2".parse().unwrap(), true),
        ],
        is_torn: false,
    };
    let machine = Describe::default()
        .machine(&instance(json!({})), Some(&vpcs))
        .unwrap();
    assert_eq!(
        shown(&machine),
        [
            "Hostname worker_1",
            "InternalIP 10.0.0.2",
            "InternalIP 10.1.0.2",
            "ExternalIP 198.51.100.7",
            "InternalIP 192.168.130.4",
            "InternalIP fd00::2",
            "ExternalIP 2600:3c01::2",
            "ExternalIP 2600:3c00::1",
        ]
    );
    assert!(machine.facts.keeps_reported_internal_ips);
}

#[test]
fn describes_linode_like_go_controller() {
    let machine = machine(json!({}));
    let facts = &machine.facts;
    assert_eq!(machine.id.to_string(), "linode://123");
    assert_eq!(facts.provider_id.as_ref(), Some(&machine.id));
    assert_eq!(machine.names, ["worker_1"]);
    assert_eq!(facts.instance_type.as_deref(), Some("g6-standard-2"));
    assert_eq!(
        (facts.region.as_deref(), facts.zone.as_deref()),
        (Some("us-east"), None)
    );
    let pairs: Vec<_> = facts.provider_annotations.iter().collect();
    assert_eq!(
        format!("{pairs:?} {:?}", facts.provider_labels),
        "[(\"node.k8s.linode.com/private-ip\", \"192.168.130.4\"), \
         (\"node.k8s.linode.com/public-ipv6\", \"2600:3c00::1/128\")] \
         {\"node.k8s.linode.com/host-uuid\": \"3a3ddd59d9a78bb8de041391075df44de62bfec8\"}"
    );
    let found_by: Vec<String> = machine.found_by.iter().map(ToString::to_string).collect();
    assert_eq!(found_by, ["198.51.100.7", "2600:3c00::1"]);
}

/// In another VPC another Linode may have the same address; in those that the flags name, none has.
#[test]
fn machine_is_found_by_its_addresses_in_the_vpcs() {
    let vpcs = VpcAddresses {
        ipv4: vec!["10.8.0.2".parse().unwrap()],
        ..VpcAddresses::default()
    };
    let machine = Describe::default()
        .machine(&instance(json!({})), Some(&vpcs))
        .unwrap();
    assert!(machine.found_by.contains(&"10.8.0.2".parse().unwrap()));
    assert!(!machine.found_by.contains(&"192.168.130.4".parse().unwrap()));
}

#[test]
fn external_subnet_makes_private_addresses_external() {
    let describe = Describe {
        external_subnet: Some("192.168.0.0/16".parse().unwrap()),
    };
    let nowhere = VpcAddresses::default();
    let machine = describe
        .machine(&instance(json!({})), Some(&nowhere))
        .unwrap();
    assert!(shown(&machine).contains(&"ExternalIP 192.168.130.4".to_owned()));
    assert!(machine.found_by.contains(&"192.168.130.4".parse().unwrap()));
    let annotations = &machine.facts.provider_annotations;
    assert!(!annotations.contains_key(annotations::LINODE_PRIVATE_IP));
}

#[test]
fn empty_text_is_no_ipv6_address() {
    let without = machine(json!({"ipv6": null}));
    assert_eq!(shown(&machine(json!({"ipv6": ""}))), shown(&without));
    assert_ne!(shown(&without), [""; 0]);
}

/// Addresses that cannot be read would be taken off the Node if the others were reported.
#[test]
fn invalid_address_means_none() {
    for more in [
        json!({"ipv4": ["198.51.100.7", "somewhere"]}),
        json!({"ipv4": ["198.51.100.7", null]}),
        json!({"ipv4": "198.51.100.7"}),
        json!({"ipv4": null}),
        json!({"ipv6": "here/128"}),
        json!({"ipv6": 7}),
        json!({"ipv4": [], "ipv6": null}),
    ] {
        let machine = machine(more.clone());
        assert_eq!(shown(&machine), [""; 0], "{more}");
        assert_eq!(machine.id.to_string(), "linode://123", "{more}");
    }
    let torn = VpcAddresses {
        is_torn: true,
        ..VpcAddresses::default()
    };
    for vpcs in [Some(&torn), None] {
        let machine = Describe::default()
            .machine(&instance(json!({})), vpcs)
            .unwrap();
        assert_eq!((shown(&machine).len(), machine.found_by.len()), (0, 2));
    }
}

#[test]
fn lists_machine_with_missing_fields() {
    let bare: Instance = serde_json::from_value(json!({"id": 5, "new": {"a": 1}})).unwrap();
    let machine = Describe::default()
        .machine(&bare, Some(&VpcAddresses::default()))
        .unwrap();
    assert_eq!(machine.id.to_string(), "linode://5");
    assert_eq!(
        (machine.presence, machine.names.len()),
        (Presence::Running, 0)
    );
    assert_eq!(machine.facts.addresses, []);
    let odd = json!({"id": 5, "label": 1, "type": [], "region": {}, "status": 0, "host_uuid": 3});
    assert!(serde_json::from_value::<Instance>(odd).is_ok());
}

#[test]
fn only_shut_down_server_is_stopped() {
    for (status, presence) in [
        ("running", Presence::Running),
        ("offline", Presence::Stopped),
        ("shutting_down", Presence::Stopped),
        ("rebooting", Presence::Running),
        ("deleting", Presence::Running),
        ("news", Presence::Running),
    ] {
        assert_eq!(
            machine(json!({"status": status})).presence,
            presence,
            "{status}"
        );
    }
}

#[test]
fn invalid_label_value_is_sanitised() {
    let machine = machine(json!({"type": "GPU (RTX 6000)", "host_uuid": " -- ", "label": ""}));
    assert_eq!(machine.facts.instance_type.as_deref(), Some("GPU-RTX-6000"));
    assert!(machine.facts.provider_labels.is_empty());
    assert!(machine.names.is_empty());
}

#[test]
fn reads_ids_in_written_form_only() {
    assert_eq!(
        parse_id("linode://123").unwrap().to_string(),
        "linode://123"
    );
    for text in [
        "linode://",
        "linode://007",
        "linode://-1",
        "linode://+1",
        "linode://0",
        "linode://abc",
        "linode:///1",
        "linode://18446744073709551616",
        "aws://1",
        "1",
        "",
    ] {
        let error = parse_id(text).unwrap_err();
        assert!(error.contains("linode://123"), "{text}: {error}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(Value::from("2600::1/128")),
        Just(Value::from("10.0.0.1")),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z_]{1,6}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn entry_with_number_is_a_machine(
        label in any_json(), kind in any_json(), ipv4 in any_json(), ipv6 in any_json(),
        status in any_json(), id in 1_u64..,
    ) {
        let entry = json!({
            "id": id, "label": label, "type": kind, "ipv4": ipv4, "ipv6": ipv6, "status": status,
            "region": kind, "host_uuid": label,
        });
        let instance: Instance = serde_json::from_value(entry).unwrap();
        let machine = Describe::default().machine(&instance, Some(&VpcAddresses::default())).unwrap();
        prop_assert_eq!(parse_id(&machine.id.to_string()).unwrap(), machine.id);
    }

    #[test]
    fn decoder_survives_any_entry(entry in any_json()) {
        let _ = serde_json::from_value::<Instance>(entry);
    }
}
