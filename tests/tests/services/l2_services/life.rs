//! From creation to deletion.

use mooring_common::names::{annotations, finalizers, reasons};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::control_plane::Record;
use mooring_test_cluster::objects::{ServiceBuilder, create_namespace, unique};
use mooring_test_cluster::shipped::CENTRAL_USER;
use mooring_test_cluster::test_namespace::{
    TestNamespace, annotation, has_finalizer, ingress, is_untouched,
};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use super::{cluster_with_central, never_meanwhile, ready_namespace};

/// What central wrote on a Service, in order.
async fn written(cluster: &Cluster, namespace: &TestNamespace, name: &str) -> Vec<Record> {
    let log = cluster.audit().await;
    let log = log.writes_by(CENTRAL_USER).of("services").named(name);
    log.in_namespace(&namespace.name).to_vec()
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
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    namespace.create("web").await;
    assert_eq!(namespace.served("web").await, [namespace.address(0)]);
    let service = namespace.get("web").await;
    assert_eq!(
        annotation(&service, annotations::ALLOCATED_NETWORK),
        Some(namespace.network.as_str())
    );
    namespace.told("web", reasons::ENSURED_LOAD_BALANCER).await;
    let events = namespace.events("web").await;
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
    cluster.finish().await;
}

#[tokio::test]
async fn sv_01_the_finalizer_is_written_before_anything_else_and_by_the_status_alone() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    namespace.create("web").await;
    namespace.served("web").await;
    let written = written(&cluster, &namespace, "web").await;
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
    cluster.finish().await;
}

#[tokio::test]
async fn sv_03_services_of_other_types_are_left_alone() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    let kinds = ["ClusterIP", "NodePort", "ExternalName"];
    for kind in kinds {
        let mut service: k8s_openapi::api::core::v1::Service = serde_json::from_value(json!({
            "metadata": {
                "name": kind.to_lowercase(),
                "annotations": { annotations::L2_NETWORK_REQUEST: namespace.network },
            },
            "spec": { "type": kind, "ports": [{ "port": 80 }] },
        }))
        .unwrap();
        if kind == "ExternalName" {
            service.spec.as_mut().unwrap().external_name = Some("example.org".into());
        }
        let params = kube::api::PostParams::default();
        namespace
            .services()
            .create(&params, &service)
            .await
            .unwrap();
    }
    never_meanwhile("another type is touched", &cluster, async || {
        let all = namespace.all().await;
        let touched = all.into_iter().find(|service| !is_untouched(service));
        touched.map(|service| format!("{:?}", service.metadata))
    })
    .await;
    for kind in kinds {
        let name = kind.to_lowercase();
        assert!(written(&cluster, &namespace, &name).await.is_empty());
        assert!(namespace.events(&name).await.is_empty());
    }
    cluster.finish().await;
}

#[tokio::test]
async fn sv_29_after_twenty_quick_edits_the_last_one_holds() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 20).await;
    namespace.create("web").await;
    for n in (0..20).rev() {
        let wanted = namespace.address((n * 7) % 20);
        namespace
            .annotate("web", annotations::ADDRESSES_REQUEST, Some(&wanted))
            .await;
    }
    namespace
        .annotate(
            "web",
            annotations::ADDRESSES_REQUEST,
            Some(&namespace.address(13)),
        )
        .await;
    namespace.served_with("web", &[namespace.address(13)]).await;
    namespace.network_uses(&namespace.network, 1).await;
    cluster.finish().await;
}

#[tokio::test]
async fn sv_31_two_services_of_one_name_in_two_namespaces_have_two_addresses() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    let mut other = namespace.clone();
    other.name = unique("services");
    create_namespace(&other.client, &other.name).await.unwrap();
    namespace.create("web").await;
    other.create("web").await;
    let (one, two) = (namespace.served("web").await, other.served("web").await);
    assert_ne!(one, two);
    namespace.delete("web").await;
    namespace.gone("web").await;
    assert_eq!(
        other.served("web").await,
        two,
        "the other one keeps its address"
    );
    cluster.finish().await;
}

