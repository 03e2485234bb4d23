use super::{MACHINE_ID, OTHER_UUID, UUID, file, machine};
use crate::machines::schema::Machines;
use crate::machines::{Identity, Resolution, builtin, presence_of, resolve};
use crate::node_addresses::{AddressType, NodeAddress};
use crate::node_facts::{NodeFacts, Presence};
use crate::provider_id::ProviderId;

/// The facts of a machine that must be known.
fn facts(machines: &Machines, identity: &Identity) -> NodeFacts {
    match resolve(machines, identity) {
        Resolution::Found { facts, .. } | Resolution::Derived { facts } => facts,
        other => panic!("the machine must be known: {other:?}"),
    }
}

fn provider_id(machines: &Machines, identity: &Identity) -> String {
    facts(machines, identity).provider_id.unwrap().to_string()
}

#[test]
fn resolves_both_laboratory_nodes() {
    let machines = builtin::machines().unwrap();
    for (name, id, kind, ip, presence, entry) in [
        (
            "master-c2-1",
            "cloudlycke://m-c2-1",
            "vbox.vm.512mb.1cpu",
            "192.168.20.10",
            Presence::Running,
            0,
        ),
        (
            "node-c2-1",
            "cloudlycke://n-c2-1",
            "vbox.vm.1g.2cpu",
            "192.168.20.11",
            Presence::Stopped,
            1,
        ),
    ] {
        let expected = Resolution::Found {
            facts: NodeFacts {
                provider_id: Some(id.parse().unwrap()),
                instance_type: Some(kind.to_owned()),
                zone: Some("virtualbox".to_owned()),
                region: Some("virtualbox".to_owned()),
                addresses: vec![
                    NodeAddress::new(AddressType::InternalIP, ip),
                    NodeAddress::new(AddressType::ExternalIP, ip),
                    NodeAddress::new(AddressType::Hostname, name),
                ],
                ..NodeFacts::default()
            },
            presence,
            entry,
        };
        // Without a provider ID, with the kubelet's, and with the one that the Go provider wrote.
        for identity in [
            machine(name),
            machine(name).id(""),
            machine(name).id(id),
            machine(name).id(&format!("cloudlycke://{id}")),
        ] {
            assert_eq!(resolve(&machines, &identity), expected, "{identity:?}");
        }
    }
}

#[test]
fn unknown_machine_is_not_gone() {
    let machines = builtin::machines().unwrap();
    for identity in [machine("third"), machine("third").id("cloudlycke://t-c2-1")] {
        let resolution = resolve(&machines, &identity);
        assert_eq!(resolution, Resolution::Unknown);
        assert_eq!(resolution.presence(), Presence::Unsure);
        assert!(resolution.facts().is_none() && resolution.explanation().is_some());
    }
    let id: ProviderId = "cloudlycke://t-c2-1".parse().unwrap();
    assert_eq!(presence_of(&machines, &id), Presence::Unsure);
}

#[test]
fn policy_missing_deletes_only_own_nodes() {
    let machines = file("policy: {unknownNode: missing}\nnodes: [{match: {name: a}, id: a}]");
    let ours = resolve(&machines, &machine("b").id("cloudlycke://b"));
    assert_eq!(
        (&ours, ours.presence()),
        (&Resolution::Missing, Presence::Gone)
    );
    let fresh = resolve(&machines, &machine("b"));
    assert_eq!(
        (&fresh, fresh.presence()),
        (&Resolution::Unknown, Presence::Unsure)
    );
    let foreign = resolve(&machines, &machine("b").id("aws://i-1"));
    assert_eq!(foreign.presence(), Presence::Unsure);
    let presence = |id: &str| presence_of(&machines, &id.parse().unwrap());
    assert_eq!(presence("cloudlycke://b"), Presence::Gone);
    assert_eq!(presence("cloudlycke://a"), Presence::Running);
    assert_eq!(presence("aws://i-1"), Presence::Unsure);
}

#[test]
fn entry_without_id_could_be_any_machine() {
    let machines = file("policy: {unknownNode: missing}\nnodes: [{match: {name: a}}]");
    let id = "cloudlycke://b".parse().unwrap();
    assert_eq!(presence_of(&machines, &id), Presence::Unsure);
}

