//! What annotations do, and how they are refused.

use std::time::Instant;

use http::Method;
use mooring_common::names::reasons;
use mooring_test_cluster::objects::ServiceBuilder;
use serde_json::{Value, json};

use crate::brightbox_services::cluster::{
    CloudCluster, LoadBalancerCloud as _, assert_none, ingress,
};
use crate::brightbox_services::forwarding::ports;
use crate::brightbox_services::key;

/// The annotation of the check's interval that the Go controller reads.
const AWS_INTERVAL: &str = "service.beta.kubernetes.io/aws-load-balancer-healthcheck-interval";

/// An annotation, its value, what it changes of a load balancer, to what, and what that is without it.
type Effect = (&'static str, &'static str, &'static str, Value, Value);

fn effects() -> Vec<Effect> {
    vec![
        (
            "policy",
            "source-address",
            "/policy",
            json!("source-address"),
            json!("least-connections"),
        ),
        (
            "listener-protocol",
            "tcp",
            "/listeners/0/protocol",
            json!("tcp"),
            json!("http"),
        ),
        (
            "listener-idle-timeout",
            "60000",
            "/listeners/0/timeout",
            json!(60_000),
            json!(50_000),
        ),
        (
            "listener-proxy-protocol",
            "v2-ssl",
            "/listeners/0/proxy_protocol",
            json!("v2-ssl"),
            Value::Null,
        ),
        (
            "healthcheck-healthy-threshold",
            "5",
            "/healthcheck/threshold_up",
            json!(5),
            json!(3),
        ),
        (
            "healthcheck-unhealthy-threshold",
            "6",
            "/healthcheck/threshold_down",
            json!(6),
            json!(3),
        ),
        (
            "healthcheck-protocol",
            "tcp",
            "/healthcheck/type",
            json!("tcp"),
            json!("http"),
        ),
        (
            "healthcheck-request",
            "/live",
            "/healthcheck/request",
            json!("/live"),
            json!("/healthz"),
        ),
        (
            "healthcheck-timeout",
            "2000",
            "/healthcheck/timeout",
            json!(2000),
            json!(5000),
        ),
        (
            "healthcheck-interval",
            "7000",
            "/healthcheck/interval",
            json!(7000),
            json!(5000),
        ),
    ]
}

fn at(shown: &Value, path: &str) -> Value {
    shown.pointer(path).cloned().unwrap_or_default()
}

/// The whole request, as brightbox.md 7.7 has it for one port.
#[tokio::test]
async fn without_annotations_the_request_is_that_of_the_go_controller() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    let node_port = ports(&service)[0].node_port;
    let body = cluster.cloud.creations().bodies().remove(0);
    assert_eq!(body["name"], json!(cluster.named("web")));
    assert_eq!(body["nodes"].as_array().map(Vec::len), Some(2), "{body}");
    let listener = &body["listeners"][0];
    assert_eq!(
        (&listener["protocol"], &listener["in"], &listener["out"]),
        (&json!("http"), &json!(80), &json!(node_port))
    );
    let check = &body["healthcheck"];
    assert_eq!(
        (&check["type"], &check["port"], &check["request"]),
        (&json!("http"), &json!(node_port), &json!("/healthz"))
    );
    assert_eq!(body["https_redirect"], json!(false), "{body}");
    assert!(body.get("domains").is_none(), "{body}");
    cluster.finish().await;
}

#[tokio::test]
async fn each_annotation_is_in_the_request_that_makes_a_load_balancer() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    // A check by TCP has no path, and listeners of TCP have one in the Go controller too.
    let chosen = |effect: &Effect| !["healthcheck-protocol"].contains(&effect.0);
    let effects: Vec<Effect> = effects().into_iter().filter(chosen).collect();
    let mut notes: Vec<(&str, &str)> = effects.iter().map(|effect| (effect.0, effect.1)).collect();
    notes.push(("healthcheck-protocol", "http"));
    cluster.provide_with("web", &notes).await;
    let body = cluster.cloud.creations().bodies().remove(0);
    for (end, _, path, wanted, _) in effects {
        assert_eq!(at(&body, path), wanted, "{end}: {body}");
    }
    assert_eq!(at(&body, "/healthcheck/type"), "http");
    cluster.finish().await;
}

/// The Go controller ignores most of these changes, and never takes an option back.
#[tokio::test]
async fn an_annotation_that_changes_alone_costs_one_write_and_its_removal_another() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    for (end, value, path, wanted, without) in effects() {
        for (note, wanted) in [(Some(value), wanted), (None, without)] {
            let start = Instant::now();
            cluster.note("web", end, note).await;
            let what = format!("{end} is {note:?}");
            cluster
                .shows("web", &what, |shown| at(shown, path) == wanted)
                .await;
            cluster.marker().await;
            let writes = cluster.cloud.writes_on(&id).since(start);
            assert_eq!(writes.len(), 1, "{what}:\n{}", writes.summary());
        }
    }
    assert_none(&cluster.sim().outages(&id));
    // Connections end where the protocol changes, and nowhere else.
    let mut warned = cluster.warnings("web").await;
    warned.retain(|note| note.reason != reasons::DISRUPTIVE_CHANGE);
    assert_none(&warned);
    cluster.finish().await;
}

