use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use mooring_common::k8s::{ObjectKey, Slim};
use mooring_common::l2_network::SpokenFor;
use mooring_common::node_view::NodeView;
use serde_json::{Value, json};

use super::*;
use crate::announce::plan::assign;
use crate::cluster::snapshot::{L2NetworkView, ServiceView, SliceView};

/// Two L2Networks with `192.0.2.16/28`, of which one has this entry, and a Node with these labels.
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
fn without_an_entry_nothing_is_found_of_what_no_pool_has() {
    assert!(!is_asked_for(&Snapshot::default()));
    let none = world(&Value::Null, &json!({labels::CONTROL_PLANE: ""}));
    let running = Found::Running(Arc::new(published()));
    assert_eq!(findings(&none, &running), Findings::new());
    assert!(is_asked_for(&world(
        &json!({"addresses": ["192.0.2.100"]}),
        &json!({})
    )));
}

#[test]
fn pool_that_has_the_address_without_an_entry_is_told() {
    let snapshot = world(&Value::Null, &json!({labels::CONTROL_PLANE: ""}));
    assert!(is_asked_for(&snapshot), "a range could have the address");
    let addresses = ["192.0.2.20", "2001:db8::100"];
    let in_pool = Published {
        addresses: addresses.map(|address| address.parse().unwrap()).to_vec(),
        ..published()
    };
    let running = Found::Running(Arc::new(in_pool.clone()));
    let all = findings(&snapshot, &running);
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(names, ["lan", "other"], "each of them could give it");
    let difference = all["lan"].difference.clone().unwrap();
    assert!(
        difference
            .contains("spec.controlPlane is missing, and the pools have [192.0.2.20] of addresses"),
        "{difference}"
    );
    assert_eq!(all["lan"].node.message, difference);
    assert_eq!(all["lan"].node.state, "Standby");
    // Once the one has an entry that is the same, only the other is told of.
    let entry = json!({"addresses": addresses});
    let reserved = world(&entry, &json!({}));
    let all = findings(&reserved, &running);
    assert_eq!(all["lan"].difference, None);
    assert!(all["other"].difference.is_some());
    // What does not run announces nothing that a Service could be given.
    for found in [Found::Ended, Found::Nothing] {
        assert_eq!(findings(&snapshot, &found), Findings::new(), "{found:?}");
    }
}

/// Only the file makes a node announce: for an entry alone nobody does, not even if a Service has the address.
#[test]
fn entry_makes_nobody_announce_before_the_file_is_there() {
    let address = "192.0.2.20";
    let announced = |entry: &Value| {
        let mut snapshot = world(entry, &json!({labels::CONTROL_PLANE: ""}));
        let key = ObjectKey::new("shop", "web");
        let service = ServiceView {
            network: Some("lan".into()),
            addresses: vec![address.parse().unwrap()],
            ..ServiceView::default()
        };
        let slice = SliceView {
            any_ready: true,
            ..SliceView::default()
        };
        snapshot.services = Arc::new([(key.clone(), Arc::new(service))].into());
        snapshot.slices = Arc::new([(key, vec![Arc::new(slice)])].into());
        let assignment = assign(&snapshot);
        let assigned: Vec<IpAddr> = assignment.of("lan").map(|(_, one)| one.address).collect();
        assigned
    };
    let entry = json!({"addresses": [address]});
    assert_eq!(announced(&entry), Vec::<IpAddr>::new());
    let none: [IpAddr; 1] = [address.parse().unwrap()];
    assert_eq!(announced(&Value::Null), none, "the Service's, without it");
    let snapshot = world(&entry, &json!({labels::CONTROL_PLANE: ""}));
    let finding = findings(&snapshot, &Found::Nothing).remove("lan").unwrap();
    assert_eq!(finding.node.state, "NotRunning");
    assert_eq!((finding.node.addresses, finding.difference), (vec![], None));
}