#[test]
fn leaves_foreign_node_with_matching_name() {
    let machines = builtin::machines().unwrap();
    for id in [
        "aws:///zone/i-1",
        "cloudlycke",
        "cloudlyckes://n-c2-1",
        "cloudlycke://",
        "cloudlycke://a b",
    ] {
        let resolution = resolve(&machines, &machine("node-c2-1").id(id));
        let expected = Resolution::Foreign {
            provider_id: id.to_owned(),
        };
        assert_eq!(resolution, expected);
        assert_eq!(resolution.presence(), Presence::Unsure);
        assert!(resolution.explanation().unwrap().contains(id));
    }
}

#[test]
fn provider_id_contradicting_file_is_conflict() {
    let machines = builtin::machines().unwrap();
    let resolution = resolve(&machines, &machine("node-c2-1").id("cloudlycke://other"));
    let expected = Resolution::Conflict {
        entry: "node-c2-1".to_owned(),
        key: "id",
        node: "cloudlycke://other".to_owned(),
        file: "cloudlycke://n-c2-1".to_owned(),
    };
    assert_eq!(
        (&resolution, resolution.presence()),
        (&expected, Presence::Unsure)
    );
}

/// NI-05: a Node that has been given another name is still its machine's.
#[test]
fn provider_id_outranks_name() {
    let machines = builtin::machines().unwrap();
    let renamed = resolve(&machines, &machine("renamed").id("cloudlycke://m-c2-1"));
    assert!(matches!(renamed, Resolution::Found { .. }), "{renamed:?}");
    // Where another entry matches the name, it is not chosen between the two.
    let both = file("nodes: [{match: {name: a}, id: a}, {match: {name: renamed}}]");
    let claimed_twice = resolve(&both, &machine("renamed").id("cloudlycke://a"));
    assert!(claimed_twice.facts().is_none(), "{claimed_twice:?}");
}

#[test]
fn other_hardware_under_known_provider_id_is_conflict() {
    let machines = file(&format!(
        "nodes: [{{match: {{systemUUID: {UUID}, machineID: {MACHINE_ID}, mac: '08:00:27:00:00:01'}}, id: a}}]"
    ));
    let node = || machine("a").id("cloudlycke://a");
    assert!(resolve(&machines, &node()).facts().is_some());
    assert!(resolve(&machines, &node().uuid(UUID)).facts().is_some());
    for (key, identity) in [
        ("systemUUID", node().uuid(OTHER_UUID)),
        (
            "machineID",
            node().machine_id("00000000000000000000000000000001"),
        ),
        ("mac", node().mac("08:00:27:00:00:02")),
    ] {
        match resolve(&machines, &identity) {
            Resolution::Conflict { key: found, .. } => assert_eq!(found, key),
            other => panic!("{key}: {other:?}"),
        }
    }
}

#[test]
fn addresses_may_change_under_known_provider_id() {
    let machines = file("nodes: [{match: {ip: 192.0.2.1}, id: a}]");
    let moved = machine("a").id("cloudlycke://a").ip("198.51.100.7");
    assert!(resolve(&machines, &moved).facts().is_some());
    assert_eq!(
        resolve(&machines, &machine("a").ip("198.51.100.7")),
        Resolution::Unknown
    );
}

#[test]
fn all_keys_of_a_match_must_agree() {
    let machines = file(&format!(
        "nodes: [{{match: {{name: a, systemUUID: {UUID}, machineID: {MACHINE_ID}, mac: '08:00:27:00:00:01', ip: 192.0.2.1}}}}]"
    ));
    let whole = || {
        machine("a")
            .uuid(UUID)
            .machine_id(MACHINE_ID)
            .mac("08:00:27:00:00:09")
            .mac("08:00:27:00:00:01")
            .ip("2001:db8::1")
            .ip("192.0.2.1")
    };
    assert!(resolve(&machines, &whole()).facts().is_some());
    let mut others = [whole(), whole().uuid(OTHER_UUID), whole(), whole(), whole()];
    others[0].name = "b".to_owned();
    others[2].machine_id = Some("00000000000000000000000000000001".parse().unwrap());
    others[3].macs.pop();
    others[4].ips.pop();
    for other in others {
        assert_eq!(resolve(&machines, &other), Resolution::Unknown, "{other:?}");
    }
}

