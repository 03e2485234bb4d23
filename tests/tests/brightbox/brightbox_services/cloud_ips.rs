//! Cloud IPs: those that are made for a Service, those that it names, and those that are somebody else's.

use std::time::{Duration, Instant};

use http::Method;
use mooring_cloud_sim::brightbox::{Behaviour, Kind};
use mooring_common::names::reasons;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::brightbox_services::cloud::{text, usual};
use crate::brightbox_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none, ingress,
};

const CHOSEN: &str = "cloudip-allocations";
const IPS: &str = "/1.0/cloud_ips";

impl CloudCluster {
    /// Somebody reserves a Cloud IP.
    fn reserved(&self, address: &str) -> String {
        let host = address.replace('.', "-");
        let ip = json!({
            "name": "reserved", "public_ip": address, "public_ipv4": address,
            "public_ipv6": format!("2001:db8::{}", address.replace('.', ":")),
            "fqdn": format!("{host}.example.com"), "reverse_dns": null,
        });
        self.sim().put(Kind::CloudIp, ip)
    }

    /// A Cloud IP, as the API shows it.
    fn cloud_ip(&self, id: &str) -> Option<Value> {
        self.sim().get(Kind::CloudIp, id)
    }

    /// Waits until a Cloud IP leads to the load balancer of a Service, which says so, and no other does.
    async fn is_at(&self, name: &str, ip: &str) {
        eventually(
            &format!("{name} has {ip} alone"),
            AFTER_RETRIES,
            async || {
                let service = self.get(name).await;
                let found = self.balancer(&service).ok_or("no load balancer")?.id;
                let shown = self.sim().get(Kind::LoadBalancer, &found).ok_or("gone")?;
                let ips = shown["cloud_ips"].as_array().cloned().unwrap_or_default();
                let ids: Vec<String> = ips.iter().map(|ip| text(&ip["id"])).collect();
                if ids != [ip] {
                    return Err("others lead there");
                }
                let status: Vec<Value> = ingress(&service)
                    .iter()
                    .map(|entry| entry["hostname"].clone())
                    .collect();
                if status == hostnames(&ips[0]) {
                    Ok(())
                } else {
                    Err("the status does not say so")
                }
            },
        )
        .await;
    }

    /// The only Cloud IP that leads to the load balancer of a Service.
    async fn ip_of(&self, name: &str) -> String {
        let shown = self.shown(name).await;
        let ips = shown["cloud_ips"].as_array().expect("a list");
        assert_eq!(ips.len(), 1, "{shown}");
        text(&ips[0]["id"])
    }
}

/// The names of a Cloud IP, as a status lists them.
fn hostnames(ip: &Value) -> Vec<Value> {
    let names = [&ip["reverse_dns"], &ip["fqdn"]].into_iter();
    names.filter(|name| name.is_string()).cloned().collect()
}

/// Upstream: the first pass always fails, since a Cloud IP does not lead anywhere at once.
#[tokio::test]
async fn a_service_is_told_of_when_its_cloud_ip_leads_there_and_nothing_is_complained_of() {
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour {
        mapping: Duration::from_secs(3),
        numeric_names: false,
        ..usual()
    });
    let _central = cluster.central().await;
    let service = cluster.create("web").await;
    eventually("it is asked to lead there", SOON, async || {
        !cluster.writes().to("/1.0/cloud_ips/*/map").is_empty()
    })
    .await;
    assert_none(&ingress(&cluster.get("web").await));
    let service_of = cluster.provided("web").await;
    let ip = cluster.ip_of("web").await;
    let shown = cluster.cloud_ip(&ip).unwrap();
    assert_eq!(shown["name"], json!(cluster.named("web")));
    let status = ingress(&service_of);
    let names: Vec<Value> = status.iter().map(|one| one["hostname"].clone()).collect();
    assert_eq!(names, hostnames(&shown));
    assert_eq!(names.len(), 2, "{status:?}");
    assert!(status.iter().all(|one| one["ip"].is_null()), "{status:?}");
    assert!(cluster.balancer(&service).is_some());
    let maps = cluster.writes().to("/1.0/cloud_ips/*/map");
    assert_eq!(maps.len(), 1, "{}", maps.summary());
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}

