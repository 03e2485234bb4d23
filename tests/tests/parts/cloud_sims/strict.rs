//! What the load balancers of cloudscale.ch refuse.

use mooring_cloud_sim::cloudscale::{Cloudscale, Kind};
use serde_json::{Value, json};

use crate::cloud_sims::client::{get, send};
use crate::cloud_sims::load_balancers::{
    SUBNET, balanced, listener_of, made, member, monitor_of, patch, pool_of, post, quick,
};

/// What is sent, with one field changed; `Null` takes it away.
fn with(body: &Value, field: &str, value: Value) -> Value {
    let mut body = body.clone();
    if value.is_null() {
        body.as_object_mut().unwrap().remove(field);
    } else {
        body[field] = value;
    }
    body
}

async fn refused(cloud: &Cloudscale, path: &str, body: Value, field: &str) -> Value {
    let answer = post(cloud, path, body.clone()).await;
    assert_eq!(answer.status, 400, "{path} {body}: {answer:?}");
    let answer = answer.json();
    assert!(answer.get(field).is_some(), "{path} {body}: {answer}");
    answer[field].clone()
}

#[tokio::test]
async fn what_is_missing_unknown_or_wrong_is_not_made() {
    let cloud = quick().await;
    let (balancer, pool) = balanced(&cloud, "lb").await;
    let before = cloud.snapshot();
    let members = format!("/pools/{}/members", pool["uuid"].as_str().unwrap());
    let nobody = json!("00000000-0000-4000-8000-000000004711");
    let lb = json!({ "name": "x", "flavor": "lb-standard", "zone": "rma1", "vip_addresses": [] });
    let monitor = with(&monitor_of(&pool), "type", json!("http"));
    let kinds = [
        ("", lb, vec!["name", "flavor"]),
        (
            "/pools",
            pool_of(&balancer),
            vec!["name", "load_balancer", "algorithm", "protocol"],
        ),
        (
            &members,
            member("10.0.0.9"),
            vec!["name", "protocol_port", "address", "subnet"],
        ),
        (
            "/listeners",
            listener_of(&pool, 81),
            vec!["name", "pool", "protocol", "protocol_port"],
        ),
        ("/health-monitors", monitor, vec!["pool", "type"]),
    ];
    for (path, body, required) in &kinds {
        for field in required {
            let complaint = refused(&cloud, path, with(body, field, Value::Null), field).await;
            assert_eq!(complaint, json!(["This field is required."]));
        }
        refused(&cloud, path, with(body, "surprise", json!(1)), "surprise").await;
        refused(&cloud, path, with(body, "tags", json!({ "a": 1 })), "tags").await;
    }
    let wrong = [
        (0, "name", vec![json!(""), json!(7)]),
        (0, "flavor", vec![json!("lb-huge")]),
        (0, "zone", vec![json!("mars1")]),
        (
            0,
            "vip_addresses",
            vec![json!([{}]), json!([{ "subnet": "x" }]), json!({})],
        ),
        (1, "algorithm", vec![json!("random")]),
        (1, "protocol", vec![json!("sctp")]),
        (1, "load_balancer", vec![json!("x"), nobody.clone()]),
        (
            2,
            "protocol_port",
            vec![json!(0), json!(65_536), json!("80")],
        ),
        (2, "monitor_port", vec![json!(0)]),
        (2, "address", vec![json!("10.0.0"), json!("10.0.0.1/32")]),
        (2, "enabled", vec![json!("yes")]),
        (3, "protocol", vec![json!("proxy")]),
        (3, "pool", vec![nobody]),
        (
            3,
            "allowed_cidrs",
            vec![json!(["10.0.0.1"]), json!(["10.0.0.0/33"]), json!("x")],
        ),
        (
            3,
            "timeout_client_data_ms",
            vec![json!(0), json!(-1), json!(1.5)],
        ),
        (4, "type", vec![json!("smtp")]),
        (4, "delay_s", vec![json!(0)]),
        (4, "http", vec![json!([]), json!("GET")]),
    ];
    for (index, field, values) in wrong {
        let (path, body, _) = &kinds[index];
        for value in values {
            refused(&cloud, path, with(body, field, value), field).await;
        }
    }
    let unparsable = send(&cloud.url(), "POST", "/v1/load-balancers", &json!("text")).await;
    assert_eq!(unparsable.status, 400);
    let nowhere = "/pools/00000000-0000-4000-8000-000000004711/members";
    assert_eq!(post(&cloud, nowhere, member("10.0.0.9")).await.status, 404);
    assert_eq!(cloud.snapshot(), before, "nothing was made");
}

