//! New Linodes: as the Go controller makes one that holds addresses; and what refusals say in their headers.

use std::time::Duration;

use http::StatusCode;
use mooring_cloud_sim::linode::{Access, Behaviour, Grants, Instance, Limits, Linode};
use mooring_cloud_sim::{Fault, When};
use serde_json::{Value, json};

use crate::cloud_sims::client::{Answer, filtered, get, send};
use crate::cloud_sims::node_balancers::{made, post, read};
use crate::cloud_sims::node_balancers_strict::{fields, with};

const INSTANCES: &str = "/linode/instances";
const HOLDER: &str = "linode-ccm-ip-holder-eu-central";
const SECRET: &str = "a-password-of-the-simulation";

/// linode.md, 4.4: what the Go controller sends.
fn holder() -> Value {
    json!({
        "region": "eu-central", "type": "g6-nanode-1", "label": HOLDER,
        "image": "linode/ubuntu22.04", "root_pass": SECRET, "booted": false,
    })
}

#[tokio::test]
async fn holder_of_addresses_is_made_and_found_by_its_label() {
    let linode = Linode::start().await.unwrap();
    let shown = made(&linode, INSTANCES, &holder()).await;
    for (field, wanted) in [
        ("label", HOLDER),
        ("status", "provisioning"),
        ("type", "g6-nanode-1"),
        ("image", "linode/ubuntu22.04"),
        ("region", "eu-central"),
    ] {
        assert_eq!(shown[field], wanted, "{field}");
    }
    assert_eq!(shown["ipv4"].as_array().map(Vec::len), Some(1));
    assert!(shown["ipv6"].as_str().unwrap().ends_with("/128"));
    let filter = json!({ "label": HOLDER }).to_string();
    let found = filtered(&linode.url(), "/v4/linode/instances", &filter)
        .await
        .json();
    assert_eq!(found["data"][0]["id"], shown["id"]);
    assert_eq!(found["data"][0]["status"], "offline", "it is not booted");
    let ips = format!("{INSTANCES}/{}/ips", shown["id"]);
    let more = made(&linode, &ips, &json!({ "type": "ipv4", "public": true })).await;
    assert_ne!(more["address"], shown["ipv4"][0]);
    let told = format!("{} {:?}", linode.calls().summary(), linode.calls().bodies());
    assert!(!told.contains(SECRET), "{told}");
    assert!(!read(&linode, INSTANCES).await.to_string().contains(SECRET));
}

#[tokio::test]
async fn linode_runs_once_it_is_provisioned() {
    let linode = Linode::start().await.unwrap();
    linode.behave(Behaviour {
        provisioned_after: Duration::from_secs(3600),
        ..Behaviour::default()
    });
    let firewall = linode.put_firewall(&json!({ "label": "fence" }));
    let mut body = with(&holder(), "/booted", json!(true));
    body["private_ip"] = json!(true);
    body["tags"] = json!(["k8s", "k8s"]);
    body["firewall_id"] = json!(firewall);
    let shown = made(&linode, INSTANCES, &body).await;
    assert_eq!(shown["ipv4"][1], "192.168.128.1");
    assert_eq!(shown["tags"], json!(["k8s"]));
    let one = format!("{INSTANCES}/{}", shown["id"]);
    assert_eq!(read(&linode, &one).await["status"], "provisioning");
    let devices = read(
        &linode,
        &format!("/networking/firewalls/{firewall}/devices"),
    )
    .await;
    assert_eq!(devices["data"][0]["entity"]["id"], shown["id"]);
    linode.behave(Behaviour::default());
    assert_eq!(read(&linode, &one).await["status"], "running");
    linode.set(shown["id"].as_u64().unwrap(), "status", "offline");
    assert_eq!(read(&linode, &one).await["status"], "offline", "it is once");
}

