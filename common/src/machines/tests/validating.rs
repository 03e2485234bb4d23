use super::{MACHINE_ID, UUID, file};
use crate::machines::builtin;
use crate::machines::parse;
use crate::machines::schema::{LoadBalancer, MachineState, UnknownNode};
use crate::node_addresses::{AddressType, NodeAddress};
use crate::node_facts::Presence;

/// The faults of a file, one line each, without the line that counts them.
fn faults(text: &str) -> Vec<String> {
    let error = parse(text).expect_err("the file must be refused");
    error.faults.iter().map(ToString::to_string).collect()
}

/// The faults of a file that has its version, and one good machine where `rest` lists none.
fn faults_of(rest: &str) -> Vec<String> {
    let nodes = if rest.contains("nodes:") {
        ""
    } else {
        "nodes: [{match: {name: good}}]\n"
    };
    faults(&format!("version: 1\n{nodes}{rest}"))
}

#[test]
fn reads_every_key() {
    let uuid = UUID.to_uppercase();
    let machines = file(&format!(
        "scheme: static
defaults: {{region: r0, zone: z0, instanceType: t0}}
policy: {{unknownNode: missing, maxRemovedPercent: 50}}
rules:
  - match: {{cidr: 192.0.2.0/24, nameGlob: 'w-*', assetTag: R7, vendor: Dell Inc.}}
    set: {{region: r1, zone: z1, instanceType: t1, labels: {{rack: '7'}}}}
nodes:
  - match: {{name: w-1, providerID: 'static://a/1', systemUUID: {uuid}, machineID: {MACHINE_ID},
            mac: '08-00-27-00-00-01', ip: 192.0.2.1}}
    id: static://a/1
    region: r2
    zone: z2
    instanceType: t2
    addresses: [{{type: Hostname, address: W-1}}, {{type: ExternalIP, address: '2001:DB8::1'}},
                {{type: InternalIP, address: 192.0.2.1}}]
    labels: {{example.org/rack: '7', empty: ''}}
    state: terminated
loadBalancer: {{mode: pool, pools: [192.0.2.64/28, 192.0.2.80-192.0.2.90, '2001:db8::100/120']}}"
    ));
    assert_eq!(machines.scheme(), "static");
    assert_eq!(machines.policy().unknown_node, UnknownNode::Missing);
    assert_eq!(machines.policy().max_removed_percent, 50);
    assert_eq!(machines.defaults().instance_type.as_deref(), Some("t0"));
    let rule = &machines.rules()[0];
    assert_eq!(
        (rule.set.zone.as_deref(), rule.labels["rack"].as_str()),
        (Some("z1"), "7")
    );
    let node = &machines.nodes()[0];
    assert_eq!(node.provider_id().unwrap().to_string(), "static://a/1");
    assert_eq!(node.matching.system_uuid.as_ref().unwrap().as_str(), UUID);
    assert_eq!(node.matching.mac.unwrap().to_string(), "08:00:27:00:00:01");
    assert_eq!(
        node.addresses,
        [
            NodeAddress::new(AddressType::InternalIP, "192.0.2.1"),
            NodeAddress::new(AddressType::ExternalIP, "2001:db8::1"),
            NodeAddress::new(AddressType::Hostname, "W-1"),
        ]
    );
    assert_eq!(
        (node.labels.len(), node.state),
        (2, MachineState::Terminated)
    );
    let LoadBalancer::Pool(pools) = machines.load_balancer() else {
        panic!("the pool must be read");
    };
    assert_eq!(pools.len(), 3);
}

#[test]
fn omitted_keys_have_defaults() {
    let machines = file("nodes: [{match: {name: a}}]");
    assert_eq!(machines.scheme(), "cloudlycke");
    assert_eq!(machines.policy().unknown_node, UnknownNode::Error);
    assert_eq!(machines.policy().max_removed_percent, 20);
    assert_eq!(machines.nodes()[0].state, MachineState::Running);
    assert_eq!(machines.load_balancer(), &LoadBalancer::None);
}

#[test]
fn reads_json() {
    let text = r#"{"version": 1, "nodes": [{"match": {"name": "a"}, "id": "m-1"}]}"#;
    assert_eq!(parse(text).unwrap().nodes().len(), 1);
}

