//! Each value of the chart that is about how the programs are run has an effect, and says nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread;

use serde_json::Value;

use super::deployed::deploy;
use super::helm::{objects, run, template, values};

/// What a value is set to, as `--set-json` has it; the object that shows it, and where; and what is there then.
struct Row {
    set: String,
    object: String,
    pointer: String,
    expected: Value,
}

/// The table of values.
fn rows() -> Vec<Row> {
    let table = include_str!("chart_values.md").lines();
    let lines = table.filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let mut rows = Vec::new();
    for line in lines.skip(1) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [set, object, pointer, expected] = cells[..] else {
            panic!("{line}");
        };
        let both = [
            ("central", "Deployment/mooring-central"),
            ("nodeDaemon", "DaemonSet/mooring-node"),
        ];
        let programs = match set.strip_prefix('*') {
            Some(rest) => both
                .map(|(value, object)| (format!("{value}{rest}"), object))
                .to_vec(),
            None => vec![(set.to_owned(), object)],
        };
        let pointer = match pointer.split_at(1) {
            ("P", rest) => format!("/spec/template/spec{rest}"),
            ("C", rest) => format!("/spec/template/spec/containers/0{rest}"),
            _ => pointer.to_owned(),
        };
        rows.extend(programs.into_iter().map(|(set, object)| Row {
            set,
            object: object.to_owned(),
            pointer: pointer.clone(),
            expected:
                serde_json::from_str(expected).unwrap_or_else(|error| panic!("{line}: {error}")),
        }));
    }
    rows
}

/// What an object of some manifests has there; null where it, or the object, is not there.
fn at(manifests: &str, object: &str, pointer: &str) -> Value {
    let (kind, name) = object.split_once('/').unwrap();
    let found = objects(manifests)
        .into_iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    let (path, last) = match pointer.strip_suffix("/LAST") {
        Some(list) => (list, true),
        None => (pointer, false),
    };
    let found = found.unwrap_or_default().pointer(path).cloned();
    let found = found.unwrap_or_default();
    match found.as_array().and_then(|list| list.last()) {
        Some(item) if last => item.clone(),
        _ => found,
    }
}

#[test]
fn each_value_has_an_effect() {
    let (by_default, rows) = (&template(&[]), rows());
    assert!(rows.len() > 80, "{}", rows.len());
    // Rendering is waiting for another program, many times.
    thread::scope(|scope| {
        for some in rows.chunks(rows.len().div_ceil(4)) {
            scope.spawn(move || some.iter().for_each(|row| assert_effect(by_default, row)));
        }
    });
}

fn assert_effect(by_default: &str, row: &Row) {
    let Row {
        set,
        object,
        pointer,
        expected,
    } = row;
    let before = at(by_default, object, pointer);
    assert_ne!(&before, expected, "{set} is the default: {object}{pointer}");
    let after = at(&template(&["--set-json", set]), object, pointer);
    assert_eq!(&after, expected, "{set}: {object}{pointer}");
}

#[test]
fn a_daemon_that_changes_no_interfaces_gets_nothing_to_change_them_with() {
    let rendered = template(&["--set", "nodeDaemon.manageInterfaces=false"]);
    for word in ["NET_ADMIN\n", "proc-sys-net"] {
        assert!(template(&[]).contains(word), "{word}");
        assert!(!rendered.contains(word), "{word}");
    }
}

/// By path, all values that a file sets: those that are described one by one.
fn leaves(schema: &Value, values: &Value, path: &str, found: &mut BTreeMap<String, Value>) {
    for (key, value) in values.as_object().into_iter().flatten() {
        let path = format!("{path}/{key}");
        let described = &schema["properties"][key];
        let group = described["properties"].as_object();
        if group.is_some_and(|keys| keys.values().any(|key| key.get("description").is_some())) {
            leaves(described, value, &path, found);
        } else {
            found.insert(path, value.clone());
        }
    }
}

/// The values of a file, by path.
fn values_of(file: &str) -> BTreeMap<String, Value> {
    let read = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap();
        serde_norway::from_str::<Value>(&text).unwrap()
    };
    let schema = read(deploy("chart/mooring/values.schema.json").to_str().unwrap());
    let mut found = BTreeMap::new();
    leaves(&schema, &read(file), "", &mut found);
    found
}

