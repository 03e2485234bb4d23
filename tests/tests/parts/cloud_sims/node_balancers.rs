//! NodeBalancers, simulated: what the API shows, keeps and takes away.

use std::time::Duration;

use mooring_cloud_sim::linode::{Behaviour, Instance, Kind, Linode};
use mooring_cloud_sim::{Fault, When};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::cloud_sims::client::{Answer, ask, filtered, get, send, try_send};

/// Two Linodes with private addresses.
pub(crate) async fn with_backends() -> Linode {
    let linode = Linode::start().await.unwrap();
    for n in 1..=2 {
        let instance = Instance::labelled(&format!("n{n}"));
        let instance = instance.ipv4(&format!("192.168.128.{n}"));
        linode.add(instance.ipv6(&format!("2600:3c03::{n}")));
    }
    linode
}

pub(crate) async fn post(linode: &Linode, path: &str, body: &Value) -> Answer {
    send(&linode.url(), "POST", &format!("/v4{path}"), body).await
}

pub(crate) async fn put(linode: &Linode, path: &str, body: &Value) -> Answer {
    send(&linode.url(), "PUT", &format!("/v4{path}"), body).await
}

pub(crate) async fn delete(linode: &Linode, path: &str) -> Answer {
    send(&linode.url(), "DELETE", &format!("/v4{path}"), &Value::Null).await
}

pub(crate) async fn made(linode: &Linode, path: &str, body: &Value) -> Value {
    let answer = post(linode, path, body).await;
    assert_eq!(answer.status, 200, "{path} {body}: {answer:?}");
    answer.json()
}

pub(crate) async fn read(linode: &Linode, path: &str) -> Value {
    get(&linode.url(), &format!("/v4{path}")).await.json()
}

pub(crate) fn node(n: u8) -> Value {
    json!({ "label": format!("node-{n}"), "address": format!("192.168.128.{n}:30000"),
            "weight": 100, "mode": "accept" })
}

/// What the Go controller sends for a Service with one port.
pub(crate) fn balancer(label: &str) -> Value {
    json!({
        "label": label, "region": "eu-central", "client_conn_throttle": 0, "tags": ["kubernetes"],
        "type": "common",
        "configs": [{
            "port": 80, "protocol": "tcp", "proxy_protocol": "none", "algorithm": "roundrobin",
            "check": "connection", "check_interval": 5, "check_timeout": 3, "check_attempts": 2,
            "check_passive": true, "nodes": [node(1), node(2)],
        }],
    })
}

pub(crate) fn path(balancer: &Value) -> String {
    format!("/nodebalancers/{}", balancer["id"])
}

/// The first config of a NodeBalancer, and its path.
pub(crate) async fn first_config(linode: &Linode, balancer: &Value) -> (Value, String) {
    let configs = read(linode, &format!("{}/configs", path(balancer))).await;
    let config = configs["data"][0].clone();
    let path = format!("{}/configs/{}", path(balancer), config["id"]);
    (config, path)
}

#[tokio::test]
async fn create_makes_a_node_balancer_with_configs_and_nodes() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    assert_eq!(shown["label"], "ccm-1");
    let address = shown["ipv4"].as_str().unwrap();
    assert_eq!(
        shown["hostname"],
        format!("{}.ip.linodeusercontent.com", address.replace('.', "-"))
    );
    assert!(shown["ipv6"].as_str().unwrap().starts_with("2600:"));
    assert_eq!(
        shown["transfer"],
        json!({ "in": null, "out": null, "total": null })
    );
    assert_eq!(
        (&shown["type"], &shown["client_udp_sess_throttle"]),
        (&json!("common"), &json!(0))
    );
    let (config, config_path) = first_config(&linode, &shown).await;
    for (field, value) in [
        ("port", json!(80)),
        ("stickiness", json!("none")),
        ("cipher_suite", json!("recommended")),
        ("check_path", json!("")),
        ("ssl_cert", Value::Null),
        ("udp_check_port", json!(80)),
        ("udp_session_timeout", json!(16)),
        ("nodebalancer_id", shown["id"].clone()),
    ] {
        assert_eq!(config[field], value, "{field}");
    }
    let nodes = read(&linode, &format!("{config_path}/nodes")).await;
    assert_eq!(nodes["results"], 2);
    assert_eq!(nodes["data"][0]["address"], "192.168.128.1:30000");
    assert_eq!(nodes["data"][0]["vpc_config_id"], Value::Null);
    assert_eq!(read(&linode, &path(&shown)).await, shown);
    let stats = read(&linode, &format!("{}/stats", path(&shown))).await;
    assert!(stats["data"]["traffic"]["in"].is_array(), "{stats}");
}

