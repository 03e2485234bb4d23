//! Whose an address is, whatever is done to a Service by hand.

use mooring_common::names::{annotations, finalizers, reasons};
use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_cluster::test_namespace::{annotation, ingress, is_served};
use serde_json::json;

use super::{cluster_with_central, never_meanwhile, ready_namespace};

#[tokio::test]
async fn a_status_wiped_by_hand_comes_back_with_the_same_address() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 8).await;
    namespace.create("first").await;
    namespace.served("first").await;
    namespace.create("web").await;
    let addresses = namespace.served("web").await;
    namespace.delete("first").await;
    namespace.gone("first").await;
    for _ in 0..3 {
        namespace
            .patch_status("web", &json!({ "loadBalancer": null }))
            .await;
        assert_eq!(namespace.served("web").await, addresses);
    }
    let wrong = json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.9" }] } });
    namespace.patch_status("web", &wrong).await;
    namespace.served_with("web", &addresses).await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_record_and_finalizer_taken_off_by_hand_cost_no_address() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 2).await;
    namespace.create("web").await;
    let addresses = namespace.served("web").await;
    // What `kubectl replace` with the user's own manifest does.
    let replaced = json!({ "metadata": { "finalizers": null, "annotations": {
        annotations::ALLOCATED_NETWORK: null,
        annotations::ALLOCATED_ADDRESSES: null,
    } } });
    namespace.patch("web", &replaced).await;
    namespace.create("other").await;
    let others = namespace.served("other").await;
    assert_ne!(
        others, addresses,
        "the address is still in the first one's status"
    );
    namespace.served_with("web", &addresses).await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_copied_annotation_never_steals() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    namespace.create("web").await;
    let addresses = namespace.served("web").await;
    // What `kubectl get -o yaml` into another file, and `kubectl create` of that, make.
    let original = namespace.get("web").await;
    let mut copy = namespace.service("copy");
    for (key, value) in original.metadata.annotations.unwrap() {
        copy = copy.annotation(&key, &value);
    }
    copy.create(&namespace.client).await.unwrap();
    let finalizer = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    namespace.patch("copy", &finalizer).await;
    let copied = namespace.served("copy").await;
    assert_ne!(copied, addresses);
    assert_eq!(namespace.served("web").await, addresses);
    namespace.delete("copy").await;
    namespace.gone("copy").await;
    assert_eq!(namespace.served("web").await, addresses);
    namespace.network_uses(&namespace.network, 1).await;
    cluster.finish().await;
}

#[tokio::test]
async fn an_address_in_the_status_of_somebody_elses_service_is_not_given_out() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 2).await;
    ServiceBuilder::load_balancer(&namespace.name, "theirs")
        .class("example.org/other")
        .port(80, 8080)
        .create(&namespace.client)
        .await
        .unwrap();
    let status = json!({ "loadBalancer": { "ingress": [{ "ip": namespace.address(0) }] } });
    namespace.patch_status("theirs", &status).await;
    namespace.create("web").await;
    assert_eq!(namespace.served("web").await, [namespace.address(1)]);
    namespace.create("late").await;
    let told = namespace
        .told("late", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert!(told.note.contains("no free IPv4 address"), "{told:?}");
    assert_eq!(
        ingress(&namespace.get("theirs").await),
        [namespace.address(0)]
    );
    namespace.delete("theirs").await;
    namespace.gone("theirs").await;
    namespace.served_with("late", &[namespace.address(0)]).await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_running_cluster_moves_over_without_losing_an_address() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 8).await;
    // What the controller before us has left: its finalizer, which is ours too, and a status.
    let address = namespace.address(5);
    namespace
        .service("old")
        .annotation(annotations::ADDRESSES_REQUEST, "not yet ours")
        .create(&namespace.client)
        .await
        .unwrap();
    let status = json!({ "loadBalancer": { "ingress": [{ "ip": address }] } });
    namespace.patch_status("old", &status).await;
    let finalizer = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    namespace.patch("old", &finalizer).await;
    namespace
        .annotate("old", annotations::ADDRESSES_REQUEST, None)
        .await;
    namespace.served_with("old", &[address]).await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_class_less_service_served_by_somebody_else_is_left_alone() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 1).await;
    namespace.create("holder").await;
    namespace.served("holder").await;
    namespace.create("theirs").await;
    namespace
        .told("theirs", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    let status = json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.7" }] } });
    namespace.patch_status("theirs", &status).await;
    namespace.delete("holder").await;
    namespace.gone("holder").await;
    never_meanwhile("a served Service is served again", &cluster, async || {
        let service = namespace.get("theirs").await;
        let record = annotation(&service, annotations::ALLOCATED_ADDRESSES);
        (record.is_some() || ingress(&service) != ["203.0.113.7"])
            .then(|| format!("{:?}", service.status))
    })
    .await;
    namespace
        .patch_status("theirs", &json!({ "loadBalancer": null }))
        .await;
    namespace.served("theirs").await;
    assert!(is_served(&namespace.get("theirs").await).is_ok());
    cluster.finish().await;
}
