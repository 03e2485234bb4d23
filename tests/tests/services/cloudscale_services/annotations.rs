//! Every annotation has its effect, at first and on a load balancer that is there.

use futures::future::join_all;
use mooring_cloud_sim::cloudscale::{Kind, SUBNET};
use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::cloudscale_services::annotation_effects::{Row, rows};
use crate::cloudscale_services::cloud::annotation;
use crate::cloudscale_services::cloud::text;
use crate::cloudscale_services::cluster::{CloudCluster, SOON, assert_none, ingress};
use crate::cloudscale_services::key;

async fn shows(cluster: &CloudCluster, name: &str, row: &Row, wanted: &Value) {
    let what = format!("{}={} shows {wanted} at {}", row.end, row.value, row.field);
    let uuid = cluster.uuid(name).await;
    eventually(&what, SOON, async || {
        let parts = cluster.parts(&uuid, row.kind);
        let mut fields = parts
            .iter()
            .map(|part| part.pointer(row.field).cloned().unwrap_or_default());
        let is_so = !parts.is_empty() && fields.all(|found| found == *wanted);
        if is_so { Ok(()) } else { Err(parts) }
    })
    .await;
}

async fn there_and_back(cluster: &CloudCluster, index: usize, row: &Row) {
    let name = format!("row-{index}");
    let service = ServiceBuilder::load_balancer(&cluster.namespace, &name).unnamed_port(80, 8080);
    let beside = row.beside.iter();
    let service = beside.fold(service, |service, (end, value)| {
        service.annotation(&key(end), value)
    });
    cluster
        .make(service.annotation(&key(row.end), row.value))
        .await;
    cluster.provided_at_last(&name).await;
    shows(cluster, &name, row, &row.shown).await;
    cluster.annotate(&name, &key(row.end), None).await;
    shows(cluster, &name, row, &row.default).await;
    cluster
        .annotate(&name, &key(row.end), Some(row.value))
        .await;
    shows(cluster, &name, row, &row.shown).await;
    cluster.serves(&name, &[1, 2]).await;
}

#[tokio::test]
async fn each_annotation_has_its_effect_at_first_and_when_it_changes() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central_with(cluster.workers(4)).await;
    let rows = rows();
    let all = rows
        .iter()
        .enumerate()
        .map(|(index, row)| there_and_back(&cluster, index, row));
    join_all(all).await;
    assert_eq!(cluster.sim().concurrent_writes(), 0);
    cluster.finish().await;
}

#[tokio::test]
async fn a_name_is_given_changed_and_taken_back_without_any_other_change() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let named = cluster.service("web").annotation(&key("name"), "shop");
    let service = cluster.make(named).await;
    cluster.provided("web").await;
    let uuid = cluster.uuid("web").await;
    assert_eq!(text(&cluster.sim().load_balancer("shop")["uuid"]), uuid);
    let default =
        crate::cloudscale_services::cloud::name(&crate::cloudscale_services::cloud::uid(&service));
    let before = cluster.writes_on(&uuid).len();
    for (value, name) in [(Some("market"), "market"), (None, &*default)] {
        cluster.annotate("web", &key("name"), value).await;
        eventually("it has its name", SOON, async || {
            cluster.sim().named(Kind::LoadBalancer, name).len() == 1
        })
        .await;
    }
    assert_eq!(cluster.uuid("web").await, uuid);
    assert_eq!(cluster.writes_on(&uuid).len(), before + 2);
    assert_none(&cluster.sim().outages(&uuid));
    cluster.finish().await;
}

#[tokio::test]
async fn zone_and_vips_are_chosen_at_first() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let zoned = cluster.service("zoned").annotation(&key("zone"), "lpg1");
    cluster.make(zoned).await;
    let vips = json!([{ "subnet": SUBNET, "address": "10.0.0.77" }]).to_string();
    let private = cluster.service("private");
    cluster
        .make(private.annotation(&key("vip-addresses"), &vips))
        .await;
    cluster.provided("zoned").await;
    let uuid = cluster.uuid("zoned").await;
    let zoned = cluster.parts(&uuid, Kind::LoadBalancer);
    assert_eq!(zoned[0]["zone"]["slug"], "lpg1");
    let private = cluster.provided("private").await;
    let addresses = ingress(&private);
    assert_eq!(addresses.len(), 1, "{addresses:?}");
    assert_eq!(addresses[0]["ip"], "10.0.0.77");
    cluster.finish().await;
}

#[tokio::test]
async fn what_is_known_of_it_is_written_on_the_service() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let odd = cluster
        .service("web")
        .annotation(&key("config-version"), "7");
    cluster.make(odd).await;
    let service = cluster.provided("web").await;
    let uuid = text(&cluster.sim().all(Kind::LoadBalancer)[0]["uuid"]);
    for (end, value) in [("uuid", &*uuid), ("config-version", "1"), ("zone", "rma1")] {
        assert_eq!(annotation(&service, &key(end)), Some(value), "{end}");
    }
    cluster.finish().await;
}

/// The API server knows `ipMode`; the Go controller's default is `Proxy`.
#[tokio::test]
async fn st_04_st_05_ip_mode_and_host_name_are_those_of_the_annotations() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.create("plain").await;
    let proxy = cluster.service("proxy");
    cluster
        .make(proxy.annotation(&key("pool-protocol"), "proxy"))
        .await;
    let vip = cluster.service("vip").annotation(&key("ip-mode"), "VIP");
    cluster.make(vip).await;
    for (name, mode) in [("plain", "Proxy"), ("proxy", "Proxy"), ("vip", "VIP")] {
        let entries = ingress(&cluster.provided(name).await);
        assert_eq!(entries.len(), 2, "{name}: {entries:?}");
        let all = entries.iter().all(|entry| entry["ipMode"] == mode);
        assert!(all, "{name}: {entries:?}");
        let first = text(&entries[0]["ip"]);
        assert!(!first.contains(':'), "IPv4 comes first: {entries:?}");
    }
    let host = "shop.example";
    cluster
        .annotate("plain", &key("force-hostname"), Some(host))
        .await;
    cluster
        .is("plain", "is told by its host name", |service| {
            ingress(service) == [json!({ "hostname": host })]
        })
        .await;
    cluster
        .annotate("plain", &key("force-hostname"), None)
        .await;
    cluster
        .is("plain", "is told by its addresses", |service| {
            ingress(service).len() == 2
        })
        .await;
    cluster.finish().await;
}

#[tokio::test]
async fn subnets_and_selectors_choose_members() {
    const OTHER: &str = "99999999-2222-4333-8444-555555555555";
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let limited = |name: &str, subnets: &str| {
        let service = cluster.service(name);
        service.annotation(&key("listener-allowed-subnets"), subnets)
    };
    let (these, others) = (json!([SUBNET]).to_string(), json!([OTHER]).to_string());
    cluster.make(limited("these", &these)).await;
    cluster.make(limited("others", &others)).await;
    let one = cluster.service("one");
    let selector = "kubernetes.io/hostname in (n2, n7)";
    cluster
        .make(one.annotation(&key("node-selector"), selector))
        .await;
    for (name, nodes) in [("these", &[1, 2][..]), ("others", &[]), ("one", &[2])] {
        cluster.provided(name).await;
        cluster.serves(name, nodes).await;
    }
    cluster
        .annotate("others", &key("listener-allowed-subnets"), Some(""))
        .await;
    cluster.serves("others", &[1, 2]).await;
    cluster.finish().await;
}
