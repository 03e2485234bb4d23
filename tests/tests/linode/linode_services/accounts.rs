//! A backup that was restored, the Go controller that still runs, and a token that sees little.

use std::collections::BTreeMap;
use std::time::Instant;

use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;
use mooring_cloud_sim::linode::{Access, Entity, Grants, Kind, Right};
use mooring_common::names::linode_tags::SERVICE as SERVICE_MARK;
use mooring_common::names::{annotations, reasons};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{create_namespace, unique};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::linode_services::cloud::{SuiteCloud, tags};
use crate::linode_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, assert_none, has_finalizer, ingress,
};
use crate::linode_services::firewalls::acl;

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
    eventually("it is told of", AFTER_RETRIES, async || {
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

impl CloudCluster {
    /// From now on, the token is that of a user who sees the Nodes' Linodes, and what is made with it.
    async fn see_linodes_alone(&self) {
        let nodes = self.nodes().list(&ListParams::default()).await.unwrap();
        let id = |id: &str| id.strip_prefix("linode://")?.parse().ok();
        let ids = nodes.items.iter().filter_map(|node| {
            let spec = node.spec.as_ref()?;
            id(spec.provider_id.as_deref()?)
        });
        let of: BTreeMap<_, _> = ids
            .map(|id| ((Entity::Linode, id), Right::ReadWrite))
            .collect();
        let grants = Grants {
            of,
            ..Grants::default()
        };
        self.sim().allow(Access {
            grants: Some(grants),
            ..Access::default()
        });
    }
}

fn has_record(service: &Service) -> bool {
    let notes = service.metadata.annotations.as_ref();
    notes.is_some_and(|notes| notes.contains_key(annotations::APPLIED))
}

/// Listings lack what a restricted user may not see, and do not say so.
#[tokio::test]
async fn what_a_token_does_not_see_is_neither_made_again_nor_taken_for_gone() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let service = cluster.provide("web").await;
    let id = cluster.id("web").await;
    cluster.is("web", "has a record", has_record).await;
    drop(central);
    cluster.see_linodes_alone().await;
    let since = Instant::now();
    let _central = cluster.central().await;
    let reason = reasons::SYNC_LOAD_BALANCER_FAILED;
    cluster.told("web", reason, "403").await;
    assert_none(&cluster.writes().since(since));
    assert_eq!(ingress(&cluster.get("web").await), ingress(&service));

    let deleted = Instant::now();
    cluster.delete("web").await;
    let path = format!("/v4/nodebalancers/{id}");
    eventually("it is asked for", AFTER_RETRIES, async || {
        let asked = cluster.cloud.calls().since(deleted).to(&path);
        !asked.filter(|call| call.took.is_some()).is_empty()
    })
    .await;
    cluster.marker().await;
    assert!(has_finalizer(&cluster.get("web").await));
    assert!(cluster.cloud.has(&id));

    cluster.sim().allow(Access::default());
    cluster.gone_within("web", AFTER_RETRIES).await;
    cluster.delete_markers().await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

/// The Go controller needs no right to firewalls either, as long as no Service asks for one.
#[tokio::test]
async fn without_the_right_to_firewalls_services_that_ask_for_none_are_served() {
    let cluster = CloudCluster::start().await;
    cluster.sim().allow(Access {
        scopes: Some(vec!["linodes:read_only", "nodebalancers:read_write"]),
        ..Access::default()
    });
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster.join(3).await;
    cluster.serves("web", &[1, 2, 3]).await;

    let allowed = acl("allowList", &["192.0.2.0/24"]);
    cluster.note("web", "firewall-acl", Some(&allowed)).await;
    let reason = reasons::SYNC_LOAD_BALANCER_FAILED;
    cluster
        .told("web", reason, "the token may not list firewalls")
        .await;
    // The Nodes are followed meanwhile.
    cluster.join(4).await;
    cluster.serves("web", &[1, 2, 3, 4]).await;
    assert!(cluster.sim().all(Kind::Firewall).is_empty());

    cluster.delete("web").await;
    cluster.gone_within("web", AFTER_RETRIES).await;
    cluster.sim().allow(Access::default());
    cluster.nothing_is_left().await;
    cluster.finish().await;
}
