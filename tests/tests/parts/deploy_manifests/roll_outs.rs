//! A roll-out ends on a cluster of one Node, and on as few Nodes as central has replicas.

use serde_json::{Value, json};

use super::helm::{objects, template};

/// What the chart renders of a kind with these values.
fn one(kind: &str, set: &str) -> Value {
    let rendered = template(&["--set-json", set]);
    let mut found = objects(&rendered).into_iter();
    let found = found.find(|object| object["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} with {set}"))
}

/// Whether a Pod leaves no room for another one of its kind on the same Node.
fn is_alone(pod: &Value) -> bool {
    let spec = &pod["spec"];
    let affinity = &spec["affinity"]["podAntiAffinity"];
    let declares_ports = |container: &Value| {
        let ports = container["ports"].as_array();
        ports.is_some_and(|ports| {
            spec["hostNetwork"] == true || ports.iter().any(|port| !port["hostPort"].is_null())
        })
    };
    !affinity["requiredDuringSchedulingIgnoredDuringExecution"].is_null()
        || spec["containers"]
            .as_array()
            .unwrap()
            .iter()
            .any(declares_ports)
}

/// A number of Pods, or the share of all that it is, rounded down as for `maxUnavailable`.
fn pods(count: &Value, all: u64) -> u64 {
    match count.as_str().and_then(|share| share.strip_suffix('%')) {
        Some(share) => share.parse::<u64>().unwrap() * all / 100,
        None => count.as_u64().unwrap(),
    }
}

/// How many Nodes a roll-out of a Deployment needs to end.
fn nodes_needed(deployment: &Value) -> u64 {
    let spec = &deployment["spec"];
    let replicas = spec["replicas"].as_u64().unwrap();
    if !is_alone(&spec["template"]) {
        return 1;
    }
    // A new Pod has room where an old one has gone, or on one more Node.
    let away = pods(
        &spec["strategy"]["rollingUpdate"]["maxUnavailable"],
        replicas,
    );
    if away > 0 { replicas } else { replicas + 1 }
}

#[test]
fn central_is_rolled_out_on_as_few_nodes_as_it_has_replicas() {
    for (set, nodes) in [
        ("central.replicas=1", 1),
        ("central.replicas=1,cloudProvider=\"linode\"", 1),
        ("central.replicas=1,central.hostNetwork=false", 1),
        (
            "central.hostNetwork=false,central.podAntiAffinity=\"preferred\"",
            1,
        ),
        ("cloudProvider=\"none\"", 2),
        ("central.replicas=3", 3),
    ] {
        let deployment = one("Deployment", set);
        assert_eq!(nodes_needed(&deployment), nodes, "{set}");
    }
    // What the rule above is about.
    let strategy = json!({ "maxSurge": 1, "maxUnavailable": "49%" });
    let set = format!("central.updateStrategy.rollingUpdate={strategy}");
    assert_eq!(nodes_needed(&one("Deployment", &set)), 3, "{set}");
}

/// Its Pods are one to a Node, so that a new one has room beside the old one, or the old one goes first.
#[test]
fn the_daemon_is_rolled_out_on_a_single_node() {
    for set in [
        "cloudProvider=\"none\"",
        "nodeDaemon.secureMetrics.enabled=true",
        "nodeDaemon.maxSurge=0,nodeDaemon.maxUnavailable=1",
    ] {
        let spec = &one("DaemonSet", set)["spec"];
        let update = &spec["updateStrategy"]["rollingUpdate"];
        let moves_over = update["maxSurge"] != 0 && !is_alone(&spec["template"]);
        assert!(moves_over || update["maxUnavailable"] != 0, "{set}: {spec}");
    }
}

#[test]
fn a_single_replica_lets_its_node_be_drained() {
    let set = "central.replicas=1,central.podDisruptionBudget.enabled=true";
    let budget = &one("PodDisruptionBudget", set)["spec"];
    assert!(pods(&budget["maxUnavailable"], 1) > 0, "{budget}");
    assert_eq!(budget["unhealthyPodEvictionPolicy"], "AlwaysAllow");
}
