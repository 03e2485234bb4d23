//! What is said of Services.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use mooring_common::names::labels;
use mooring_test_cluster::objects::{NodeBuilder, PodBuilder, ServiceBuilder, unique};
use serde_json::json;

use super::daemon::{Daemon, SOON};
use mooring_test_support::wait::eventually;

/// A Pod of the app on a node, ready.
async fn pod(daemon: &Daemon, app: &str, node: &str, address: &str) -> String {
    let name = unique(app);
    PodBuilder::new(&daemon.namespace, &name)
        .node(node)
        .label("app", app)
        .running(&[address])
        .create(&daemon.admin)
        .await
        .unwrap();
    name
}

async fn service(daemon: &Daemon, name: &str) {
    ServiceBuilder::load_balancer(&daemon.namespace, name)
        .port(80, 8080)
        .port(443, 8443)
        .selector("app", name)
        .create(&daemon.admin)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_service_is_healthy_where_its_endpoints_are() {
    let daemon = Daemon::start().await;
    assert_eq!(daemon.service("web").status, 404, "it does not exist yet");
    service(&daemon, "web").await;
    let nowhere = daemon.service_is("web", 503).await;
    assert_eq!(
        nowhere.header("X-Load-Balancing-Endpoint-Weight"),
        Some("0")
    );

    let elsewhere = unique("node");
    NodeBuilder::new(&elsewhere)
        .ready()
        .create(&daemon.admin)
        .await
        .unwrap();
    pod(&daemon, "web", &elsewhere, "10.244.1.1").await;
    pod(&daemon, "web", &daemon.node, "10.244.1.2").await;
    let here = daemon.service_is("web", 200).await;
    assert_eq!(
        here.header("X-Load-Balancing-Endpoint-Weight"),
        Some("1"),
        "two ports, one Pod"
    );
    let body = here.json();
    assert_eq!(
        body["service"],
        json!({ "namespace": daemon.namespace, "name": "web" })
    );
    assert_eq!(
        (&body["localEndpoints"], &body["serviceProxyHealthy"]),
        (&json!(1), &json!(true))
    );
    for key in ["draining", "viewAgeSeconds", "reason"] {
        assert!(body.get(key).is_some(), "{key} is missing: {body}");
    }
    let node = daemon.get("/healthz").json();
    for key in ["lastUpdated", "currentTime", "healthy", "nodeEligible"] {
        assert!(node.get(key).is_some(), "{key} is missing: {node}");
    }
}

#[tokio::test]
async fn only_services_of_load_balancers_are_known() {
    let daemon = Daemon::start().await;
    ServiceBuilder::new(&daemon.namespace, "inner")
        .port(80, 8080)
        .selector("app", "inner")
        .create(&daemon.admin)
        .await
        .unwrap();
    pod(&daemon, "inner", &daemon.node, "10.244.1.3").await;
    // Once this one is known, so would be the one that was made before it.
    service(&daemon, "marker").await;
    daemon.service_is("marker", 503).await;
    assert_eq!(daemon.service("inner").status, 404);
    for path in [
        "/services",
        "/services/",
        "/services/a",
        "/services/a/b/c",
        "/services//b",
    ] {
        assert_eq!(daemon.get(path).status, 404, "{path}");
    }
}

/// A Pod that is on its way out still serves what it has, and gets nothing new.
#[tokio::test]
async fn an_endpoint_that_terminates_counts_no_more() {
    let daemon = Daemon::start().await;
    service(&daemon, "web").await;
    let name = pod(&daemon, "web", &daemon.node, "10.244.1.4").await;
    daemon.service_is("web", 200).await;
    let pods = Api::<Pod>::namespaced(daemon.admin.clone(), &daemon.namespace);
    let slowly = DeleteParams::default().grace_period(60);
    pods.delete(&name, &slowly).await.unwrap();
    let answer = daemon.service_is("web", 503).await;
    assert_eq!(answer.json()["localEndpoints"], json!(0));
    let still = pods.get(&name).await.unwrap();
    assert!(
        still.metadata.deletion_timestamp.is_some(),
        "it is still there, on its way out"
    );
}

#[tokio::test]
async fn a_node_that_is_excluded_drains() {
    let daemon = Daemon::start().await;
    service(&daemon, "web").await;
    pod(&daemon, "web", &daemon.node, "10.244.1.5").await;
    daemon.service_is("web", 200).await;
    assert_eq!(daemon.get("/healthz").status, 200);
    let nodes = Api::<Node>::all(daemon.admin.clone());
    let set = async |value: serde_json::Value| {
        let patch =
            json!({ "metadata": { "labels": { labels::EXCLUDE_FROM_LOAD_BALANCERS: value } } });
        let patch = Patch::Merge(patch);
        nodes
            .patch(&daemon.node, &PatchParams::default(), &patch)
            .await
            .unwrap();
    };
    set(json!("true")).await;
    let answer = daemon.service_is("web", 503).await;
    assert_eq!(answer.json()["draining"], json!(true));
    assert_eq!(daemon.get("/healthz").status, 503);
    assert_eq!(
        daemon.get("/livez").status,
        200,
        "the daemon itself is well"
    );
    set(json!(null)).await;
    daemon.service_is("web", 200).await;
    eventually("the Node is eligible again", SOON, async || {
        daemon.get("/healthz").status == 200
    })
    .await;
}
