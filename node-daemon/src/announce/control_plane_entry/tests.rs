use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use mooring_common::k8s::{ObjectKey, Slim};
use mooring_common::l2_network::SpokenFor;
use mooring_common::node_view::NodeView;
use serde_json::{Value, json};

use super::*;
use crate::cluster::snapshot::L2NetworkView;

/// Two L2Networks, of which one has this entry, and a Node with these labels.
fn world(entry: &Value, labels: &Value) -> Snapshot {
    let network = |name: &str, entry: &Value| {
        let network = json!({
            "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network", "metadata": {"name": name},
            "spec": {"subnets": [{"cidr": "192.0.2.0/24"}], "ranges": ["192.0.2.16/28"], "controlPlane": entry},
        });
        let view = L2NetworkView::read(serde_json::from_value(network).unwrap(), "cp1");
        (ObjectKey::cluster_wide(name), Arc::new(view))
    };
    let node = json!({"metadata": {"name": "cp1", "labels": labels}});
    Snapshot {
        networks: Arc::new([network("lan", entry), network("other", &Value::Null)].into()),
        node: Some(Arc::new(NodeView::slim(
            serde_json::from_value(node).unwrap(),
        ))),
        ..Snapshot::default()
    }
}

fn published() -> Published {
    Published {
        addresses: vec![
            "192.0.2.100".parse().unwrap(),
            "2001:db8::100".parse().unwrap(),
        ],
        port: 6443,
        file_revision: 4,
        served_revision: 3,
        accepted_revision: Some(4),
        part: Part::Member,
        ready: true,
        ..Published::of("cp1")
    }
}

/// What is found about `lan`, and that nothing is about the other.
fn found(entry: &Value, published: Published) -> Finding {
    let snapshot = world(entry, &json!({}));
    let mut all = findings(&snapshot, &Found::Running(Arc::new(published)));
    let finding = all.remove("lan").unwrap();
    assert!(all.is_empty(), "{all:?}");
    finding
}

#[test]
fn same_in_any_order_is_no_difference() {
    let entry = json!({"addresses": ["2001:db8::100", "192.0.2.100"]});
    let finding = found(&entry, published());
    let node = ControlPlaneNode {
        state: "Standby".to_owned(),
        revision: Some(3),
        accepted_revision: Some(4),
        ..ControlPlaneNode::default()
    };
    assert_eq!((finding.node, finding.difference), (node, None));
}

#[test]
fn names_both_sides_of_each_difference_and_the_remedy() {
    let entry = json!({"addresses": ["192.0.2.101"], "port": 8443});
    let finding = found(&entry, published());
    let difference = finding.difference.unwrap();
    let both = "spec.controlPlane.addresses is [192.0.2.101], and addresses of the file [192.0.2.100, \
                2001:db8::100]; spec.controlPlane.port is 8443, and port of the file 6443";
    assert_eq!(difference, both);
    assert_eq!(finding.node.message, difference);
    let note = note("cp1", "lan", &difference);
    for words in [
        "L2Network lan",
        "Node cp1",
        both,
        "The file counts: correct spec.controlPlane",
    ] {
        assert!(note.contains(words), "{words} in {note}");
    }
    // Fewer addresses are a difference as well, and so is another port alone.
    let fewer = json!({"addresses": ["192.0.2.100"]});
    assert!(found(&fewer, published()).difference.is_some());
    let port = json!({"addresses": ["192.0.2.100", "2001:db8::100"], "port": 8443});
    assert!(found(&port, published()).difference.is_some());
}

#[test]
fn state_is_of_this_node() {
    let entry = json!({"addresses": ["192.0.2.100", "2001:db8::100"]});
    let state = |change: &dyn Fn(&mut Published)| {
        let mut published = published();
        change(&mut published);
        found(&entry, published).node.state
    };
    assert_eq!(state(&|_| {}), "Standby");
    assert_eq!(state(&|one| one.ready = false), "NotReady");
    assert_eq!(state(&|one| one.part = Part::Witness), "Witness");
    assert_eq!(state(&|one| one.part = Part::Stranger), "NotMember");
    let spoken = SpokenFor {
        address: "192.0.2.100".to_owned(),
        since: MicroTime("2026-11-22T04:00:00Z".parse().unwrap()),
        reason: "TakenOver".to_owned(),
    };
    let mut speaker = Published {
        announces: vec![spoken.clone()],
        ready: false,
        ..published()
    };
    let node = found(&entry, speaker.clone()).node;
    assert_eq!(
        (node.state.as_str(), node.addresses),
        ("Announcing", vec![spoken])
    );
    speaker.fault = Some("x".repeat(600));
    assert_eq!(found(&entry, speaker).node.message.len(), LONGEST_MESSAGE);
    let waiting = Published {
        served_revision: 0,
        ..published()
    };
    assert_eq!(found(&entry, waiting).node.revision, None);
}

#[test]
fn node_without_the_process_says_so_only_if_it_should_have_it() {
    let entry = json!({"addresses": ["192.0.2.100"]});
    let (worker, of_control_plane) = (
        world(&entry, &json!({})),
        world(&entry, &json!({labels::CONTROL_PLANE: ""})),
    );
    assert_eq!(findings(&worker, &Found::Nothing), Findings::new());
    for (snapshot, found) in [
        (&of_control_plane, Found::Nothing),
        (&of_control_plane, Found::Ended),
        (&worker, Found::Ended),
    ] {
        let finding = findings(snapshot, &found).remove("lan").unwrap();
        assert_eq!(finding.node.state, "NotRunning");
        assert!(finding.node.message.contains("control-plane-manifest"));
        assert_eq!(finding.difference, None, "there is nothing to compare with");
    }
}

#[test]
fn without_an_entry_nothing_is_asked_for() {
    let none = world(&Value::Null, &json!({labels::CONTROL_PLANE: ""}));
    assert!(!is_asked_for(&none));
    let running = Found::Running(Arc::new(published()));
    assert_eq!(findings(&none, &running), Findings::new());
    assert!(is_asked_for(&world(
        &json!({"addresses": ["192.0.2.100"]}),
        &json!({})
    )));
}
