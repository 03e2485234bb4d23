//! What the real API does late, and two writes at a time: as a test says, and over the wire.

use std::time::Duration;

use mooring_cloud_sim::linode::{Behaviour, Kind, Limits, Linode};
use mooring_cloud_sim::{Fault, When};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::cloud_sims::client::{ask, filtered, send, try_send};
use crate::cloud_sims::node_balancers::{
    balancer, delete, made, path, post, put, read, with_backends,
};

const LONG: Duration = Duration::from_secs(3600);
const LIMIT: Duration = Duration::from_secs(10);

async fn control(linode: &Linode, method: &str, path: &str, wish: &Value) -> Value {
    let answer = send(&linode.url(), method, path, wish).await;
    assert!(answer.status < 300, "{answer:?}");
    serde_json::from_str(&answer.body).unwrap_or_default()
}

#[tokio::test]
async fn a_deleted_node_balancer_stays_in_listings_as_long_as_it_is_told_to() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    linode.behave(Behaviour {
        delisted_after: LONG,
        ..Behaviour::default()
    });
    delete(&linode, &path(&shown)).await;
    let filter = json!({ "ipv4": shown["ipv4"] }).to_string();
    let found = filtered(&linode.url(), "/v4/nodebalancers", &filter).await;
    assert_eq!(found.json()["data"][0]["id"], shown["id"]);
    assert_eq!(
        read(&linode, &path(&shown)).await["errors"][0]["reason"],
        "Not found"
    );
    assert_eq!(delete(&linode, &path(&shown)).await.status, 404);
    assert_eq!(linode.all(Kind::NodeBalancer), [Value::Null; 0]);
    linode.behave(Behaviour::default());
    assert_eq!(read(&linode, "/nodebalancers").await["results"], 0);
}

#[tokio::test]
async fn a_filter_for_an_address_finds_a_new_node_balancer_later_than_a_listing() {
    let linode = with_backends().await;
    let wish = json!({ "found_after": 3600 });
    control(&linode, "POST", "/_sim/behaviour", &wish).await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let found = async |filter: Value| {
        let found = filtered(&linode.url(), "/v4/nodebalancers", &filter.to_string()).await;
        found.json()["results"].clone()
    };
    assert_eq!(found(json!({ "ipv4": shown["ipv4"] })).await, 0);
    assert_eq!(found(json!({ "ipv6": shown["ipv6"] })).await, 0);
    assert_eq!(found(json!({ "tags": "kubernetes" })).await, 1);
    assert_eq!(read(&linode, "/nodebalancers").await["results"], 1);
    linode.behave(Behaviour::default());
    assert_eq!(found(json!({ "ipv4": shown["ipv4"] })).await, 1);
}

#[tokio::test]
async fn a_detached_device_is_listed_as_long_as_it_is_told_to() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let firewall = linode.put_firewall(&json!({
        "label": "fw-1", "entities": [{ "type": "nodebalancer", "id": shown["id"] }],
    }));
    let devices = format!("/networking/firewalls/{firewall}/devices");
    let device = read(&linode, &devices).await["data"][0]["id"].clone();
    let wish = json!({ "detached_after": 3600 });
    control(&linode, "POST", "/_sim/behaviour", &wish).await;
    let one = format!("{devices}/{device}");
    assert_eq!(delete(&linode, &one).await.status, 200);
    assert_eq!(read(&linode, &devices).await["data"][0]["id"], device);
    assert_eq!(delete(&linode, &one).await.status, 404);
    let attached = read(&linode, &format!("{}/firewalls", path(&shown))).await;
    assert_eq!(attached["results"], 0, "the NodeBalancer has no firewall");
    control(
        &linode,
        "POST",
        "/_sim/behaviour",
        &json!({ "detached_after": 0 }),
    )
    .await;
    assert_eq!(read(&linode, &devices).await["results"], 0);
}

#[tokio::test]
async fn writes_on_one_node_balancer_at_the_same_time_are_counted() {
    let linode = with_backends().await;
    linode.limit(Limits::none());
    let first = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let second = made(&linode, "/nodebalancers", &balancer("ccm-2")).await;
    let firewall = linode.put_firewall(&json!({ "label": "fw-1" }));
    let tags = json!({ "tags": ["kubernetes"] });
    put(&linode, &path(&first), &tags).await;
    let devices = format!("/networking/firewalls/{firewall}/devices");
    let device = json!({ "type": "nodebalancer", "id": second["id"] });
    let device = made(&linode, &devices, &device).await;
    delete(&linode, &format!("{devices}/{}", device["id"])).await;
    let writes = async |balancer: &Value| {
        let all = control(&linode, "GET", "/_sim/writes", &Value::Null).await;
        all[balancer["id"].to_string()].clone()
    };
    assert_eq!(writes(&first).await, json!({ "all": 1, "most_at_once": 1 }));
    assert_eq!(
        writes(&second).await,
        json!({ "all": 2, "most_at_once": 1 })
    );

    let held = linode
        .faults()
        .inject(When::write("**/configs"), Fault::hang());
    let url = linode.url();
    let slow = format!("/v4{}/configs", path(&first));
    let slow = tokio::spawn(async move { try_send(&url, "POST", &slow, &json!({})).await });
    eventually("one write is under way", LIMIT, async || held.hits() == 1).await;
    put(&linode, &path(&first), &tags).await;
    put(&linode, &path(&second), &tags).await;
    held.lift();
    assert!(slow.await.unwrap().is_none(), "the connection was reset");
    put(&linode, &path(&first), &tags).await;
    assert_eq!(writes(&first).await, json!({ "all": 4, "most_at_once": 2 }));
    let second = second["id"].as_u64().unwrap();
    assert_eq!(linode.writes()[&second].most_at_once, 1);
}

