//! From creation to deletion.

use mooring_common::names::{annotations, finalizers, reasons};
use mooring_tests::control_plane::Record;
use mooring_tests::objects::{ServiceBuilder, create_namespace, unique};
use mooring_tests::shipped::CENTRAL_USER;
use mooring_tests::stage::{Stage, annotation, has_finalizer, ingress, is_untouched};
use mooring_tests::wait::eventually;
use serde_json::{Value, json};

use super::{Scene, never_meanwhile};

/// What central wrote on a Service, in order.
async fn written(scene: &Scene, stage: &Stage, name: &str) -> Vec<Record> {
    let log = scene.cp.audit_settled().await;
    let log = log.writes_by(CENTRAL_USER).of("services").named(name);
    log.in_namespace(&stage.namespace).to_vec()
}

/// Whether a patch does something at this place.
fn touches(record: &Record, path: &str) -> bool {
    let operations = record.body.as_ref().and_then(Value::as_array);
    operations.into_iter().flatten().any(|operation| {
        let at = operation["path"].as_str().unwrap_or_default();
        operation["op"] != "test" && at.starts_with(path)
    })
}

#[tokio::test]
async fn sv_01_a_service_gets_finalizer_address_record_and_events() {
    let scene = Scene::enter().await;
    let stage = scene.stage(4).await;
    stage.create("web").await;
    assert_eq!(stage.served("web").await, [stage.address(0)]);
    let service = stage.get("web").await;
    assert_eq!(
        annotation(&service, annotations::ALLOCATED_NETWORK),
        Some(stage.network.as_str())
    );
    stage.told("web", reasons::ENSURED_LOAD_BALANCER).await;
    let events = stage.events("web").await;
    let mut told: Vec<_> = events.iter().map(|event| event.reason.as_str()).collect();
    told.sort_unstable();
    let expected = [
        reasons::ENSURED_LOAD_BALANCER,
        reasons::ENSURING_LOAD_BALANCER,
    ];
    assert_eq!(told, expected, "{events:?}");
    assert!(
        events.iter().all(|event| event.kind == "Normal"),
        "{events:?}"
    );
    scene.leave().await;
}

#[tokio::test]
async fn sv_01_the_finalizer_is_written_before_anything_else_and_by_the_status_alone() {
    let scene = Scene::enter().await;
    let stage = scene.stage(4).await;
    stage.create("web").await;
    stage.served("web").await;
    let written = written(&scene, &stage, "web").await;
    assert!(
        written
            .iter()
            .all(|r| r.verb == "patch" && r.subresource == "status" && r.code == 200),
        "{written:#?}"
    );
    let [first, second] = written.as_slice() else {
        panic!("two patches are enough: {written:#?}")
    };
    assert!(touches(first, "/metadata/finalizers"), "{first:?}");
    assert!(
        !touches(first, "/metadata/annotations") && !touches(first, "/status"),
        "{first:?}"
    );
    assert!(
        touches(second, "/metadata/annotations") && touches(second, "/status/loadBalancer"),
        "status and record go together: {second:?}"
    );
    scene.leave().await;
}

#[tokio::test]
async fn sv_03_services_of_other_types_are_left_alone() {
    let scene = Scene::enter().await;
    let stage = scene.stage(4).await;
    let kinds = ["ClusterIP", "NodePort", "ExternalName"];
    for kind in kinds {
        let mut service: k8s_openapi::api::core::v1::Service = serde_json::from_value(json!({
            "metadata": {
                "name": kind.to_lowercase(),
                "annotations": { annotations::L2_NETWORK_REQUEST: stage.network },
            },
            "spec": { "type": kind, "ports": [{ "port": 80 }] },
        }))
        .unwrap();
        if kind == "ExternalName" {
            service.spec.as_mut().unwrap().external_name = Some("example.org".into());
        }
        let params = kube::api::PostParams::default();
        stage.services().create(&params, &service).await.unwrap();
    }
    never_meanwhile("another type is touched", &scene, async || {
        let all = stage.all().await;
        let touched = all.into_iter().find(|service| !is_untouched(service));
        touched.map(|service| format!("{:?}", service.metadata))
    })
    .await;
    for kind in kinds {
        let name = kind.to_lowercase();
        assert!(written(&scene, &stage, &name).await.is_empty());
        assert!(stage.events(&name).await.is_empty());
    }
    scene.leave().await;
}

#[tokio::test]
async fn sv_29_after_twenty_quick_edits_the_last_one_holds() {
    let scene = Scene::enter().await;
    let stage = scene.stage(20).await;
    stage.create("web").await;
    for n in (0..20).rev() {
        let wanted = stage.address((n * 7) % 20);
        stage
            .annotate("web", annotations::ADDRESSES_REQUEST, Some(&wanted))
            .await;
    }
    stage
        .annotate(
            "web",
            annotations::ADDRESSES_REQUEST,
            Some(&stage.address(13)),
        )
        .await;
    stage.served_with("web", &[stage.address(13)]).await;
    stage.network_uses(&stage.network, 1).await;
    scene.leave().await;
}

