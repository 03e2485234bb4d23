//! Each cause, on a snapshot that is well but for that.

use serde_json::{Value, json};

use super::*;
use crate::run::inspect::drain_check::drain_check;
use crate::run::inspect::tests::cluster::{ADDRESS, Cluster, condition, entry, event, pod};
use mooring_common::k8s::ObjectKey;

impl Cluster {
    /// The one finding that is an error.
    fn only_error(self, target: &Target) -> Finding {
        let findings = examine(&self.snapshot(), target, Vec::new()).unwrap();
        let mut errors = findings
            .into_iter()
            .filter(|finding| finding.severity == Severity::Error);
        let first = errors.next().expect("an error");
        assert_eq!(errors.next(), None, "beside {first:?}");
        assert!(!first.remedy.is_empty(), "{first:?}");
        first
    }
}

fn web() -> Target {
    Target::Service(ObjectKey::new("shop", "web"))
}

fn n2() -> Target {
    Target::Node("n2".to_owned())
}

#[test]
fn finds_nothing_where_all_is_well() {
    let snapshot = Cluster::well().snapshot();
    for target in [
        Target::All,
        n2(),
        web(),
        Target::Address(ADDRESS.parse().unwrap()),
    ] {
        let findings = examine(&snapshot, &target, Vec::new()).unwrap();
        let wrong: Vec<_> = findings
            .iter()
            .filter(|one| one.severity != Severity::Ok)
            .collect();
        assert!(
            wrong.is_empty() && !findings.is_empty(),
            "{target:?}: {wrong:#?}"
        );
    }
    let findings = drain_check(&snapshot, "n1").unwrap();
    let wrong: Vec<_> = findings
        .iter()
        .filter(|one| one.severity == Severity::Error)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let goes = findings
        .iter()
        .find(|one| one.check == "HandedOver")
        .unwrap();
    assert!(goes.message.ends_with("goes to n2"), "{goes:?}");
}

#[test]
fn finds_why_central_does_not_work() {
    for (lease, check) in [
        (None, "NoLeader"),
        (
            Some(
                json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "", "leaseDurationSeconds": 15, "renewTime": "2026-11-25T21:59:55.000000Z"}}),
            ),
            "NoLeader",
        ),
        (
            Some(
                json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "central-1_x", "leaseDurationSeconds": 15, "renewTime": "2026-11-25T21:59:40.000000Z"}}),
            ),
            "StaleLease",
        ),
    ] {
        let cluster = Cluster {
            lease,
            ..Cluster::well()
        };
        assert_eq!(cluster.only_error(&n2()).check, check);
    }
    let cluster = Cluster {
        central_ready: false,
        ..Cluster::well()
    };
    let found = cluster.only_error(&Target::All);
    assert_eq!(found.check, "CentralNotRunning");
    assert!(found.evidence[0].contains("CrashLoopBackOff"), "{found:?}");
    let cluster = Cluster {
        policies: vec!["mooring-node-own-node"],
        ..Cluster::well()
    };
    let found = cluster.only_error(&Target::All);
    assert!(
        found.check == "FenceMissing" && found.message.contains("own-lease"),
        "{found:?}"
    );
}

#[test]
fn a_pod_that_has_ended_or_begins_is_no_fault_beside_a_ready_one() {
    let ended = |name, container, phase| {
        let mut pod = pod(name, container, "n2", false);
        pod["status"]["phase"] = json!(phase);
        pod
    };
    let cluster = Cluster {
        other_pods: vec![
            ended("central-0", "mooring-central", "Failed"),
            ended("node-0", "mooring-node", "Failed"),
            ended("node-00", "mooring-node", "Succeeded"),
            ended("node-000", "mooring-node", "Pending"),
        ],
        ..Cluster::well()
    };
    let findings = examine(&cluster.snapshot(), &Target::All, Vec::new()).unwrap();
    let wrong = findings.iter().filter(|one| one.severity != Severity::Ok);
    assert_eq!(Vec::from_iter(wrong), Vec::<&Finding>::new());
}

