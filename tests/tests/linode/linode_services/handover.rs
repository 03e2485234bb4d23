//! A cluster comes over from the Go controller: nothing is written in the cloud, and no address changes.

use std::time::Instant;

use http::Method;
use k8s_openapi::api::core::v1::Service;
use mooring_cloud_sim::linode::Kind;
use mooring_common::names::{annotations, reasons};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::linode_services::cloud::{tags, text};
use crate::linode_services::cluster::{
    CloudCluster, LoadBalancerCloud as _, SOON, assert_none, has_finalizer, ingress,
};
use crate::linode_services::key;
use crate::linode_services::left_by_go::{Change, RESERVED, cases, leave, plain};

async fn left_by_go(cluster: &CloudCluster, service: &Service) -> String {
    let services = cluster.services();
    leave(cluster.sim(), &services, service, None, |s| s, plain).await
}

/// The same with an ACL of one IPv4 network.
async fn with_acl(cluster: &CloudCluster, service: &Service) -> String {
    let change: Change = |served| served.acl(json!({ "allowList": { "ipv4": ["192.0.2.0/24"] } }));
    let services = cluster.services();
    leave(cluster.sim(), &services, service, None, change, plain).await
}

/// Everything that there is.
fn everything(cluster: &CloudCluster) -> Vec<Vec<Value>> {
    Kind::ALL.map(|kind| cluster.sim().all(kind)).to_vec()
}

#[tokio::test]
async fn a_cluster_that_comes_over_sees_no_write_at_all() {
    let cluster = CloudCluster::start().await;
    cluster.sim().reserve("eu-central", Some(RESERVED));
    let mut left = Vec::new();
    let services = cluster.services();
    for case in cases(&cluster.namespace) {
        let service = cluster.make(case.service).await;
        let (sim, protocol) = (cluster.sim(), case.protocol);
        let id = leave(sim, &services, &service, protocol, case.change, case.shows).await;
        left.push((case.name, id, ingress(&cluster.get(case.name).await)));
    }
    let before = everything(&cluster);
    let (start, since) = (Instant::now(), cluster.now());

    let central = cluster.central().await;
    cluster.marker().await;
    for (_, id, _) in &left {
        cluster.read_since(id, start, 1).await;
    }
    for (name, _, _) in &left {
        cluster
            .is(name, "says what it has", |service| {
                let notes = service.metadata.annotations.as_ref();
                notes.is_some_and(|notes| notes.contains_key(annotations::APPLIED))
            })
            .await;
    }
    cluster.marker().await;
    assert_none(&cluster.changes_since(start));
    for (name, id, status) in &left {
        let service = cluster.get(name).await;
        assert_eq!(&ingress(&service), status, "{name}");
        assert!(has_finalizer(&service), "{name}");
        assert_none(&cluster.warnings(name).await);
        assert_none(&cluster.sim().outages(id));
        let written = cluster.written(name).await.since(since);
        assert!(written.len() <= 1, "{name}: {}", written.summary());
    }
    cluster.delete_markers().await;
    assert_eq!(everything(&cluster), before);

    // The next start need not even look at them.
    drop(central);
    let start = Instant::now();
    let _central = cluster.central().await;
    cluster.marker().await;
    for (_, id, _) in &left {
        let configs = format!("/v4/nodebalancers/{id}/configs");
        assert_none(&cluster.cloud.calls().since(start).to(&configs));
    }
    assert_none(&cluster.changes_since(start));
    cluster.finish().await;
}

/// What follows is as careful: one node more, and the marks.
#[tokio::test]
async fn a_node_that_joins_after_the_move_costs_one_write_for_each_port() {
    let cluster = CloudCluster::start().await;
    let service = cluster.make(cluster.service("web").port(443, 8443)).await;
    let id = left_by_go(&cluster, &service).await;
    let _central = cluster.central().await;
    cluster.marker().await;
    let start = Instant::now();
    cluster.join(3).await;
    cluster.serves_at(&id, &service, &[1, 2, 3]).await;
    cluster
        .shows(&id, "it is marked", |shown| tags(shown).len() == 3)
        .await;
    let writes = cluster.cloud.writes_on(&id).since(start);
    let (added, others): (Vec<_>, Vec<_>) = writes
        .iter()
        .partition(|call| call.method == Method::POST && call.path.ends_with("/nodes"));
    assert_eq!((added.len(), others.len()), (2, 1), "{}", writes.summary());
    assert_none(&cluster.sim().outages(&id));

    // And it goes with its Service.
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert!(!cluster.cloud.has(&id));
    cluster.finish().await;
}

