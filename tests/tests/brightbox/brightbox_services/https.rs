//! Listeners of HTTPS: names that must lead there, certificates that take their time, and the way back.

use std::time::{Duration, Instant};

use http::Method;
use mooring_cloud_sim::brightbox::{Behaviour, Kind};
use mooring_common::names::reasons;
use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::brightbox_services::cloud::{BALANCERS, text, usual};
use crate::brightbox_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none, ingress,
};
use crate::brightbox_services::key;

impl CloudCluster {
    /// A Service with ports for HTTPS and HTTP.
    fn secure(&self, name: &str) -> ServiceBuilder {
        let service = ServiceBuilder::load_balancer(&self.namespace, name);
        service.port(443, 8443).port(80, 8080)
    }

    /// Somebody reserves a Cloud IP with these names, which leads to 127.0.0.1.
    fn local_ip(&self, fqdn: &str, reverse: Option<&str>) -> String {
        let ip = json!({
            "name": "reserved", "public_ip": "127.0.0.1", "public_ipv4": "127.0.0.1",
            "public_ipv6": null, "fqdn": fqdn, "reverse_dns": reverse,
        });
        self.sim().put(Kind::CloudIp, ip)
    }
}

/// The domains of a load balancer, each with its status.
fn domains(shown: &Value) -> Vec<(String, String)> {
    let all = shown["acme"]["domains"].as_array().into_iter().flatten();
    let mut all: Vec<_> = all
        .map(|one| (text(&one["identifier"]), text(&one["status"])))
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn port_443_is_https_with_the_names_of_the_cloud_ip_and_is_told_once_they_are_valid() {
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour {
        validating: Duration::from_secs(3),
        ..usual()
    });
    let _central = cluster.central().await;
    let service = cluster.make(cluster.secure("web")).await;
    eventually("its names are looked at", SOON, async || {
        let shown = cluster
            .sim()
            .get(Kind::LoadBalancer, &cluster.balancer(&service)?.id)?;
        let leads = !shown["cloud_ips"].as_array()?.is_empty();
        let looked_at = domains(&shown)
            .iter()
            .all(|(_, status)| status == "validating");
        (leads && looked_at).then_some(())
    })
    .await;
    assert_none(&ingress(&cluster.get("web").await));
    let service = cluster.provided("web").await;
    let shown = cluster.shown("web").await;
    let name = text(&shown["cloud_ips"][0]["fqdn"]);
    assert_eq!(domains(&shown), [(name.clone(), "valid".to_owned())]);
    assert_eq!(shown["https_redirect"], true);
    let protocols: Vec<_> = [0, 1]
        .map(|n| text(&shown["listeners"][n]["protocol"]))
        .into();
    assert_eq!(protocols, ["https", "http"]);
    let status: Vec<Value> = ingress(&service)
        .iter()
        .map(|one| one["hostname"].clone())
        .collect();
    assert_eq!(status, [json!(name)]);
    cluster.serves("web", &[1, 2]).await;
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}

/// brightbox.md, 7.3: ports by number and by name; names sorted and each once.
#[tokio::test]
async fn ports_and_names_of_https_can_be_said() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let ip = cluster.local_ip("localhost", Some("localhost"));
    let service = cluster.secure("web").port(5050, 8080).port(3030, 8080);
    let service = service
        .annotation(&key("ssl-ports"), "tcp-5050, 3030")
        .annotation(&key("ssl-domains"), "localhost,127.1")
        .annotation(&key("cloudip-allocations"), &ip);
    cluster.make(service).await;
    cluster.provided("web").await;
    let body = cluster.cloud.creations().bodies().remove(0);
    assert_eq!(body["domains"], json!(["127.1", "localhost"]));
    let listeners = body["listeners"].as_array().unwrap().iter();
    let listeners: Vec<_> = listeners
        .map(|one| (one["in"].as_u64().unwrap(), text(&one["protocol"])))
        .collect();
    let https = "https".to_owned();
    let wanted = [
        (443, https.clone()),
        (80, "http".to_owned()),
        (5050, https.clone()),
        (3030, https),
    ];
    assert_eq!(listeners, wanted);
    cluster.finish().await;
}