/// The key of the Go controller is one of AWS; its vendor's examples have keys that it ignores.
#[tokio::test]
async fn the_keys_of_the_go_controller_and_of_its_examples_are_read() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster
        .make(cluster.service("old").annotation(AWS_INTERVAL, "4000"))
        .await;
    cluster.provided("old").await;
    assert_eq!(cluster.shown("old").await["healthcheck"]["interval"], 4000);
    // The own key wins.
    cluster
        .note("old", "healthcheck-interval", Some("6000"))
        .await;
    cluster
        .shows("old", "its interval is that of the own key", |shown| {
            shown["healthcheck"]["interval"] == 6000
        })
        .await;
    cluster
        .provide_with("example", &[("idle-timeout", "70000")])
        .await;
    let shown = cluster.shown("example").await;
    assert_eq!(shown["listeners"][0]["timeout"], 70_000);
    cluster.note("example", "buffer-size", Some("8192")).await;
    cluster
        .told(
            "example",
            reasons::QUESTIONABLE_ANNOTATION,
            &key("buffer-size"),
        )
        .await;
    cluster.finish().await;
}

/// brightbox.md, 7.1: what cannot be done is refused before anything is made.
#[tokio::test]
async fn what_cannot_be_understood_is_refused_before_anything_is_made() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("policy", "magic-routing")], "policy"),
        (&[("listener-protocol", "gopher")], "listener-protocol"),
        (
            &[("listener-proxy-protocol", "v1-ssl")],
            "listener-proxy-protocol",
        ),
        (
            &[("listener-idle-timeout", "4999")],
            "listener-idle-timeout",
        ),
        (
            &[
                ("listener-protocol", "tcp"),
                ("ssl-domains", "a.example.com"),
            ],
            "ssl-domains",
        ),
        (
            &[
                ("listener-protocol", "tcp"),
                ("ssl-ports", "80"),
                ("ssl-domains", "a.example.com"),
            ],
            "ssl-ports",
        ),
        (&[("ssl-domains", "a.example.com")], "ssl-domains"),
        (&[("healthcheck-request", "fred")], "healthcheck-request"),
        (&[("healthcheck-protocol", "https")], "healthcheck-protocol"),
        (&[("healthcheck-interval", "-1")], "healthcheck-interval"),
        (&[("healthcheck-interval", "0x56")], "healthcheck-interval"),
        (
            &[("healthcheck-timeout", "4294967296")],
            "healthcheck-timeout",
        ),
        (
            &[("cloudip-allocations", "cip-123-45")],
            "cloudip-allocations",
        ),
    ];
    for (n, (notes, blamed)) in cases.iter().enumerate() {
        let name = format!("web-{n}");
        cluster.make(cluster.noted(&name, notes)).await;
        let told = cluster.failed(&name).await;
        assert!(told.note.contains(&key(blamed)), "{notes:?}: {}", told.note);
        assert_none(&ingress(&cluster.get(&name).await));
    }
    let both = cluster.noted("both", &[("cloudip-allocations", "cip-found")]);
    cluster.make(both.requested_address("192.0.2.1")).await;
    let told = cluster.failed("both").await;
    assert!(told.note.contains("loadBalancerIP"), "{}", told.note);
    assert_none(&cluster.writes());
    cluster.finish().await;
}

#[tokio::test]
async fn what_no_load_balancer_of_brightbox_can_do_is_refused() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = ServiceBuilder::load_balancer(&cluster.namespace, "dns");
    cluster
        .make(service.port(53, 5353).port_of("UDP", 53, 5353))
        .await;
    let told = cluster.failed("dns").await;
    assert!(told.note.contains("UDP"), "{}", told.note);

    let service = cluster.service("portless").without_node_ports();
    cluster.make(service).await;
    cluster.failed("portless").await;
    assert_none(&cluster.writes());

    // One that is served keeps what it has.
    cluster.provide("sticky").await;
    let id = cluster.serves("sticky", &[1, 2]).await.id;
    let start = Instant::now();
    cluster
        .respecify("sticky", json!({ "sessionAffinity": "ClientIP" }))
        .await;
    let told = cluster.failed("sticky").await;
    assert!(told.note.contains("sessionAffinity"), "{}", told.note);
    cluster.marker().await;
    assert_none(&cluster.cloud.writes_on(&id).since(start));
    cluster.serves("sticky", &[1, 2]).await;
    cluster.finish().await;
}

/// All that is wrong is told at once, and the Service can be deleted as it is.
#[tokio::test]
async fn all_that_is_wrong_is_told_at_once_and_what_there_is_stays() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    let start = Instant::now();
    let wrong = [
        ("policy", "magic-routing"),
        ("healthcheck-timeout", "soon"),
        ("listener-proxy-protocol", "v3"),
        ("healthcheck-request", "fred"),
    ];
    let all: Value = wrong
        .iter()
        .map(|(end, value)| (key(end), json!(value)))
        .collect();
    let patch = json!({ "metadata": { "annotations": all } });
    cluster.patch("web", &patch).await;
    let told = cluster.failed("web").await;
    for (end, value) in wrong {
        assert!(told.note.contains(&key(end)), "{end}: {}", told.note);
        assert!(told.note.contains(&format!("{value:?}")), "{}", told.note);
    }
    cluster.marker().await;
    assert_none(&cluster.cloud.writes_on(&id).since(start));
    cluster.serves("web", &[1, 2]).await;
    assert_eq!(cluster.warnings("web").await.len(), 1);
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert!(!cluster.cloud.has(&id));
    let deletions = cluster.writes().method(&Method::DELETE);
    assert!(deletions.len() >= 4, "{}", deletions.summary());
    cluster.finish().await;
}