#[test]
fn kubelet_provider_id_is_a_match_key() {
    let machines = file("nodes: [{match: {providerID: 'cloudlycke://a', name: n}}]");
    assert_eq!(
        provider_id(&machines, &machine("n").id("cloudlycke://a")),
        "cloudlycke://a"
    );
    assert_eq!(resolve(&machines, &machine("n")), Resolution::Unknown);
}

#[test]
fn unknown_facts_exclude_nothing() {
    let text = format!(
        "nodes: [{{match: {{mac: '08:00:27:00:00:01'}}, id: a}}, {{match: {{systemUUID: {UUID}, name: n}}, id: b}}]"
    );
    for policy in ["error", "missing", "derive"] {
        let machines = file(&format!("policy: {{unknownNode: {policy}}}\n{text}"));
        let resolution = resolve(&machines, &machine("n"));
        let expected = Resolution::Undecided {
            which: vec!["cloudlycke://a".to_owned(), "n".to_owned()],
            needs: vec!["mac", "systemUUID"],
        };
        assert_eq!(resolution, expected, "{policy}");
        assert_eq!(resolution.presence(), Presence::Unsure, "{policy}");
        let told = machine("n").mac("08:00:27:00:00:01").uuid(OTHER_UUID);
        assert_eq!(provider_id(&machines, &told), "cloudlycke://a");
    }
}

#[test]
fn two_entries_that_match_are_ambiguous() {
    let machines = file(&format!(
        "nodes: [{{match: {{name: n}}, id: a, state: terminated}}, {{match: {{systemUUID: {UUID}}}, id: b}}]"
    ));
    let resolution = resolve(&machines, &machine("n").uuid(UUID));
    let which = vec!["n".to_owned(), "cloudlycke://b".to_owned()];
    assert_eq!(resolution, Resolution::Ambiguous { which });
    assert_eq!(resolution.presence(), Presence::Unsure);
    let explanation = resolution.explanation().unwrap();
    assert!(explanation.contains("n, cloudlycke://b"), "{explanation}");
}

#[test]
fn maps_states_to_presence() {
    let machines = file(
        "nodes:
  - {match: {name: r}, id: r}
  - {match: {name: s}, id: s, state: shutdown}
  - {match: {name: t}, id: t, state: terminated}",
    );
    for (name, presence) in [
        ("r", Presence::Running),
        ("s", Presence::Stopped),
        ("t", Presence::Gone),
    ] {
        assert_eq!(
            resolve(&machines, &machine(name)).presence(),
            presence,
            "{name}"
        );
        let id = ProviderId::new("cloudlycke", name).unwrap();
        assert_eq!(presence_of(&machines, &id), presence, "{name}");
    }
}

#[test]
fn provider_id_comes_from_first_source() {
    let derived = file("policy: {unknownNode: derive}");
    let named = file("nodes: [{match: {name: n}}]");
    let given = file("nodes: [{match: {name: n}, id: i}]");
    let by_uuid = file(&format!("nodes: [{{match: {{systemUUID: {UUID}}}}}]"));
    let uuid = format!("cloudlycke://{UUID}");
    for (machines, identity, expected) in [
        (&given, machine("n").uuid(UUID), "cloudlycke://i"),
        (
            &named,
            machine("n").uuid(UUID).id("cloudlycke://own"),
            "cloudlycke://own",
        ),
        (
            &by_uuid,
            machine("n").uuid(UUID).id("cloudlycke://own"),
            "cloudlycke://own",
        ),
        (&by_uuid, machine("n").uuid(UUID), uuid.as_str()),
        (&named, machine("n").uuid(UUID), uuid.as_str()),
        (&named, machine("n"), "cloudlycke://n"),
        (
            &derived,
            machine("n").uuid(UUID).id("cloudlycke://own"),
            "cloudlycke://own",
        ),
        (
            &derived,
            machine("n").uuid(&UUID.to_uppercase()),
            uuid.as_str(),
        ),
        (
            &derived,
            machine("n.example.org"),
            "cloudlycke://n.example.org",
        ),
    ] {
        assert_eq!(provider_id(machines, &identity), expected, "{identity:?}");
    }
}

