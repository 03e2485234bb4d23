//! Services that say which NodeBalancer they are to have.

use std::time::Instant;

use mooring_cloud_sim::linode::Kind;
use mooring_common::names::linode_tags::SERVICE as SERVICE_MARK;
use mooring_common::names::reasons;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::linode_services::cloud::{SuiteCloud, tags};
use crate::linode_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none, has_finalizer, ingress,
};
use crate::linode_services::forwarding::node_port;
use crate::linode_services::key;

const ID: &str = "nodebalancer-id";

impl CloudCluster {
    /// Somebody makes a NodeBalancer by hand, which nobody uses.
    fn made_by_hand(&self, label: &str) -> String {
        let shown = json!({ "label": label, "tags": ["theirs"] });
        self.sim().put_node_balancer(&shown).to_string()
    }

    /// Waits until a NodeBalancer of this id serves a Service at both Nodes, and its status says so.
    async fn has_it(&self, name: &str, id: &str) {
        eventually(&format!("{name} has {id}"), AFTER_RETRIES, async || {
            let service = self.get(name).await;
            let shown = self.sim().get(Kind::NodeBalancer, id);
            let ipv4 = shown.unwrap_or_default()["ipv4"].clone();
            if !ingress(&service).iter().any(|entry| entry["ip"] == ipv4) {
                return Err("the status does not say so");
            }
            // Until then the former one may bear the Service's mark too.
            let found = self.balancer(&service).ok_or("none")?;
            if found.id == id {
                Ok(())
            } else {
                Err("not yet")
            }
        })
        .await;
        assert_eq!(self.serves(name, &[1, 2]).await.id, id);
    }
}

fn is_marked(shown: &Value) -> bool {
    let tags = tags(shown);
    let mut tags = tags.iter().filter_map(Value::as_str);
    tags.any(|tag| tag.starts_with(SERVICE_MARK))
}

#[tokio::test]
async fn a_service_gets_the_nodebalancer_that_it_names_and_it_goes_with_the_service() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let id = cluster.made_by_hand("by-hand");
    cluster.provide_with("web", &[(ID, &id)]).await;
    cluster.has_it("web", &id).await;
    assert_none(&cluster.cloud.creations());
    // Its tags are those of the Service now.
    let shown = cluster.shown("web").await;
    assert!(!tags(&shown).contains(&json!("theirs")), "{shown}");
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

#[tokio::test]
async fn one_that_is_not_there_is_told_and_none_is_made_in_its_place() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.service("web");
    let service = service.annotation(&crate::linode_services::key(ID), "4711");
    let service = cluster.make(service).await;
    let key = cluster.key("web");
    let words = format!("LoadBalancer (4711) not found for service ({key})");
    cluster
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, &words)
        .await;
    cluster.marker().await;
    assert!(cluster.balancer(&service).is_none());
    assert_eq!(cluster.cloud.creations().len(), 1, "the marker's");
    cluster.note("web", ID, None).await;
    cluster.provided("web").await;
    cluster.serves("web", &[1, 2]).await;
    cluster.finish().await;
}

/// What the Service had goes, and only after the new one serves. Its address stays reserved: that it is to be given
/// up concerns the end of the Service.
#[tokio::test]
async fn a_service_that_names_another_one_gives_up_what_it_had() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let address = "198.51.100.9";
    cluster.sim().reserve("eu-central", Some(address));
    let notes = [
        ("reserved-ipv4", address),
        ("retain-reserved-ipv4", "false"),
    ];
    cluster.provide_with("web", &notes).await;
    let before = cluster.id("web").await;
    let id = cluster.made_by_hand("by-hand");
    cluster.note("web", ID, Some(&id)).await;
    cluster.has_it("web", &id).await;
    eventually("the former one is gone", SOON, async || {
        !cluster.cloud.has(&before)
    })
    .await;
    assert!(cluster.sim().get(Kind::ReservedIp, address).is_some());
    let calls = cluster.writes();
    let at = |path: &str| calls.iter().rposition(|call| call.path == path);
    let deleted = at(&format!("/v4/nodebalancers/{before}"));
    let filled = calls.iter().position(|call| {
        call.path
            .starts_with(&format!("/v4/nodebalancers/{id}/configs/"))
    });
    assert!(filled < deleted, "{}", calls.summary());

    // Without the annotation it keeps what it has.
    cluster.note("web", ID, None).await;
    cluster.marker().await;
    cluster.has_it("web", &id).await;
    cluster.finish().await;
}

#[tokio::test]
async fn with_preserve_the_former_one_stays_and_bears_no_mark_any_more() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    cluster.provide_with("web", &[("preserve", "true")]).await;
    let before = cluster.id("web").await;
    let id = cluster.made_by_hand("by-hand");
    cluster.note("web", ID, Some(&id)).await;
    cluster.has_it("web", &id).await;
    cluster
        .shows(&before, "it is nobody's any more", |shown| {
            !is_marked(shown)
        })
        .await;
    // It is not taken up again, neither now nor by the next process.
    drop(central);
    let start = Instant::now();
    let _central = cluster.central().await;
    cluster.marker().await;
    assert_none(&cluster.changes_since(start));
    cluster.has_it("web", &id).await;
    cluster.finish().await;
}

