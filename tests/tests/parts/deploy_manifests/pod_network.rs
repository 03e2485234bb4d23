//! Where central gives out pod CIDRs and makes routes, it may write these and one condition on Nodes.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use mooring_common::names::NAMESPACE;
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{NodeBuilder, apply_manifests};
use mooring_test_cluster::shipped::Shipped;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use super::deployed::{LIMIT, Verdict, assert_denied, deploy, patch_node, refusal};

fn pod_cidrs() -> Value {
    json!({ "spec": { "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"] } })
}

async fn condition(nodes: &Api<Node>, kind: &str) -> Verdict {
    let condition = json!({ "type": kind, "status": "False", "reason": "Test" });
    let patch = Patch::Strategic(json!({ "status": { "conditions": [condition] } }));
    let patched = nodes
        .patch_status("n1", &PatchParams::default(), &patch)
        .await;
    patched.map(drop).map_err(refusal)
}

#[tokio::test]
async fn sec_16_pod_cidrs_and_one_condition_are_permitted_where_the_chart_asks_for_them() {
    // Of its own, since policies concern the whole of it.
    let cp = ControlPlane::start(Options::default()).await.unwrap();
    Shipped::install(&cp).await.unwrap();
    NodeBuilder::new("n1")
        .ready()
        .create(&cp.admin())
        .await
        .unwrap();
    let central = cp
        .client_for(NAMESPACE, "mooring-central", None)
        .await
        .unwrap();
    let nodes = Api::<Node>::all(central.clone());
    let unasked = "the provider ID and the taints only";
    assert_denied(
        "pod CIDRs",
        patch_node(&central, "n1", &pod_cidrs()).await,
        unasked,
    );
    let denied = condition(&nodes, "NetworkUnavailable").await;
    assert_denied("a condition", denied, "the addresses only");

    let addition = deploy("manifests/pod-network.yaml");
    apply_manifests(&cp, &addition).await.unwrap();
    eventually("the condition may be written", LIMIT, async || {
        condition(&nodes, "NetworkUnavailable").await
    })
    .await;
    patch_node(&central, "n1", &pod_cidrs()).await.unwrap();
    for kind in ["Ready", "MemoryPressure"] {
        let denied = condition(&nodes, kind).await;
        assert_denied(kind, denied, "NetworkUnavailable only");
    }
    let cordon = json!({ "spec": { "unschedulable": true } });
    let denied = patch_node(&central, "n1", &cordon).await;
    assert_denied("a cordon", denied, "and pod CIDRs");
    let endpoint = json!({ "status": { "daemonEndpoints": { "kubeletEndpoint": { "Port": 1 } } } });
    let patched = nodes
        .patch_status("n1", &PatchParams::default(), &Patch::Merge(endpoint))
        .await;
    assert_denied(
        "the kubelet's endpoint",
        patched.map(drop).map_err(refusal),
        "addresses only",
    );
}
