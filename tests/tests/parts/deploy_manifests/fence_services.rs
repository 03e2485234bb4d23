//! Central writes addresses, its finalizer and its annotations on Services, and nothing else there; and
//! nobody else writes which address a Service has.

use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use mooring_common::names::{NAMESPACE, annotations, cloudscale_annotations, finalizers};
use mooring_test_cluster::attacks::tenant;
use mooring_test_cluster::control_plane::ControlPlane;
use mooring_test_cluster::objects::{ServiceBuilder, create_namespace, unique};
use serde_json::{Value, json};

use super::deployed::{Verdict, assert_denied, deployed, refusal};

/// A namespace of the test's own, and central.
async fn prepare() -> (&'static ControlPlane, String, Client) {
    let control_plane = deployed().await;
    let namespace = unique("services");
    create_namespace(&control_plane.admin(), &namespace)
        .await
        .unwrap();
    let central = control_plane
        .client_for(NAMESPACE, "mooring-central", None)
        .await
        .unwrap();
    (control_plane, namespace, central)
}

async fn patch_status(client: &Client, namespace: &str, name: &str, patch: &Value) -> Verdict {
    Api::<Service>::namespaced(client.clone(), namespace)
        .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(drop)
        .map_err(refusal)
}

fn finalizers_are(list: &[&str]) -> Value {
    json!({ "metadata": { "finalizers": list } })
}