#[tokio::test]
async fn a_cloud_ip_that_a_service_names_is_used_and_never_deleted() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let by_id = cluster.reserved("192.0.2.1");
    let by_v4 = cluster.reserved("192.0.2.2");
    let by_v6 = cluster.reserved("192.0.2.3");
    let v6 = text(&cluster.cloud_ip(&by_v6).unwrap()["public_ipv6"]);
    // Written otherwise, it is the same address.
    let v6 = v6.replace("::", ":0::").to_uppercase();
    cluster
        .make(cluster.noted("by-id", &[(CHOSEN, &by_id)]))
        .await;
    let service = cluster.service("by-v4").requested_address("192.0.2.2");
    cluster.make(service).await;
    cluster
        .make(cluster.service("by-v6").requested_address(&v6))
        .await;
    for (name, ip) in [("by-id", &by_id), ("by-v4", &by_v4), ("by-v6", &by_v6)] {
        cluster.is_at(name, ip).await;
    }
    let bought = cluster.writes().to(IPS).method(&Method::POST);
    assert!(bought.is_empty(), "{}", bought.summary());
    for (name, ip) in [("by-id", &by_id), ("by-v4", &by_v4), ("by-v6", &by_v6)] {
        cluster.delete(name).await;
        cluster.gone(name).await;
        let shown = cluster.cloud_ip(ip).expect("it is kept");
        assert_eq!(shown["status"], "unmapped", "{shown}");
        assert_eq!(shown["name"], "reserved");
    }
    assert_eq!(cluster.cloud.left().len(), 3);
    cluster.finish().await;
}

#[tokio::test]
async fn a_cloud_ip_that_is_not_there_is_told_and_none_is_made_in_its_place() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster
        .make(cluster.noted("by-id", &[(CHOSEN, "cip-4711z")]))
        .await;
    let told = cluster.failed("by-id").await;
    assert!(told.note.contains("cip-4711z"), "{}", told.note);
    let service = cluster.service("by-address").requested_address("192.0.2.9");
    cluster.make(service).await;
    let told = cluster.failed("by-address").await;
    assert!(told.note.contains("192.0.2.9"), "{}", told.note);
    assert_none(&cluster.writes());
    // It comes later.
    let ip = cluster.reserved("192.0.2.9");
    cluster.is_at("by-address", &ip).await;
    cluster.finish().await;
}

/// The Go controller takes the addresses of a working load balancer away first, and then fails.
#[tokio::test]
async fn sv_24_a_cloud_ip_that_leads_elsewhere_is_refused_and_the_working_one_stays() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    let own = cluster.ip_of("web").await;
    let taken = cluster.reserved("192.0.2.1");
    let theirs = cluster
        .sim()
        .put(Kind::LoadBalancer, json!({ "name": "theirs" }));
    cluster.sim().map(&taken, Some(&theirs));
    let start = Instant::now();
    cluster.note("web", CHOSEN, Some(&taken)).await;
    let told = cluster.failed("web").await;
    assert!(told.note.contains(&taken), "{}", told.note);
    // And a new Service gets nothing made for it.
    cluster
        .make(cluster.noted("new", &[(CHOSEN, &taken)]))
        .await;
    let told = cluster.failed("new").await;
    assert!(told.note.contains(&taken), "{}", told.note);
    let writes = cluster.writes().since(start);
    assert!(writes.is_empty(), "{}", writes.summary());
    cluster.is_at("web", &own).await;
    assert_none(&cluster.sim().outages(&id));
    assert_eq!(
        cluster.cloud_ip(&taken).unwrap()["load_balancer"]["id"],
        json!(theirs)
    );

    // Free again, it is taken up.
    cluster.sim().map(&taken, None);
    cluster.is_at("web", &taken).await;
    cluster.finish().await;
}

/// A server has it.
#[tokio::test]
async fn a_cloud_ip_of_a_server_is_refused() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let taken = cluster.reserved("192.0.2.1");
    let server = cluster.machine(9);
    let server = server.strip_prefix("brightbox://").unwrap();
    cluster.sim().map(&taken, Some(server));
    cluster
        .make(cluster.noted("web", &[(CHOSEN, &taken)]))
        .await;
    let told = cluster.failed("web").await;
    assert!(told.note.contains(server), "{}", told.note);
    assert_none(&cluster.writes());
    cluster.finish().await;
}

