//! B24: nobody gets or loses a load balancer by a name or a UUID that is not theirs.

use std::time::Instant;

use mooring_cloud_sim::cloudscale::{Kind, SUBNET};
use mooring_common::names::cloudscale_tags::{CLUSTER, SERVICE_UID};
use mooring_common::names::reasons;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cloudscale_services::cloud::annotation;
use crate::cloudscale_services::cluster::{
    CloudCluster, LoadBalancerCloud as _, SOON, assert_none, ingress,
};
use crate::cloudscale_services::forwarding::ports;
use crate::cloudscale_services::key;

/// Waits until a Service has its own, or is refused.
async fn is_decided(cluster: &CloudCluster, name: &str) {
    eventually(&format!("{name} is decided on"), SOON, async || {
        let service = cluster.get(name).await;
        !ingress(&service).is_empty() || !cluster.warnings(name).await.is_empty()
    })
    .await;
}

/// A Service that bears what another one bears: the other's load balancer stays as it is, also
/// when the copy goes.
async fn leaves_the_first_alone(copied: impl Fn(&Value) -> Value) {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let named = cluster.service("first").annotation(&key("name"), "shop");
    cluster.make(named).await;
    let first = cluster.provided("first").await;
    let uuid = cluster.uuid("first").await;
    let before = cluster.sim().get(Kind::LoadBalancer, &uuid);
    let start = Instant::now();

    let mut copy = json!(ports(&first)[0]);
    copy.as_object_mut().unwrap().remove("nodePort");
    let annotations = copied(&json!(first.metadata.annotations));
    let copy = json!({
        "metadata": { "name": "copy", "annotations": annotations },
        "spec": { "type": "LoadBalancer", "ports": [copy] },
    });
    let copy = serde_json::from_value(copy).unwrap();
    let params = kube::api::PostParams::default();
    cluster.services().create(&params, &copy).await.unwrap();
    is_decided(&cluster, "copy").await;
    cluster.marker().await;
    let copy = cluster.get("copy").await;
    assert_ne!(ingress(&copy), ingress(&first));
    if !ingress(&copy).is_empty() {
        assert_ne!(annotation(&copy, &key("uuid")), Some(&*uuid));
    }
    cluster.join(3).await;
    cluster.serves("first", &[1, 2, 3]).await;
    let writes = cluster.writes_on(&uuid).since(start);
    assert_eq!(writes.len(), 1, "the Node's: {}", writes.summary());

    cluster.delete("copy").await;
    cluster.gone("copy").await;
    cluster.marker().await;
    assert_eq!(cluster.sim().get(Kind::LoadBalancer, &uuid), before);
    cluster.serves("first", &[1, 2, 3]).await;
    assert_eq!(cluster.uuid("first").await, uuid);
    cluster.finish().await;
}

#[tokio::test]
async fn b24_a_copy_with_the_uuid_never_steals_or_deletes_the_firsts() {
    leaves_the_first_alone(|annotations| json!({ key("uuid"): annotations[key("uuid")] })).await;
}

#[tokio::test]
async fn b24_a_copy_with_the_name_never_steals_or_deletes_the_firsts() {
    leaves_the_first_alone(|annotations| json!({ key("name"): annotations[key("name")] })).await;
}

#[tokio::test]
async fn b24_a_copy_with_all_annotations_never_steals_or_deletes_the_firsts() {
    leaves_the_first_alone(Clone::clone).await;
}

/// Tags tell whose it is. Without any it may be adopted if nobody uses it.
#[tokio::test]
async fn what_bears_another_clusters_marks_is_never_touched() {
    let cluster = CloudCluster::start().await;
    let nobody = Uuid::new_v4().to_string();
    let theirs = json!({
        "name": "theirs",
        "tags": { CLUSTER: nobody, SERVICE_UID: nobody },
    });
    let theirs = cluster.sim().put(Kind::LoadBalancer, theirs);
    let before = cluster.sim().get(Kind::LoadBalancer, &theirs);
    let _central = cluster.central().await;
    for (name, end, value) in [
        ("by-name", "name", "theirs"),
        ("by-uuid", "uuid", theirs.as_str()),
    ] {
        let thief = cluster.service(name).annotation(&key(end), value);
        cluster.make(thief).await;
        is_decided(&cluster, name).await;
        cluster.marker().await;
        assert_none(&cluster.writes_on(&theirs));
        cluster.delete(name).await;
        cluster.gone(name).await;
        assert_eq!(cluster.sim().get(Kind::LoadBalancer, &theirs), before);
    }
    cluster.finish().await;
}