#[tokio::test]
async fn filters_find_a_node_balancer_by_address_label_and_tag() {
    let linode = with_backends().await;
    let a = made(&linode, "/nodebalancers", &balancer("ccm-a")).await;
    made(&linode, "/nodebalancers", &balancer("ccm-b")).await;
    for (filter, count) in [
        (json!({ "ipv4": a["ipv4"] }), 1),
        (json!({ "ipv6": a["ipv6"] }), 1),
        (json!({ "label": "ccm-b" }), 1),
        (json!({ "tags": "kubernetes" }), 2),
        (json!({ "ipv4": "192.0.2.1" }), 0),
    ] {
        let filter = filter.to_string();
        let found = filtered(&linode.url(), "/v4/nodebalancers", &filter).await;
        assert_eq!(found.json()["results"], count, "{filter}");
    }
    let filter = r#"{"client_udp_sess_throttle":0}"#;
    let refused = filtered(&linode.url(), "/v4/nodebalancers", filter).await;
    assert_eq!(refused.status, 400);
    let paged = get(&linode.url(), "/v4/nodebalancers?page=1&page_size=25").await;
    assert_eq!((paged.status, &paged.json()["results"]), (200, &json!(2)));
}

#[tokio::test]
async fn update_changes_label_throttle_and_tags_alone() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let change = json!({
        "label": "ccm-2", "client_conn_throttle": 20, "tags": ["b-tag", "a-tag", "b-tag"],
        "ipv4": "192.0.2.1", "type": "premium", "region": "us-east",
    });
    let changed = put(&linode, &path(&shown), &change).await.json();
    assert_eq!(changed["client_conn_throttle"], 20);
    assert_eq!(changed["tags"], json!(["b-tag", "a-tag"]));
    for field in ["ipv4", "type", "region", "hostname"] {
        assert_eq!(changed[field], shown[field], "{field}");
    }
    linode.behave(Behaviour {
        sorts_tags: true,
        ..Behaviour::default()
    });
    let tags = json!({ "tags": ["b-tag", "a-tag"] });
    let changed = put(&linode, &path(&shown), &tags).await.json();
    assert_eq!(changed["tags"], json!(["a-tag", "b-tag"]));
    assert_eq!(changed["label"], "ccm-2");
}

#[tokio::test]
async fn rebuild_keeps_nodes_with_an_id_and_replaces_the_others() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let (_, config) = first_config(&linode, &shown).await;
    let nodes = format!("{config}/nodes");
    let before = read(&linode, &nodes).await["data"].clone();
    let mut kept = node(1);
    kept["id"] = before[0]["id"].clone();
    let body = json!({ "port": 8080, "protocol": "http", "stickiness": "table",
                       "nodes": [kept, node(2)] });
    let rebuilt = post(&linode, &format!("{config}/rebuild"), &body).await;
    let rebuilt = rebuilt.json();
    assert_eq!(
        (
            &rebuilt["port"],
            &rebuilt["stickiness"],
            &rebuilt["check_interval"]
        ),
        (&json!(8080), &json!("table"), &json!(5))
    );
    let after = read(&linode, &nodes).await["data"].clone();
    assert_eq!(after[0]["id"], before[0]["id"]);
    assert_ne!(after[1]["id"], before[1]["id"]);
    assert_eq!(after[1]["address"], before[1]["address"]);

    let empty = json!({ "nodes": [] });
    let rebuilt = post(&linode, &format!("{config}/rebuild"), &empty).await;
    assert_eq!(
        rebuilt.json()["nodes_status"],
        json!({ "up": 0, "down": 0 })
    );
    assert_eq!(read(&linode, &nodes).await["results"], 0);
}

#[tokio::test]
async fn create_config_ignores_nodes() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let configs = format!("{}/configs", path(&shown));
    let body = json!({ "port": 53, "protocol": "udp", "nodes": [node(1)] });
    let udp = made(&linode, &configs, &body).await;
    for (field, value) in [
        ("stickiness", json!("session")),
        ("check_passive", json!(false)),
        ("cipher_suite", json!("none")),
        ("check_timeout", json!(30)),
        ("check_attempts", json!(3)),
        ("nodes_status", json!({ "up": 0, "down": 0 })),
    ] {
        assert_eq!(udp[field], value, "{field}");
    }
    let nodes = format!("{configs}/{}/nodes", udp["id"]);
    assert_eq!(read(&linode, &nodes).await["results"], 0);
    let plain = json!({ "label": "node-1", "address": "192.168.128.1:30000" });
    assert_eq!(made(&linode, &nodes, &plain).await["mode"], "none");
}

#[tokio::test]
async fn nodes_are_created_changed_and_deleted_one_by_one() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let (_, config) = first_config(&linode, &shown).await;
    let nodes = format!("{config}/nodes");
    let mut other_port = node(2);
    other_port["address"] = json!("[2600:3c03::2]:30001");
    let new = made(&linode, &nodes, &other_port).await;
    let one = format!("{nodes}/{}", new["id"]);
    let changed = put(&linode, &one, &json!({ "mode": "drain", "weight": 1 })).await;
    let changed = changed.json();
    assert_eq!(
        (&changed["mode"], &changed["weight"], &changed["address"]),
        (&json!("drain"), &json!(1), &other_port["address"])
    );
    let gone = delete(&linode, &one).await;
    assert_eq!((gone.status, gone.json()), (200, json!({})));
    assert_eq!(delete(&linode, &one).await.status, 404);
}

