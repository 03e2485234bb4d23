use serde_json::{Value, json};

use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn slice(service: &str, endpoints: &Value) -> Arc<SliceView> {
    let slice = json!({
        "metadata": {
            "namespace": "default", "name": "x", "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
    });
    Arc::new(SliceView::slim(serde_json::from_value(slice).unwrap()))
}

fn endpoint(node: &str, conditions: &Value) -> Value {
    json!({"addresses": ["10.1.0.1"], "nodeName": node, "conditions": conditions})
}

fn change(
    slice: &str,
    old: Option<&Arc<SliceView>>,
    new: Option<&Arc<SliceView>>,
) -> Change<SliceView> {
    Change {
        key: key(slice),
        old: old.cloned(),
        new: new.cloned(),
    }
}

fn names(nodes: &std::collections::BTreeSet<String>) -> Vec<&str> {
    nodes.iter().map(String::as_str).collect()
}

#[test]
fn terminating_is_not_ready_and_unset_is_ready() {
    let all = json!([
        endpoint("said", &json!({"ready": true, "serving": true, "terminating": false})),
        endpoint("unsaid", &json!({})),
        endpoint("starting", &json!({"ready": false})),
        endpoint("leaving", &json!({"ready": false, "serving": true, "terminating": true})),
        // publishNotReadyAddresses
        endpoint("published", &json!({"ready": true, "terminating": true})),
        {"addresses": ["10.1.0.9"]},
    ]);
    let view = slice("web", &all);
    assert_eq!(names(&view.endpoints.ready), ["said", "unsaid"]);
    assert_eq!(names(&view.endpoints.terminating), ["leaving", "published"]);
}

#[tokio::test(start_paused = true)]
async fn joins_endpoints_of_all_slices() {
    let changes = EndpointChanges::default();
    let a = slice("web", &json!([endpoint("a", &json!({}))]));
    let b = slice("web", &json!([endpoint("b", &json!({}))]));
    changes.slice(&change("1", None, Some(&a)));
    changes.slice(&change("2", None, Some(&b)));
    assert_eq!(names(&changes.of(&key("web")).ready), ["a", "b"]);
    // A Pod more on the same Node is no news, in whatever slice it is.
    assert!(changes.slice(&change("3", None, Some(&a))).is_empty());
    assert!(changes.slice(&change("3", Some(&a), None)).is_empty());
    // A slice that somebody gives to another Service counts there alone.
    let other = slice("other", &json!([endpoint("b", &json!({}))]));
    let looks = changes.slice(&change("2", Some(&b), Some(&other)));
    assert_eq!(looks.len(), 2);
    assert_eq!(names(&changes.of(&key("web")).ready), ["a"]);
    assert_eq!(names(&changes.of(&key("other")).ready), ["b"]);
    changes.slice(&change("1", Some(&a), None));
    changes.slice(&change("2", Some(&other), None));
    assert!(changes.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn batches_simultaneous_changes() {
    let changes = EndpointChanges::default();
    let a = slice("web", &json!([endpoint("a", &json!({}))]));
    let b = slice("web", &json!([endpoint("b", &json!({}))]));
    let start = Instant::now();
    let mut looks = std::collections::BTreeSet::new();
    // For 3.5 s, every 50 ms.
    for n in 0..70 {
        let (old, new) = if n % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let found = changes.slice(&change("1", Some(old), Some(new)));
        let [(service, delay)] = found.as_slice() else {
            panic!("one Service is concerned");
        };
        assert_eq!(*service, key("web"));
        looks.insert((start.elapsed() + *delay).as_millis());
        tokio::time::advance(Duration::from_millis(50)).await;
    }
    let looks: Vec<u128> = looks.into_iter().collect();
    assert_eq!(looks, [100, 1100, 2100, 3100, 4100]);
}

#[tokio::test(start_paused = true)]
async fn measures_time_since_first_change() {
    let changes = EndpointChanges::default();
    let a = slice("web", &json!([endpoint("a", &json!({}))]));
    changes.slice(&change("1", None, Some(&a)));
    tokio::time::advance(Duration::from_millis(300)).await;
    let b = slice("web", &json!([endpoint("b", &json!({}))]));
    changes.slice(&change("1", Some(&a), Some(&b)));
    tokio::time::advance(Duration::from_millis(200)).await;
    assert_eq!(
        changes.followed(&key("web"), &Endpoints::default()),
        Some(Duration::from_millis(500))
    );
    assert_eq!(changes.followed(&key("web"), &Endpoints::default()), None);
}

#[tokio::test(start_paused = true)]
async fn node_without_endpoints_is_leaving_until_shown() {
    let changes = EndpointChanges::default();
    let a = slice("web", &json!([endpoint("a", &json!({}))]));
    let none = slice("web", &json!([]));
    let terminating = || names_of(&changes.of(&key("web")).terminating);
    // Gone at once, or in less time than it takes to look.
    changes.slice(&change("1", None, Some(&a)));
    assert_eq!(changes.slice(&change("1", Some(&a), Some(&none))).len(), 1);
    assert_eq!(terminating(), ["a"]);
    changes.followed(&key("web"), &changes.of(&key("web")));
    assert!(terminating().is_empty());
    // It is back before anybody has looked.
    changes.slice(&change("1", Some(&none), Some(&a)));
    changes.slice(&change("1", Some(&a), Some(&none)));
    changes.slice(&change("1", Some(&none), Some(&a)));
    assert!(terminating().is_empty());
    // Nobody can do anything about it, and the health monitor has noticed.
    changes.slice(&change("1", Some(&a), Some(&none)));
    tokio::time::advance(LOST).await;
    assert!(terminating().is_empty());
}

fn names_of(nodes: &std::collections::BTreeSet<String>) -> Vec<String> {
    nodes.iter().cloned().collect()
}
