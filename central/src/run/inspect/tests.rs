//! What each command prints, in each form.

pub(super) mod cluster;

use cluster::{Cluster, event};
use serde_json::{Value, json};

use super::doctor::examine;
use super::drain_check::drain_check;
use super::flags::Target;
use super::rights::{Kind, MissingRight};
use super::*;
use mooring_common::k8s::ObjectKey;

const PLAIN: Style = Style {
    colours: false,
    wide: false,
};
const WIDE: Style = Style {
    colours: false,
    wide: true,
};
const COLOURS: Style = Style {
    colours: true,
    wide: false,
};

/// A cluster with a Warning that is longer than a narrow table shows.
fn warned() -> Snapshot {
    let mut cluster = Cluster::well();
    let note = "A station with the MAC address 02:00:00:00:09:09 claims 192.0.2.10.";
    cluster
        .events
        .push(event("Service", "web", "AddressConflict", note));
    cluster.network["status"]["nodes"][0]["notices"] = json!(["AddressConflict"]);
    cluster.snapshot()
}

/// The parts of a text under their headings, without that of the versions.
fn below<'a>(text: &'a str, title: &str) -> &'a str {
    let heading = format!("\n{title}\n");
    let (_, rest) = text.split_once(&heading).expect("the heading is there");
    rest.split("\n\n").next().unwrap().trim_end()
}

/// What a terminal shows: without the escape sequences of colours.
fn shown(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once('m').expect("a colour").1);
    first + &rest.collect::<String>()
}

/// JSON and YAML say the same; gives it.
fn value(print: impl Fn(Output) -> anyhow::Result<String>) -> Value {
    let [json, yaml] = [Output::Json, Output::Yaml].map(|output| print(output).unwrap());
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_norway::from_str::<Value>(&yaml).unwrap(), value);
    assert!(json.starts_with("{\n  \""), "{json}");
    assert!(!json.contains('\u{1b}') && !yaml.contains('\u{1b}'));
    value
}

#[test]
fn status_is_tables_of_what_there_is() {
    let text = status_text(&warned(), Output::Text, PLAIN).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let versions = format!(
        "Versions\n\
         PROGRAM          VERSION          READY\n\
         this program     {version:15}  -\n\
         mooring-central  example.com/x:1  1/1\n\
         mooring-node     example.com/x:1  2/2\n\n"
    );
    assert!(text.starts_with(&versions), "{text}");
    assert_eq!(
        below(&text, "Leader"),
        "LEASE                                 HOLDER       RENEWED\n\
         kube-system/cloud-controller-manager  central-1_x  2026-11-25T21:59:55Z"
    );
    assert_eq!(
        below(&text, "Clouds"),
        "NAME        NODES  SERVICES\n\
         cloudlycke  2      0"
    );
    assert_eq!(
        below(&text, "Nodes"),
        "NAME  READY  INITIALIZED  DAEMON  SPEAKS FOR  NOTICES          LAST WARNING\n\
         n1    yes    yes          yes     1           AddressConflict  -\n\
         n2    yes    yes          yes     0           -                -"
    );
    assert_eq!(
        below(&text, "Services"),
        "NAME      SERVED BY   ADDRESS     SPEAKER  SINCE  LAST WARNING\n\
         shop/web  L2Networks  192.0.2.10  n1       60m    AddressConflict 60s ago: \
         A station with the MAC address 02:00:00:00:09:09 claims 192.…"
    );
    assert_eq!(
        below(&text, "L2Networks"),
        "NAME  READY  QUORUM      SIGNED  VOTERS    USED  FREE IPV4  FREE IPV6  LAST WARNING\n\
         lan   Ready  QuorumHeld  True    n1,n2,n3  0     -          -          -"
    );
}

#[test]
fn wide_status_has_more_columns_and_whole_notes() {
    let text = status_text(&warned(), Output::Wide, WIDE).unwrap();
    let nodes = below(&text, "Nodes");
    assert!(nodes.contains("PROVIDER ID      ADDRESSES"), "{nodes}");
    assert!(nodes.contains("cloudlycke://n1"), "{nodes}");
    assert_eq!(
        below(&text, "Services"),
        "NAME      SERVED BY   ADDRESS     SPEAKER  SINCE  NETWORK  REASON     PORTS   LAST WARNING\n\
         shop/web  L2Networks  192.0.2.10  n1       60m    lan      Unclaimed  80/TCP  AddressConflict \
         60s ago: A station with the MAC address 02:00:00:00:09:09 claims 192.0.2.10."
    );
}

