//! Cloud Firewalls that somebody switches off, or that a Service names for a while.

use std::time::Instant;

use mooring_cloud_sim::linode::Kind;
use mooring_common::names::linode_tags::FIREWALL as MARK;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::linode_services::cloud::tags;
use crate::linode_services::cluster::{CloudCluster, SOON, assert_none};
use crate::linode_services::firewalls::acl;

/// The marks of firewalls that a NodeBalancer bears.
fn marks(shown: &Value) -> Vec<Value> {
    let mut tags = tags(shown);
    tags.retain(|tag| tag.as_str().is_some_and(|tag| tag.starts_with(MARK)));
    tags
}

#[tokio::test]
async fn an_own_firewall_that_somebody_switches_off_is_switched_on_again() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    let theirs = cluster.firewall_by_hand("theirs", &json!([]));
    let number = theirs.to_string();
    let allowed = acl("allowList", &["192.0.2.0/24"]);
    let [own, named] = [("firewall-acl", &allowed), ("firewall-id", &number)];
    cluster.provide_with("web", &[(own.0, own.1)]).await;
    cluster.provide_with("api", &[(named.0, named.1)]).await;
    let (id, api) = (cluster.id("web").await, cluster.id("api").await);
    let firewall = cluster.cloud.firewalls(&id)[0]["id"].clone();
    let status = |of: &Value| {
        let shown = cluster.sim().get(Kind::Firewall, of);
        shown.expect("it is there")["status"].clone()
    };
    let theirs = json!(theirs);
    for of in [&theirs, &firewall] {
        cluster
            .sim()
            .set_in(Kind::Firewall, of, "status", "disabled");
    }
    eventually("it is on again", SOON, async || {
        status(&firewall) == "enabled"
    })
    .await;
    // What is somebody else's stays as it is.
    cluster.read_since(&api, Instant::now(), 2).await;
    assert_eq!(status(&theirs), "disabled");
    cluster.finish().await;
}

/// While a Node drains not all is as wanted, and nothing is noted on the Service. What was attached is known by
/// its mark.
#[tokio::test]
async fn a_firewall_that_is_named_only_while_a_node_drains_is_detached_again() {
    let cluster = CloudCluster::start().await;
    let flags = || cluster.flags().with("--nodebalancer-drain-period=1h");
    let central = cluster.central_with(flags()).await;
    let theirs = cluster.firewall_by_hand("theirs", &json!([]));
    let number = theirs.to_string();
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    cluster.remove_node("n2").await;
    cluster.serves("web", &[1]).await;

    cluster.note("web", "firewall-id", Some(&number)).await;
    cluster.is_protected_by(&id, theirs).await;
    assert_eq!(
        marks(&cluster.shown("web").await),
        [json!(format!("{MARK}{theirs}"))]
    );
    // The process that starts then knows it too.
    drop(central);
    cluster.note("web", "firewall-id", None).await;
    let _central = cluster.central_with(flags()).await;
    eventually("it is detached", SOON, async || {
        cluster.cloud.firewalls(&id).is_empty()
    })
    .await;
    cluster
        .shows(&id, "it bears no mark", |shown| marks(shown).is_empty())
        .await;
    // What somebody attaches by hand stays, also if it is the same one.
    cluster.sim().attach_firewall(theirs, id.parse().unwrap());
    cluster.join(3).await;
    cluster.serves("web", &[1, 3]).await;
    cluster.marker().await;
    cluster.is_protected_by(&id, theirs).await;
    assert_none(&cluster.sim().outages(&id));
    cluster.finish().await;
}
