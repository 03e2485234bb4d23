//! Whose an address is, whatever is done to a Service by hand.

use mooring_common::names::{annotations, finalizers, reasons};
use mooring_tests::objects::ServiceBuilder;
use mooring_tests::stage::{annotation, ingress, is_served};
use serde_json::json;

use super::{Scene, never_meanwhile};

#[tokio::test]
async fn a_status_wiped_by_hand_comes_back_with_the_same_address() {
    let scene = Scene::enter().await;
    let stage = scene.stage(8).await;
    stage.create("first").await;
    stage.served("first").await;
    stage.create("web").await;
    let addresses = stage.served("web").await;
    stage.delete("first").await;
    stage.gone("first").await;
    for _ in 0..3 {
        stage
            .patch_status("web", &json!({ "loadBalancer": null }))
            .await;
        assert_eq!(stage.served("web").await, addresses);
    }
    let wrong = json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.9" }] } });
    stage.patch_status("web", &wrong).await;
    stage.served_with("web", &addresses).await;
    scene.leave().await;
}

#[tokio::test]
async fn a_record_and_finalizer_taken_off_by_hand_cost_no_address() {
    let scene = Scene::enter().await;
    let stage = scene.stage(2).await;
    stage.create("web").await;
    let addresses = stage.served("web").await;
    // What `kubectl replace` with the user's own manifest does.
    let replaced = json!({ "metadata": { "finalizers": null, "annotations": {
        annotations::ALLOCATED_NETWORK: null,
        annotations::ALLOCATED_ADDRESSES: null,
    } } });
    stage.patch("web", &replaced).await;
    stage.create("other").await;
    let others = stage.served("other").await;
    assert_ne!(
        others, addresses,
        "the address is still in the first one's status"
    );
    stage.served_with("web", &addresses).await;
    scene.leave().await;
}

#[tokio::test]
async fn a_copied_annotation_never_steals() {
    let scene = Scene::enter().await;
    let stage = scene.stage(4).await;
    stage.create("web").await;
    let addresses = stage.served("web").await;
    // What `kubectl get -o yaml` into another file, and `kubectl create` of that, make.
    let original = stage.get("web").await;
    let mut copy = stage.service("copy");
    for (key, value) in original.metadata.annotations.unwrap() {
        copy = copy.annotation(&key, &value);
    }
    copy.create(&stage.client).await.unwrap();
    let finalizer = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    stage.patch("copy", &finalizer).await;
    let copied = stage.served("copy").await;
    assert_ne!(copied, addresses);
    assert_eq!(stage.served("web").await, addresses);
    stage.delete("copy").await;
    stage.gone("copy").await;
    assert_eq!(stage.served("web").await, addresses);
    stage.network_uses(&stage.network, 1).await;
    scene.leave().await;
}

#[tokio::test]
async fn an_address_in_the_status_of_somebody_elses_service_is_not_given_out() {
    let scene = Scene::enter().await;
    let stage = scene.stage(2).await;
    ServiceBuilder::load_balancer(&stage.namespace, "theirs")
        .class("example.org/other")
        .port(80, 8080)
        .create(&stage.client)
        .await
        .unwrap();
    let status = json!({ "loadBalancer": { "ingress": [{ "ip": stage.address(0) }] } });
    stage.patch_status("theirs", &status).await;
    stage.create("web").await;
    assert_eq!(stage.served("web").await, [stage.address(1)]);
    stage.create("late").await;
    let told = stage.told("late", reasons::SYNC_LOAD_BALANCER_FAILED).await;
    assert!(told.note.contains("no free IPv4 address"), "{told:?}");
    assert_eq!(ingress(&stage.get("theirs").await), [stage.address(0)]);
    stage.delete("theirs").await;
    stage.gone("theirs").await;
    stage.served_with("late", &[stage.address(0)]).await;
    scene.leave().await;
}

#[tokio::test]
async fn a_running_cluster_moves_over_without_losing_an_address() {
    let scene = Scene::enter().await;
    let stage = scene.stage(8).await;
    // What the controller before us has left: its finalizer, which is ours too, and a status.
    let address = stage.address(5);
    stage
        .service("old")
        .annotation(annotations::ADDRESSES_REQUEST, "not yet ours")
        .create(&stage.client)
        .await
        .unwrap();
    let status = json!({ "loadBalancer": { "ingress": [{ "ip": address }] } });
    stage.patch_status("old", &status).await;
    let finalizer = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    stage.patch("old", &finalizer).await;
    stage
        .annotate("old", annotations::ADDRESSES_REQUEST, None)
        .await;
    stage.served_with("old", &[address]).await;
    scene.leave().await;
}

#[tokio::test]
async fn a_class_less_service_served_by_somebody_else_is_left_alone() {
    let scene = Scene::enter().await;
    let stage = scene.stage(1).await;
    stage.create("holder").await;
    stage.served("holder").await;
    stage.create("theirs").await;
    stage
        .told("theirs", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    let status = json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.7" }] } });
    stage.patch_status("theirs", &status).await;
    stage.delete("holder").await;
    stage.gone("holder").await;
    never_meanwhile("a served Service is served again", &scene, async || {
        let service = stage.get("theirs").await;
        let record = annotation(&service, annotations::ALLOCATED_ADDRESSES);
        (record.is_some() || ingress(&service) != ["203.0.113.7"])
            .then(|| format!("{:?}", service.status))
    })
    .await;
    stage
        .patch_status("theirs", &json!({ "loadBalancer": null }))
        .await;
    stage.served("theirs").await;
    assert!(is_served(&stage.get("theirs").await).is_ok());
    scene.leave().await;
}
