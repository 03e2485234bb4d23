//! Each value of the chart that is about how the programs are run has an effect, and says nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use serde_json::{Value, json};

use super::deployed::deploy;
use super::helm::{objects, run, template, values};

const DEPLOYMENT: &str = "Deployment/mooring-central";
const DAEMON_SET: &str = "DaemonSet/mooring-node";
const POD: &str = "/spec/template/spec";
const CONTAINER: &str = "/spec/template/spec/containers/0";

/// What a value is set to, as `--set-json` has it; the object that shows it, and where; and what is there then.
type Row = (&'static str, &'static str, String, Value);

/// What both programs have: `$` stands for `central` or `nodeDaemon`.
fn of_both() -> Vec<(&'static str, &'static str, Value)> {
    let digest = format!("sha256:{}", "0".repeat(64));
    let digest: &str = digest.leak();
    let by_digest = format!(r#"$.image={{"repository":"r/x","tag":"7","digest":"{digest}"}}"#);
    let volume = json!([{ "name": "token", "secret": { "secretName": "s" } }]);
    let mount = json!({ "name": "token", "mountPath": "/token" });
    let container = json!([{ "name": "other", "image": "other" }]);
    vec![
        (
            by_digest.leak(),
            "C/image",
            json!(format!("r/x:7@{digest}")),
        ),
        (r#"$.image.tag="7""#, "C/image", json!("mooring-PROGRAM:7")),
        (
            r#"$.image.pullPolicy="Never""#,
            "C/imagePullPolicy",
            json!("Never"),
        ),
        (
            r#"$.image.pullSecrets=[{"name":"p"}]"#,
            "P/imagePullSecrets",
            json!([{ "name": "p" }]),
        ),
        (
            r#"$.priorityClassName="high""#,
            "P/priorityClassName",
            json!("high"),
        ),
        (
            r#"$.priorityClassName="""#,
            "P/priorityClassName",
            Value::Null,
        ),
        (
            r#"$.dnsPolicy="ClusterFirst""#,
            "P/dnsPolicy",
            json!("ClusterFirst"),
        ),
        (
            r#"$.tolerations=[{"key":"k"}]"#,
            "P/tolerations",
            json!([{ "key": "k" }]),
        ),
        (
            r#"$.affinity={"podAffinity":{}}"#,
            "P/affinity",
            json!({ "podAffinity": {} }),
        ),
        (
            r#"$.terminationGracePeriodSeconds=99"#,
            "P/terminationGracePeriodSeconds",
            json!(99),
        ),
        (
            r#"$.annotations={"a":"b"}"#,
            "/metadata/annotations",
            json!({ "a": "b" }),
        ),
        (
            r#"$.podAnnotations={"a":"b"}"#,
            "/spec/template/metadata/annotations",
            json!({ "a": "b" }),
        ),
        (
            r#"$.podLabels={"a":"b"}"#,
            "/spec/template/metadata/labels/a",
            json!("b"),
        ),
        (
            r#"$.podSecurityContext.runAsUser=7"#,
            "P/securityContext/runAsUser",
            json!(7),
        ),
        (
            r#"$.podSecurityContext.runAsGroup=null"#,
            "P/securityContext/runAsGroup",
            Value::Null,
        ),
        (
            r#"$.securityContext.privileged=true"#,
            "C/securityContext/privileged",
            json!(true),
        ),
        (
            r#"$.livenessProbe.periodSeconds=77"#,
            "C/livenessProbe/periodSeconds",
            json!(77),
        ),
        (
            r#"$.readinessProbe.periodSeconds=77"#,
            "C/readinessProbe/periodSeconds",
            json!(77),
        ),
        (
            r#"$.extraEnvFrom=[{"secretRef":{"name":"s"}}]"#,
            "C/envFrom",
            json!([{ "secretRef": { "name": "s" } }]),
        ),
        (
            r#"$.extraVolumes=[{"name":"token","secret":{"secretName":"s"}}]"#,
            "P/volumes/LAST",
            volume[0].clone(),
        ),
        (
            r#"$.extraVolumeMounts=[{"name":"token","mountPath":"/token"}]"#,
            "C/volumeMounts/LAST",
            mount,
        ),
        (
            r#"$.extraInitContainers=[{"name":"other","image":"other"}]"#,
            "P/initContainers",
            container.clone(),
        ),
        (
            r#"$.extraContainers=[{"name":"other","image":"other"}]"#,
            "P/containers/LAST",
            container[0].clone(),
        ),
        (
            r#"$.serviceAccount.name="other""#,
            "P/serviceAccountName",
            json!("other"),
        ),
        (
            r#"$.resources.limits.memory="7Mi""#,
            "C/resources/limits/memory",
            json!("7Mi"),
        ),
    ]
}

fn row(set: &str, object: &'static str, pointer: &str, expected: Value) -> Row {
    let pointer = match pointer.split_at(1) {
        ("P", rest) => format!("{POD}{rest}"),
        ("C", rest) => format!("{CONTAINER}{rest}"),
        _ => pointer.to_owned(),
    };
    (set.to_owned().leak(), object, pointer, expected)
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (value, object, program) in [
        ("central", DEPLOYMENT, "central"),
        ("nodeDaemon", DAEMON_SET, "node"),
    ] {
        rows.extend(of_both().into_iter().map(|(set, pointer, expected)| {
            let expected = expected.to_string().replace("PROGRAM", program);
            let expected = serde_json::from_str(&expected).unwrap();
            row(&set.replace('$', value), object, pointer, expected)
        }));
    }
    let anti = "P/affinity/podAntiAffinity";
    let selector = json!({ "matchLabels": { "app.kubernetes.io/name": "mooring-central" } });
    let weighed = json!([{ "weight": 100, "podAffinityTerm": {
        "topologyKey": "kubernetes.io/hostname", "labelSelector": selector,
    } }]);
    let spread = r#"central.topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]"#;
    let spread_over = json!({
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
    });
    let certificate = json!({ "name": "serving-certificate", "secret": { "secretName": "tls" } });
    let budget = "PodDisruptionBudget/mooring-central";
    let policy = "NetworkPolicy/mooring-central";
    let admission = "ValidatingAdmissionPolicy/mooring-node-own-node";
    let user = "/spec/matchConditions/0/expression";
    let pods = "/spec/selector/matchLabels/app.kubernetes.io~1name";
    let is = |account: &str| {
        json!(format!(
            "request.userInfo.username == 'system:serviceaccount:mooring-system:{account}'"
        ))
    };
    let with_policy = |rest: &str| {
        format!(r#"central.hostNetwork=false,central.networkPolicy.enabled=true{rest}"#)
    };
    let preferred = r#"central.hostNetwork=false,central.podAntiAffinity="preferred""#;
    for (set, object, pointer, expected) in [
        (
            r#"fullnameOverride="harbour""#,
            "Deployment/harbour-central",
            "P/serviceAccountName",
            json!("harbour-central"),
        ),
        (
            r#"fullnameOverride="harbour""#,
            "DaemonSet/harbour-node",
            "P/serviceAccountName",
            json!("harbour-node"),
        ),
        (
            r#"fullnameOverride="harbour""#,
            "ClusterRoleBinding/harbour-node",
            "/subjects/0/name",
            json!("harbour-node"),
        ),
        (
            r#"fullnameOverride="harbour""#,
            admission,
            user,
            is("harbour-node"),
        ),
        (
            r#"nodeDaemon.serviceAccount.name="other""#,
            admission,
            user,
            is("other"),
        ),
        (
            r#"nodeDaemon.serviceAccount.annotations={"a":"b"}"#,
            "ServiceAccount/mooring-node",
            "/metadata/annotations/a",
            json!("b"),
        ),
        (
            r#"central.serviceAccount.annotations={"a":"b"}"#,
            "ServiceAccount/mooring-central",
            "/metadata/annotations/a",
            json!("b"),
        ),
        (
            r#"central.serviceAccount.create=false"#,
            "ServiceAccount/mooring-central",
            "/kind",
            Value::Null,
        ),
        (
            r#"nodeDaemon.serviceAccount.create=false"#,
            "ServiceAccount/mooring-node",
            "/kind",
            Value::Null,
        ),
        (
            r#"rbac.create=false"#,
            "ClusterRole/mooring-central",
            "/kind",
            Value::Null,
        ),
        (
            r#"rbac.create=false"#,
            "ClusterRole/mooring-node",
            "/kind",
            Value::Null,
        ),
        (
            r#"nameOverride="quay""#,
            DEPLOYMENT,
            pods,
            json!("quay-central"),
        ),
        (
            r#"nameOverride="quay""#,
            DAEMON_SET,
            pods,
            json!("quay-node"),
        ),
        (
            r#"commonLabels={"a":"b"}"#,
            admission,
            "/metadata/labels/a",
            json!("b"),
        ),
        (
            r#"commonLabels={"a":"b"}"#,
            DAEMON_SET,
            "/spec/template/metadata/labels/a",
            json!("b"),
        ),
        (
            r#"policyAnnotations={"a":"b"}"#,
            admission,
            "/metadata/annotations/a",
            json!("b"),
        ),
        (
            r#"policyAnnotations={"a":"b"}"#,
            "ValidatingAdmissionPolicyBinding/mooring-node-own-node",
            "/metadata/annotations/a",
            json!("b"),
        ),
        (
            r#"images.pullSecrets=[{"name":"p"}]"#,
            DAEMON_SET,
            "P/imagePullSecrets",
            json!([{ "name": "p" }]),
        ),
        (
            preferred,
            DEPLOYMENT,
            &format!("{anti}/preferredDuringSchedulingIgnoredDuringExecution"),
            weighed,
        ),
        (
            r#"central.replicas=1,central.podAntiAffinity="none""#,
            DEPLOYMENT,
            anti,
            Value::Null,
        ),
        (
            spread,
            DEPLOYMENT,
            "P/topologySpreadConstraints/0",
            spread_over,
        ),
        (
            r#"central.extraTolerations=[{"key":"k"}]"#,
            DEPLOYMENT,
            "P/tolerations/3",
            json!({ "key": "k" }),
        ),
        (
            r#"central.updateStrategy={"type":"Recreate","rollingUpdate":null}"#,
            DEPLOYMENT,
            "/spec/strategy",
            json!({ "type": "Recreate" }),
        ),
        (
            r#"central.servingCertificateSecret="tls""#,
            DEPLOYMENT,
            "P/volumes/LAST",
            certificate,
        ),
        (
            r#"central.podDisruptionBudget.enabled=true"#,
            budget,
            "/spec/maxUnavailable",
            json!(1),
        ),
        (
            r#"central.podDisruptionBudget={"enabled":true,"minAvailable":"50%","maxUnavailable":""}"#,
            budget,
            "/spec/minAvailable",
            json!("50%"),
        ),
        (
            &with_policy(""),
            policy,
            "/spec/ingress",
            json!([{ "ports": [{ "port": "https", "protocol": "TCP" }] }]),
        ),
        (
            &with_policy(r#",central.networkPolicy.from=[{"podSelector":{}}]"#),
            policy,
            "/spec/ingress/0/from",
            json!([{ "podSelector": {} }]),
        ),
        (
            &with_policy(r#",central.networkPolicy.egress=[{}]"#),
            policy,
            "/spec/policyTypes",
            json!(["Ingress", "Egress"]),
        ),
        (
            "nodeDaemon.manageInterfaces=false",
            DAEMON_SET,
            "C/securityContext/capabilities/add",
            json!(["NET_RAW", "SYS_NICE"]),
        ),
        (
            "nodeDaemon.realtimePriority=false",
            DAEMON_SET,
            "C/securityContext/capabilities/add",
            json!(["NET_ADMIN", "NET_RAW"]),
        ),
        (
            r#"nodeDaemon.securityContext.capabilities={"add":["BPF"]}"#,
            DAEMON_SET,
            "C/securityContext/capabilities/add",
            json!(["BPF"]),
        ),
    ] {
        rows.push(row(set, object, pointer, expected));
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
    let by_default = template(&[]);
    let rows = rows();
    // Rendering is waiting for another program, many times.
    thread::scope(|scope| {
        for some in rows.chunks(rows.len().div_ceil(4)) {
            scope.spawn(|| {
                for (set, object, pointer, expected) in some {
                    let before = at(&by_default, object, pointer);
                    assert_ne!(&before, expected, "{set} is the default: {object}{pointer}");
                    let rendered = template(&["--set-json", set]);
                    let after = at(&rendered, object, pointer);
                    assert_eq!(&after, expected, "{set}: {object}{pointer}");
                }
            });
        }
    });
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

#[test]
fn every_value_is_set_to_another_one_by_what_is_checked() {
    let read = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap();
        serde_norway::from_str::<Value>(&text).unwrap()
    };
    let chart = deploy("chart/mooring");
    let schema = read(chart.join("values.schema.json").to_str().unwrap());
    let mut by_default = BTreeMap::new();
    let values_file = chart.join("values.yaml");
    leaves(
        &schema,
        &read(values_file.to_str().unwrap()),
        "",
        &mut by_default,
    );
    assert!(by_default.len() > 100, "{by_default:?}");
    let mut changed = BTreeSet::new();
    for file in ["everything", "phoenixnap", "unfenced"] {
        let mut set = BTreeMap::new();
        leaves(&schema, &read(&values(file)), "", &mut set);
        let other = set
            .into_iter()
            .filter(|(path, value)| by_default[path] != *value);
        changed.extend(other.map(|(path, _)| path));
    }
    let missing: Vec<_> = by_default
        .keys()
        .filter(|path| !changed.contains(*path))
        .collect();
    assert!(missing.is_empty(), "no file of ci/ sets {missing:?}");
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
}