#[tokio::test]
async fn every_write_can_fail_before_and_after_its_effect_be_torn_and_be_late() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let url = linode.url();
    let throttle = async || read(&linode, &path(&shown)).await["client_conn_throttle"].clone();
    for (fault, answered, effect) in [
        (json!({ "status": 503 }), true, false),
        (
            json!({ "status": 400, "body": { "errors": [{ "reason": "Linode busy." }] } }),
            true,
            false,
        ),
        (json!({ "status": 504, "executed": true }), true, true),
        (json!({ "fault": "dropped" }), false, false),
        (json!({ "fault": "dropped", "executed": true }), false, true),
        (json!({ "fault": "torn" }), true, true),
    ] {
        let before = throttle().await.as_u64().unwrap();
        let mut wish = fault.clone();
        wish["writes"] = json!(true);
        control(&linode, "POST", "/_sim/faults", &wish).await;
        let body = json!({ "client_conn_throttle": before + 1 });
        let answer = try_send(&url, "PUT", &format!("/v4{}", path(&shown)), &body).await;
        assert_eq!(answer.is_some(), answered, "{fault}");
        assert_eq!(throttle().await, before + u64::from(effect), "{fault}");
        if let Some(busy) = answer.filter(|_| fault["status"] == 400) {
            assert_eq!(busy.json()["errors"][0]["reason"], "Linode busy.");
        }
    }
    linode
        .faults()
        .inject(When::write("**/nodebalancers/*").times(1), Linode::busy());
    let busy = put(
        &linode,
        &path(&shown),
        &json!({ "client_conn_throttle": 19 }),
    )
    .await;
    assert_eq!(
        (busy.status, &busy.json()["errors"][0]["reason"]),
        (400, &json!("Linode busy."))
    );
    assert_ne!(throttle().await, 19);
    let late = json!({ "fault": "late", "delay": 0.05, "writes": true });
    control(&linode, "POST", "/_sim/faults", &late).await;
    let nobody_waits = async {
        let body = json!({ "client_conn_throttle": 20 });
        try_send(&url, "PUT", &format!("/v4{}", path(&shown)), &body).await
    };
    assert!(
        tokio::time::timeout(Duration::from_millis(20), nobody_waits)
            .await
            .is_err()
    );
    eventually("the write takes effect", LIMIT, async || {
        throttle().await == 20
    })
    .await;
}

#[tokio::test]
async fn what_is_in_v4beta_alone_is_not_in_v4_if_it_is_told_so() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let reserved = linode.reserve("eu-central", None);
    control(
        &linode,
        "POST",
        "/_sim/behaviour",
        &json!({ "beta_apart": true }),
    )
    .await;
    let url = linode.url();
    for path in [
        "/networking/reserved/ips".to_owned(),
        format!("/networking/reserved/ips/{reserved}"),
        format!("{}/vpcs", path(&shown)),
    ] {
        for (version, status) in [("v4", 404), ("v4beta", 200)] {
            let path = format!("/{version}{path}");
            assert_eq!(
                crate::cloud_sims::client::get(&url, &path).await.status,
                status,
                "{path}"
            );
        }
    }
    let mut body = balancer("ccm-2");
    body["ipv4"] = json!(reserved);
    let plain = made(&linode, "/nodebalancers", &body).await;
    assert_ne!(plain["ipv4"], reserved, "v4 does not know the field");
    body["label"] = json!("ccm-3");
    let beta = send(&url, "POST", "/v4beta/nodebalancers", &body).await;
    assert_eq!(beta.json()["ipv4"], reserved);
    let refused = send(&url, "POST", "/_sim/behaviour", &json!({ "patience": 1 })).await;
    assert_eq!(refused.status, 400);
    assert!(ask(&url, "GET", "/_sim/writes", &[]).await.is_some());
    assert_eq!(
        post(&linode, "/networking/reserved/ips", &json!({}))
            .await
            .status,
        404
    );
}
