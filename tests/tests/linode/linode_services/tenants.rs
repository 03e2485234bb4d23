//! A tenant who may write Services in one namespace, and what belongs to others: marks, records, ids.

use std::time::Instant;

use k8s_openapi::api::core::v1::Service;
use mooring_cloud_sim::linode::Kind;
use mooring_common::names::linode_tags::{CLUSTER as CLUSTER_MARK, SERVICE as SERVICE_MARK};
use mooring_common::names::{annotations, finalizers, reasons};
use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::linode_services::cloud::uid;
use crate::linode_services::cluster::{
    CloudCluster, LoadBalancerCloud as _, SOON, assert_none, ingress,
};
use crate::linode_services::key;
use crate::linode_services::left_by_go::{leave, plain};

/// The Service of somebody else, as the Go controller has left it: its NodeBalancer bears no marks.
async fn unmarked(cluster: &CloudCluster) -> (Service, String) {
    let service = cluster.create("theirs").await;
    let services = cluster.services();
    let id = leave(cluster.sim(), &services, &service, None, |s| s, plain).await;
    (service, id)
}

impl CloudCluster {
    /// What is recorded on a Service.
    async fn record(&self, name: &str) -> String {
        let recorded = |service: &Service| {
            let notes = service.metadata.annotations.as_ref()?;
            notes.get(annotations::APPLIED).cloned()
        };
        let service = self
            .is(name, "has a record", |service| recorded(service).is_some())
            .await;
        recorded(&service).unwrap_or_default()
    }

    /// Asserts that somebody else's Service has what it had, and that nothing was written there since then.
    async fn is_spared(&self, before: &Service, id: &str, since: Instant) {
        let service = self.get("theirs").await;
        assert_eq!(ingress(&service), ingress(before));
        assert_none(&self.cloud.writes_on(id).since(since));
        assert_none(&self.sim().outages(id));
    }
}

/// Tags come from an annotation, and marks are tags.
#[tokio::test]
async fn marks_that_a_tenant_asks_for_are_refused() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let theirs = cluster.provide("theirs").await;
    let (id, since) = (cluster.id("theirs").await, Instant::now());
    let mark = format!("{SERVICE_MARK}{}", uid(&theirs));
    let forged = format!("mine, {mark} ,{CLUSTER_MARK}another");
    let mine = cluster.service("mine");
    cluster.make(mine.annotation(&key("tags"), &forged)).await;
    let reason = reasons::SYNC_LOAD_BALANCER_FAILED;
    cluster.told("mine", reason, &mark).await;
    cluster.marker().await;
    assert_none(&ingress(&cluster.get("mine").await));
    cluster.is_spared(&theirs, &id, since).await;

    // The same of one that is served: it keeps the tags that it has.
    cluster.note("mine", "tags", Some("mine")).await;
    cluster.provided("mine").await;
    cluster.note("mine", "tags", Some(&forged)).await;
    cluster.told("mine", reason, &mark).await;
    cluster.delete("mine").await;
    cluster.gone("mine").await;
    cluster.is_spared(&theirs, &id, since).await;
    cluster.finish().await;
}

/// A NodeBalancer that bears no marks has no other proof than the status: a copied record is none.
#[tokio::test]
async fn a_record_that_a_tenant_copies_gives_and_takes_nothing() {
    let cluster = CloudCluster::start().await;
    let (_, id) = unmarked(&cluster).await;
    let _central = cluster.central().await;
    let record = cluster.record("theirs").await;
    assert!(record.starts_with(&format!("{id}/")), "{record}");
    let (theirs, since) = (cluster.get("theirs").await, Instant::now());

    let mine = cluster.service("mine");
    cluster
        .make(mine.annotation(annotations::APPLIED, &record))
        .await;
    let mine = cluster.provided("mine").await;
    assert_ne!(ingress(&mine), ingress(&theirs));
    cluster.delete("mine").await;
    cluster.gone("mine").await;

    // With the finalizer and the id as well, and deleted at once.
    let copy = cluster.service("copy");
    let copy = copy
        .annotation(annotations::APPLIED, &record)
        .annotation(&key("nodebalancer-id"), &id);
    cluster.make(copy).await;
    let finalizer = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    cluster.patch("copy", &finalizer).await;
    cluster.delete("copy").await;
    cluster.gone("copy").await;
    cluster.marker().await;
    assert!(cluster.cloud.has(&id));
    cluster.is_spared(&theirs, &id, since).await;
    cluster.finish().await;
}

