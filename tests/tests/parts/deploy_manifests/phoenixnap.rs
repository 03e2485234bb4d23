//! With PhoenixNAP central may do a little more, and what exactly depends on how addresses are announced.

use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use mooring_common::names::NAMESPACE;
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{ServiceBuilder, apply_manifests};
use mooring_test_cluster::shipped::Shipped;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use super::deployed::{LIMIT, Verdict, assert_denied, deploy, refusal};

/// A control plane of its own, since policies concern the whole of it, and central there.
async fn with(addition: &str) -> (ControlPlane, Client) {
    let cp = ControlPlane::start(Options::default()).await.unwrap();
    Shipped::install(&cp).await.unwrap();
    apply_manifests(&cp, &deploy(&format!("manifests/{addition}")))
        .await
        .unwrap();
    let central = cp.client_for(NAMESPACE, "mooring-central", None).await;
    (cp, central.unwrap())
}

async fn web(cp: &ControlPlane) {
    let service = ServiceBuilder::load_balancer("default", "web");
    let service = service.port(80, 8080).annotation("team", "red");
    service.create(&cp.admin()).await.unwrap();
}

async fn patch(client: &Client, patch: &Value) -> Verdict {
    Api::<Service>::namespaced(client.clone(), "default")
        .patch("web", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(drop)
        .map_err(refusal)
}

fn address(ip: Option<&str>) -> Value {
    json!({ "spec": { "loadBalancerIP": ip } })
}

#[tokio::test]
async fn with_kube_vip_central_writes_the_address_into_the_spec_and_nothing_else_there() {
    let (cp, central) = with("phoenixnap-kube-vip.yaml").await;
    web(&cp).await;
    eventually("the address may be written", LIMIT, async || {
        patch(&central, &address(Some("203.0.113.10"))).await
    })
    .await;
    let noted = json!({ "metadata": { "annotations": {
        "kube-vip.io/loadbalancerIPs": "203.0.113.10",
    } } });
    patch(&central, &noted).await.unwrap();
    patch(&central, &address(None)).await.unwrap();
    for (what, message) in [
        (
            json!({ "spec": { "ports": [{ "port": 81 }] } }),
            "loadBalancerIP only",
        ),
        (
            json!({ "spec": { "externalIPs": ["192.0.2.1"] } }),
            "loadBalancerIP only",
        ),
        (
            json!({ "spec": { "externalTrafficPolicy": "Local" } }),
            "loadBalancerIP only",
        ),
        (
            json!({ "metadata": { "labels": { "team": "blue" } } }),
            "labels",
        ),
        (
            json!({ "metadata": { "annotations": { "team": "blue" } } }),
            "annotations",
        ),
    ] {
        assert_denied(&what.to_string(), patch(&central, &what).await, message);
    }
}

#[tokio::test]
async fn with_l2_central_writes_no_spec_of_a_service() {
    let (cp, central) = with("phoenixnap-l2.yaml").await;
    web(&cp).await;
    let cluster = Api::<Namespace>::all(central.clone());
    eventually("the cluster's mark may be read", LIMIT, async || {
        cluster.get("kube-system").await
    })
    .await;
    let refused = patch(&central, &address(Some("203.0.113.10"))).await;
    let words = refused.unwrap_err();
    assert!(words.contains("cannot patch resource"), "{words}");
}
