//! Every annotation has its effect, at first and on a load balancer that is there.

use futures::future::join_all;
use mooring_tests::cloud_sim::cloudscale::{Kind, SUBNET};
use mooring_tests::objects::ServiceBuilder;
use mooring_tests::wait::eventually;
use serde_json::{Value, json};

use crate::cloudscale_services::annotation_effects::{Row, rows};
use crate::cloudscale_services::cloud::text;
use crate::cloudscale_services::key;
use crate::cloudscale_services::stage::{SOON, Stage, annotation, assert_none, ingress};

async fn shows(stage: &Stage, name: &str, row: &Row, wanted: &Value) {
    let what = format!("{}={} shows {wanted} at {}", row.end, row.value, row.field);
    let uuid = stage.uuid(name).await;
    eventually(&what, SOON, async || {
        let parts = stage.parts(&uuid, row.kind);
        let mut fields = parts
            .iter()
            .map(|part| part.pointer(row.field).cloned().unwrap_or_default());
        let is_so = !parts.is_empty() && fields.all(|found| found == *wanted);
        if is_so { Ok(()) } else { Err(parts) }
    })
    .await;
}

async fn there_and_back(stage: &Stage, index: usize, row: &Row) {
    let name = format!("row-{index}");
    let service = ServiceBuilder::load_balancer(&stage.namespace, &name).unnamed_port(80, 8080);
    let beside = row.beside.iter();
    let service = beside.fold(service, |service, (end, value)| {
        service.annotation(&key(end), value)
    });
    stage
        .make(service.annotation(&key(row.end), row.value))
        .await;
    stage.provided_at_last(&name).await;
    shows(stage, &name, row, &row.shown).await;
    stage.annotate(&name, &key(row.end), None).await;
    shows(stage, &name, row, &row.default).await;
    stage.annotate(&name, &key(row.end), Some(row.value)).await;
    shows(stage, &name, row, &row.shown).await;
    stage.serves(&name, &[1, 2]).await;
}

#[tokio::test]
async fn each_annotation_has_its_effect_at_first_and_when_it_changes() {
    let stage = Stage::enter().await;
    let _central = stage.central_with(stage.workers(4)).await;
    let rows = rows();
    let all = rows
        .iter()
        .enumerate()
        .map(|(index, row)| there_and_back(&stage, index, row));
    join_all(all).await;
    assert_eq!(stage.sim().concurrent_writes(), 0);
    stage.leave().await;
}

#[tokio::test]
async fn a_name_is_given_changed_and_taken_back_without_any_other_change() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let named = stage.service("web").annotation(&key("name"), "shop");
    let service = stage.make(named).await;
    stage.provided("web").await;
    let uuid = stage.uuid("web").await;
    assert_eq!(text(&stage.sim().load_balancer("shop")["uuid"]), uuid);
    let default =
        crate::cloudscale_services::cloud::name(&crate::cloudscale_services::stage::uid(&service));
    let before = stage.writes_on(&uuid).len();
    for (value, name) in [(Some("market"), "market"), (None, &*default)] {
        stage.annotate("web", &key("name"), value).await;
        eventually("it has its name", SOON, async || {
            stage.sim().named(Kind::LoadBalancer, name).len() == 1
        })
        .await;
    }
    assert_eq!(stage.uuid("web").await, uuid);
    assert_eq!(stage.writes_on(&uuid).len(), before + 2);
    assert_none(&stage.sim().outages(&uuid));
    stage.leave().await;
}

#[tokio::test]
async fn zone_and_vips_are_chosen_at_first() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let zoned = stage.service("zoned").annotation(&key("zone"), "lpg1");
    stage.make(zoned).await;
    let vips = json!([{ "subnet": SUBNET, "address": "10.0.0.77" }]).to_string();
    let private = stage.service("private");
    stage
        .make(private.annotation(&key("vip-addresses"), &vips))
        .await;
    stage.provided("zoned").await;
    let uuid = stage.uuid("zoned").await;
    let zoned = stage.parts(&uuid, Kind::LoadBalancer);
    assert_eq!(zoned[0]["zone"]["slug"], "lpg1");
    let private = stage.provided("private").await;
    let addresses = ingress(&private);
    assert_eq!(addresses.len(), 1, "{addresses:?}");
    assert_eq!(addresses[0]["ip"], "10.0.0.77");
    stage.leave().await;
}

#[tokio::test]
async fn what_is_known_of_it_is_written_on_the_service() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let odd = stage.service("web").annotation(&key("config-version"), "7");
    stage.make(odd).await;
    let service = stage.provided("web").await;
    let uuid = text(&stage.sim().all(Kind::LoadBalancer)[0]["uuid"]);
    for (end, value) in [("uuid", &*uuid), ("config-version", "1"), ("zone", "rma1")] {
        assert_eq!(annotation(&service, &key(end)), Some(value), "{end}");
    }
    stage.leave().await;
}

/// The API server knows `ipMode`; the Go controller's default is `Proxy`.
#[tokio::test]
async fn st_04_st_05_ip_mode_and_host_name_are_those_of_the_annotations() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.create("plain").await;
    let proxy = stage.service("proxy");
    stage
        .make(proxy.annotation(&key("pool-protocol"), "proxy"))
        .await;
    let vip = stage.service("vip").annotation(&key("ip-mode"), "VIP");
    stage.make(vip).await;
    for (name, mode) in [("plain", "Proxy"), ("proxy", "Proxy"), ("vip", "VIP")] {
        let entries = ingress(&stage.provided(name).await);
        assert_eq!(entries.len(), 2, "{name}: {entries:?}");
        let all = entries.iter().all(|entry| entry["ipMode"] == mode);
        assert!(all, "{name}: {entries:?}");
        let first = text(&entries[0]["ip"]);
        assert!(!first.contains(':'), "IPv4 comes first: {entries:?}");
    }
    let host = "shop.example";
    stage
        .annotate("plain", &key("force-hostname"), Some(host))
        .await;
    stage
        .is("plain", "is told by its host name", |service| {
            ingress(service) == [json!({ "hostname": host })]
        })
        .await;
    stage.annotate("plain", &key("force-hostname"), None).await;
    stage
        .is("plain", "is told by its addresses", |service| {
            ingress(service).len() == 2
        })
        .await;
    stage.leave().await;
}

#[tokio::test]
async fn subnets_and_selectors_choose_members() {
    const OTHER: &str = "99999999-2222-4333-8444-555555555555";
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let limited = |name: &str, subnets: &str| {
        let service = stage.service(name);
        service.annotation(&key("listener-allowed-subnets"), subnets)
    };
    let (these, others) = (json!([SUBNET]).to_string(), json!([OTHER]).to_string());
    stage.make(limited("these", &these)).await;
    stage.make(limited("others", &others)).await;
    let one = stage.service("one");
    let selector = "kubernetes.io/hostname in (n2, n7)";
    stage
        .make(one.annotation(&key("node-selector"), selector))
        .await;
    for (name, nodes) in [("these", &[1, 2][..]), ("others", &[]), ("one", &[2])] {
        stage.provided(name).await;
        stage.serves(name, nodes).await;
    }
    stage
        .annotate("others", &key("listener-allowed-subnets"), Some(""))
        .await;
    stage.serves("others", &[1, 2]).await;
    stage.leave().await;
}