#[tokio::test]
async fn a_name_that_does_not_become_valid_is_told_in_the_clouds_words() {
    let cluster = CloudCluster::start().await;
    let ip = cluster.local_ip("localhost", None);
    cluster.sim().behave(Behaviour {
        invalid_domains: ["localhost".to_owned()].into(),
        ..usual()
    });
    let _central = cluster.central().await;
    let service = cluster.secure("web");
    let service = service.annotation(&key("cloudip-allocations"), &ip);
    let service = cluster.make(service).await;
    let words = "The challenge was not answered";
    let told = cluster
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, words)
        .await;
    assert!(told.note.contains("localhost"), "{}", told.note);
    assert_none(&ingress(&cluster.get("web").await));
    // The cloud looks again and finds it.
    let id = cluster.balancer(&service).unwrap().id;
    cluster
        .sim()
        .change_in(Kind::LoadBalancer, &id, |balancer| {
            balancer["acme"]["domains"][0]["status"] = json!("valid");
        });
    cluster.provided_at_last("web").await;
    assert_eq!(cluster.cloud.creations().len(), 1);
    cluster.finish().await;
}

/// Nothing is made that could not become valid. It is only asked about where there is HTTPS.
#[tokio::test]
async fn a_name_that_leads_elsewhere_or_nowhere_is_refused_before_the_load_balancer_is_made() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    for (name, domain) in [("elsewhere", "localhost"), ("nowhere", "nowhere.invalid")] {
        let service = cluster.secure(name);
        let service = service.annotation(&key("ssl-domains"), domain);
        cluster.make(service).await;
        let told = cluster.failed(name).await;
        assert!(told.note.contains(domain), "{}", told.note);
        assert_none(&ingress(&cluster.get(name).await));
    }
    assert_none(&cluster.cloud.creations());
    // What was made until then goes with the Service, and without the name all is well.
    cluster.delete("nowhere").await;
    cluster.gone("nowhere").await;
    cluster.note("elsewhere", "ssl-domains", None).await;
    cluster.provided_at_last("elsewhere").await;
    cluster.delete("elsewhere").await;
    cluster.gone("elsewhere").await;
    cluster.nothing_is_left().await;

    // Names that nobody knows are no matter to others.
    cluster.sim().behave(Behaviour::default());
    cluster.provide("plain").await;
    cluster
        .provide_with("raw", &[("listener-protocol", "tcp")])
        .await;
    cluster.finish().await;
}

/// Names come with time, and nobody changes the Service then.
#[tokio::test]
async fn a_name_that_leads_there_later_is_noticed_without_a_change_of_the_service() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=0");
    let _central = cluster.central_with(flags).await;
    let ip = cluster.local_ip("nowhere.invalid", None);
    let service = cluster.secure("web");
    let service = service.annotation(&key("cloudip-allocations"), &ip);
    cluster.make(service).await;
    let told = cluster.failed("web").await;
    assert!(told.note.contains("nowhere.invalid"), "{}", told.note);
    assert_none(&cluster.cloud.creations());
    cluster
        .sim()
        .set_in(Kind::CloudIp, &ip, "fqdn", "localhost");
    cluster.provided_at_last("web").await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_name_that_leads_nowhere_keeps_no_load_balancer_from_following_the_nodes() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let ip = cluster.local_ip("localhost", None);
    let service = cluster.secure("web");
    let service = service.annotation(&key("cloudip-allocations"), &ip);
    cluster.make(service).await;
    cluster.provided("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    cluster
        .note("web", "ssl-domains", Some("nowhere.invalid"))
        .await;
    let told = cluster.failed("web").await;
    assert!(told.note.contains("nowhere.invalid"), "{}", told.note);
    cluster.join(3).await;
    cluster.serves("web", &[1, 2, 3]).await;
    let shown = cluster.shown("web").await;
    let valid = ("localhost".to_owned(), "valid".to_owned());
    assert_eq!(domains(&shown), [valid]);
    assert_none(&cluster.sim().outages(&id));
    cluster.finish().await;
}

