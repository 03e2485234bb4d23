use std::future::pending;
use std::sync::Mutex;

use async_trait::async_trait;
use mooring_common::k8s::Slim;
use mooring_common::node_facts::NodeFacts;
use serde_json::json;
use tokio::sync::watch;

use super::*;

const PERIOD: Duration = Duration::from_secs(5);

/// A cloud whose last listing has these machines, and whose next one those.
struct Cloud {
    last: Mutex<Vec<&'static str>>,
    next: Vec<&'static str>,
}

impl Cloud {
    fn new(last: &[&'static str], next: &[&'static str]) -> Self {
        Self {
            last: Mutex::new(last.to_vec()),
            next: next.to_vec(),
        }
    }
}

#[async_trait]
impl Instances for Cloud {
    fn provider(&self) -> &'static str {
        "c"
    }

    fn read_id(&self, provider_id: &str) -> Option<Result<ProviderId, String>> {
        Some(provider_id.parse().map_err(|_| "bad".to_owned()))
    }

    async fn look_up(&self, node: &NodeView, since: Option<Instant>) -> Lookup {
        if node.name.starts_with("hanging") {
            pending::<()>().await;
        }
        let mut last = self.last.lock().unwrap();
        if since.is_some() {
            last.clone_from(&self.next);
        }
        if last.contains(&node.name.as_str()) {
            Lookup::Known {
                facts: NodeFacts::default(),
                presence: Presence::Running,
            }
        } else {
            Lookup::Missing
        }
    }

    async fn confirm(&self, _: &NodeView) -> Presence {
        Presence::Gone
    }

    fn changes(&self) -> watch::Receiver<u64> {
        watch::Sender::new(0).subscribe()
    }

    async fn keep_fresh(&self, _: Duration) {}
}

fn node(name: &str, ready: &str) -> Arc<NodeView> {
    let node = json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"providerID": format!("c://{name}")},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    });
    Arc::new(NodeView::slim(serde_json::from_value(node).unwrap()))
}

async fn endpoint_states(nodes: Vec<Arc<NodeView>>, cloud: &Cloud) -> Vec<(String, Presence)> {
    let mut seen: Vec<_> = look_at(nodes, cloud, &NodeStates::default(), PERIOD)
        .await
        .into_iter()
        .map(|observed| (observed.node.name.clone(), observed.presence))
        .collect();
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    seen
}

/// Else the guard against too many deletions would count with a listing that is not the one that
/// the deletion goes by.
#[tokio::test(start_paused = true)]
async fn one_listing_serves_all_unhealthy_nodes() {
    let cloud = Cloud::new(&["a", "b", "z"], &[]);
    let nodes = vec![node("a", "True"), node("b", "True"), node("z", "Unknown")];
    let gone = |name: &str| (name.to_owned(), Presence::Gone);
    let seen = endpoint_states(nodes, &cloud).await;
    assert_eq!(seen, [gone("a"), gone("b"), gone("z")]);
}

#[tokio::test(start_paused = true)]
async fn hanging_cloud_delays_no_node_of_other_clouds() {
    let cloud = Cloud::new(&["z"], &["z"]);
    let mut nodes: Vec<_> = (0..50)
        .map(|i| node(&format!("hanging-{i}"), "Unknown"))
        .collect();
    nodes.push(node("y", "Unknown"));
    nodes.push(node("z", "Unknown"));
    let began = Instant::now();
    let seen = endpoint_states(nodes, &cloud).await;
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(seen[49].1, Presence::Unsure);
    assert_eq!(
        (seen[50].1, seen[51].1),
        (Presence::Gone, Presence::Running)
    );
}