#[test]
fn derives_unlisted_machine_from_node() {
    let machines =
        file("scheme: static\npolicy: {unknownNode: derive}\ndefaults: {region: r, zone: z}");
    let mut identity = machine("n").ip("192.0.2.1").size("2", "1008632Ki");
    identity
        .addresses
        .insert(0, NodeAddress::new(AddressType::Hostname, "n"));
    let resolution = resolve(&machines, &identity);
    let expected = NodeFacts {
        provider_id: Some("static://n".parse().unwrap()),
        instance_type: Some("machine.1g.2cpu".to_owned()),
        zone: Some("z".to_owned()),
        region: Some("r".to_owned()),
        addresses: vec![
            NodeAddress::new(AddressType::InternalIP, "192.0.2.1"),
            NodeAddress::new(AddressType::Hostname, "n"),
        ],
        ..NodeFacts::default()
    };
    assert_eq!(resolution, Resolution::Derived { facts: expected });
    assert_eq!(
        resolution.presence(),
        Presence::Unsure,
        "nobody has said that it exists"
    );
}

#[test]
fn most_specific_setting_wins() {
    let machines = file(
        "defaults: {region: r0, zone: z0, instanceType: t0}
policy: {unknownNode: derive}
rules:
  - {match: {nameGlob: 'x-*'}, set: {zone: zx, labels: {a: rule, b: rule}}}
  - {match: {cidr: 192.0.2.0/24}, set: {zone: zc, region: rc}}
  - {match: {vendor: dell inc.}, set: {zone: zv}}
  - {match: {assetTag: RACK-7, vendor: HP}, set: {zone: zt}}
nodes:
  - {match: {name: x-1}, instanceType: t1, labels: {a: node}}
  - {match: {name: x-2}, zone: z2}",
    );
    let known = |name: &str| {
        let mut identity = machine(name).ip("198.51.100.1");
        (identity.vendor, identity.asset_tag) = (Some(String::new()), Some(String::new()));
        identity
    };
    let mut vendor = known("n");
    vendor.vendor = Some("DELL Inc. ".to_owned());
    let mut tagged = known("n");
    (tagged.vendor, tagged.asset_tag) = (Some("hp".to_owned()), Some("rack-7".to_owned()));
    for (identity, zone, region, kind) in [
        (known("x-1"), "zx", "r0", "t1"),
        (known("x-2"), "z2", "r0", "t0"),
        (known("n"), "z0", "r0", "t0"),
        (known("n").ip("192.0.2.9"), "zc", "rc", "t0"),
        (known("x-3").ip("192.0.2.9"), "zx", "r0", "t0"),
        (vendor, "zv", "r0", "t0"),
        (tagged, "zt", "r0", "t0"),
    ] {
        let facts = facts(&machines, &identity);
        let found = (facts.zone, facts.region, facts.instance_type);
        let expected = [zone, region, kind].map(|s| Some(s.to_owned()));
        assert_eq!([found.0, found.1, found.2], expected, "{identity:?}");
    }
    let labels = facts(&machines, &known("x-1")).additional_labels;
    assert_eq!(
        (labels["a"].as_deref(), labels["b"].as_deref()),
        (Some("node"), Some("rule"))
    );
}

#[test]
fn undecided_rule_hides_later_rules() {
    let machines = file(
        "policy: {unknownNode: derive}
defaults: {region: r0, zone: z0}
rules:
  - {match: {assetTag: RACK-7, nameGlob: 'w-*'}, set: {zone: z7}}
nodes: [{match: {name: w-1}, region: r1}]",
    );
    let unsure = facts(&machines, &machine("w-1").size("1", "1Gi"));
    assert_eq!((unsure.zone, unsure.region.as_deref()), (None, Some("r1")));
    assert_eq!(unsure.instance_type, None);
    let other = facts(&machines, &machine("x-1"));
    assert_eq!(other.zone.as_deref(), Some("z0"), "the name alone decides");
    let mut tagged = machine("w-1");
    tagged.asset_tag = Some("RACK-7".to_owned());
    assert_eq!(facts(&machines, &tagged).zone.as_deref(), Some("z7"));
}

