//! Floating IPs: assigned last, never to two Services, and never a reason to keep one.

use std::time::{Duration, Instant};

use mooring_common::names::reasons;
use mooring_tests::cloud_sim::cloudscale::Kind;
use mooring_tests::wait::eventually;
use serde_json::{Value, json};

use crate::cloudscale_services::key;
use crate::cloudscale_services::stage::{SOON, Stage, assert_none};

const V4: &str = "203.0.113.9";
const V6: &str = "2001:db8::7";

fn put(stage: &Stage) {
    for network in [format!("{V4}/32"), format!("{V6}/128")] {
        stage
            .sim()
            .put(Kind::FloatingIp, json!({ "network": network }));
    }
}

async fn create(stage: &Stage, name: &str, ips: &str) {
    let service = stage.service(name).annotation(&key("floating-ips"), ips);
    stage.make(service).await;
}

fn holder(stage: &Stage, ip: &str) -> Value {
    stage.sim().get(Kind::FloatingIp, ip).unwrap()["load_balancer"]["uuid"].clone()
}

/// In whatever form they are written; and a restart writes nothing.
#[tokio::test]
async fn b9_floating_ips_are_assigned_as_the_last_step_and_once() {
    let stage = Stage::enter().await;
    put(&stage);
    let central = stage.central().await;
    create(&stage, "web", r#"["203.0.113.9", "2001:DB8:0::7/128"]"#).await;
    stage.provided("web").await;
    let uuid = stage.uuid("web").await;
    assert_eq!(holder(&stage, V4), json!(uuid));
    assert_eq!(holder(&stage, V6), json!(uuid));
    let writes = stage.writes();
    let last: Vec<_> = writes[writes.len() - 2..].iter().collect();
    let all = last
        .iter()
        .all(|call| call.path.starts_with("/v1/floating-ips/"));
    assert!(all, "{}", writes.summary());
    drop(central);
    let start = Instant::now();
    let _central = stage.central().await;
    stage.marker().await;
    assert_eq!(holder(&stage, V4), json!(uuid));
    assert_none(&stage.writes().since(start).to("/v1/floating-ips/*"));
    stage.leave().await;
}

/// The Go controller's own tests look for these words within 5 s.
#[tokio::test]
async fn a_floating_ip_that_another_service_claims_is_refused_within_5_seconds() {
    let stage = Stage::enter().await;
    put(&stage);
    let central = stage.central().await;
    create(&stage, "first", r#"["203.0.113.9/32"]"#).await;
    stage.provided("first").await;
    let uuid = stage.uuid("first").await;
    let start = Instant::now();
    create(&stage, "second", r#"["203.0.113.9"]"#).await;
    let words = "assigned to another service";
    let reason = reasons::SYNC_LOAD_BALANCER_FAILED;
    let told = stage.told("second", reason, words).await;
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
    stage.marker().await;
    assert_eq!(holder(&stage, V4), json!(uuid));

    // B4: that keeps nobody from deleting either.
    stage.delete("second").await;
    stage.gone("second").await;
    assert_eq!(holder(&stage, V4), json!(uuid));
    stage.leave().await;
}

/// As soon as nobody else claims it.
#[tokio::test]
async fn a_floating_ip_that_is_given_up_goes_to_who_waits_for_it() {
    let stage = Stage::enter().await;
    put(&stage);
    let _central = stage.central().await;
    create(&stage, "first", r#"["203.0.113.9/32"]"#).await;
    stage.provided("first").await;
    create(&stage, "second", r#"["203.0.113.9/32"]"#).await;
    stage.failed("second").await;
    stage.delete("first").await;
    stage.gone("first").await;
    stage.provided_at_last("second").await;
    let uuid = stage.uuid("second").await;
    assert_eq!(holder(&stage, V4), json!(uuid));
    stage.leave().await;
}

#[tokio::test]
async fn b4_a_deletion_is_hindered_neither_by_a_conflict_nor_by_wrong_annotations() {
    let stage = Stage::enter().await;
    put(&stage);
    let _central = stage.central().await;
    create(&stage, "first", r#"["203.0.113.9/32"]"#).await;
    stage.provided("first").await;
    for (name, end, value) in [
        ("conflict", "floating-ips", r#"["203.0.113.9/32"]"#),
        ("unreadable", "floating-ips", "[[["),
        ("mode", "ip-mode", "nonsense"),
    ] {
        stage.provide(name).await;
        stage.annotate(name, &key(end), Some(value)).await;
        stage.failed(name).await;
        stage.delete(name).await;
        stage.gone(name).await;
    }
    assert_eq!(stage.sim().all(Kind::LoadBalancer).len(), 1);
    stage.leave().await;
}

/// A2: whoever may write a Service may write any floating IP into its annotation.
#[tokio::test]
async fn a_floating_ip_that_somebody_uses_is_taken_only_where_the_operator_permits_it() {
    let stage = Stage::enter().await;
    let theirs = json!({ "name": "theirs" });
    let theirs = stage.sim().put(Kind::LoadBalancer, theirs);
    let server = stage.sim().all(Kind::Server)[0]["uuid"].clone();
    let on_balancer = json!({ "network": format!("{V4}/32"), "load_balancer": theirs });
    let on_server = json!({ "network": format!("{V6}/128"), "server": { "uuid": server } });
    stage.sim().put(Kind::FloatingIp, on_balancer);
    stage.sim().put(Kind::FloatingIp, on_server);
    let before = stage.sim().all(Kind::FloatingIp);
    let central = stage.central().await;
    for (name, ip) in [("v4", V4), ("v6", V6)] {
        create(&stage, name, &json!([ip]).to_string()).await;
        let told = stage.failed(name).await;
        for words in [
            "--take-over-namespaces",
            "takeOverNamespaces",
            &stage.namespace,
            ip,
        ] {
            assert!(told.note.contains(words), "{words}: {told:?}");
        }
    }
    stage.marker().await;
    assert_eq!(stage.sim().all(Kind::FloatingIp), before);
    drop(central);

    let namespace = &stage.namespace;
    let flags = stage
        .flags()
        .with(format!("--take-over-namespaces=other,{namespace}"));
    let _central = stage.central_with(flags).await;
    for (name, ip) in [("v4", V4), ("v6", V6)] {
        stage.provided_at_last(name).await;
        let uuid = stage.uuid(name).await;
        assert_eq!(holder(&stage, ip), json!(uuid));
    }
    stage.leave().await;
}

/// E15: what a listing has shown to be free may lead to somebody's server by now.
#[tokio::test]
async fn a_floating_ip_that_was_given_to_a_server_meanwhile_is_not_taken_from_it() {
    let stage = Stage::enter().await;
    put(&stage);
    let _central = stage.central().await;
    create(&stage, "web", r#"["203.0.113.9"]"#).await;
    stage.provided("web").await;
    // Nothing is listed anew for this.
    let server = stage.sim().all(Kind::Server)[0]["uuid"].clone();
    let server = json!({ "uuid": server });
    stage.sim().set_in(Kind::FloatingIp, V6, "server", server);
    let before = stage.sim().get(Kind::FloatingIp, V6);
    let both = json!([V4, V6]).to_string();
    stage
        .annotate("web", &key("floating-ips"), Some(&both))
        .await;
    let told = stage.failed("web").await;
    assert!(told.note.contains("the server"), "{told:?}");
    assert_eq!(stage.sim().get(Kind::FloatingIp, V6), before);
    stage.leave().await;
}