#[tokio::test]
async fn certificates_are_shown_by_fingerprint_and_keys_nowhere() {
    let linode = with_backends().await;
    let pair = rcgen::generate_simple_self_signed(["example.org".to_owned()]).unwrap();
    let (cert, key) = (pair.cert.pem(), pair.signing_key.serialize_pem());
    let mut body = balancer("ccm-1");
    body["configs"][0]["protocol"] = json!("https");
    body["configs"][0]["ssl_cert"] = json!(cert);
    body["configs"][0]["ssl_key"] = json!(key);
    let shown = made(&linode, "/nodebalancers", &body).await;
    let (config, config_path) = first_config(&linode, &shown).await;
    assert_eq!(
        (&config["ssl_cert"], &config["ssl_key"]),
        (&json!("<REDACTED>"), &json!("<REDACTED>"))
    );
    assert_eq!(config["ssl_commonname"], "rcgen self signed cert");
    let fingerprint = config["ssl_fingerprint"].as_str().unwrap();
    assert_eq!(fingerprint.split(':').count(), 20, "{fingerprint}");

    let other = rcgen::generate_simple_self_signed(["example.org".to_owned()]).unwrap();
    let renewed = json!({ "ssl_cert": other.cert.pem(),
                          "ssl_key": other.signing_key.serialize_pem() });
    let renewed = put(&linode, &config_path, &renewed).await.json();
    assert_ne!(renewed["ssl_fingerprint"], config["ssl_fingerprint"]);
    let kept = put(&linode, &config_path, &json!({ "check_interval": 6 })).await;
    assert_eq!(kept.json()["ssl_fingerprint"], renewed["ssl_fingerprint"]);
    let plain = put(&linode, &config_path, &json!({ "protocol": "tcp" })).await;
    assert_eq!(plain.json()["ssl_fingerprint"], "");

    let calls = linode.calls();
    assert_eq!(calls[0].body.as_ref().unwrap()["label"], "ccm-1");
    let key = key.lines().nth(1).unwrap();
    assert!(!format!("{calls:?}").contains(key));
    assert!(!format!("{:?}", linode.all(Kind::Config)).contains(key));
}

#[tokio::test]
async fn node_balancers_take_their_parts_with_them() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let (_, config) = first_config(&linode, &shown).await;
    let deleted = delete(&linode, &path(&shown)).await;
    assert_eq!((deleted.status, deleted.json()), (200, json!({})));
    for gone in [&path(&shown), &config, &format!("{config}/nodes")] {
        let answer = get(&linode.url(), &format!("/v4{gone}")).await;
        assert_eq!(answer.status, 404, "{gone}");
    }
    assert_eq!(delete(&linode, &path(&shown)).await.status, 404);
    for kind in [Kind::NodeBalancer, Kind::Config, Kind::Node] {
        assert_eq!(linode.all(kind), [Value::Null; 0], "{kind:?}");
    }
}

#[tokio::test]
async fn listings_and_checks_lag_as_they_are_told_to() {
    let linode = with_backends().await;
    linode.behave(Behaviour {
        listed_after: Duration::from_secs(3600),
        checked_after: Duration::from_millis(50),
        ..Behaviour::default()
    });
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    assert_eq!(read(&linode, "/nodebalancers").await["results"], 0);
    assert_eq!(read(&linode, &path(&shown)).await["id"], shown["id"]);
    linode.behave(Behaviour::default());
    assert_eq!(read(&linode, "/nodebalancers").await["results"], 1);
    let (_, config) = first_config(&linode, &shown).await;
    eventually(
        "the check finds both nodes up",
        Duration::from_secs(10),
        async || read(&linode, &config).await["nodes_status"] == json!({ "up": 2, "down": 0 }),
    )
    .await;
    let node = linode.all(Kind::Node)[0]["id"].as_u64().unwrap();
    linode.set_node_status(node, "DOWN");
    let status = read(&linode, &config).await["nodes_status"].clone();
    assert_eq!(status, json!({ "up": 1, "down": 1 }));
}

#[tokio::test]
async fn a_create_takes_effect_although_its_answer_is_lost() {
    let linode = with_backends().await;
    let creates = When::write("**/nodebalancers");
    linode
        .faults()
        .inject(creates.clone().times(1), Fault::reset().executed());
    linode.kill_switch(creates, 2, true, || {});
    let url = linode.url();
    for label in ["ccm-1", "ccm-2"] {
        let path = "/v4/nodebalancers";
        assert!(
            try_send(&url, "POST", path, &balancer(label))
                .await
                .is_none()
        );
    }
    assert_eq!(linode.all(Kind::NodeBalancer).len(), 2);
    let control = async |path: &str| ask(&url, "GET", path, &[]).await.unwrap().json();
    let state = control("/_sim/state").await;
    let node = &state["node_balancers"][1]["configs"][0]["nodes"][0];
    assert_eq!(node["address"], "192.168.128.1:30000");
    assert_eq!(control("/_sim/calls").await[0]["body"]["label"], "ccm-1");

    let copy = Linode::start().await.unwrap();
    copy.load(&state).unwrap();
    let copied = ask(&copy.url(), "GET", "/_sim/state", &[]).await.unwrap();
    assert_eq!(copied.json()["node_balancers"], state["node_balancers"]);
}