#[tokio::test]
async fn wrong_linodes_are_refused() {
    let linode = Linode::start().await.unwrap();
    linode.add(Instance::labelled("taken"));
    for (pointer, value, field) in [
        ("/region", json!("moon"), "region"),
        ("/region", Value::Null, "region"),
        ("/type", Value::Null, "type"),
        ("/label", json!("ab"), "label"),
        ("/label", json!("x".repeat(65)), "label"),
        ("/label", json!("a b c"), "label"),
        ("/label", json!("taken"), "label"),
        ("/root_pass", Value::Null, "root_pass"),
        ("/root_pass", json!("short"), "root_pass"),
        ("/booted", json!("no"), "booted"),
        ("/tags", json!(["abc", "ab"]), "tags[1]"),
        ("/firewall_id", json!(7), "firewall_id"),
    ] {
        let refused = post(&linode, INSTANCES, &with(&holder(), pointer, value.clone())).await;
        assert_eq!(
            (refused.status, fields(&refused)),
            (400, vec![field.to_owned()]),
            "{pointer} {value}"
        );
    }
    let bare = json!({ "region": "eu-central", "type": "g6-nanode-1", "booted": true });
    assert_eq!(fields(&post(&linode, INSTANCES, &bare).await), ["booted"]);
    let tag = post(&linode, INSTANCES, &with(&holder(), "/tags", json!(["ab"]))).await;
    assert_eq!(
        tag.json()["errors"][0]["reason"],
        "Tag 'ab' must be between 3 and 50 characters"
    );
    linode.allow(Access {
        grants: Some(Grants {
            adds_linodes: false,
            ..Grants::default()
        }),
        ..Access::default()
    });
    assert_eq!(post(&linode, INSTANCES, &holder()).await.status, 403);
    linode.allow(Access {
        grants: Some(Grants::default()),
        ..Access::default()
    });
    let own = made(&linode, INSTANCES, &holder()).await;
    let seen = read(&linode, INSTANCES).await;
    assert_eq!(
        (&seen["results"], &seen["data"][0]["id"]),
        (&json!(1), &own["id"])
    );
}

#[tokio::test]
async fn new_linodes_are_counted_apart() {
    let linode = Linode::start().await.unwrap();
    let mut last = post(&linode, INSTANCES, &json!({})).await;
    assert_eq!(last.header("x-ratelimit-limit"), "20");
    for _ in 0..20 {
        last = post(&linode, INSTANCES, &json!({})).await;
    }
    assert_eq!(
        (last.status, last.header("x-ratelimit-remaining")),
        (429, "0")
    );
    let wait: u64 = last.header("retry-after").parse().unwrap();
    assert!((1..=15).contains(&wait), "{wait}");
    let listed = get(&linode.url(), "/v4/linode/instances").await;
    assert_eq!(
        (listed.status, listed.header("x-ratelimit-limit")),
        (200, "200")
    );
    linode.limit(Limits::none());
    assert_eq!(post(&linode, INSTANCES, &holder()).await.status, 200);
}

/// A header, or nothing.
fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer
        .headers
        .get(name)
        .and_then(|value| value.to_str().ok())
}

#[tokio::test]
async fn answers_of_faults_have_the_headers_of_the_api() {
    let linode = Linode::start().await.unwrap();
    let url = linode.url();
    let struck = async |fault: Fault| {
        linode.faults().inject(When::everything().times(1), fault);
        get(&url, "/v4/nodebalancers").await
    };
    let refused = struck(Fault::status(StatusCode::SERVICE_UNAVAILABLE)).await;
    for (name, wanted) in [
        ("x-ratelimit-limit", "200"),
        ("x-ratelimit-remaining", "200"),
        ("x-oauth-scopes", "*"),
        ("x-accepted-oauth-scopes", "nodebalancers:read_only"),
    ] {
        assert_eq!(header(&refused, name), Some(wanted), "{name}");
    }
    assert_eq!(header(&refused, "retry-after"), None);
    let busy = struck(Linode::busy()).await;
    assert_eq!(header(&busy, "x-ratelimit-limit"), Some("200"));
    let unknown = struck(Fault::status(StatusCode::UNAUTHORIZED)).await;
    assert_eq!(header(&unknown, "x-oauth-scopes"), Some("unknown"));

    let limited = struck(Fault::status(StatusCode::TOO_MANY_REQUESTS)).await;
    assert_eq!(header(&limited, "x-ratelimit-remaining"), Some("0"));
    let wait: u64 = limited.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let wait = Duration::from_secs(7);
    let now = jiff::Timestamp::now().as_second();
    let limited = struck(Fault::status(StatusCode::TOO_MANY_REQUESTS).retry_after(wait)).await;
    assert_eq!(limited.header("retry-after"), "7");
    let reset: i64 = limited.header("x-ratelimit-reset").parse().unwrap();
    assert!((now + 7..=now + 17).contains(&reset), "{now} {reset}");

    // What stands before the API knows nothing of limits.
    let between = struck(Fault::html(StatusCode::BAD_GATEWAY)).await;
    assert_eq!(header(&between, "x-ratelimit-limit"), None);
    let nginx = struck(Fault::html(StatusCode::BAD_REQUEST).header("Server", "nginx")).await;
    assert_eq!(header(&nginx, "server"), Some("nginx"));
    let one = send(&url, "DELETE", "/v4/nodebalancers/7", &Value::Null).await;
    assert_eq!(
        header(&one, "x-ratelimit-limit"),
        Some("1600"),
        "nothing was counted"
    );
}
