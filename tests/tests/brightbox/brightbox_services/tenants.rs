//! A tenant who may write Services in one namespace, and what belongs to others.

use std::time::Instant;

use mooring_cloud_sim::brightbox::Kind;
use mooring_common::names::{annotations, finalizers, reasons};
use serde_json::json;

use crate::brightbox_services::cloud::text;
use crate::brightbox_services::cluster::{
    CloudCluster, LoadBalancerCloud as _, assert_none, ingress,
};

impl CloudCluster {
    /// Asserts that the Service of somebody else has what it had, and that nothing was written there since then.
    async fn is_spared(&self, id: &str, since: Instant) {
        self.serves("theirs", &[1, 2]).await;
        assert!(!ingress(&self.get("theirs").await).is_empty());
        assert_none(&self.cloud.writes_on(id).since(since));
        assert_none(&self.sim().outages(id));
    }
}

/// The Cloud IP of another Service, by its identifier and by its address.
#[tokio::test]
async fn the_cloud_ip_of_another_service_is_not_had_by_naming_it() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("theirs").await;
    let id = cluster.serves("theirs", &[1, 2]).await.id;
    let shown = cluster.shown("theirs").await;
    let ip = text(&shown["cloud_ips"][0]["id"]);
    let address = text(&shown["cloud_ips"][0]["public_ipv4"]);
    let since = Instant::now();
    cluster
        .make(cluster.noted("by-id", &[("cloudip-allocations", &ip)]))
        .await;
    let service = cluster.service("by-address").requested_address(&address);
    cluster.make(service).await;
    for name in ["by-id", "by-address"] {
        let told = cluster.failed(name).await;
        assert!(told.note.contains(&ip), "{}", told.note);
        assert_none(&ingress(&cluster.get(name).await));
        cluster.delete(name).await;
        cluster.gone(name).await;
    }
    let writes = cluster.writes().since(since);
    assert!(writes.is_empty(), "{}", writes.summary());
    cluster.is_spared(&id, since).await;
    cluster.finish().await;
}

/// What central notes on Services gives and takes nothing: names and marks do.
#[tokio::test]
async fn notes_that_a_tenant_copies_give_and_take_nothing() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let theirs = cluster.provide("theirs").await;
    let id = cluster.serves("theirs", &[1, 2]).await.id;
    let since = Instant::now();
    let notes = theirs.metadata.annotations.clone().unwrap_or_default();
    let mut copy = cluster.service("copy");
    for (key, value) in &notes {
        copy = copy.annotation(key, value);
    }
    let asked = format!("{}:{id}", annotations::CREATION_ASKED);
    copy = copy.annotation(annotations::APPLIED, &id);
    copy = copy.annotation("example.org/asked", &asked);
    cluster.make(copy).await;
    let finalizer = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    cluster.patch("copy", &finalizer).await;
    cluster.provided_at_last("copy").await;
    assert_ne!(cluster.serves("copy", &[1, 2]).await.id, id);
    cluster.delete("copy").await;
    cluster.gone("copy").await;
    cluster.is_spared(&id, since).await;
    cluster.finish().await;
}

/// Two clusters of one name in one account: what the other has made for its Service of the same name is its own.
#[tokio::test]
async fn what_another_cluster_has_made_under_the_same_name_is_refused_and_stays() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    cluster.provide("theirs").await;
    let id = cluster.serves("theirs", &[1, 2]).await.id;
    let group = cluster.parts("theirs", Kind::ServerGroup).remove(0);
    let marks = text(&group["description"]);
    assert!(marks.starts_with("mooring.dev "), "{marks:?}");
    drop(central);
    // As another cluster would have it.
    let another = "11111111-2222-4333-8444-555555555555";
    let marks = format!("mooring.dev cluster={another} service={another}");
    cluster
        .sim()
        .set_in(Kind::ServerGroup, &text(&group["id"]), "description", marks);
    let since = Instant::now();
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags.with("--delete-orphans")).await;
    cluster.note("theirs", "policy", Some("round-robin")).await;
    cluster
        .told("theirs", reasons::SYNC_LOAD_BALANCER_FAILED, another)
        .await;
    cluster.delete("theirs").await;
    cluster.gone("theirs").await;
    cluster.marker().await;
    assert!(cluster.cloud.has(&id));
    assert_none(&cluster.cloud.writes_on(&id).since(since));
    assert_none(&cluster.orphans_told().await);
    cluster.finish().await;
}
