//! Endpoints that are on other Nodes than before.

use mooring_common::engine::Outcome;
use mooring_common::k8s::{Change, Slim as _};
use mooring_common::names::reasons;

use super::*;
use crate::cloud_api::{CloudError, ErrorKind};

/// The Service `default/web` has its load balancer, and an endpoint terminates on the Node `a`.
async fn leaving() -> World {
    let mut world = World::new();
    let changes = Arc::new(EndpointChanges::default());
    world.services.endpoints = Some(changes.clone());
    world.add("web");
    world.cluster.edit(&key("web"), |service| {
        service["spec"]["externalTrafficPolicy"] = json!("Local");
    });
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.cluster.reasons(), ENSURED);
    let slice = json!({
        "metadata": {
            "namespace": "default", "name": "x", "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": "IPv4",
        "endpoints": [{
            "addresses": ["10.1.0.1"], "nodeName": "a",
            "conditions": {"ready": false, "terminating": true},
        }],
    });
    changes.slice(&Change {
        key: key("x"),
        old: None,
        new: Some(Arc::new(SliceView::slim(
            serde_json::from_value(slice).unwrap(),
        ))),
    });
    world
}

#[tokio::test(start_paused = true)]
async fn load_balancer_follows_endpoints_without_event() {
    let world = leaving().await;
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.cloud.members("web").unwrap(), ["b"]);
    assert!(world.cluster.reasons().is_empty());
    let followed = world.services.endpoints.as_ref().unwrap();
    let shown = followed.of(&key("web"));
    let again = followed.followed(&key("web"), &shown);
    assert_eq!(again, None, "it is measured once");
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert!(world.cluster.reasons().is_empty());
}

#[tokio::test(start_paused = true)]
async fn ignores_endpoints_when_all_nodes_forward() {
    let world = leaving().await;
    world.cluster.edit(&key("web"), |service| {
        service["spec"]["externalTrafficPolicy"] = json!("Cluster");
    });
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.cloud.members("web").unwrap(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn reports_failure_to_follow_endpoints() {
    let world = leaving().await;
    let error = CloudError::new("fake", ErrorKind::Server, "out of order");
    world.cloud.state.lock().unwrap().failures = vec![error.into()];
    assert!(matches!(world.pass("web").await, Outcome::Backoff(_)));
    assert_eq!(
        world.cluster.reasons(),
        [reasons::UPDATE_LOAD_BALANCER_FAILED]
    );
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.cloud.members("web").unwrap(), ["b"]);
}