/// Every value is set to another one by a file of `ci/`, where it has an effect: without it something else is rendered,
/// or it is asked for by its name.
#[test]
fn every_value_has_an_effect_beside_the_others_that_are_checked() {
    let by_default = &values_of(deploy("chart/mooring/values.yaml").to_str().unwrap());
    assert!(by_default.len() > 100, "{by_default:?}");
    let effective = &Mutex::new(BTreeSet::new());
    for name in ["everything", "phoenixnap", "unfenced"] {
        let file = &values(name);
        let with = &template(&["--values", file]);
        let set = values_of(file);
        let changed: Vec<_> = set
            .into_iter()
            .filter(|(path, value)| by_default[path] != *value)
            .map(|(path, _)| path)
            .collect();
        thread::scope(|scope| {
            for some in changed.chunks(changed.len().div_ceil(4)) {
                scope.spawn(move || {
                    for path in some {
                        let key = path.trim_start_matches('/').replace('/', ".");
                        let reset = format!("{key}={}", by_default[path]);
                        let without = run("template", &["--values", file, "--set-json", &reset]);
                        let last = key.rsplit('.').next().unwrap_or_default();
                        let has_effect = without
                            .map_or_else(|told| told.contains(last), |without| without != *with);
                        if has_effect {
                            effective.lock().unwrap().insert(path.clone());
                        }
                    }
                });
            }
        });
    }
    let effective = effective.lock().unwrap();
    let missing: Vec<_> = by_default
        .keys()
        .filter(|path| !effective.contains(*path))
        .collect();
    assert!(
        missing.is_empty(),
        "no file of ci/ shows what these do: {missing:?}"
    );
}

#[test]
fn unknown_values_are_refused_by_name() {
    for (set, words) in [
        ("centrl.replicas=1", "'centrl' not allowed"),
        (
            "central.replica=1",
            "at '/central': additional properties 'replica' not allowed",
        ),
        (
            "central.image.name=x",
            "at '/central/image': additional properties 'name' not allowed",
        ),
        ("nodeDaemon.livenessProbe.period=1", "'period' not allowed"),
        ("central.resources.request.cpu=1", "'request' not allowed"),
        ("nodeDaemon.affinity.nodes=1", "'nodes' not allowed"),
    ] {
        let told = run("template", &["--set", set]).unwrap_err();
        assert!(told.contains(words), "{set}: {told}");
    }
}

#[test]
fn the_notes_say_what_is_next() {
    let notes = |set: &str| {
        let told = run("install", &["--dry-run=client", "--set", set]).unwrap();
        let (_, notes) = told.split_once("\nNOTES:\n").expect("notes");
        notes.to_owned()
    };
    let without = notes("createNamespace=true,central.replicas=1");
    let all = [
        ("central.replicas=2", "need 2 Nodes"),
        ("cloudProvider=none", "kind: L2Network"),
        (
            "cloudProvider=linode",
            "WARNING: central has no credentials for linode",
        ),
        ("cloudProvider=linode", "--cloud-provider=external"),
        ("cloudProvider=linode", "--set apiServer.host=ADDRESS"),
        (
            "cloudProvider=linode",
            "WARNING: central may get every Secret",
        ),
        (
            "cloudProvider=cloudlycke",
            "WARNING: there is no machines file",
        ),
        (
            "cloudProvider=phoenixnap",
            "WARNING: phoenixnap.loadBalancer is empty",
        ),
        (
            "fullnameOverride=harbour",
            "deployment/harbour-central daemonset/harbour-node",
        ),
        (
            "nodeDaemon.fence=false",
            "WARNING: nodeDaemon.fence is false",
        ),
        (
            "nodeDaemon.manageInterfaces=false",
            "no L2Network may have spec.vlan",
        ),
        (
            "nodeDaemon.manageInterfaces=false",
            "none keeps connections",
        ),
        ("rbac.create=false", "rbac.create is false"),
        (
            "createNamespace=false",
            "pod-security.kubernetes.io/enforce=privileged",
        ),
    ];
    for (set, words) in all {
        let told = notes(set);
        assert!(told.contains(words), "{set}: {told}");
        assert!(
            words == "kind: L2Network" || !without.contains(words),
            "{words}: {without}"
        );
    }
    let named = notes("cloudProvider=linode,apiServer.host=192.0.2.1,apiServer.port=6443");
    assert!(!named.contains("apiServer.host"), "{named}");
}