/// The firewall of its own goes over to the new one, and is not left behind when that goes.
#[tokio::test]
async fn the_own_firewall_follows_to_the_one_that_is_named() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let acl = r#"{"allowList": {"ipv4": ["192.0.2.0/24"]}}"#;
    cluster.provide_with("web", &[("firewall-acl", acl)]).await;
    let before = cluster.id("web").await;
    let id = cluster.made_by_hand("by-hand");
    cluster.note("web", ID, Some(&id)).await;
    cluster.has_it("web", &id).await;
    eventually("the former one is gone", SOON, async || {
        !cluster.cloud.has(&before)
    })
    .await;
    assert_eq!(cluster.cloud.firewalls(&id).len(), 1);
    assert_eq!(cluster.sim().all(Kind::Firewall).len(), 1);
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

/// It is not needed by the new one, which serves the Service already, and goes as soon as the former one has gone.
#[tokio::test]
async fn an_own_firewall_that_is_not_wanted_any_more_goes_with_the_former_one() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let acl = r#"{"allowList": {"ipv4": ["192.0.2.0/24"]}}"#;
    let service = cluster.provide_with("web", &[("firewall-acl", acl)]).await;
    let before = cluster.id("web").await;
    let nodes = [1, 2].map(|n| {
        let address = format!("{}:{}", SuiteCloud::address(n), node_port(&service));
        json!({ "label": format!("n{n}"), "address": address })
    });
    let config = json!({ "port": 80, "protocol": "tcp", "nodes": nodes });
    let shown = json!({ "label": "by-hand", "configs": [config] });
    let id = cluster.sim().put_node_balancer(&shown).to_string();
    let notes = json!({ key(ID): id, key("firewall-acl"): null });
    let patch = json!({ "metadata": { "annotations": notes } });
    cluster.patch("web", &patch).await;
    cluster.has_it("web", &id).await;
    eventually("what it had is gone", SOON, async || {
        !cluster.cloud.has(&before) && cluster.sim().all(Kind::Firewall).is_empty()
    })
    .await;
    cluster.finish().await;
}

/// The Go controller lets the second one take everything away from the first.
#[tokio::test]
async fn of_two_services_that_name_the_same_one_the_first_keeps_it() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let id = cluster.made_by_hand("by-hand");
    cluster.provide_with("first", &[(ID, &id)]).await;
    cluster.has_it("first", &id).await;
    let start = Instant::now();
    let service = cluster.service("second").port(443, 8443);
    let service = service.annotation(&crate::linode_services::key(ID), &id);
    cluster.make(service).await;
    let first = cluster.key("first");
    cluster
        .told("second", reasons::SYNC_LOAD_BALANCER_FAILED, &first)
        .await;
    cluster.marker().await;
    assert_none(&cluster.cloud.writes_on(&id).since(start));
    assert_none(&ingress(&cluster.get("second").await));
    // It goes without taking anything along, and the first one serves all the time.
    cluster.delete("second").await;
    cluster.gone("second").await;
    assert_none(&cluster.cloud.writes_on(&id).since(start));
    cluster.has_it("first", &id).await;
    assert_none(&cluster.sim().outages(&id));
    cluster.finish().await;
}

/// What is in use, and not provably the Service's, is left alone.
#[tokio::test]
async fn one_that_somebody_else_uses_is_refused_and_not_touched() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let config = json!({
        "port": 80, "protocol": "tcp",
        "nodes": [{ "label": "theirs", "address": "192.168.200.9:8080" }],
    });
    let shown = json!({ "label": "theirs", "configs": [config] });
    let id = cluster.sim().put_node_balancer(&shown).to_string();
    let service = cluster.service("web");
    let service = service.annotation(&crate::linode_services::key(ID), &id);
    cluster.make(service).await;
    cluster
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, &id)
        .await;
    cluster.marker().await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert_none(&cluster.cloud.writes_on(&id));
    assert!(cluster.cloud.has(&id));
    cluster.finish().await;
}

#[tokio::test]
async fn a_service_whose_chosen_one_is_gone_can_be_deleted() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let id = cluster.made_by_hand("by-hand");
    cluster.provide_with("web", &[(ID, &id)]).await;
    cluster.has_it("web", &id).await;
    cluster.cloud.delete_by_hand(&id);
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert_none(&cluster.cloud.creations());
    cluster.finish().await;
}

#[tokio::test]
async fn a_service_of_another_type_gives_up_the_one_that_it_named() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let id = cluster.made_by_hand("by-hand");
    cluster.provide_with("web", &[(ID, &id)]).await;
    cluster.has_it("web", &id).await;
    // The API server empties the status, also with no controller running.
    drop(central);
    cluster
        .respecify("web", json!({ "type": "ClusterIP" }))
        .await;
    let _central = cluster.central().await;
    cluster
        .is("web", "is let go", |service| !has_finalizer(service))
        .await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}