#[tokio::test]
async fn sd_01_deletion_gives_the_address_back_and_tells_so() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 1).await;
    namespace.create("web").await;
    let addresses = namespace.served("web").await;
    namespace.network_uses(&namespace.network, 1).await;
    namespace.delete("web").await;
    namespace.gone("web").await;
    namespace.told("web", reasons::DELETING_LOAD_BALANCER).await;
    namespace.told("web", reasons::DELETED_LOAD_BALANCER).await;
    assert!(namespace.warnings("web").await.is_empty());
    namespace.network_uses(&namespace.network, 0).await;
    namespace.create("next").await;
    assert_eq!(namespace.served("next").await, addresses);
    cluster.finish().await;
}

#[tokio::test]
async fn sd_07_only_our_finalizer_is_removed() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    namespace.create("web").await;
    namespace.served("web").await;
    let others = ["example.org/first", finalizers::SERVICE, "example.org/last"];
    namespace
        .patch("web", &json!({ "metadata": { "finalizers": others } }))
        .await;
    namespace.delete("web").await;
    let kept = eventually(
        "our finalizer is off",
        mooring_test_cluster::test_namespace::SOON,
        async || {
            let service = namespace.get("web").await;
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
    namespace.patch("web", &none).await;
    namespace.gone("web").await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_service_that_becomes_another_type_is_cleaned_up_and_can_come_back() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    namespace.create("web").await;
    namespace.served("web").await;
    namespace
        .patch("web", &json!({ "spec": { "type": "ClusterIP" } }))
        .await;
    eventually(
        "it is cleaned up",
        mooring_test_cluster::test_namespace::SOON,
        async || is_untouched(&namespace.get("web").await),
    )
    .await;
    namespace.network_uses(&namespace.network, 0).await;
    namespace
        .patch("web", &json!({ "spec": { "type": "LoadBalancer" } }))
        .await;
    namespace.served("web").await;
    cluster.finish().await;
}

#[tokio::test]
async fn st_07_somebody_elses_condition_survives() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    namespace.create("web").await;
    namespace.served("web").await;
    let condition = json!({
        "type": "example.org/Audited", "status": "True", "reason": "Seen", "message": "by a test",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    namespace
        .patch_status("web", &json!({ "conditions": [condition] }))
        .await;
    let wanted = namespace.address(3);
    namespace
        .annotate("web", annotations::ADDRESSES_REQUEST, Some(&wanted))
        .await;
    namespace.served_with("web", &[wanted]).await;
    let conditions = namespace
        .get("web")
        .await
        .status
        .unwrap()
        .conditions
        .unwrap();
    assert_eq!(conditions[0].type_, "example.org/Audited");
    cluster.finish().await;
}

#[tokio::test]
async fn sd_13_a_foreign_class_is_never_touched_not_even_its_finalizer() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    ServiceBuilder::load_balancer(&namespace.name, "theirs")
        .annotation(annotations::L2_NETWORK_REQUEST, &namespace.network)
        .class("example.org/other")
        .port(80, 8080)
        .create(&namespace.client)
        .await
        .unwrap();
    let theirs = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    namespace.patch("theirs", &theirs).await;
    never_meanwhile("a foreign Service gets an address", &cluster, async || {
        let service = namespace.get("theirs").await;
        (!ingress(&service).is_empty()).then(|| format!("{:?}", service.status))
    })
    .await;
    namespace.delete("theirs").await;
    never_meanwhile("the finalizer goes", &cluster, async || {
        let service = namespace.services().get_opt("theirs").await.unwrap();
        (!service.as_ref().is_some_and(has_finalizer)).then(|| format!("{service:?}"))
    })
    .await;
    assert!(written(&cluster, &namespace, "theirs").await.is_empty());
    assert!(namespace.events("theirs").await.is_empty());
    namespace
        .patch("theirs", &json!({ "metadata": { "finalizers": null } }))
        .await;
    cluster.finish().await;
}