/// The number of a NodeBalancer that is somebody else's by nothing but the status of a Service.
#[tokio::test]
async fn an_unmarked_nodebalancer_of_another_service_is_refused() {
    let cluster = CloudCluster::start().await;
    let (_, id) = unmarked(&cluster).await;
    let _central = cluster.central().await;
    cluster.record("theirs").await;
    let (theirs, since) = (cluster.get("theirs").await, Instant::now());
    let mine = cluster.service("mine");
    cluster
        .make(mine.annotation(&key("nodebalancer-id"), &id))
        .await;
    let owner = cluster.key("theirs");
    cluster
        .told("mine", reasons::SYNC_LOAD_BALANCER_FAILED, &owner)
        .await;
    assert_none(&ingress(&cluster.get("mine").await));
    cluster.delete("mine").await;
    cluster.gone("mine").await;
    cluster.is_spared(&theirs, &id, since).await;
    cluster.finish().await;
}

/// The firewall of another Service can be attached by its number, as any can. It stays that Service's.
#[tokio::test]
async fn a_firewall_of_another_service_is_neither_changed_nor_deleted() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let acl = r#"{"allowList": {"ipv4": ["192.0.2.0/24"]}}"#;
    let theirs = cluster
        .provide_with("theirs", &[("firewall-acl", acl)])
        .await;
    let id = cluster.id("theirs").await;
    let before = cluster.cloud.firewalls(&id);
    let firewall = before[0]["id"].to_string();
    let since = Instant::now();

    cluster
        .provide_with("mine", &[("firewall-id", &firewall)])
        .await;
    let mine = cluster.id("mine").await;
    assert_eq!(cluster.cloud.firewalls(&mine)[0]["id"], before[0]["id"]);
    // An ACL in its place: rules of others are not changed for it.
    let open = acl.replace("192.0.2.0/24", "0.0.0.0/0");
    let notes = json!({ key("firewall-id"): null, key("firewall-acl"): open });
    cluster
        .patch("mine", &json!({ "metadata": { "annotations": notes } }))
        .await;
    eventually("it has one of its own", SOON, async || {
        let own = cluster.cloud.firewalls(&mine);
        own.len() == 1 && own[0]["id"] != before[0]["id"]
    })
    .await;
    cluster.delete("mine").await;
    cluster.gone("mine").await;
    let after = cluster.sim().get(Kind::Firewall, &firewall).unwrap();
    assert_eq!(after["rules"]["inbound"], before[0]["rules"]["inbound"]);
    assert_eq!(after["entities"], before[0]["entities"]);
    assert_eq!(ingress(&cluster.get("theirs").await), ingress(&theirs));
    assert_none(&cluster.sim().outages(&id));
    let rules = format!("/v4/networking/firewalls/{firewall}/rules");
    assert_none(&cluster.writes().since(since).to(&rules));
    cluster.finish().await;
}

/// A subnet in which the Nodes are not.
#[tokio::test]
async fn a_subnet_of_others_is_refused_by_the_cloud_and_told() {
    let cluster = CloudCluster::start().await;
    let vpc = cluster.sim().add_vpc("theirs");
    let subnet = cluster
        .sim()
        .add_subnet(vpc, "secret", "10.9.0.0/24")
        .to_string();
    let flags = cluster
        .flags()
        .with("--vpc-names=theirs")
        .with("--subnet-names=secret");
    let _central = cluster.central_with(flags).await;
    let service = ServiceBuilder::load_balancer(&cluster.namespace, "mine").port(80, 8080);
    cluster
        .make(service.annotation(&key("backend-subnet-id"), &subnet))
        .await;
    cluster
        .told("mine", reasons::SYNC_LOAD_BALANCER_FAILED, "[400]")
        .await;
    assert_none(&ingress(&cluster.get("mine").await));
    assert_none(&cluster.sim().all(Kind::NodeBalancerVpc));
    cluster.delete("mine").await;
    cluster.gone("mine").await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}
