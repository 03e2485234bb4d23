//! What is not done without more ado: changes that the cloud cannot make, and those that hurt.

use mooring_common::names::reasons;
use mooring_tests::cloud_sim::cloudscale::SUBNET;
use mooring_tests::cloud_sim::{Fault, When};
use serde_json::json;

use crate::cloudscale_services::key;
use crate::cloudscale_services::stage::{SOON, Stage, assert_none, ingress};

/// Neither flavor nor zone nor addresses can be changed: the Service has to be made anew.
#[tokio::test]
async fn a_forbidden_change_is_told_and_nothing_is_written() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let vips = json!([{ "subnet": SUBNET, "address": "10.0.0.66" }]).to_string();
    for (name, end, value) in [
        ("flavor", "flavor", "lb-large"),
        ("zone", "zone", "lpg1"),
        ("vips", "vip-addresses", &*vips),
    ] {
        let before = ingress(&stage.provide(name).await);
        let uuid = stage.uuid(name).await;
        let writes = stage.writes_on(&uuid).len();
        stage.annotate(name, &key(end), Some(value)).await;
        let told = stage.failed(name).await;
        assert!(told.note.contains(end), "{told:?}");
        stage.marker().await;
        assert_eq!(stage.writes_on(&uuid).len(), writes);
        assert_eq!(ingress(&stage.get(name).await), before);

        let arguments = format!("{}/{name} -o json", stage.namespace);
        let plan = stage.plan(&arguments).await;
        assert_eq!(plan.code, 1, "{plan:?}");
        let refused = plan.of(name)["refused"].to_string();
        assert!(refused.contains(end), "{refused}");
        assert_eq!(stage.writes_on(&uuid).len(), writes);

        stage.annotate(name, &key(end), None).await;
        stage.delete(name).await;
        stage.gone(name).await;
    }
    stage.leave().await;
}

/// Before the first write of a plan that ends in nobody being served, an Event says what will be
/// done.
#[tokio::test]
async fn a_considerable_change_is_told_before_its_first_write() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.provide("web").await;
    stage.serves("web", &[1, 2]).await;
    let hang = stage
        .sim()
        .faults()
        .inject(When::write("**/*"), Fault::hang());
    stage
        .annotate("web", &key("node-selector"), Some("pool=nobody"))
        .await;
    let first_write = tokio::time::timeout(SOON, hang.struck(1)).await;
    assert!(first_write.is_ok(), "nothing was written");
    let told = stage.reasons("web").await;
    assert!(told.contains(reasons::DISRUPTIVE_CHANGE), "{told:?}");
    let note = stage.told("web", reasons::DISRUPTIVE_CHANGE, "").await;
    assert_eq!(note.kind, "Warning");
    assert!(note.note.contains("10.0.0."), "{note:?}");
    hang.lift();
    stage.serves("web", &[]).await;
    stage.leave().await;
}

/// A Service that grows and shrinks is no news.
#[tokio::test]
async fn a_change_that_nobody_notices_is_not_called_disruptive() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let service = stage.provide("web").await;
    let mut port = json!(crate::cloudscale_services::stage::ports(&service)[0]);
    port["name"] = json!("renamed");
    stage.respecify("web", json!({ "ports": [port] })).await;
    stage
        .annotate("web", &key("health-monitor-delay-s"), Some("9"))
        .await;
    stage.marker().await;
    stage.serves("web", &[1, 2]).await;
    assert_none(&stage.warnings("web").await);
    stage.leave().await;
}

/// This cloud's load balancers get no address by that field: another one would be a surprise. Who
/// has one already keeps it, and is told.
#[tokio::test]
async fn sv_24_an_address_that_cannot_be_had_is_told_and_no_other_is_taken() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let asking = stage.service("new").requested_address("192.0.2.7");
    let asking = stage.make(asking).await;
    let told = stage.failed("new").await;
    assert!(told.note.contains("loadBalancerIP"), "{told:?}");
    let before = ingress(&stage.provide("there").await);
    let uuid = stage.uuid("there").await;
    let writes = stage.writes_on(&uuid).len();
    stage
        .respecify("there", json!({ "loadBalancerIP": "192.0.2.7" }))
        .await;
    let told = stage.told("there", reasons::UNSUPPORTED_FIELD, "").await;
    assert!(told.note.contains("loadBalancerIP"), "{told:?}");
    stage.marker().await;
    assert!(stage.balancer(&asking).is_none());
    assert_eq!(stage.writes_on(&uuid).len(), writes);
    assert_eq!(ingress(&stage.get("there").await), before);
    stage.leave().await;
}
