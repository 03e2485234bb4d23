//! Events of a node daemon are about its own Node, or what it has to say of Services and L2Networks,
//! and bear its own name.

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use mooring_common::k8s::{EventKind, Events};
use mooring_common::names::{NAMESPACE, components, reasons};
use mooring_test_cluster::attacks;
use mooring_test_cluster::objects::events_for;
use serde_json::{Value, json};

use super::deployed::{Verdict, assert_denied, deployed, node_with_daemon, refusal};

/// What an Event is about, in the namespace `default` if it has one.
fn about(kind: &str, name: &str) -> ObjectReference {
    attacks::about(kind, (kind == "Service").then_some("default"), name)
}

fn event(instance: &str, about: ObjectReference, reason: &str) -> Value {
    attacks::event(instance, &about, reason)
}

async fn create(client: &Client, event: &Value) -> Verdict {
    let events = Api::<Event>::namespaced(client.clone(), "default");
    let event = serde_json::from_value(event.clone()).unwrap();
    events
        .create(&PostParams::default(), &event)
        .await
        .map(drop)
        .map_err(refusal)
}

async fn patch(client: &Client, name: &str, patch: Value) -> Verdict {
    let events = Api::<Event>::namespaced(client.clone(), "default");
    events
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map(drop)
        .map_err(refusal)
}

/// As the daemon itself reports them, and repeats them.
#[tokio::test]
async fn sec_18_a_daemon_reports_what_it_has_to_report() {
    let control_plane = deployed().await;
    let (node, daemon) = node_with_daemon(control_plane).await;
    let told = [
        (components::NODE, about("Node", &node), reasons::SYNCED),
        (
            components::NODE_DAEMON,
            about("Node", &node),
            reasons::FENCE_MISSING,
        ),
        (
            components::NODE_DAEMON,
            about("Service", &node),
            reasons::ADDRESS_ANNOUNCED,
        ),
        (
            components::NODE_DAEMON,
            about("Service", &node),
            reasons::ADDRESS_CONFLICT,
        ),
        (
            components::NODE_DAEMON,
            about("L2Network", &node),
            reasons::SEGMENT_UNAVAILABLE,
        ),
    ];
    for (component, about, reason) in told {
        let events = Events::new(daemon.clone(), component, &node);
        for _ in 0..2 {
            events
                .report(&about, EventKind::Normal, reason, "a note")
                .await;
        }
        let kind = about.kind.unwrap();
        let namespace = about.namespace.as_deref();
        let found = events_for(&control_plane.admin(), &kind, namespace, &node).await;
        let found = found.unwrap();
        assert!(
            found.iter().any(|event| event.reason == reason),
            "{kind} {reason}: {found:?}"
        );
    }
}

#[tokio::test]
async fn sec_18_a_daemon_forges_no_events() {
    let control_plane = deployed().await;
    let (node, daemon) = node_with_daemon(control_plane).await;
    let (other, other_daemon) = node_with_daemon(control_plane).await;
    let own = || about("Node", &node);
    let subjects = "reports Events about its own Node";
    let identity = "as the instance of its own Node";
    let mut central = event(&node, own(), "Synced");
    central["reportingComponent"] = json!("service-controller");
    let mut source = event(&node, own(), "Synced");
    source["source"] = json!({ "component": "kubelet" });
    let mut host = event(&node, own(), "Synced");
    host["source"]["host"] = json!(other);
    let mut kept = event(&node, own(), "Synced");
    kept["metadata"]["finalizers"] = json!(["example.com/stay"]);
    for (forged, words) in [
        (event(&node, about("Node", &other), "Synced"), subjects),
        (event(&node, about("Pod", "etcd"), "Killing"), subjects),
        (
            event(
                &node,
                about("Service", "web"),
                reasons::DELETED_LOAD_BALANCER,
            ),
            subjects,
        ),
        (
            event(&node, about("L2Network", "lan"), reasons::QUORUM_LOST),
            subjects,
        ),
        (event(&other, own(), "Synced"), identity),
        (central, identity),
        (source, identity),
        (host, identity),
        (kept, "labels, annotations, finalizers"),
    ] {
        assert_denied(&forged.to_string(), create(&daemon, &forged).await, words);
    }
    let theirs = event(&other, about("Node", &other), "Synced");
    create(&other_daemon, &theirs).await.unwrap();
    let name = theirs["metadata"]["name"].as_str().unwrap();
    let verdict = patch(&daemon, name, json!({ "count": 99 })).await;
    assert_denied("another's Event", verdict, identity);
    let mine = json!({ "reportingInstance": node, "involvedObject": own() });
    let verdict = patch(&daemon, name, mine).await;
    assert_denied(
        "another's Event, taken over",
        verdict,
        "repeats its own Events only",
    );

    let loose = control_plane
        .client_for(NAMESPACE, "mooring-node", None)
        .await
        .unwrap();
    let verdict = create(&loose, &event(&node, own(), "Synced")).await;
    assert_denied("without a Node", verdict, "this token names no Node");
}