/// The Go controller leaves the names there, and waits for them for ever.
#[tokio::test]
async fn leaving_https_clears_the_names_and_waits_for_none() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.make(cluster.secure("web")).await;
    cluster.provided("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    // One of them is not valid any more: that is no matter to somebody who wants none.
    cluster
        .sim()
        .change_in(Kind::LoadBalancer, &id, |balancer| {
            balancer["acme"]["domains"][0]["status"] = json!("invalid");
        });
    let start = Instant::now();
    cluster.note("web", "listener-protocol", Some("tcp")).await;
    cluster
        .shows("web", "it has no names", |shown| shown["acme"].is_null())
        .await;
    let shown = cluster.shown("web").await;
    assert_eq!(shown["https_redirect"], false);
    assert_eq!(shown["listeners"][0]["protocol"], "tcp");
    let path = format!("{BALANCERS}/{id}");
    let puts = cluster.writes().since(start).to(&path).method(&Method::PUT);
    assert_eq!(puts.len(), 1, "{}", puts.summary());
    assert_eq!(puts[0].body.as_ref().unwrap()["domains"], json!([]));
    cluster.marker().await;
    assert!(!ingress(&cluster.get("web").await).is_empty());

    // And back.
    cluster.note("web", "listener-protocol", None).await;
    cluster
        .shows("web", "its names are valid again", |shown| {
            let domains = domains(shown);
            !domains.is_empty() && domains.iter().all(|(_, status)| status == "valid")
        })
        .await;
    assert_none(&cluster.sim().outages(&id));
    cluster.finish().await;
}

/// Listings do not show names: the Go controller writes at every pass.
#[tokio::test]
async fn https_costs_one_read_for_each_load_balancer_and_no_write() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    for n in 0..3 {
        cluster.make(cluster.secure(&format!("web-{n}"))).await;
    }
    for n in 0..3 {
        cluster.provided(&format!("web-{n}")).await;
    }
    cluster.marker().await;
    drop(central);
    let start = Instant::now();
    let flags = cluster.flags().with("--load-balancer-resync-period=2s");
    let _central = cluster.central_with(flags).await;
    let listings = || {
        let calls = cluster.cloud.calls().since(start).to(BALANCERS);
        calls.filter(|call| call.took.is_some()).len()
    };
    eventually("all was looked at three times", AFTER_RETRIES, async || {
        listings() >= 3
    })
    .await;
    let seen = listings();
    let alone = cluster
        .cloud
        .calls()
        .since(start)
        .to("/1.0/load_balancers/*");
    assert!(alone.len() <= 3 * (seen + 1), "{}", alone.summary());
    let writes = cluster.writes().since(start);
    assert!(writes.is_empty(), "{}", writes.summary());
    cluster.finish().await;
}

/// The name of a Cloud IP changes: the certificate is to be for the new one.
#[tokio::test]
async fn a_cloud_ip_that_gets_another_name_has_a_certificate_for_that() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster.make(cluster.secure("web")).await;
    cluster.provided("web").await;
    let shown = cluster.shown("web").await;
    let (ip, fqdn) = (
        text(&shown["cloud_ips"][0]["id"]),
        text(&shown["cloud_ips"][0]["fqdn"]),
    );
    // The same address in another form.
    let address = text(&cluster.sim().get(Kind::CloudIp, &ip).unwrap()["public_ipv4"]);
    let bits = u32::from(address.parse::<std::net::Ipv4Addr>().unwrap());
    let reverse = format!("{}.{}", bits >> 24, bits & 0x00ff_ffff);
    cluster
        .sim()
        .set_in(Kind::CloudIp, &ip, "reverse_dns", reverse.as_str());
    let mut wanted = [reverse.clone(), fqdn.clone()];
    wanted.sort();
    cluster
        .shows("web", "both names are valid", |shown| {
            let domains = domains(shown);
            let names: Vec<&String> = domains.iter().map(|(name, _)| name).collect();
            names == wanted.iter().collect::<Vec<_>>()
                && domains.iter().all(|(_, status)| status == "valid")
        })
        .await;
    cluster
        .is("web", "says both", |service| {
            let status: Vec<String> = ingress(service)
                .iter()
                .map(|one| text(&one["hostname"]))
                .collect();
            status == [reverse.clone(), fqdn.clone()]
        })
        .await;
    cluster.finish().await;
}
