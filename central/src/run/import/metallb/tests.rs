use serde_json::{Value, json};

use crate::run::import::finding::Findings;
use crate::run::import::flags::Source;
use crate::run::import::objects::Objects;
use crate::run::import::{Imported, import, subnets};

/// An object of `metallb.io`.
fn object(name: &str, spec: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": "metallb-system", "labels": {"tier": name}});
    json!({"metadata": metadata, "spec": spec})
}

fn objects(pools: &[(&str, Value)], advertisements: &[(&str, Value)]) -> Objects {
    let mut objects = Objects::default();
    for (name, spec) in pools {
        objects.add("IPAddressPool", object(name, spec));
    }
    for (name, spec) in advertisements {
        objects.add("L2Advertisement", object(name, spec));
    }
    objects
}

fn imported(objects: &Objects) -> Imported {
    let subnets = subnets::read(&["192.0.2.0/24".to_owned(), "2001:db8::/64".to_owned()]).unwrap();
    import(objects, Source::MetalLb, &subnets, Findings::default())
}

fn told(imported: &Imported) -> Vec<String> {
    imported
        .findings
        .sorted()
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn pool(range: &str) -> Value {
    json!({"addresses": [range], "autoAssign": true, "avoidBuggyIPs": false})
}

#[test]
fn every_rule_of_a_pool_is_said() {
    let allocation = json!({
        "priority": 7, "namespaces": ["shop", "web"],
        "serviceSelectors": [{"matchLabels": {"tier": "gold"}}, {"matchLabels": {"tier": "silver"}}],
    });
    let spec = json!({
        "addresses": ["192.0.2.32/28", "2001:db8::100-2001:db8::1ff"], "autoAssign": false, "avoidBuggyIPs": true,
        "serviceAllocation": allocation,
    });
    let imported = imported(&objects(&[("gold", spec)], &[("all", json!({}))]));
    assert_eq!(told(&imported), Vec::<String>::new());
    let spec = serde_json::to_value(&imported.networks[0].spec).unwrap();
    let one_of = |key: &str, values: [&str; 2]| {
        json!({"matchExpressions": [
        {"key": key, "operator": "In", "values": values}]})
    };
    let expected = json!([{
        "name": "gold", "ranges": ["192.0.2.32/28", "2001:db8::100/120"], "priority": 7,
        "allocation": "OnRequest", "avoidBuggyIPs": true,
        "allowedNamespaces": one_of("kubernetes.io/metadata.name", ["shop", "web"]),
        "allowedServices": one_of("tier", ["gold", "silver"]),
    }]);
    assert_eq!(spec["pools"], expected);
    assert_eq!(spec["nodeSelector"], Value::Null);
}

/// Pools with a serviceAllocation come first, those without a priority last of them.
#[test]
fn priorities_keep_metallbs_order() {
    let with =
        |priority: i64| json!({"addresses": [], "serviceAllocation": {"priority": priority}});
    let priorities = |all: &[Option<i64>]| {
        let mut pools = Vec::new();
        for (index, priority) in all.iter().enumerate() {
            let range = format!("192.0.2.{}/32", 16 + index);
            let mut spec = priority.map_or(json!({}), with);
            spec["addresses"] = json!([range]);
            pools.push((["a", "b", "c", "d"][index], spec));
        }
        let imported = imported(&objects(&pools, &[("all", json!({}))]));
        assert_eq!(told(&imported), Vec::<String>::new());
        let pools = imported.networks[0].spec.pools.iter();
        pools.map(|pool| pool.priority).collect::<Vec<_>>()
    };
    assert_eq!(priorities(&[None, Some(0)]), [None, Some(1)]);
    assert_eq!(
        priorities(&[Some(0), Some(9), None, Some(3)]),
        [Some(10), Some(9), None, Some(3)]
    );
    assert_eq!(
        priorities(&[Some(100_000), Some(-4), Some(0), Some(-4)]),
        [Some(2), Some(1), Some(3), Some(1)]
    );
}

#[test]
fn advertisements_say_where_a_pool_is() {
    let host = |name: &str| json!({"matchLabels": {"kubernetes.io/hostname": name}});
    let pools = [
        ("a", pool("192.0.2.16/28")),
        ("b", pool("192.0.2.32/28")),
        ("c", pool("192.0.2.48/28")),
    ];
    let advertisements = [
        (
            "by-name",
            json!({"ipAddressPools": ["a"], "nodeSelectors": [host("n1")], "interfaces": ["eth1"]}),
        ),
        (
            "by-label",
            json!({"ipAddressPoolSelectors": [{"matchLabels": {"tier": "b"}}], "nodeSelectors": [host("n2")]}),
        ),
        (
            "more",
            json!({"ipAddressPools": ["b"], "nodeSelectors": [host("n3")]}),
        ),
        ("unknown", json!({"ipAddressPools": ["x"]})),
    ];
    let imported = imported(&objects(&pools, &advertisements));
    let shown: Vec<String> = imported
        .networks
        .iter()
        .map(|network| {
            let spec = &network.spec;
            let nodes = serde_json::to_string(&spec.node_selector).unwrap();
            let pools: Vec<_> = spec.pools.iter().map(|pool| pool.name.as_str()).collect();
            format!(
                "{} {:?} {} {nodes}",
                network.metadata.name.as_deref().unwrap(),
                spec.parent,
                pools.join(" ")
            )
        })
        .collect();
    let n1 = r#"by-name Some("eth1") a {"matchLabels":{"kubernetes.io/hostname":"n1"}}"#;
    let n2 = r#"by-label None b {"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"In","values":["n2","n3"]}]}"#;
    assert_eq!(shown, [n1, n2]);
    let told = told(&imported);
    assert!(
        told.len() == 1 && told[0].contains("IPAddressPool c: no L2Advertisement"),
        "{told:?}"
    );
}

#[test]
fn an_advertisement_without_limits_wins() {
    let limited =
        json!({"nodeSelectors": [{"matchLabels": {"rack": "r1"}}], "interfaces": ["eth1"]});
    let all = [
        ("a-limited", limited),
        ("b-all", json!({"nodeSelectors": [{}]})),
    ];
    let imported = imported(&objects(&[("a", pool("192.0.2.16/28"))], &all));
    assert_eq!(told(&imported), Vec::<String>::new());
    assert_eq!(
        (
            &imported.networks[0].spec.parent,
            &imported.networks[0].spec.node_selector
        ),
        (&None, &None)
    );
}

#[test]
fn interfaces_are_listed_where_nodes_differ() {
    let rack = |name: &str| json!([{"matchLabels": {"rack": name}}]);
    let advertisements = [
        (
            "a",
            json!({"nodeSelectors": rack("r1"), "interfaces": ["eth1", "eth0"]}),
        ),
        ("b", json!({"nodeSelectors": rack("r2")})),
    ];
    let both = imported(&objects(&[("a", pool("192.0.2.16/28"))], &advertisements));
    let spec = serde_json::to_value(&both.networks[0].spec).unwrap();
    let on = |name: &str, rack: &str| json!({"name": name, "nodeSelector": {"matchLabels": {"rack": rack}}});
    assert_eq!(
        spec["interfaces"],
        json!([on("eth0", "r1"), on("eth1", "r1"), on("*", "r2")])
    );
    assert_eq!(spec["parent"], Value::Null);
    assert!(
        both.findings.is_complete() && told(&both).len() == 1,
        "{:?}",
        told(&both)
    );
}

#[test]
fn the_speakers_command_line_and_nodes_count() {
    let mut objects = objects(&[("a", pool("192.0.2.16/28"))], &[("all", json!({}))]);
    let container = json!({
        "image": "quay.io/metallb/speaker:v0.16.1",
        "args": ["--port=9120", "--ignore-exclude-lb", "--lb-class=example.com/metallb"],
    });
    objects.add("DaemonSet", json!({
        "metadata": {"name": "speaker", "namespace": "metallb-system"},
        "spec": {"template": {"spec": {
            "containers": [container], "nodeSelector": {"kubernetes.io/os": "linux", "edge": "yes"},
        }}},
    }));
    let imported = imported(&objects);
    let spec = &imported.networks[0].spec;
    assert!(spec.include_excluded_nodes);
    assert_eq!(
        serde_json::to_value(&spec.node_selector).unwrap(),
        json!({"matchLabels": {"edge": "yes"}})
    );
    let told = told(&imported);
    assert!(
        told.len() == 1 && told[0].contains("central.loadBalancers.class=example.com/metallb"),
        "{told:?}"
    );
}

/// Whatever no L2Network says, with the words of the finding.
#[test]
fn what_cannot_be_said_is_told() {
    let two_labels = json!([{"matchLabels": {"a": "1"}}, {"matchLabels": {"b": "1"}}]);
    let allocation = |field: &str| json!({"addresses": ["192.0.2.16/28"], "serviceAllocation": {field: two_labels}});
    let plain = || pool("192.0.2.16/28");
    let everywhere = || json!({});
    for (words, spec, advertisement) in [
        (
            "spec.serviceAllocation.namespaceSelectors",
            allocation("namespaceSelectors"),
            everywhere(),
        ),
        (
            "spec.serviceAllocation.serviceSelectors",
            allocation("serviceSelectors"),
            everywhere(),
        ),
        (
            "spec.nodeSelectors",
            plain(),
            json!({"nodeSelectors": two_labels}),
        ),
        (
            "spec.serviceSelectors",
            plain(),
            json!({"serviceSelectors": [{"matchLabels": {"a": "1"}}]}),
        ),
        (
            "spec.addresses[1]",
            json!({"addresses": ["192.0.2.16/28", "x"]}),
            everywhere(),
        ),
        (
            "spec.newField",
            json!({"addresses": ["192.0.2.16/28"], "newField": {"a": 1}}),
            everywhere(),
        ),
        ("spec.other", plain(), json!({"other": true})),
        (
            "another form",
            json!({"addresses": "192.0.2.16/28"}),
            everywhere(),
        ),
    ] {
        let imported = imported(&objects(&[("a", spec)], &[("l2", advertisement)]));
        let told = told(&imported);
        assert!(
            told.iter().any(|told| told.contains(words)),
            "{words}: {told:?}"
        );
        assert!(!imported.findings.is_complete(), "{words}");
    }
    let mut objects = objects(&[("a", plain())], &[("l2", json!({}))]);
    for kind in ["BGPAdvertisement", "BGPPeer", "Community", "BFDProfile"] {
        objects.add(kind, object("x", &json!({})));
    }
    objects.add("Service", json!({"metadata": {"name": "web", "annotations": {
        "metallb.universe.tf/address-pool": "a", "metallb.io/ip-allocated-from-pool": "a", "metallb.io/newer": "1",
    }}}));
    let told = told(&imported(&objects));
    assert_eq!(told.len(), 5, "{told:?}");
    assert!(
        told.last().unwrap().contains("metallb.io/newer"),
        "{told:?}"
    );
}

/// The schema of a kind's `spec`, from the CRDs of MetalLB 0.16.1 as an API server has them.
fn schema(kind: &str) -> Value {
    let text = include_str!("../../../../../tests/fixtures/metallb-0.16.1/crds.yaml");
    let crds = Objects::of_all(crate::run::manifest::parse(text).unwrap());
    let all = crds.of("CustomResourceDefinition");
    let crd = all
        .iter()
        .find(|crd| crd.text("/spec/names/kind") == Some(kind))
        .unwrap();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    crd.0.pointer(spec).unwrap().clone()
}

/// Every field below a schema, as a JSON pointer with a value that differs from what is absent.
fn fields(schema: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    for (name, field) in schema["properties"].as_object().unwrap() {
        let path = format!("{path}/{name}");
        let (kind, items) = (field["type"].as_str().unwrap(), &field["items"]);
        let is_selector = |schema: &Value| schema["properties"].get("matchLabels").is_some();
        match (kind, items["type"].as_str()) {
            ("object", _) => fields(field, &path, found),
            ("array", Some("object")) if is_selector(items) => {
                found.push((path, json!([{"matchLabels": {"probe": "yes"}}])));
            }
            ("array", Some("string")) if name == "addresses" => {
                found.push((path, json!(["192.0.2.99/32"])));
            }
            ("array", Some("string")) => found.push((path, json!(["probe"]))),
            ("boolean", _) => found.push((path, json!(field["default"] != json!(true)))),
            ("integer", _) => found.push((path, json!(41))),
            other => panic!("{path}: {other:?}: how is this probed?"),
        }
    }
}

/// Sets a field, making the objects on the way.
fn set(spec: &mut Value, path: &str, value: Value) {
    let mut place = spec;
    for part in path.split('/').skip(1) {
        place = &mut place[part];
    }
    *place = value;
}

/// No field is passed over: whatever is set, other L2Networks or a finding come of it.
#[test]
fn every_field_of_both_specs_makes_a_difference() {
    let mut probed = 0;
    for kind in ["IPAddressPool", "L2Advertisement"] {
        let mut all = Vec::new();
        fields(&schema(kind), "", &mut all);
        assert!(all.len() >= 5, "{all:?}");
        // The pool is not chosen by what a probe chooses, so that a choice makes a difference.
        let (pool, advertisement) = (
            json!({"addresses": ["192.0.2.16/28"], "serviceAllocation": {"namespaces": ["a"]}}),
            json!({}),
        );
        let without = imported(&objects(
            &[("a", pool.clone())],
            &[("l2", advertisement.clone())],
        ));
        assert!(without.findings.is_complete());
        for (path, value) in all {
            let (mut pool, mut advertisement) = (pool.clone(), advertisement.clone());
            match kind {
                "IPAddressPool" => set(&mut pool, &path, value),
                _ => set(&mut advertisement, &path, value),
            }
            let with = imported(&objects(&[("a", pool)], &[("l2", advertisement)]));
            assert!(
                with != without,
                "{kind} spec{path} is passed over in silence"
            );
            probed += 1;
        }
    }
    assert_eq!(probed, 12, "MetalLB 0.16.1 has this many fields");
}
