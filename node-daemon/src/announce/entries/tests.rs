use std::sync::Arc;

use mooring_common::k8s::{ObjectKey, Slim};
use mooring_common::l2_network::ControlPlaneNode;
use mooring_common::node_view::NodeView;
use serde_json::json;

use super::*;
use crate::announce::control_plane_entry::Finding;
use crate::cluster::snapshot::L2NetworkView;
use crate::responder::DesiredSegment;

const MAC: Mac = Mac::new([2, 0, 0, 0, 0, 1]);

fn link(up: bool) -> Link {
    Link {
        name: "eth0".into(),
        index: 2,
        mac: Some(MAC),
        up,
        addresses: Vec::new(),
        default_route: None,
        stack: crate::wire::links::Stack::default(),
    }
}

/// One L2Network that says this of the Node.
fn world(entry: Option<SegmentNode>) -> Snapshot {
    let network = json!({
        "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network", "metadata": {"name": "lan"},
        "spec": {"subnets": [{"cidr": "192.0.2.0/24"}], "ranges": ["192.0.2.16/28"]},
    });
    let view = L2NetworkView {
        entry,
        ..L2NetworkView::read(serde_json::from_value(network).unwrap(), "n1")
    };
    Snapshot {
        networks: Arc::new([(ObjectKey::cluster_wide("lan"), Arc::new(view))].into()),
        node: Some(Arc::new(NodeView::slim(
            serde_json::from_value(json!({"metadata": {"name": "n1"}})).unwrap(),
        ))),
        ..Snapshot::default()
    }
}

fn look(
    snapshot: &Snapshot,
    link: Result<&Link, String>,
    responding_from: bool,
    fault: Option<&str>,
) -> Option<SegmentNode> {
    let role = link.map_or_else(Role::Hindered, Role::Speaker);
    let status = SegmentStatus {
        responding_from: responding_from.then_some(MAC),
        fault: fault.map(ToOwned::to_owned),
        ..SegmentStatus::default()
    };
    look_at(snapshot, role, status)
}

fn look_at(snapshot: &Snapshot, role: Role<'_>, status: SegmentStatus) -> Option<SegmentNode> {
    look_with(snapshot, role, status, &Findings::new())
}

fn look_with(
    snapshot: &Snapshot,
    role: Role<'_>,
    status: SegmentStatus,
    control_plane: &Findings,
) -> Option<SegmentNode> {
    let desired = DesiredSegment {
        node_address: Some("10.0.0.1".parse().unwrap()),
        ..DesiredSegment::default()
    };
    let mut changes = changes(
        snapshot,
        "n1",
        &[("lan".to_owned(), role)].into(),
        &[("lan".to_owned(), Arc::new(desired))].into(),
        &[("lan".to_owned(), status)].into(),
        control_plane,
    );
    match changes.remove("lan") {
        Some(Change::Put(entry)) => Some(*entry),
        None => None,
        Some(Change::Take) => panic!("it is on the segment"),
    }
}

#[test]
fn each_role_has_its_reason() {
    let nothing = world(None);
    let ready = look(&nothing, Ok(&link(true)), true, None).unwrap();
    assert_eq!(
        serde_json::to_value(&ready).unwrap(),
        json!({
            "name": "n1", "ready": true, "reason": "Ready", "interface": "eth0",
            "mac": "02:00:00:00:00:01", "address": "10.0.0.1",
        })
    );

    let mut maintained = world(None);
    maintained.node = Some(Arc::new(NodeView::slim(
        serde_json::from_value(json!({"metadata": {
            "annotations": {"mooring.dev/maintenance": "until=2026-11-25T22:00:00Z"},
        }}))
        .unwrap(),
    )));
    let mut draining = world(None);
    draining.node = Some(Arc::new(NodeView::slim(
        serde_json::from_value(json!({"metadata": {
            "labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""},
        }}))
        .unwrap(),
    )));
    let table = [
        (
            look(&draining, Ok(&link(true)), true, None),
            "Draining",
            "excluded",
        ),
        (
            look(&maintained, Ok(&link(true)), true, None),
            "Draining",
            "in maintenance until 2026-11-25T22:00:00Z",
        ),
        (
            look(&nothing, Ok(&link(false)), true, None),
            "InterfaceDown",
            "interface eth0",
        ),
        (
            look(&nothing, Ok(&link(true)), false, Some("no right")),
            "CannotSpeak",
            "no right",
        ),
        (
            look(&nothing, Err("there is none".into()), false, None),
            "NoInterface",
            "there is none",
        ),
    ];
    for (entry, reason, words) in table {
        let entry = entry.unwrap();
        assert_eq!((entry.ready, entry.reason.as_str()), (false, reason));
        assert!(entry.message.contains(words), "{}", entry.message);
        assert_eq!(entry.name, "n1");
    }
}

#[test]
fn writes_only_changed_entries() {
    let ready = look(&world(None), Ok(&link(true)), true, None);
    assert_eq!(
        look(&world(ready.clone()), Ok(&link(true)), true, None),
        None
    );
    assert!(look(&world(ready), Ok(&link(false)), true, None).is_some());
}

#[test]
fn entry_stays_while_segment_opens() {
    assert_eq!(look(&world(None), Ok(&link(true)), false, None), None);
}