#[test]
fn labels_of_undecided_rule_may_be_there() {
    let machines = file(
        "policy: {unknownNode: derive}
rules:
  - {match: {vendor: HP}, set: {labels: {rack: r1}}}
  - {match: {nameGlob: 'x-*'}, set: {labels: {never: x}}}
  - {match: {nameGlob: 'w-*'}, set: {labels: {rack: r2, row: '2'}}}
  - {match: {nameGlob: 'w-1'}, set: {labels: {never: w}}}
nodes: [{match: {name: w-1}, labels: {own: a}}, {match: {name: w-2}, labels: {rack: own}}]",
    );
    let labels = |identity: &Identity| -> Vec<(String, Option<String>)> {
        let labels = facts(&machines, identity).additional_labels;
        labels.into_iter().collect()
    };
    let expected = |all: &[(&str, Option<&str>)]| -> Vec<(String, Option<String>)> {
        let owned =
            |(key, value): &(&str, Option<&str>)| ((*key).to_owned(), value.map(ToOwned::to_owned));
        all.iter().map(owned).collect()
    };
    let unsure = expected(&[("own", Some("a")), ("rack", None), ("row", None)]);
    assert_eq!(labels(&machine("w-1")), unsure);
    let own = expected(&[("rack", Some("own")), ("row", None)]);
    assert_eq!(labels(&machine("w-2")), own);
    let mut other = machine("w-1");
    other.vendor = Some(String::new());
    let known = [("own", Some("a")), ("rack", Some("r2")), ("row", Some("2"))];
    assert_eq!(labels(&other), expected(&known));
}

#[test]
fn local_facts_fill_gaps_only() {
    let node = machine("n").uuid(UUID);
    let mut local = machine("thief")
        .id("cloudlycke://x")
        .uuid(OTHER_UUID)
        .machine_id(MACHINE_ID);
    local = local
        .mac("08:00:27:00:00:01")
        .ip("192.0.2.1")
        .size("1", "1Gi");
    (local.vendor, local.asset_tag) = (Some("v".to_owned()), Some(String::new()));
    let filled = node.clone().filled_from(&local);
    let expected = Identity {
        name: node.name,
        provider_id: None,
        system_uuid: node.system_uuid,
        ..local
    };
    assert_eq!(filled, expected);
    let mut full = machine("n")
        .uuid(OTHER_UUID)
        .ip("192.0.2.2")
        .size("2", "2Gi");
    full = full
        .machine_id("00000000000000000000000000000001")
        .mac("08:00:27:00:00:02");
    (full.vendor, full.asset_tag) = (Some(String::new()), Some("t".to_owned()));
    assert_eq!(full.clone().filled_from(&expected), full);
}

#[test]
fn reads_node_object() {
    let node = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "n", "annotations": {
            "alpha.kubernetes.io/provided-node-ip": "192.0.2.1,2001:db8::1"
        }},
        "spec": {"providerID": ""},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "192.0.2.1"},
                {"type": "Hostname", "address": "n"},
                {"type": "Other", "address": "x"},
            ],
            "capacity": {"cpu": "2", "memory": "1008632Ki"},
            "nodeInfo": {
                "systemUUID": UUID.to_uppercase(), "machineID": MACHINE_ID, "bootID": "",
                "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "",
                "kubeletVersion": "", "kubeProxyVersion": "", "operatingSystem": "",
                "architecture": ""
            }
        }
    }))
    .unwrap();
    let mut expected = machine("n")
        .uuid(UUID)
        .machine_id(MACHINE_ID)
        .ip("192.0.2.1");
    expected = expected.size("2", "1008632Ki");
    expected
        .addresses
        .push(NodeAddress::new(AddressType::Hostname, "n"));
    expected.ips.push("2001:db8::1".parse().unwrap());
    assert_eq!(Identity::of_node(&node), expected);
    assert_eq!(
        Identity::of_node(&k8s_openapi::api::core::v1::Node::default()),
        machine("")
    );
}