/// The API server empties the status of a Service that is no load balancer any more.
#[tokio::test]
async fn a_service_of_the_go_controller_that_becomes_another_type_leaves_nothing() {
    let cluster = CloudCluster::start().await;
    let service = cluster.create("web").await;
    let id = left_by_go(&cluster, &service).await;
    let start = Instant::now();
    let _central = cluster.central().await;
    cluster.read_since(&id, start, 1).await;
    cluster.marker().await;
    cluster
        .respecify("web", json!({ "type": "ClusterIP" }))
        .await;
    cluster
        .is("web", "is let go", |service| !has_finalizer(service))
        .await;
    assert!(!cluster.cloud.has(&id));
    cluster.finish().await;
}

/// The same while no controller runs: nothing proves then that it was the Service's, and that is told.
#[tokio::test]
async fn one_that_nothing_proves_to_be_the_services_stays_and_is_told_of() {
    let cluster = CloudCluster::start().await;
    let service = cluster.create("web").await;
    let id = left_by_go(&cluster, &service).await;
    let central = cluster.central().await;
    cluster
        .is("web", "says what it has", |service| {
            let notes = service.metadata.annotations.as_ref();
            notes.is_some_and(|notes| notes.contains_key(annotations::APPLIED))
        })
        .await;
    drop(central);
    cluster
        .respecify("web", json!({ "type": "ClusterIP" }))
        .await;
    let _central = cluster.central().await;
    cluster
        .is("web", "is let go", |service| !has_finalizer(service))
        .await;
    cluster.told("web", reasons::LOAD_BALANCER_KEPT, &id).await;
    assert_none(&cluster.writes());
    assert!(cluster.cloud.has(&id));
    cluster.finish().await;
}

/// It bears no marks, and is known by its name and its rules.
#[tokio::test]
async fn the_firewall_of_the_go_controller_is_changed_and_goes_with_its_service() {
    let cluster = CloudCluster::start().await;
    let acl = |list: &str| format!(r#"{{"allowList": {{"ipv4": ["{list}"]}}}}"#);
    let service = cluster
        .service("web")
        .annotation(&key("firewall-acl"), &acl("192.0.2.0/24"));
    let service = cluster.make(service).await;
    let id = with_acl(&cluster, &service).await;
    let firewall = cluster.cloud.firewalls(&id)[0]["id"].clone();
    let _central = cluster.central().await;
    cluster.marker().await;
    cluster
        .annotate("web", &key("firewall-acl"), Some(&acl("198.51.100.0/24")))
        .await;
    eventually("its rules follow", SOON, async || {
        let rules = cluster.cloud.firewalls(&id)[0]["rules"].clone();
        let addresses = &rules["inbound"][0]["addresses"]["ipv4"];
        text(&addresses[0]) == "198.51.100.0/24"
    })
    .await;
    assert_eq!(cluster.cloud.firewalls(&id)[0]["id"], firewall);
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.delete_markers().await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

/// A Service with a firewall that the Go controller has made for it. Gives the ID of its NodeBalancer.
pub(crate) async fn protected_by_go(cluster: &CloudCluster, name: &str) -> String {
    let acl = r#"{"allowList": {"ipv4": ["192.0.2.0/24"]}}"#;
    let service = cluster.service(name).annotation(&key("firewall-acl"), acl);
    let service = cluster.make(service).await;
    with_acl(cluster, &service).await
}

/// The same without any change before: it still bears no marks when the Service goes.
#[tokio::test]
async fn an_untouched_firewall_of_the_go_controller_goes_with_its_service() {
    let cluster = CloudCluster::start().await;
    let id = protected_by_go(&cluster, "web").await;
    let start = Instant::now();
    let _central = cluster.central().await;
    cluster.read_since(&id, start, 1).await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

impl CloudCluster {
    /// Waits until a NodeBalancer, marked or not, serves this Service with these Nodes.
    async fn serves_at(&self, id: &str, service: &Service, nodes: &[usize]) {
        let wanted = crate::linode_services::cluster::wanted(service, nodes);
        eventually("it serves", SOON, async || {
            let served = self.sim().traffic(id).now();
            if served == wanted {
                Ok(())
            } else {
                Err(served)
            }
        })
        .await;
    }
}