#[tokio::test]
async fn what_is_there_once_is_not_made_twice() {
    let cloud = quick().await;
    let (balancer, pool) = balanced(&cloud, "lb").await;
    let members = format!("/pools/{}/members", pool["uuid"].as_str().unwrap());
    refused(&cloud, &members, member("10.0.0.1"), "detail").await;
    refused(&cloud, "/listeners", listener_of(&pool, 80), "detail").await;
    refused(&cloud, "/health-monitors", monitor_of(&pool), "pool").await;
    let second = made(&cloud, "/pools", pool_of(&balancer)).await;
    refused(&cloud, "/listeners", listener_of(&second, 80), "detail").await;
    let udp = with(&listener_of(&second, 80), "protocol", json!("udp"));
    made(&cloud, "/listeners", udp).await;
    let (_, elsewhere) = balanced(&cloud, "other").await;
    made(&cloud, "/listeners", listener_of(&elsewhere, 81)).await;
}

#[tokio::test]
async fn one_attribute_is_changed_at_a_time_and_only_some_can_be() {
    let cloud = quick().await;
    let (balancer, pool) = balanced(&cloud, "lb").await;
    let before = cloud.snapshot();
    let listener = cloud.all(Kind::Listener).remove(0);
    let monitor = cloud.all(Kind::HealthMonitor).remove(0);
    let member = cloud.all(Kind::Member).remove(0);
    for (object, change) in [
        (&balancer, json!({ "name": "a", "tags": {} })),
        (&balancer, json!({ "flavor": "lb-standard" })),
        (&balancer, json!({ "zone": "rma1" })),
        (&balancer, json!({ "vip_addresses": [] })),
        (&balancer, json!({ "name": "" })),
        (&balancer, json!({ "status": "running" })),
        (&pool, json!({ "algorithm": "source_ip" })),
        (&pool, json!({ "protocol": "udp" })),
        (&member, json!({ "address": "10.0.0.7" })),
        (&member, json!({ "monitor_port": 1 })),
        (&listener, json!({ "protocol_port": 81 })),
        (&listener, json!({ "timeout_client_data_ms": 0 })),
        (&listener, json!({ "allowed_cidrs": ["everyone"] })),
        (&monitor, json!({ "type": "http" })),
        (&monitor, json!({ "delay_s": 3, "timeout_s": 3 })),
        (&monitor, json!({ "http": { "method": "GET" } })),
    ] {
        let answer = patch(&cloud, object, change.clone()).await;
        assert_eq!(answer.status, 400, "{change}: {answer:?}");
    }
    let two = patch(&cloud, &monitor, json!({ "delay_s": 3, "timeout_s": 3 })).await;
    let detail = two.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("To keep changes atomic"), "{detail}");
    assert_eq!(cloud.snapshot(), before, "nothing was changed");
}