#[tokio::test]
async fn what_bears_no_marks_and_is_unused_can_be_adopted_by_its_uuid() {
    let cluster = CloudCluster::start().await;
    let vips = json!([{ "version": 4, "address": "5.102.150.9", "subnet": null }]);
    let made_by_hand = json!({ "name": "made-by-hand", "vip_addresses": vips });
    let uuid = cluster.sim().put(Kind::LoadBalancer, made_by_hand);
    let _central = cluster.central().await;
    let adopter = cluster.service("web").annotation(&key("uuid"), &uuid);
    cluster
        .make(adopter.annotation(&key("name"), "made-by-hand"))
        .await;
    let service = cluster.provided("web").await;
    assert_eq!(ingress(&service)[0]["ip"], "5.102.150.9");
    assert_eq!(cluster.uuid("web").await, uuid);
    assert_eq!(cluster.sim().all(Kind::LoadBalancer).len(), 1);
    cluster.finish().await;
}

/// Marks are there from the very request that creates it.
#[tokio::test]
async fn a_new_load_balancer_bears_the_marks_of_cluster_and_service() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    let body = cluster.cloud.creations().bodies().remove(0);
    let default = kube::Api::<k8s_openapi::api::core::v1::Service>::namespaced(
        cluster.admin.clone(),
        "default",
    );
    let uid = default.get("kubernetes").await.unwrap().metadata.uid;
    assert_eq!(body["tags"][SERVICE_UID], json!(service.metadata.uid));
    assert_eq!(body["tags"][CLUSTER], json!(uid));
    cluster.finish().await;
}

/// A load balancer of somebody else's that serves port 80 by way of a machine of theirs. Gives its UUID.
fn in_use(cluster: &CloudCluster) -> String {
    let vips = json!([{ "version": 4, "address": "5.102.150.9", "subnet": null }]);
    let balancer = json!({ "name": "theirs", "vip_addresses": vips });
    let uuid = cluster.sim().put(Kind::LoadBalancer, balancer);
    let pool = json!({
        "name": "tcp", "load_balancer": uuid, "algorithm": "round_robin", "protocol": "tcp",
    });
    let pool = cluster.sim().put(Kind::Pool, pool);
    let member = json!({
        "pool": pool, "name": "10.250.0.1:30999", "address": "10.250.0.1",
        "subnet": SUBNET, "protocol_port": 30999, "monitor_port": 30999, "monitor_status": "up",
    });
    cluster.sim().put(Kind::Member, member);
    let listener = json!({
        "pool": pool, "name": "tcp/80", "protocol": "tcp", "protocol_port": 80,
    });
    cluster.sim().put(Kind::Listener, listener);
    uuid
}

/// A2: whoever may write a Service may write any name and UUID on it.
#[tokio::test]
async fn what_somebody_uses_is_taken_over_only_where_the_operator_permits_it() {
    let cluster = CloudCluster::start().await;
    let theirs = in_use(&cluster);
    let before = cluster.sim().snapshot();
    let central = cluster.central().await;
    for (name, end, value) in [
        ("by-name", "name", "theirs"),
        ("by-uuid", "uuid", theirs.as_str()),
    ] {
        let thief = cluster.service(name).annotation(&key(end), value);
        cluster.make(thief).await;
        let told = cluster.failed(name).await;
        for words in [
            "--take-over-namespaces",
            "takeOverNamespaces",
            &cluster.namespace,
            &key(end),
        ] {
            assert!(told.note.contains(words), "{words}: {told:?}");
        }
        cluster.delete(name).await;
        cluster.gone(name).await;
    }
    cluster.marker().await;
    cluster.delete_markers().await;
    assert_none(&cluster.writes_on(&theirs));
    assert_eq!(cluster.sim().snapshot(), before);
    drop(central);

    let namespace = &cluster.namespace;
    let flags = cluster
        .flags()
        .with(format!("--take-over-namespaces={namespace}"));
    let _central = cluster.central_with(flags).await;
    let heir = cluster.service("heir").annotation(&key("uuid"), &theirs);
    cluster.make(heir).await;
    let service = cluster.provided("heir").await;
    assert_eq!(ingress(&service)[0]["ip"], "5.102.150.9");
    cluster.serves("heir", &[1, 2]).await;
    cluster.finish().await;
}

/// E15: what was a Service's a moment ago may be another cluster's by now.
#[tokio::test]
async fn what_an_operator_has_given_away_is_not_deleted() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    for (name, with_uid) in [("given", true), ("half-given", false)] {
        let service = cluster.provide(name).await;
        let uuid = cluster.uuid(name).await;
        let own = json!(service.metadata.uid);
        let nobody = json!(Uuid::new_v4().to_string());
        let uid = if with_uid { nobody.clone() } else { own };
        let tags = json!({ CLUSTER: nobody, SERVICE_UID: uid });
        cluster
            .sim()
            .set_in(Kind::LoadBalancer, &uuid, "tags", tags);
        let before = cluster.sim().get(Kind::LoadBalancer, &uuid);
        let start = Instant::now();
        cluster.delete(name).await;
        cluster.gone(name).await;
        cluster.told(name, reasons::LOAD_BALANCER_KEPT, &uuid).await;
        assert_none(&cluster.writes_on(&uuid).since(start));
        assert_eq!(cluster.sim().get(Kind::LoadBalancer, &uuid), before);
    }
    cluster.finish().await;
}
