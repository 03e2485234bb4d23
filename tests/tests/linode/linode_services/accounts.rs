//! A backup that was restored, and the Go controller that still runs.

use std::time::Instant;

use mooring_cloud_sim::linode::Kind;
use mooring_common::names::linode_tags::SERVICE as SERVICE_MARK;
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{create_namespace, unique};
use serde_json::{Value, json};

use crate::linode_services::cloud::{SuiteCloud, tags};
use crate::linode_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, assert_none, ingress,
};

/// What was deleted since the backup is there again, and what was made since then is not.
#[tokio::test]
async fn a_restored_backup_takes_nothing_away_and_makes_nothing_twice() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let cluster = Cluster::on(control_plane).await.unwrap();
    let cluster = CloudCluster {
        namespace: unique("services"),
        cloud: SuiteCloud::start(&cluster).await,
        cluster,
    };
    create_namespace(&cluster.admin, &cluster.namespace)
        .await
        .unwrap();
    for n in [1, 2] {
        cluster.join(n).await;
    }
    let central = cluster.central().await;
    let kept = cluster.provide("kept").await;
    let lost = cluster.provide("lost").await;
    let id = cluster.id("kept").await;
    cluster.settle().await;
    drop(central);
    let backup = cluster.back_up().await.unwrap();

    let central = cluster.central().await;
    cluster.delete("lost").await;
    cluster.gone("lost").await;
    cluster.provide("since").await;
    let orphan = cluster.id("since").await;
    drop(central);
    cluster.restore(&backup).await.unwrap();
    let since = Instant::now();

    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster.marker().await;
    // Its NodeBalancer is gone: it gets another one.
    cluster
        .is("lost", "has another address", |service| {
            !ingress(service).is_empty() && ingress(service) != ingress(&lost)
        })
        .await;
    cluster.serves("lost", &[1, 2]).await;
    assert_eq!(ingress(&cluster.get("kept").await), ingress(&kept));
    assert_none(&cluster.cloud.writes_on(&id).since(since));
    assert_none(&cluster.sim().outages(&id));
    // Nobody's by now. It is told of, and kept.
    mooring_test_support::wait::eventually("it is told of", AFTER_RETRIES, async || {
        let told = cluster.orphans_told().await;
        let is_told = told.iter().any(|note| note.contains(&orphan));
        if is_told { Ok(()) } else { Err(told) }
    })
    .await;
    assert_none(&cluster.cloud.writes_on(&orphan).since(since));
    assert!(cluster.cloud.has(&orphan));
    cluster.assert_nothing_refused().await;
}

/// It takes marks for tags that nobody asked for, and deletes them. Neither fights for them: they come back with
/// the next change.
#[tokio::test]
async fn beside_the_go_controller_nothing_is_made_twice_and_no_tag_is_fought_for() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    let service = cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    let id = cluster.id("web").await;
    let by_go = json!(["kubernetes"]);
    cluster
        .sim()
        .set_in(Kind::NodeBalancer, &id, "tags", by_go.clone());
    let since = Instant::now();
    cluster.read_since(&id, since, 3).await;
    assert_none(&cluster.cloud.writes_on(&id).since(since));
    let shown = cluster.sim().get(Kind::NodeBalancer, &id).unwrap();
    assert_eq!(shown["tags"], by_go);
    assert_eq!(ingress(&cluster.get("web").await), ingress(&service));

    cluster.note("web", "throttle", Some("5")).await;
    let is_marked = |shown: &Value| {
        let tags = tags(shown);
        let mut tags = tags.iter().filter_map(Value::as_str);
        let is_mark = |tag: &str| tag.starts_with(SERVICE_MARK);
        shown["client_conn_throttle"] == 5 && tags.any(is_mark)
    };
    cluster
        .shows(&id, "it is changed and marked", is_marked)
        .await;
    assert_eq!(cluster.cloud.creations().len(), 1);
    assert_none(&cluster.sim().outages(&id));
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}