#[tokio::test]
async fn http_options_go_together_or_not_at_all() {
    let cloud = quick().await;
    let (balancer, _) = balanced(&cloud, "lb").await;
    let pool = made(&cloud, "/pools", pool_of(&balancer)).await;
    let http = |options: Value| {
        let monitor = with(&monitor_of(&pool), "type", json!("http"));
        with(&monitor, "http", options)
    };
    let old = json!({ "version": "1.0", "host": "example.org" });
    refused(&cloud, "/health-monitors", http(old), "host").await;
    let livez = json!({
        "method": "GET", "url_path": "/livez", "version": "1.0", "host": null,
        "expected_codes": ["200"],
    });
    let monitor = made(&cloud, "/health-monitors", http(livez.clone())).await;
    assert_eq!(monitor["http"], livez);
    for (options, status) in [
        (json!({ "host": "example.org" }), 400),
        (json!({ "version": "1.1" }), 400),
        (json!({ "method": "FETCH" }), 400),
        (json!({ "url_path": "livez" }), 400),
        (json!({ "expected_codes": [] }), 400),
        (json!({ "expected_codes": ["ok"] }), 400),
        (json!({ "surprise": 1 }), 400),
        (
            json!({ "method": "HEAD", "url_path": "/", "expected_codes": ["200-204"] }),
            204,
        ),
        (json!({ "host": null }), 204),
        (json!({}), 204),
    ] {
        let answer = patch(&cloud, &monitor, json!({ "http": options })).await;
        assert_eq!(answer.status, status, "{options}: {answer:?}");
    }
    let shown = cloud
        .get(Kind::HealthMonitor, monitor["uuid"].as_str().unwrap())
        .unwrap();
    assert_eq!(
        (&shown["http"]["method"], &shown["http"]["version"]),
        (&json!("HEAD"), &json!("1.0"))
    );
}

#[tokio::test]
async fn floating_ips_move_between_public_load_balancers_of_their_region() {
    let cloud = quick().await;
    cloud.put(Kind::FloatingIp, json!({ "network": "203.0.113.9/32" }));
    cloud.put(
        Kind::FloatingIp,
        json!({ "network": "203.0.113.10/32", "type": "global" }),
    );
    let new = |name: &str, zone: &str, vips: Value| json!({ "name": name, "flavor": "lb-standard", "zone": zone, "vip_addresses": vips });
    let a = made(&cloud, "", new("a", "rma1", json!([]))).await;
    let b = made(&cloud, "", new("b", "rma1", json!([]))).await;
    let far = made(&cloud, "", new("far", "lpg1", json!([]))).await;
    let inside = json!([{ "subnet": SUBNET }, { "subnet": SUBNET, "address": "10.0.0.9" }]);
    let inside = made(&cloud, "", new("inside", "rma1", inside)).await;
    assert_eq!(inside["vip_addresses"][0]["subnet"]["uuid"], SUBNET);
    assert_eq!(inside["vip_addresses"][1]["address"], "10.0.0.9");
    let (regional, global) = ("203.0.113.9", "203.0.113.10");
    let nobody = json!({ "uuid": "00000000-0000-4000-8000-000000004711" });
    for (ip, balancer, status) in [
        (regional, &a, 204),
        (regional, &b, 204),
        (regional, &far, 400),
        (global, &far, 204),
        (global, &inside, 400),
        (regional, &nobody, 400),
        ("203.0.113.11", &a, 404),
    ] {
        let body = json!({ "load_balancer": balancer["uuid"] });
        let path = format!("/v1/floating-ips/{ip}");
        let answer = send(&cloud.url(), "PATCH", &path, &body).await;
        assert_eq!(answer.status, status, "{ip} to {balancer}: {answer:?}");
    }
    let held = get(&cloud.url(), "/v1/floating-ips").await.json();
    assert_eq!(
        (
            &held[0]["load_balancer"]["name"],
            &held[1]["load_balancer"]["name"]
        ),
        (&json!("b"), &json!("far"))
    );
    let body = json!({ "network": "203.0.113.12/32" });
    assert_eq!(
        send(&cloud.url(), "POST", "/v1/floating-ips", &body)
            .await
            .status,
        405
    );
}