#[tokio::test]
async fn sv_31_two_services_of_one_name_in_two_namespaces_have_two_addresses() {
    let scene = Scene::enter().await;
    let stage = scene.stage(4).await;
    let mut other = stage.clone();
    other.namespace = unique("services");
    create_namespace(&other.client, &other.namespace)
        .await
        .unwrap();
    stage.create("web").await;
    other.create("web").await;
    let (one, two) = (stage.served("web").await, other.served("web").await);
    assert_ne!(one, two);
    stage.delete("web").await;
    stage.gone("web").await;
    assert_eq!(
        other.served("web").await,
        two,
        "the other one keeps its address"
    );
    scene.leave().await;
}

#[tokio::test]
async fn sd_01_deletion_gives_the_address_back_and_tells_so() {
    let scene = Scene::enter().await;
    let stage = scene.stage(1).await;
    stage.create("web").await;
    let addresses = stage.served("web").await;
    stage.network_uses(&stage.network, 1).await;
    stage.delete("web").await;
    stage.gone("web").await;
    stage.told("web", reasons::DELETING_LOAD_BALANCER).await;
    stage.told("web", reasons::DELETED_LOAD_BALANCER).await;
    assert!(stage.warnings("web").await.is_empty());
    stage.network_uses(&stage.network, 0).await;
    stage.create("next").await;
    assert_eq!(stage.served("next").await, addresses);
    scene.leave().await;
}

#[tokio::test]
async fn sd_07_only_our_finalizer_is_removed() {
    let scene = Scene::enter().await;
    let stage = scene.stage(4).await;
    stage.create("web").await;
    stage.served("web").await;
    let others = ["example.org/first", finalizers::SERVICE, "example.org/last"];
    stage
        .patch("web", &json!({ "metadata": { "finalizers": others } }))
        .await;
    stage.delete("web").await;
    let kept = eventually(
        "our finalizer is off",
        mooring_tests::stage::SOON,
        async || {
            let service = stage.get("web").await;
            (!has_finalizer(&service)).then_some(service)
        },
    )
    .await;
    assert_eq!(
        kept.metadata.finalizers.as_deref().unwrap_or_default(),
        ["example.org/first", "example.org/last"]
    );
    assert!(ingress(&kept).is_empty(), "the address is taken back");
    let none = json!({ "metadata": { "finalizers": null } });
    stage.patch("web", &none).await;
    stage.gone("web").await;
    scene.leave().await;
}

#[tokio::test]
async fn a_service_that_becomes_another_type_is_cleaned_up_and_can_come_back() {
    let scene = Scene::enter().await;
    let stage = scene.stage(4).await;
    stage.create("web").await;
    stage.served("web").await;
    stage
        .patch("web", &json!({ "spec": { "type": "ClusterIP" } }))
        .await;
    eventually("it is cleaned up", mooring_tests::stage::SOON, async || {
        is_untouched(&stage.get("web").await)
    })
    .await;
    stage.network_uses(&stage.network, 0).await;
    stage
        .patch("web", &json!({ "spec": { "type": "LoadBalancer" } }))
        .await;
    stage.served("web").await;
    scene.leave().await;
}

#[tokio::test]
async fn st_07_somebody_elses_condition_survives() {
    let scene = Scene::enter().await;
    let stage = scene.stage(4).await;
    stage.create("web").await;
    stage.served("web").await;
    let condition = json!({
        "type": "example.org/Audited", "status": "True", "reason": "Seen", "message": "by a test",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    stage
        .patch_status("web", &json!({ "conditions": [condition] }))
        .await;
    let wanted = stage.address(3);
    stage
        .annotate("web", annotations::ADDRESSES_REQUEST, Some(&wanted))
        .await;
    stage.served_with("web", &[wanted]).await;
    let conditions = stage.get("web").await.status.unwrap().conditions.unwrap();
    assert_eq!(conditions[0].type_, "example.org/Audited");
    scene.leave().await;
}

#[tokio::test]
async fn sd_13_a_foreign_class_is_never_touched_not_even_its_finalizer() {
    let scene = Scene::enter().await;
    let stage = scene.stage(4).await;
    ServiceBuilder::load_balancer(&stage.namespace, "theirs")
        .annotation(annotations::L2_NETWORK_REQUEST, &stage.network)
        .class("example.org/other")
        .port(80, 8080)
        .create(&stage.client)
        .await
        .unwrap();
    let theirs = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    stage.patch("theirs", &theirs).await;
    never_meanwhile("a foreign Service gets an address", &scene, async || {
        let service = stage.get("theirs").await;
        (!ingress(&service).is_empty()).then(|| format!("{:?}", service.status))
    })
    .await;
    stage.delete("theirs").await;
    never_meanwhile("the finalizer goes", &scene, async || {
        let service = stage.services().get_opt("theirs").await.unwrap();
        (!service.as_ref().is_some_and(has_finalizer)).then(|| format!("{service:?}"))
    })
    .await;
    assert!(written(&scene, &stage, "theirs").await.is_empty());
    assert!(stage.events("theirs").await.is_empty());
    stage
        .patch("theirs", &json!({ "metadata": { "finalizers": null } }))
        .await;
    scene.leave().await;
}