#[test]
fn status_says_what_is_not_there() {
    let mut cluster = Cluster {
        lease: Some(json!({
            "metadata": {"name": "cloud-controller-manager"},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 15},
        })),
        central_ready: false,
        ..Cluster::unserved()
    };
    cluster.nodes[1]["status"] = json!({});
    cluster.service["spec"]["loadBalancerClass"] = json!("example.com/other");
    let text = status_text(&cluster.snapshot(), Output::Text, COLOURS).unwrap();
    for bad in ["nobody", "0/1", "no", "none"] {
        let painted = format!("\u{1b}[31m{bad}\u{1b}[0m");
        assert!(text.contains(&painted), "{bad} is not red: {text:?}");
    }
    let row = below(&shown(&text), "Services")
        .lines()
        .last()
        .unwrap_or_default()
        .to_owned();
    assert_eq!(row, "shop/web  another    none     -        -      -");
}

#[test]
fn colours_change_nothing_else() {
    let snapshot = warned();
    let plain = status_text(&snapshot, Output::Text, PLAIN).unwrap();
    let painted = status_text(&snapshot, Output::Text, COLOURS).unwrap();
    assert_eq!(shown(&painted), plain);
    for (colour, words) in [
        ("1", "Services"),
        ("1", "SPEAKER"),
        ("32", "yes"),
        ("32", "2/2"),
        ("32", "192.0.2.10"),
        ("32", "QuorumHeld"),
        ("33", "AddressConflict"),
    ] {
        let expected = format!("\u{1b}[{colour}m{words}\u{1b}[0m");
        assert!(painted.contains(&expected), "{words}: {painted:?}");
    }
    assert!(!plain.contains('\u{1b}'));
}

#[test]
fn status_is_the_same_for_programs() {
    let snapshot = warned();
    let status = value(|output| status_text(&snapshot, output, COLOURS));
    let keys: Vec<&String> = status.as_object().unwrap().keys().collect();
    let expected = [
        "clouds",
        "leader",
        "missingRights",
        "networks",
        "nodes",
        "services",
        "versions",
    ];
    let mut keys: Vec<&str> = keys.into_iter().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, expected);
    assert_eq!(
        status["leader"],
        json!({
            "lease": "kube-system/cloud-controller-manager", "holder": "central-1_x",
            "renewed": "2026-11-25T21:59:55Z", "isCurrent": true,
        })
    );
    assert_eq!(status["versions"][2]["ready"], json!([2, 2]));
    assert_eq!(
        status["nodes"][0],
        json!({
            "name": "n1", "ready": true, "initialized": true, "providerId": "cloudlycke://n1",
            "addresses": [], "daemon": true, "speaksFor": 1, "notices": ["AddressConflict"],
            "lastWarning": null,
        })
    );
    assert_eq!(
        status["services"],
        json!([{
            "name": "shop/web", "servedBy": "L2Networks", "ports": ["80/TCP"],
            "addresses": [{
                "address": "192.0.2.10", "network": "lan", "speaker": "n1",
                "since": "2026-11-25T21:00:00Z", "reason": "Unclaimed",
            }],
            "lastWarning": {
                "reason": "AddressConflict", "last": "2026-11-25T21:59:00Z",
                "note": "A station with the MAC address 02:00:00:00:09:09 claims 192.0.2.10.",
            },
        }])
    );
    assert_eq!(
        status["networks"],
        json!([{
            "name": "lan", "ready": "Ready", "quorum": "QuorumHeld", "signed": "True",
            "voters": ["n1", "n2", "n3"], "used": 0, "freeIpv4": null, "freeIpv6": null,
            "lastWarning": null,
        }])
    );
}

/// A finding of each severity, and a right that is missing.
fn report_of_each() -> Report {
    let nodes = Kind {
        group: "",
        resource: "nodes",
        shows: "which Nodes there are",
    };
    let mut snapshot = Cluster::well().snapshot();
    snapshot.missing = vec![MissingRight::new("list", nodes, None)];
    let findings = vec![
        Finding::ok("node n1", "Node", "it is well"),
        Finding::warning("node n1", "Maintenance", "it is out of use")
            .evidence("the annotation says so"),
        Finding::error("service shop/web", "NoSpeaker", "nobody speaks")
            .evidence("one")
            .evidence("two")
            .remedy("start a daemon")
            .see("docs/how-to/l2-networks.md"),
    ];
    Report::new(findings, &snapshot)
}

