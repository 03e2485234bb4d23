//! What is not done without more ado: changes that the cloud cannot make, and those that hurt.

use mooring_cloud_sim::cloudscale::SUBNET;
use mooring_cloud_sim::{Fault, When};
use mooring_common::names::reasons;
use serde_json::json;

use crate::cloudscale_services::cluster::{CloudCluster, SOON, assert_none, ingress};
use crate::cloudscale_services::key;

/// Neither flavor nor zone nor addresses can be changed: the Service has to be made anew.
#[tokio::test]
async fn a_forbidden_change_is_told_and_nothing_is_written() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let vips = json!([{ "subnet": SUBNET, "address": "10.0.0.66" }]).to_string();
    for (name, end, value) in [
        ("flavor", "flavor", "lb-large"),
        ("zone", "zone", "lpg1"),
        ("vips", "vip-addresses", &*vips),
    ] {
        let before = ingress(&cluster.provide(name).await);
        let uuid = cluster.uuid(name).await;
        let writes = cluster.writes_on(&uuid).len();
        cluster.annotate(name, &key(end), Some(value)).await;
        let told = cluster.failed(name).await;
        assert!(told.note.contains(end), "{told:?}");
        cluster.marker().await;
        assert_eq!(cluster.writes_on(&uuid).len(), writes);
        assert_eq!(ingress(&cluster.get(name).await), before);

        let arguments = format!("{}/{name} -o json", cluster.namespace);
        let plan = cluster.plan(&arguments).await;
        assert_eq!(plan.code, 1, "{plan:?}");
        let refused = plan.of(name)["refused"].to_string();
        assert!(refused.contains(end), "{refused}");
        assert_eq!(cluster.writes_on(&uuid).len(), writes);

        cluster.annotate(name, &key(end), None).await;
        cluster.delete(name).await;
        cluster.gone(name).await;
    }
    cluster.finish().await;
}

/// Before the first write of a plan that ends in nobody being served, an Event says what will be
/// done.
#[tokio::test]
async fn a_considerable_change_is_told_before_its_first_write() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    let hang = cluster
        .sim()
        .faults()
        .inject(When::write("**/*"), Fault::hang());
    cluster
        .annotate("web", &key("node-selector"), Some("pool=nobody"))
        .await;
    let first_write = tokio::time::timeout(SOON, hang.struck(1)).await;
    assert!(first_write.is_ok(), "nothing was written");
    let told = cluster.reasons("web").await;
    assert!(told.contains(reasons::DISRUPTIVE_CHANGE), "{told:?}");
    let note = cluster.told("web", reasons::DISRUPTIVE_CHANGE, "").await;
    assert_eq!(note.kind, "Warning");
    assert!(note.note.contains("10.0.0."), "{note:?}");
    hang.lift();
    cluster.serves("web", &[]).await;
    cluster.finish().await;
}

/// A Service that grows and shrinks is no news.
#[tokio::test]
async fn a_change_that_nobody_notices_is_not_called_disruptive() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    let mut port = json!(crate::cloudscale_services::forwarding::ports(&service)[0]);
    port["name"] = json!("renamed");
    cluster.respecify("web", json!({ "ports": [port] })).await;
    cluster
        .annotate("web", &key("health-monitor-delay-s"), Some("9"))
        .await;
    cluster.marker().await;
    cluster.serves("web", &[1, 2]).await;
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}

/// This cloud's load balancers get no address by that field: another one would be a surprise. Who
/// has one already keeps it, and is told.
#[tokio::test]
async fn sv_24_an_address_that_cannot_be_had_is_told_and_no_other_is_taken() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let asking = cluster.service("new").requested_address("192.0.2.7");
    let asking = cluster.make(asking).await;
    let told = cluster.failed("new").await;
    assert!(told.note.contains("loadBalancerIP"), "{told:?}");
    let before = ingress(&cluster.provide("there").await);
    let uuid = cluster.uuid("there").await;
    let writes = cluster.writes_on(&uuid).len();
    cluster
        .respecify("there", json!({ "loadBalancerIP": "192.0.2.7" }))
        .await;
    let told = cluster.told("there", reasons::UNSUPPORTED_FIELD, "").await;
    assert!(told.note.contains("loadBalancerIP"), "{told:?}");
    cluster.marker().await;
    assert!(cluster.balancer(&asking).is_none());
    assert_eq!(cluster.writes_on(&uuid).len(), writes);
    assert_eq!(ingress(&cluster.get("there").await), before);
    cluster.finish().await;
}