#[tokio::test]
async fn central_gives_and_takes_addresses() {
    let (control_plane, namespace, central) = prepare().await;
    ServiceBuilder::load_balancer(&namespace, "web")
        .port(80, 8080)
        .annotation("team", "red")
        .create(&control_plane.admin())
        .await
        .unwrap();
    let both = json!({
        "metadata": {
            "finalizers": [finalizers::SERVICE],
            "annotations": {
                annotations::ALLOCATED_NETWORK: "lan",
                annotations::ALLOCATED_ADDRESSES: "192.0.2.7",
                cloudscale_annotations::UUID: "00000000-0000-4000-8000-000000000001",
                cloudscale_annotations::CONFIG_VERSION: "1",
                cloudscale_annotations::ZONE: "rma1",
            },
        },
        "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.7", "ipMode": "VIP" }] } },
    });
    patch_status(&central, &namespace, "web", &both)
        .await
        .unwrap();
    let nothing = json!({
        "metadata": {
            "finalizers": null,
            "annotations": {
                annotations::ALLOCATED_NETWORK: null,
                annotations::ALLOCATED_ADDRESSES: null,
            },
        },
        "status": { "loadBalancer": null },
    });
    patch_status(&central, &namespace, "web", &nothing)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_others_wrote_on_a_service_stays() {
    let (control_plane, namespace, central) = prepare().await;
    let admin = control_plane.admin();
    ServiceBuilder::load_balancer(&namespace, "web")
        .port(80, 8080)
        .annotation("team", "red")
        .create(&admin)
        .await
        .unwrap();
    patch_status(
        &admin,
        &namespace,
        "web",
        &finalizers_are(&["example.com/hold"]),
    )
    .await
    .unwrap();
    let words = "the finalizer service.kubernetes.io/load-balancer-cleanup only";
    for list in [
        &[][..],
        &["example.com/hold", "example.com/new"],
        &[finalizers::SERVICE],
    ] {
        let verdict = patch_status(&central, &namespace, "web", &finalizers_are(list)).await;
        assert_denied(&format!("{list:?}"), verdict, words);
    }
    let beside = finalizers_are(&["example.com/hold", finalizers::SERVICE]);
    patch_status(&central, &namespace, "web", &beside)
        .await
        .unwrap();

    let words = "annotations under mooring.dev/, and those of its clouds, only";
    for (key, value) in [
        ("team", Some("blue")),
        ("team", None),
        ("new", Some("x")),
        ("k8s.cloudscale.ch/loadbalancer-name", Some("x")),
    ] {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        let verdict = patch_status(&central, &namespace, "web", &patch).await;
        assert_denied(key, verdict, words);
    }
    let labels = json!({ "metadata": { "labels": { "app": "other" } } });
    let verdict = patch_status(&central, &namespace, "web", &labels).await;
    assert_denied("a label", verdict, "labels and owners");
    let conditions = json!({ "status": { "conditions": [{
        "type": "Ours", "status": "True", "reason": "Test", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] } });
    let verdict = patch_status(&central, &namespace, "web", &conditions).await;
    assert_denied("a condition", verdict, "conditions are others'");
}

#[tokio::test]
async fn a_service_of_a_foreign_class_is_not_touched() {
    let (control_plane, namespace, central) = prepare().await;
    let admin = control_plane.admin();
    ServiceBuilder::load_balancer(&namespace, "theirs")
        .port(80, 8080)
        .class("example.com/other")
        .create(&admin)
        .await
        .unwrap();
    // Others may use the same finalizer.
    let held = finalizers_are(&[finalizers::SERVICE]);
    patch_status(&admin, &namespace, "theirs", &held)
        .await
        .unwrap();
    let verdict = patch_status(&central, &namespace, "theirs", &finalizers_are(&[])).await;
    assert_denied(
        "the finalizer",
        verdict,
        "a Service with another loadBalancerClass is another controller's",
    );
}

#[tokio::test]
async fn sec_03_central_writes_services_by_their_status_only() {
    let (control_plane, namespace, central) = prepare().await;
    ServiceBuilder::load_balancer(&namespace, "web")
        .port(80, 8080)
        .create(&control_plane.admin())
        .await
        .unwrap();
    let patch = json!({ "metadata": { "annotations": { annotations::ALLOCATED_NETWORK: "lan" } } });
    let refused = Api::<Service>::namespaced(central, &namespace)
        .patch("web", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap_err();
    assert!(refusal(refused).contains("cannot patch resource \"services\""));
}

/// A merge patch of a Service itself.
async fn patch(client: &Client, namespace: &str, annotations: &Value) -> Verdict {
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    Api::<Service>::namespaced(client.clone(), namespace)
        .patch("web", &PatchParams::default(), &patch)
        .await
        .map(drop)
        .map_err(refusal)
}

const RECORDS: [&str; 4] = [
    annotations::ALLOCATED_NETWORK,
    annotations::ALLOCATED_ADDRESSES,
    annotations::PUBLIC_NETWORK,
    annotations::IP_BLOCK_CLAIM,
];

#[tokio::test]
async fn nobody_but_central_writes_which_address_a_service_has() {
    let (control_plane, namespace, central) = prepare().await;
    let tenant = tenant(control_plane, &namespace).await.unwrap();
    let web = || ServiceBuilder::load_balancer(&namespace, "web").port(80, 8080);
    for key in RECORDS {
        let refused = web().annotation(key, "192.0.2.1").create(&tenant).await;
        let message = format!("{:#}", refused.unwrap_err());
        let words = format!("only mooring-central writes {key}");
        assert!(message.contains(&words), "{message}");
    }
    web().create(&tenant).await.unwrap();
    let admin = control_plane.admin();
    for key in RECORDS {
        let words = format!("only mooring-central writes {key}");
        let forged = json!({ key: "192.0.2.1" });
        assert_denied(key, patch(&tenant, &namespace, &forged).await, &words);
        assert_denied(key, patch(&admin, &namespace, &forged).await, &words);
        let by_status = json!({ "metadata": { "annotations": forged } });
        let verdict = patch_status(&admin, &namespace, "web", &by_status).await;
        assert_denied(key, verdict, &words);
    }
    let record = json!({ "metadata": { "annotations": {
        annotations::ALLOCATED_NETWORK: "lan", annotations::ALLOCATED_ADDRESSES: "192.0.2.7",
    } } });
    patch_status(&central, &namespace, "web", &record)
        .await
        .unwrap();
    // All else goes on beside it, also with the record as it is.
    let same = json!({ "team": "red", annotations::ALLOCATED_ADDRESSES: "192.0.2.7" });
    patch(&tenant, &namespace, &same).await.unwrap();
    let other = json!({ annotations::ALLOCATED_ADDRESSES: "192.0.2.8" });
    let verdict = patch(&tenant, &namespace, &other).await;
    assert_denied("another address", verdict, "only mooring-central writes");
}

#[tokio::test]
async fn a_record_keeps_nobody_from_applying_replacing_and_deleting_a_service() {
    let (control_plane, namespace, central) = prepare().await;
    let tenant = tenant(control_plane, &namespace).await.unwrap();
    let services = Api::<Service>::namespaced(tenant.clone(), &namespace);
    let manifest = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
    });
    let gitops = PatchParams::apply("gitops").force();
    let record = json!({ "metadata": { "annotations": {
        annotations::ALLOCATED_NETWORK: "lan", annotations::ALLOCATED_ADDRESSES: "192.0.2.7",
    } } });
    for _ in 0..2 {
        services
            .patch("web", &gitops, &Patch::Apply(&manifest))
            .await
            .unwrap();
        patch_status(&central, &namespace, "web", &record)
            .await
            .unwrap();
    }
    // kubectl replace with the user's own manifest takes the record off.
    let mut replaced = services.get("web").await.unwrap();
    replaced.metadata.annotations = None;
    let params = PostParams::default();
    services.replace("web", &params, &replaced).await.unwrap();
    services
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    // A backup is restored by whoever may write the status.
    ServiceBuilder::load_balancer(&namespace, "restored")
        .port(80, 8080)
        .annotation(annotations::ALLOCATED_ADDRESSES, "192.0.2.7")
        .create(&control_plane.admin())
        .await
        .unwrap();
}