#[test]
fn examples_are_valid() {
    let example = parse(include_str!("../../../../deploy/examples/machines.yaml")).unwrap();
    let states: Vec<_> = example.nodes().iter().map(|n| n.state.presence()).collect();
    assert_eq!(
        states,
        [
            Presence::Running,
            Presence::Running,
            Presence::Running,
            Presence::Stopped,
            Presence::Gone
        ]
    );
    let page = include_str!("../../../../docs/reference/machines-file.md");
    let whole: Vec<&str> = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .filter(|yaml| yaml.starts_with("version:"))
        .collect();
    assert!(whole.len() >= 3, "the page must have its examples");
    for yaml in whole {
        parse(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    }
}

#[test]
fn reference_page_names_every_key() {
    let page = include_str!("../../../../docs/reference/machines-file.md");
    // A fault of an unknown key lists the keys that are known there.
    let text = "version: 1\nx: 1\ndefaults: {x: 1}\npolicy: {x: 1}
rules: [{x: 1, match: {x: 1}, set: {x: 1}}]
nodes: [{x: 1, match: {x: 1}, addresses: [{x: 1}]}]
loadBalancer: {x: 1}";
    let mut sections = 0;
    for fault in parse(text).unwrap_err().faults {
        let Some(keys) = fault.remedy.strip_prefix("the keys here are ") else {
            continue;
        };
        sections += 1;
        for key in keys.split(", ") {
            assert!(
                page.contains(&format!("`{key}`")) || page.contains(&format!(".{key}`")),
                "{} has no word on {key}",
                fault.place
            );
        }
    }
    assert_eq!(sections, 10);
}

#[test]
fn built_in_data_matches_provider_table() {
    let machines = builtin::machines().unwrap();
    let rows: Vec<_> = machines
        .nodes()
        .iter()
        .map(|n| {
            let addresses: Vec<_> = n.addresses.iter().map(ToString::to_string).collect();
            (
                n.provider_id().unwrap().to_string(),
                addresses.join(", "),
                n.set.instance_type.clone().unwrap(),
                n.set.zone.clone().unwrap(),
                n.set.region.clone().unwrap(),
                n.state,
            )
        })
        .collect();
    let row = |id: &str, addresses: &str, kind: &str, state| {
        let virtualbox = || "virtualbox".to_owned();
        (
            id.to_owned(),
            addresses.to_owned(),
            kind.to_owned(),
            virtualbox(),
            virtualbox(),
            state,
        )
    };
    assert_eq!(
        rows,
        [
            row(
                "cloudlycke://m-c2-1",
                "InternalIP 192.168.20.10, ExternalIP 192.168.20.10, Hostname master-c2-1",
                "vbox.vm.512mb.1cpu",
                MachineState::Running
            ),
            row(
                "cloudlycke://n-c2-1",
                "InternalIP 192.168.20.11, ExternalIP 192.168.20.11, Hostname node-c2-1",
                "vbox.vm.1g.2cpu",
                MachineState::Shutdown
            ),
        ]
    );
    assert_eq!(machines.policy().unknown_node, UnknownNode::Error);
    assert_eq!(machines.load_balancer(), &LoadBalancer::None);
}

#[test]
fn one_message_names_all_faults() {
    let text = format!(
        "version: 2
scheme: a://b
colour: blue
defaults: {{zone: 'not a label', regoin: x}}
policy: {{unknownNode: maybe, maxRemovedPercent: 101}}
rules:
  - match: {{}}
    set: {{zone: 7}}
  - match: {{cidr: 10.0.0.0/40, assetTag: None}}
nodes:
  - match: {{name: worker-1, systemUUID: {UUID}}}
    adresses: []
    addresses:
      - {{type: InternalIP, address: 10.0.0.300}}
      - {{type: Hostname, address: ''}}
      - {{type: PublicIP, address: 10.0.0.1}}
  - match: {{name: worker-1, systemUUID: {UUID}, machineID: '0'}}
    state: off
    labels: {{'a b': x, rack: 7}}
  - nonsense
  - match: {{}}
    id: a b
  - match:
loadBalancer: {{mode: pool, pools: [10.0.0.0/24, 10.0.0.128/25, everything]}}
"
    );
    let message = parse(&text).unwrap_err().to_string();
    assert_eq!(message, include_str!("every_fault.txt").trim_end());
}

#[test]
fn fault_names_place_value_and_remedy() {
    let cases = [
        (
            "policy: []",
            "policy: a list is not an object; its keys are unknownNode, maxRemovedPercent",
        ),
        (
            "scheme: 1",
            "scheme: the number 1 is not text; put it in quotes",
        ),
        (
            "scheme:",
            "scheme: has no value, but needs text; write one, or leave out the key",
        ),
        (
            "nodes:",
            "nodes: has no value, but needs a list; begin each of its elements with a dash",
        ),
        (
            "policy: {maxRemovedPercent: -1}",
            "policy.maxRemovedPercent: the number -1 is not a whole number from 0 to 100; write one without quotes",
        ),
        (
            "policy: {maxRemovedPercent: '5'}",
            "policy.maxRemovedPercent: \"5\" is not a whole number from 0 to 100; write one without quotes",
        ),
        (
            "nodes: [{match: {name: W_1}}]",
            "nodes[0].match.name: \"W_1\" is no name of a Node; copy it from kubectl get nodes: lower-case letters, digits, dashes and dots",
        ),
        (
            "nodes: [{match: {ip: 127.0.0.1}}]",
            "nodes[0].match.ip: \"127.0.0.1\" is the address of no single machine; write one of the machine's own addresses",
        ),
        (
            "nodes: [{match: {providerID: 'aws://i-1'}}]",
            "nodes[0].match.providerID: \"aws://i-1\" is not of the scheme cloudlycke, so that its Node would be left alone; write cloudlycke://<instance>, or set scheme at the top of the file",
        ),
        (
            "nodes: [{match: {name: a, providerID: 'cloudlycke://a'}, id: b}]",
            "nodes[0].id: cloudlycke://b contradicts match.providerID, cloudlycke://a; leave out one of them",
        ),
        (
            "nodes: [{match: {name: a}, addresses: [{type: Hostname, address: 10.0.0.1}]}]",
            "nodes[0].addresses[0].address: \"10.0.0.1\" is no DNS name; write one such as worker-1.example.org",
        ),
        (
            "nodes: [{match: {name: a}, addresses: [{type: Hostname, address: a}, {type: Hostname, address: a}]}]",
            "nodes[0].addresses[1]: Hostname a is listed twice; list it once",
        ),
        (
            "nodes: [{match: {name: a}, instanceType: ''}]",
            "nodes[0].instanceType: \"\" is no label value; write at most 63 letters, digits, dashes, underscores and dots, with a letter or digit at both ends",
        ),
        (
            "nodes: [{match: {name: a}, labels: {7: x}}]",
            "nodes[0].labels: the key the number 7 is not text; put it in quotes",
        ),
        (
            "loadBalancer: {pools: [10.0.0.0/24]}",
            "loadBalancer.pools: would not be used; set loadBalancer.mode to pool, or take the ranges out",
        ),
        (
            "loadBalancer: {mode: pool}",
            "loadBalancer.pools: has no range; give at least one range, or set loadBalancer.mode to none",
        ),
        (
            "rules: [{match: {nameGlob: 'a['}, set: {zone: z}}]",
            "rules[0].match.nameGlob: \"a[\" is no pattern for names; write one such as worker-*",
        ),
        (
            "rules: [{match: {vendor: x}, set: {}}]",
            "rules[0].set: sets nothing; give at least one of region, zone, instanceType and labels",
        ),
        (
            "nodes: []",
            "nodes: lists no machine; list every machine, or set policy.unknownNode to derive",
        ),
    ];
    for (rest, expected) in cases {
        assert_eq!(faults_of(rest), [expected], "{rest}");
    }
}

#[test]
fn rejects_invalid_document() {
    for text in [
        "",
        "---",
        "nonsense",
        "[]",
        "a: [",
        "version: 1\nversion: 1\n",
        "a: 1\n---\nb: 2\n",
    ] {
        assert_eq!(faults(text).len(), 1, "{text:?}");
    }
    assert!(
        faults("a: [")[0].starts_with("line "),
        "{:?}",
        faults("a: [")
    );
    let missing = faults("nodes: [{match: {name: a}}]");
    assert_eq!(missing, ["version: is missing; write version: 1"]);
    for version in ["0", "2", "'1'", "1.0", "one"] {
        let found = faults(&format!(
            "version: {version}\nnodes: [{{match: {{name: a}}}}]"
        ));
        assert!(
            found.len() == 1 && found[0].starts_with("version: "),
            "{found:?}"
        );
    }
}

#[test]
fn derived_machines_need_no_entries() {
    assert!(parse("version: 1\npolicy: {unknownNode: derive}").is_ok());
}

#[test]
fn rejects_shared_identifiers() {
    for (key, value) in [
        ("name", "same"),
        ("systemUUID", UUID),
        ("machineID", MACHINE_ID),
        ("providerID", "cloudlycke://same"),
        ("mac", "'08:00:27:00:00:01'"),
        ("ip", "192.0.2.1"),
    ] {
        let found = faults_of(&format!(
            "nodes: [{{match: {{{key}: {value}}}}}, {{match: {{name: b}}}}, {{match: {{{key}: {value}}}}}]"
        ));
        assert_eq!(found.len(), 1, "{found:?}");
        let fault = &found[0];
        assert!(
            fault.starts_with(&format!("nodes[2].match.{key}: ")),
            "{fault}"
        );
        assert!(
            fault.contains("nodes[0] (") && fault.contains("nodes[2] ("),
            "{fault}"
        );
    }
}

#[test]
fn cloned_machine_id_error_names_both() {
    let found = faults_of(&format!(
        "nodes:
  - match: {{name: worker-1, machineID: {MACHINE_ID}}}
  - match: {{name: worker-2, machineID: {}}}",
        MACHINE_ID.to_uppercase()
    ));
    assert_eq!(
        found,
        [format!(
            "nodes[1].match.machineID: machineID \"{MACHINE_ID}\" is that of two machines: \
             nodes[0] (worker-1) and nodes[1] (worker-2); give each its own, or take one of them out"
        )]
    );
}

#[test]
fn rejects_id_equal_to_derived_one() {
    let found = faults_of(&format!(
        "nodes: [{{match: {{systemUUID: {UUID}}}}}, {{match: {{name: b}}, id: {UUID}}}]"
    ));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("nodes[1].id: provider ID "),
        "{found:?}"
    );
    let found =
        faults_of("nodes: [{match: {name: a}, id: x}, {match: {name: b}, id: 'cloudlycke://x'}]");
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn faulty_machine_counts_as_duplicate() {
    let found = faults_of("nodes: [{match: {name: a}, state: off}, {match: {name: a}}]");
    assert_eq!(found.len(), 2, "{found:?}");
}
