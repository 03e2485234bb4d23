//! A cluster comes over from the Go controller: nothing is written, neither in the cloud nor on its
//! Services, and no address changes.

use std::time::Instant;

use k8s_openapi::api::core::v1::Service;
use mooring_cloud_sim::cloudscale::Kind;
use mooring_common::names::reasons;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::cloudscale_services::cluster::{
    CloudCluster, LoadBalancerCloud as _, SOON, assert_none, ingress,
};
use crate::cloudscale_services::migration_state::{Left, cases, left_by_upstream};
use crate::cloudscale_services::{cloud, key};

/// What the Go controller has made of a Service.
async fn left(cluster: &CloudCluster, service: &Service, state: &Left) -> String {
    left_by_upstream(cluster.sim(), &cluster.services(), service, state).await
}

#[tokio::test]
async fn a_cluster_that_comes_over_sees_no_write_at_all() {
    let cluster = CloudCluster::start().await;
    let (mut names, mut uuids, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
    for (name, service, state) in cases(&cluster.namespace) {
        let service = cluster.make(service).await;
        let uuid = left(&cluster, &service, &state).await;
        addresses.push(ingress(&cluster.get(name).await));
        names.push(name);
        uuids.push(uuid);
    }
    let floating = uuids.last().expect("the one with a floating IP");
    let ip = json!({ "network": "203.0.113.9/32", "load_balancer": floating });
    cluster.sim().put(Kind::FloatingIp, ip);
    let pools = cluster.sim().all(Kind::Pool).len();
    let before = cluster.sim().snapshot();
    let start = cluster.now();

    let _central = cluster.central().await;
    cluster.marker().await;
    eventually("all pools have been looked at", SOON, async || {
        let read = cluster.cloud.looked_at(&cluster.cloud.calls());
        if read >= pools {
            Ok(())
        } else {
            Err((read, pools))
        }
    })
    .await;
    cluster.marker().await;
    for (name, uuid) in names.iter().zip(&uuids) {
        let writes = cluster.writes_on(uuid);
        assert!(writes.is_empty(), "{name}: {}", writes.summary());
        let written = cluster.written(name).await.since(start);
        assert!(written.is_empty(), "{name}: {}", written.summary());
        assert_none(&cluster.sim().outages(uuid));
        let told = cluster.reasons(name).await;
        assert!(
            !told.contains(reasons::SYNC_LOAD_BALANCER_FAILED),
            "{name}: {told:?}"
        );
    }
    for (name, before) in names.iter().zip(&addresses) {
        assert_eq!(&ingress(&cluster.get(name).await), before, "{name}");
    }
    cluster.delete_markers().await;
    assert_none(&before.diff(&cluster.sim().snapshot()));
    cluster.finish().await;
}

/// What follows is as careful: one member more, and its marks.
#[tokio::test]
async fn a_node_that_joins_after_the_move_costs_one_write_for_each_pool() {
    let cluster = CloudCluster::start().await;
    let service = cluster.make(cluster.service("web").port(443, 8443)).await;
    let uuid = left(&cluster, &service, &Left::default()).await;
    let _central = cluster.central().await;
    cluster.marker().await;
    let start = Instant::now();
    cluster.join(3).await;
    cluster.serves("web", &[1, 2, 3]).await;
    let writes = cluster.writes().since(start);
    let to_web = cluster.writes_on(&uuid).since(start);
    let added = to_web.filter(cloud::is_addition);
    assert_eq!(added.len(), 2, "{}", writes.summary());
    // Now that something is written anyway, it gets its marks.
    let tagged = to_web.filter(|call| !cloud::is_addition(call)).bodies();
    assert!(tagged.len() <= 1, "{}", writes.summary());
    assert!(
        tagged.iter().all(|body| body["tags"].is_object()),
        "{tagged:?}"
    );
    assert_none(&cluster.sim().outages(&uuid));

    // And it goes with its Service.
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert!(!cluster.cloud.has(&uuid));
    cluster.finish().await;
}

/// Whoever moved over and back again: the Go controller has made the load balancer anew meanwhile,
/// and an old UUID stands on the Service.
#[tokio::test]
async fn a_uuid_that_is_out_of_date_does_not_hide_the_load_balancer_of_the_right_name() {
    let cluster = CloudCluster::start().await;
    let service = cluster.create("web").await;
    let uuid = left(&cluster, &service, &Left::default()).await;
    let nobody = "00000000-0000-4000-8000-000000004711";
    cluster.annotate("web", &key("uuid"), Some(nobody)).await;
    let _central = cluster.central().await;
    cluster
        .is("web", "has the right UUID", |service| {
            crate::cloudscale_services::cloud::annotation(service, &key("uuid")) == Some(&uuid)
        })
        .await;
    assert_none(&cluster.writes());
    cluster.finish().await;
}