#[test]
fn removes_entry_with_segment() {
    let of = |snapshot: &Snapshot| {
        changes(
            snapshot,
            "n1",
            &BTreeMap::new(),
            &BTreeMap::new(),
            &BTreeMap::new(),
            &Findings::new(),
        )
    };
    assert_eq!(of(&world(None)), Entries::new());
    let stale = world(Some(SegmentNode::default()));
    assert_eq!(of(&stale), [("lan".to_owned(), Change::Take)].into());
}

#[test]
fn entry_lists_addresses_and_notices() {
    let address: IpAddr = "192.0.2.17".parse().unwrap();
    let told = SpokenFor {
        address: address.to_string(),
        since: serde_json::from_value(json!("2026-11-22T05:00:00Z")).unwrap(),
        reason: "TakenOver".into(),
    };
    let status = SegmentStatus {
        responding_from: Some(MAC),
        speaks_for: [(address, told)].into(),
        notices: vec!["HeartbeatsUnsigned"],
        ..SegmentStatus::default()
    };
    let eth0 = link(true);
    let said = look_at(&world(None), Role::Speaker(&eth0), status.clone()).unwrap();
    assert_eq!(
        serde_json::to_value(&said).unwrap()["addresses"],
        json!([{
            "address": "192.0.2.17", "since": "2026-11-22T05:00:00.000000Z", "reason": "TakenOver",
        }])
    );
    assert_eq!(said.notices, ["HeartbeatsUnsigned"]);
    let again = look_at(&world(Some(said)), Role::Speaker(&eth0), status);
    assert_eq!(again, None, "what is said already is not said again");
}

#[test]
fn a_witness_only_votes() {
    let said = look_at(&world(None), Role::Witness, SegmentStatus::default()).unwrap();
    assert!(said.witness && said.ready && said.mac.is_none(), "{said:?}");
    assert_eq!(said.reason, "Witness");
}

#[test]
fn stopped_entry_lists_no_address() {
    let eth0 = link(true);
    let ready = look(&world(None), Ok(&eth0), true, None);
    let roles = [("lan".to_owned(), Role::Speaker(&eth0))].into();
    let Some(Change::Put(last)) = stopped(&world(ready), &roles).remove("lan") else {
        panic!("it has an entry");
    };
    assert!(!last.ready && last.addresses.is_empty() && last.mac.is_none());
    assert_eq!(
        (last.name.as_str(), last.reason.as_str()),
        ("n1", "Stopped")
    );
    assert!(
        stopped(&world(None), &roles).is_empty(),
        "it has said nothing"
    );
}

#[test]
fn truncates_long_message() {
    let long = "ä".repeat(2000);
    let entry = look(&world(None), Ok(&link(true)), false, Some(&long)).unwrap();
    assert_eq!(entry.message.chars().count(), LONGEST_MESSAGE);
}

#[test]
fn a_daemon_without_a_key_says_so() {
    let said = look_at(&world(None), Role::Keyless, SegmentStatus::default()).unwrap();
    assert_eq!(said.reason, segment_reasons::NO_HEARTBEAT_KEY);
    assert_eq!(said.notices, [segment_notices::HEARTBEATS_UNSIGNED]);
    assert!(!said.ready && said.message == NO_KEY, "{said:?}");
}

#[test]
fn not_ready_without_majority() {
    let lost = || SegmentStatus {
        responding_from: Some(MAC),
        notices: vec![segment_notices::QUORUM_LOST],
        ..SegmentStatus::default()
    };
    let link = link(true);
    for role in [Role::Speaker(&link), Role::Witness] {
        let entry = look_at(&world(None), role, lost()).unwrap();
        assert!(!entry.ready, "{entry:?}");
        assert_eq!(entry.reason, "QuorumLost");
        assert!(entry.message.contains("voters"), "{entry:?}");
    }
}

#[test]
fn entry_tells_of_control_plane_whatever_the_segment_does() {
    let node = ControlPlaneNode {
        state: "Standby".to_owned(),
        revision: Some(3),
        ..ControlPlaneNode::default()
    };
    let findings = |difference: Option<&str>| -> Findings {
        let finding = Finding {
            node: node.clone(),
            difference: difference.map(ToOwned::to_owned),
        };
        [("lan".to_owned(), finding)].into()
    };
    let roles = || {
        [
            Role::Hindered("no such".to_owned()),
            Role::Keyless,
            Role::Witness,
        ]
    };
    for role in roles() {
        let entry = look_with(
            &world(None),
            role.clone(),
            SegmentStatus::default(),
            &findings(Some("they differ")),
        );
        let entry = entry.unwrap();
        assert_eq!(entry.control_plane.as_ref(), Some(&node), "{role:?}");
        let last = entry.notices.last().map(String::as_str);
        assert_eq!(last, Some("ControlPlaneFileDiffers"), "{role:?}");
        // What is there is not written again, and what has changed is.
        let same = findings(Some("they differ"));
        let known = world(Some(entry));
        let again = |findings: &Findings| {
            look_with(&known, role.clone(), SegmentStatus::default(), findings)
        };
        assert_eq!(again(&same), None);
        let mended = again(&findings(None)).unwrap();
        assert!(
            !mended
                .notices
                .iter()
                .any(|one| one == "ControlPlaneFileDiffers")
        );
        assert_eq!(again(&Findings::new()).unwrap().control_plane, None);
    }
}
