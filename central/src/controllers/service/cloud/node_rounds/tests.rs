use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use mooring_common::k8s::Slim;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{sleep, timeout};

use super::*;

fn followed() -> (Arc<NodeChanges>, UnboundedReceiver<Duration>) {
    let changes = Arc::new(NodeChanges::default());
    let (told, rounds) = unbounded_channel();
    let begun = Instant::now();
    let followed = changes.clone();
    tokio::spawn(async move {
        let begin = || told.send(begun.elapsed()).unwrap();
        followed.rounds(begin).await;
    });
    (changes, rounds)
}

async fn all(mut rounds: UnboundedReceiver<Duration>) -> Vec<u128> {
    let mut at = Vec::new();
    while let Ok(Some(round)) = timeout(Duration::from_secs(120), rounds.recv()).await {
        at.push(round.as_millis());
    }
    at
}

#[tokio::test(start_paused = true)]
async fn single_change_starts_round_after_one_second() {
    let (changes, rounds) = followed();
    tokio::task::yield_now().await;
    changes.bump();
    assert_eq!(all(rounds).await, [1000]);
}

#[tokio::test(start_paused = true)]
async fn ns_17_t8_hundred_nodes_in_a_minute_cost_three_rounds() {
    let (changes, rounds) = followed();
    tokio::task::yield_now().await;
    for _ in 0..100 {
        changes.bump();
        sleep(Duration::from_millis(600)).await;
    }
    let at = all(rounds).await;
    assert!((2..=3).contains(&at.len()), "{at:?}");
    assert!(at[0] <= 30_000 && *at.last().unwrap() >= 60_000, "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn waits_for_more_changes_after_round() {
    let (changes, rounds) = followed();
    tokio::task::yield_now().await;
    for _ in 0..3 {
        changes.bump();
        sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(all(rounds).await, [1000, 8000]);
}

fn node(value: Value) -> NodeView {
    let mut node: Node = serde_json::from_value(value).unwrap();
    node.metadata.name = Some("n".to_owned());
    NodeView::slim(node)
}

#[test]
fn ns_06_07_08_only_relevant_node_changes_count() {
    let before = node(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"providerID": "x://1"}}));
    let same = json!({
        "metadata": {"labels": {"a": "b"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "providerID": "x://1",
            "unschedulable": true,
            "taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}],
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "False"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    });
    assert!(!concerns(Some(&before), Some(&node(same))));
    let key = "node.kubernetes.io/exclude-from-external-load-balancers";
    for other in [
        json!({"metadata": {"labels": {"a": "c"}}, "spec": {"providerID": "x://1"}}),
        json!({"metadata": {"labels": {"a": "b", key: ""}}, "spec": {"providerID": "x://1"}}),
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"providerID": "x://2"}}),
    ] {
        assert!(
            concerns(Some(&before), Some(&node(other.clone()))),
            "{other}"
        );
    }
    assert!(concerns(None, Some(&before)) && concerns(Some(&before), None));
}