#[test]
fn findings_are_listed_by_what_they_are_about() {
    let report = report_of_each();
    let plain = report_text(&report, Output::Text, PLAIN).unwrap();
    assert_eq!(
        plain,
        "node n1\n\
         √ it is well\n\
         ‼ it is out of use\n    seen: the annotation says so\n\n\
         service shop/web\n\
         × nobody speaks\n    seen: one\n    seen: two\n    do:   start a daemon\n    \
         see:  docs/how-to/l2-networks.md\n\n\
         missing rights\n\
         ‼ list nodes: not known is which Nodes there are; a ClusterRole grants it with \
         {apiGroups: [\"\"], resources: [nodes], verbs: [list]}\n\n\
         errors: 1, warnings: 1"
    );
    let wide = report_text(&report, Output::Wide, WIDE).unwrap();
    assert_eq!(wide, plain, "there is nothing more to show");
    let painted = report_text(&report, Output::Text, COLOURS).unwrap();
    assert_eq!(shown(&painted), plain);
    for (colour, words) in [
        ("1", "node n1"),
        ("32", "√"),
        ("33", "‼"),
        ("31", "×"),
        ("31", "errors: 1, warnings: 1"),
    ] {
        let expected = format!("\u{1b}[{colour}m{words}\u{1b}[0m");
        assert!(painted.contains(&expected), "{words}: {painted:?}");
    }
}

#[test]
fn the_total_has_the_colour_of_the_worst() {
    let snapshot = Cluster::well().snapshot();
    for (finding, colour, total) in [
        (Finding::ok("a", "A", "a"), 32, "errors: 0, warnings: 0"),
        (
            Finding::warning("a", "A", "a"),
            33,
            "errors: 0, warnings: 1",
        ),
        (Finding::error("a", "A", "a"), 31, "errors: 1, warnings: 0"),
    ] {
        let report = Report::new(vec![finding], &snapshot);
        let text = report_text(&report, Output::Text, COLOURS).unwrap();
        let expected = format!("\n\u{1b}[{colour}m{total}\u{1b}[0m");
        assert!(text.ends_with(&expected), "{text:?}");
    }
}

#[test]
fn findings_are_the_same_for_programs() {
    let report = report_of_each();
    let report = value(|output| report_text(&report, output, COLOURS));
    assert_eq!(
        report,
        json!({
            "errors": 1,
            "warnings": 1,
            "findings": [
                {"subject": "node n1", "check": "Node", "severity": "ok", "message": "it is well"},
                {"subject": "node n1", "check": "Maintenance", "severity": "warning",
                 "message": "it is out of use", "evidence": ["the annotation says so"]},
                {"subject": "service shop/web", "check": "NoSpeaker", "severity": "error",
                 "message": "nobody speaks", "evidence": ["one", "two"], "remedy": "start a daemon",
                 "see": "docs/how-to/l2-networks.md"},
            ],
            "missingRights": [{
                "verb": "list", "resource": "nodes", "hides": "which Nodes there are",
                "rule": "{apiGroups: [\"\"], resources: [nodes], verbs: [list]}",
            }],
        })
    );
}

/// What is found is printed, not only what a test makes up.
#[test]
fn doctor_and_drain_check_print_what_they_find() {
    let snapshot = Cluster::unserved().snapshot();
    let web = Target::Service(ObjectKey::new("shop", "web"));
    let report = Report::new(examine(&snapshot, &web, Vec::new()).unwrap(), &snapshot);
    let text = report_text(&report, Output::Text, PLAIN).unwrap();
    assert!(text.starts_with("service shop/web\n× "), "{text}");
    assert!(text.ends_with("\n\nerrors: 1, warnings: 0"), "{text}");
    let read = value(|output| report_text(&report, output, PLAIN));
    assert_eq!(read["findings"][0]["check"], "NotServed");

    let snapshot = Cluster::well().snapshot();
    let report = Report::new(drain_check(&snapshot, "n1").unwrap(), &snapshot);
    let text = report_text(&report, Output::Text, PLAIN).unwrap();
    let first = "addresses that n1 speaks for\n\
                 √ 192.0.2.10 of Service shop/web on L2Network lan goes to n2\n";
    assert!(text.starts_with(first), "{text}");
    let read = value(|output| report_text(&report, output, PLAIN));
    assert_eq!(read["findings"][0]["check"], "HandedOver");
    assert_eq!(read["findings"][0]["severity"], "ok");
}
