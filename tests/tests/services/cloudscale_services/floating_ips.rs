//! Floating IPs: assigned last, never to two Services, and never a reason to keep one.

use std::time::{Duration, Instant};

use mooring_cloud_sim::cloudscale::Kind;
use mooring_common::names::reasons;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::cloudscale_services::cluster::{CloudCluster, SOON, assert_none};
use crate::cloudscale_services::key;

const V4: &str = "203.0.113.9";
const V6: &str = "2001:db8::7";

fn put(cluster: &CloudCluster) {
    for network in [format!("{V4}/32"), format!("{V6}/128")] {
        cluster
            .sim()
            .put(Kind::FloatingIp, json!({ "network": network }));
    }
}

async fn create(cluster: &CloudCluster, name: &str, ips: &str) {
    let service = cluster.service(name).annotation(&key("floating-ips"), ips);
    cluster.make(service).await;
}

fn holder(cluster: &CloudCluster, ip: &str) -> Value {
    cluster.sim().get(Kind::FloatingIp, ip).unwrap()["load_balancer"]["uuid"].clone()
}

/// In whatever form they are written; and a restart writes nothing.
#[tokio::test]
async fn b9_floating_ips_are_assigned_as_the_last_step_and_once() {
    let cluster = CloudCluster::start().await;
    put(&cluster);
    let central = cluster.central().await;
    create(&cluster, "web", r#"["203.0.113.9", "2001:DB8:0::7/128"]"#).await;
    cluster.provided("web").await;
    let uuid = cluster.uuid("web").await;
    assert_eq!(holder(&cluster, V4), json!(uuid));
    assert_eq!(holder(&cluster, V6), json!(uuid));
    let writes = cluster.writes();
    let last: Vec<_> = writes[writes.len() - 2..].iter().collect();
    let all = last
        .iter()
        .all(|call| call.path.starts_with("/v1/floating-ips/"));
    assert!(all, "{}", writes.summary());
    drop(central);
    let start = Instant::now();
    let _central = cluster.central().await;
    cluster.marker().await;
    assert_eq!(holder(&cluster, V4), json!(uuid));
    assert_none(&cluster.writes().since(start).to("/v1/floating-ips/*"));
    cluster.finish().await;
}

/// The Go controller's own tests look for these words within 5 s.
#[tokio::test]
async fn a_floating_ip_that_another_service_claims_is_refused_within_5_seconds() {
    let cluster = CloudCluster::start().await;
    put(&cluster);
    let central = cluster.central().await;
    create(&cluster, "first", r#"["203.0.113.9/32"]"#).await;
    cluster.provided("first").await;
    let uuid = cluster.uuid("first").await;
    let start = Instant::now();
    create(&cluster, "second", r#"["203.0.113.9"]"#).await;
    let words = "assigned to another service";
    let reason = reasons::SYNC_LOAD_BALANCER_FAILED;
    let told = cluster.told("second", reason, words).await;
    assert!(
        told.note.contains(V4) && told.note.contains("first"),
        "{told:?}"
    );
    eventually("the log says so", SOON, async || {
        central.process.log().contains(words)
    })
    .await;
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    cluster.marker().await;
    assert_eq!(holder(&cluster, V4), json!(uuid));

    // B4: that keeps nobody from deleting either.
    cluster.delete("second").await;
    cluster.gone("second").await;
    assert_eq!(holder(&cluster, V4), json!(uuid));
    cluster.finish().await;
}

/// As soon as nobody else claims it.
#[tokio::test]
async fn a_floating_ip_that_is_given_up_goes_to_who_waits_for_it() {
    let cluster = CloudCluster::start().await;
    put(&cluster);
    let _central = cluster.central().await;
    create(&cluster, "first", r#"["203.0.113.9/32"]"#).await;
    cluster.provided("first").await;
    create(&cluster, "second", r#"["203.0.113.9/32"]"#).await;
    cluster.failed("second").await;
    cluster.delete("first").await;
    cluster.gone("first").await;
    cluster.provided_at_last("second").await;
    let uuid = cluster.uuid("second").await;
    assert_eq!(holder(&cluster, V4), json!(uuid));
    cluster.finish().await;
}

#[tokio::test]
async fn b4_a_deletion_is_hindered_neither_by_a_conflict_nor_by_wrong_annotations() {
    let cluster = CloudCluster::start().await;
    put(&cluster);
    let _central = cluster.central().await;
    create(&cluster, "first", r#"["203.0.113.9/32"]"#).await;
    cluster.provided("first").await;
    for (name, end, value) in [
        ("conflict", "floating-ips", r#"["203.0.113.9/32"]"#),
        ("unreadable", "floating-ips", "[[["),
        ("mode", "ip-mode", "nonsense"),
    ] {
        cluster.provide(name).await;
        cluster.annotate(name, &key(end), Some(value)).await;
        cluster.failed(name).await;
        cluster.delete(name).await;
        cluster.gone(name).await;
    }
    assert_eq!(cluster.sim().all(Kind::LoadBalancer).len(), 1);
    cluster.finish().await;
}

/// A2: whoever may write a Service may write any floating IP into its annotation.
#[tokio::test]
async fn a_floating_ip_that_somebody_uses_is_taken_only_where_the_operator_permits_it() {
    let cluster = CloudCluster::start().await;
    let theirs = json!({ "name": "theirs" });
    let theirs = cluster.sim().put(Kind::LoadBalancer, theirs);
    let server = cluster.sim().all(Kind::Server)[0]["uuid"].clone();
    let on_balancer = json!({ "network": format!("{V4}/32"), "load_balancer": theirs });
    let on_server = json!({ "network": format!("{V6}/128"), "server": { "uuid": server } });
    cluster.sim().put(Kind::FloatingIp, on_balancer);
    cluster.sim().put(Kind::FloatingIp, on_server);
    let before = cluster.sim().all(Kind::FloatingIp);
    let central = cluster.central().await;
    for (name, ip) in [("v4", V4), ("v6", V6)] {
        create(&cluster, name, &json!([ip]).to_string()).await;
        let told = cluster.failed(name).await;
        for words in [
            "--take-over-namespaces",
            "takeOverNamespaces",
            &cluster.namespace,
            ip,
        ] {
            assert!(told.note.contains(words), "{words}: {told:?}");
        }
    }
    cluster.marker().await;
    assert_eq!(cluster.sim().all(Kind::FloatingIp), before);
    drop(central);

    let namespace = &cluster.namespace;
    let flags = cluster
        .flags()
        .with(format!("--take-over-namespaces=other,{namespace}"));
    let _central = cluster.central_with(flags).await;
    for (name, ip) in [("v4", V4), ("v6", V6)] {
        cluster.provided_at_last(name).await;
        let uuid = cluster.uuid(name).await;
        assert_eq!(holder(&cluster, ip), json!(uuid));
    }
    cluster.finish().await;
}

/// E15: what a listing has shown to be free may lead to somebody's server by now.
#[tokio::test]
async fn a_floating_ip_that_was_given_to_a_server_meanwhile_is_not_taken_from_it() {
    let cluster = CloudCluster::start().await;
    put(&cluster);
    let _central = cluster.central().await;
    create(&cluster, "web", r#"["203.0.113.9"]"#).await;
    cluster.provided("web").await;
    // Nothing is listed anew for this.
    let server = cluster.sim().all(Kind::Server)[0]["uuid"].clone();
    let server = json!({ "uuid": server });
    cluster.sim().set_in(Kind::FloatingIp, V6, "server", server);
    let before = cluster.sim().get(Kind::FloatingIp, V6);
    let both = json!([V4, V6]).to_string();
    cluster
        .annotate("web", &key("floating-ips"), Some(&both))
        .await;
    let told = cluster.failed("web").await;
    assert!(told.note.contains("the server"), "{told:?}");
    assert_eq!(cluster.sim().get(Kind::FloatingIp, V6), before);
    cluster.finish().await;
}