#[test]
fn only_warns_of_a_fence_that_is_waived() {
    let cluster = Cluster {
        policies: Vec::new(),
        daemon_flags: vec!["--allow-unfenced"],
        ..Cluster::well()
    };
    let findings = examine(&cluster.snapshot(), &Target::All, Vec::new()).unwrap();
    let wrong = findings.iter().filter(|one| one.severity != Severity::Ok);
    let wrong: Vec<_> = wrong.map(|one| (one.check, one.severity)).collect();
    assert_eq!(wrong, [("FenceWaived", Severity::Warning)]);
}

#[test]
fn finds_foreign_leader() {
    let mut cluster = Cluster::well();
    cluster.lease.as_mut().unwrap()["spec"]["holderIdentity"] = json!("old-ccm_y");
    let findings = examine(&cluster.snapshot(), &n2(), Vec::new()).unwrap();
    assert_eq!(findings[0].check, "ForeignLeader", "{findings:#?}");
}

#[test]
fn finds_why_node_is_tainted() {
    let tainted = || {
        let mut cluster = Cluster::well();
        cluster.nodes[1]["spec"]["taints"] = json!([{"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}]);
        cluster
    };
    let found = tainted().only_error(&n2());
    assert_eq!(found.check, "NotInitialized");
    for (reason, _, _) in [
        ("InitializationRefused", "", ""),
        ("AmbiguousInstance", "", ""),
        ("UnknownProviderIDPrefix", "", ""),
        ("DuplicateProviderID", "", ""),
        ("FenceMissing", "", ""),
    ] {
        let mut cluster = tainted();
        cluster
            .events
            .push(event("Node", "n2", reason, "this is why"));
        let found = cluster.only_error(&n2());
        assert_eq!(found.check, reason);
        assert!(found.evidence[0].contains("this is why"), "{found:?}");
    }
    let cluster = Cluster {
        flags: vec!["--cloud-provider=none"],
        ..tainted()
    };
    assert_eq!(cluster.only_error(&n2()).check, "NoCloud");
    let mut cluster = tainted();
    cluster.nodes[1]["spec"]["providerID"] = json!("other://n2");
    let found = cluster.only_error(&n2());
    assert_eq!(found.check, "UnknownProviderIDPrefix");
    assert!(found.evidence[0].contains("other://"), "{found:?}");
    let mut cluster = tainted();
    cluster.nodes[1]["metadata"]["creationTimestamp"] = json!("2026-11-25T21:59:30Z");
    let findings = examine(&cluster.snapshot(), &n2(), Vec::new()).unwrap();
    assert!(
        findings.iter().any(|one| one.check == "Waiting"),
        "{findings:#?}"
    );
}

#[test]
fn finds_what_keeps_node_from_its_work() {
    let change = |pointer: &str, value: Value| {
        let mut cluster = Cluster::well();
        *cluster.nodes[1].pointer_mut(pointer).unwrap() = value;
        let findings = examine(&cluster.snapshot(), &n2(), Vec::new()).unwrap();
        findings
            .into_iter()
            .map(|one| one.check)
            .collect::<Vec<_>>()
    };
    let label = json!({"node.kubernetes.io/exclude-from-external-load-balancers": ""});
    assert_eq!(change("/metadata/labels", label), ["Excluded"]);
    let annotation = json!({"mooring.dev/maintenance": "until=2h"});
    assert_eq!(change("/metadata/annotations", annotation), ["Maintenance"]);
    let same = change("/spec/providerID", json!("cloudlycke://n1"));
    assert_eq!(same, ["DuplicateProviderID"]);
    assert_eq!(change("/spec", json!({})), ["NeverTainted"]);
    assert_eq!(change("/status", json!({})), ["NotReady"]);
    let mut cluster = Cluster::well();
    cluster.network["status"]["nodes"][1] = json!({"name": "n2", "ready": false, "reason": "NoInterface", "message": "eth9 is not there"});
    let found = cluster.only_error(&n2());
    assert!(
        found.check == "CannotSpeak" && found.evidence[0].contains("eth9"),
        "{found:?}"
    );
}

#[test]
fn finds_why_service_has_no_address() {
    let found = Cluster::unserved().only_error(&web());
    assert_eq!(found.check, "NotServed");
    assert!(
        found.evidence[0].contains("give it 192.0.2.10 of lan"),
        "{found:?}"
    );
    let request = |annotation: &str, value: &str| {
        let mut cluster = Cluster::unserved();
        cluster.service["metadata"]["annotations"] = json!({annotation: value});
        let found = cluster.only_error(&web());
        assert_eq!(found.check, "NoAddress");
        found.remedy
    };
    for (annotation, value, words) in [
        (
            "mooring.dev/l2-network",
            "wan",
            "there is no L2Network \"wan\"",
        ),
        (
            "mooring.dev/address-pool",
            "gold",
            "there is no pool \"gold\"",
        ),
        ("mooring.dev/load-balancer-ips", "192.0.2.99", "in no range"),
        ("mooring.dev/load-balancer-ips", "web", "is no IP address"),
    ] {
        let told = request(annotation, value);
        assert!(told.contains(words), "{told}");
    }
    let mut cluster = Cluster::unserved();
    cluster.network["spec"]["ranges"] = json!(["192.0.2.10-192.0.2.10"]);
    cluster.nodes[0]["status"]["addresses"] = json!([{"type": "InternalIP", "address": ADDRESS}]);
    let found = cluster.only_error(&web());
    assert!(found.remedy.contains("no free IPv4 address"), "{found:?}");
    let mut cluster = Cluster::unserved();
    cluster.service["spec"]["loadBalancerClass"] = json!("mooring.dev/unknown");
    assert_eq!(cluster.only_error(&web()).check, "UnknownClass");
    let mut cluster = Cluster::unserved();
    cluster.service["spec"]["loadBalancerClass"] = json!("example.com/other");
    let findings = examine(&cluster.snapshot(), &web(), Vec::new()).unwrap();
    assert_eq!(findings[0].check, "AnothersClass");
}

#[test]
fn finds_why_nobody_speaks() {
    let found = Cluster::silent().only_error(&web());
    assert_eq!(found.check, "NoSpeaker");
    let cluster = Cluster {
        endpoints: Vec::new(),
        ..Cluster::silent()
    };
    assert_eq!(cluster.only_error(&web()).check, "NoEndpoint");
    let mut cluster = Cluster {
        endpoints: vec!["n9"],
        ..Cluster::silent()
    };
    cluster.service["spec"]["externalTrafficPolicy"] = json!("Local");
    let found = cluster.only_error(&web());
    assert!(
        found.check == "EndpointElsewhere" && found.evidence[0].contains("n9"),
        "{found:?}"
    );
    let mut cluster = Cluster::silent();
    cluster.network["status"]["nodes"] = json!([]);
    assert_eq!(cluster.only_error(&web()).check, "NoDaemons");
    let mut cluster = Cluster::silent();
    cluster.network["status"]["nodes"] = json!([]);
    cluster.network["spec"]["nodeSelector"] = json!({"matchLabels": {"rack": "r1"}});
    assert_eq!(cluster.only_error(&web()).check, "NoNodes");

    let of_nodes = |ready: bool, reason: &str, notice: &str| {
        let mut cluster = Cluster::silent();
        for name in [0, 1] {
            let node = &mut cluster.network["status"]["nodes"][name];
            node["ready"] = json!(ready);
            node["reason"] = json!(reason);
            node["message"] = json!("so it says");
            node["notices"] = match notice {
                "" => json!([]),
                notice => json!([notice]),
            };
        }
        cluster
    };
    let found = of_nodes(false, "NoInterface", "").only_error(&web());
    assert!(
        found.check == "NoNodeReady" && found.evidence.len() == 2,
        "{found:?}"
    );
    let mut cluster = of_nodes(false, "Draining", "");
    for node in &mut cluster.nodes {
        node["metadata"]["labels"] =
            json!({"node.kubernetes.io/exclude-from-external-load-balancers": ""});
    }
    assert_eq!(cluster.only_error(&web()).check, "Excluded");
    let errors = |cluster: Cluster| -> Vec<&'static str> {
        let findings = examine(&cluster.snapshot(), &web(), Vec::new()).unwrap();
        let errors = findings
            .iter()
            .filter(|one| one.severity == Severity::Error);
        errors.map(|one| one.check).collect()
    };
    let cluster = of_nodes(true, "Ready", "ServiceProxyUnhealthy");
    assert_eq!(
        errors(cluster),
        ["ServiceProxyUnhealthy", "ServiceProxyUnhealthy"]
    );
    let mut cluster = of_nodes(true, "Ready", "AddressConflict");
    cluster.events.push(event(
        "Service",
        "web",
        "AddressConflict",
        "02:00:00:00:09:09 answers",
    ));
    assert_eq!(errors(cluster), ["AddressConflict", "AddressConflict"]);
    let mut cluster = Cluster::silent();
    cluster.network["status"]["conditions"][1] = condition("Quorum", "False", "QuorumLost");
    assert_eq!(errors(cluster), ["NoQuorum", "NoQuorum"]);
    let mut cluster = Cluster::silent();
    cluster.events.push(event(
        "Service",
        "web",
        "AddressRefused",
        "it is the router",
    ));
    assert_eq!(errors(cluster), ["AddressRefused"]);
}

#[test]
fn finds_address_that_nobody_has() {
    let target = |text: &str| Target::Address(text.parse().unwrap());
    assert_eq!(
        Cluster::well().only_error(&target("192.0.2.11")).check,
        "NoService"
    );
    assert_eq!(
        Cluster::well().only_error(&target("198.51.100.1")).check,
        "UnknownAddress"
    );
}

#[test]
fn drain_check_finds_what_would_be_interrupted() {
    let errors = |cluster: Cluster| -> Vec<&'static str> {
        let findings = drain_check(&cluster.snapshot(), "n1").unwrap();
        let errors = findings
            .iter()
            .filter(|one| one.severity == Severity::Error);
        errors.map(|one| one.check).collect()
    };
    assert!(errors(Cluster::well()).is_empty());
    let mut cluster = Cluster::well();
    cluster.network["status"]["nodes"][1]["ready"] = json!(false);
    assert_eq!(errors(cluster), ["FallsSilent", "LosesQuorum"]);
    let mut cluster = Cluster {
        endpoints: vec!["n1"],
        ..Cluster::well()
    };
    cluster.service["spec"]["externalTrafficPolicy"] = json!("Local");
    assert_eq!(errors(cluster), ["FallsSilent", "OnlyEndpoints"]);
    let mut cluster = Cluster::well();
    cluster.network["status"]["voters"]["nodes"] = json!(["n1"]);
    cluster.network["status"]["nodes"] = json!([entry("n1", &[])]);
    assert_eq!(errors(cluster), ["OnlyVoter"]);
    assert!(drain_check(&Cluster::well().snapshot(), "n9").is_err());
}

#[test]
fn drain_check_says_who_takes_over_only_if_endpoints_are_known() {
    let found = |policy: &str| {
        let mut cluster = Cluster::well();
        cluster.service["spec"]["externalTrafficPolicy"] = json!(policy);
        let mut snapshot = cluster.snapshot();
        snapshot.objects.slices = None;
        let findings = drain_check(&snapshot, "n1").unwrap();
        let mut findings = findings.into_iter();
        let found = findings.find(|one| one.message.contains(ADDRESS)).unwrap();
        (found.check, found.severity)
    };
    assert_eq!(found("Cluster"), ("HandedOver", Severity::Ok));
    assert_eq!(found("Local"), ("UnknownEndpoints", Severity::Warning));
}

/// Headings as addresses of a page have them.
fn slug(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || " -".contains(*c));
    kept.collect::<String>().replace(' ', "-")
}

#[test]
fn pages_and_their_headings_are_there() {
    let sources = [
        include_str!("../doctor.rs"),
        include_str!("nodes.rs"),
        include_str!("../drain_check.rs"),
    ];
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for page in sources.iter().flat_map(|source| source.split('"')) {
        if !page.starts_with("docs/") {
            continue;
        }
        let (file, anchor) = page.split_once('#').unwrap_or((page, ""));
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let mut headings = text.lines().filter(|line| line.starts_with('#'));
        let is_there = anchor.is_empty() || headings.any(|heading| slug(heading) == anchor);
        assert!(is_there, "{page}");
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
}