#[tokio::test]
async fn of_two_services_that_name_the_same_cloud_ip_the_first_keeps_it() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let ip = cluster.reserved("192.0.2.1");
    cluster.make(cluster.noted("first", &[(CHOSEN, &ip)])).await;
    cluster.is_at("first", &ip).await;
    let start = Instant::now();
    let second = cluster.service("second").requested_address("192.0.2.1");
    cluster.make(second).await;
    let first = format!("{}/first", cluster.namespace);
    cluster
        .told("second", reasons::SYNC_LOAD_BALANCER_FAILED, &first)
        .await;
    let writes = cluster.writes().since(start);
    assert!(writes.is_empty(), "{}", writes.summary());
    cluster.is_at("first", &ip).await;
    // When the first one is gone, the second one has it.
    cluster.delete("first").await;
    cluster.gone("first").await;
    cluster.is_at("second", &ip).await;
    cluster.finish().await;
}

/// The new one leads there before the former one does not any more.
#[tokio::test]
async fn switched_to_another_cloud_ip_and_back_it_serves_all_along() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    let own = cluster.ip_of("web").await;
    let first = cluster.reserved("192.0.2.1");
    let second = cluster.reserved("192.0.2.2");
    cluster.note("web", CHOSEN, Some(&first)).await;
    cluster.is_at("web", &first).await;
    eventually("the former one is gone", SOON, async || {
        cluster.cloud_ip(&own).is_none()
    })
    .await;
    cluster.note("web", CHOSEN, Some(&second)).await;
    cluster.is_at("web", &second).await;
    eventually("the first one leads nowhere, and stays", SOON, async || {
        cluster.cloud_ip(&first).expect("it stays")["status"] == "unmapped"
    })
    .await;
    assert_none(&cluster.sim().outages(&id));
    assert_eq!(cluster.serves("web", &[1, 2]).await.id, id);
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert_eq!(cluster.cloud.left().len(), 2, "{:?}", cluster.cloud.left());
    cluster.finish().await;
}

/// Somebody makes it his own by giving it another name.
#[tokio::test]
async fn a_cloud_ip_that_was_renamed_by_hand_stays_in_use_and_is_kept_in_the_end() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    let ip = cluster.ip_of("web").await;
    cluster.sim().set_in(Kind::CloudIp, &ip, "name", "mine");
    let start = Instant::now();
    eventually("it was looked at", SOON, async || {
        let calls = cluster.cloud.calls().since(start).to(IPS);
        calls.filter(|call| call.took.is_some()).len() >= 3
    })
    .await;
    assert!(cluster.writes().since(start).is_empty());
    cluster.is_at("web", &ip).await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert_eq!(cluster.cloud.left(), [ip]);
    cluster.finish().await;
}

#[tokio::test]
async fn a_cloud_ip_that_was_unmapped_or_deleted_by_hand_is_repaired() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    let ip = cluster.ip_of("web").await;
    cluster.sim().map(&ip, None);
    cluster.is_at("web", &ip).await;
    cluster.sim().take(Kind::CloudIp, &ip);
    eventually("there is another one", AFTER_RETRIES, async || {
        let shown = cluster.shown("web").await;
        shown["cloud_ips"]
            .as_array()
            .is_some_and(|ips| ips.len() == 1)
    })
    .await;
    let another = cluster.ip_of("web").await;
    assert_ne!(another, ip);
    cluster.is_at("web", &another).await;
    cluster.finish().await;
}

/// What was made until then goes with the Service, and nothing is made twice meanwhile.
#[tokio::test]
async fn a_full_account_is_told_in_the_clouds_words_and_nothing_leaks() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    for behaviour in [
        Behaviour {
            cloud_ips_limit: 0,
            ..usual()
        },
        Behaviour {
            load_balancers_limit: 0,
            ..usual()
        },
    ] {
        cluster.sim().behave(behaviour);
        cluster.create("web").await;
        let told = cluster
            .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, "limit")
            .await;
        assert!(!told.note.contains("token"), "{}", told.note);
        eventually("it was tried again", AFTER_RETRIES, async || {
            let told = cluster.warnings("web").await;
            told.iter().map(|event| event.count).sum::<i32>() >= 2
        })
        .await;
        for kind in [Kind::ServerGroup, Kind::FirewallPolicy, Kind::CloudIp] {
            assert!(cluster.sim().all(kind).len() <= 1, "{kind:?}");
        }
        cluster.delete("web").await;
        cluster.gone("web").await;
        cluster.nothing_is_left().await;
    }
    cluster.finish().await;
}
