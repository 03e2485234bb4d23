//! What NodeBalancers refuse, and how the API says so.

use mooring_cloud_sim::linode::{Kind, Linode};
use serde_json::{Value, json};

use crate::cloud_sims::client::{Answer, send};
use crate::cloud_sims::node_balancers::{balancer, made, path, post, put, with_backends};

/// A body with the value at this JSON pointer changed.
pub(crate) fn with(body: &Value, pointer: &str, value: Value) -> Value {
    let mut body = body.clone();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    body.pointer_mut(parent).unwrap()[field] = value;
    body
}

/// The fields that an answer complains about; `""` for a reason without a field.
pub(crate) fn fields(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 400, "{answer:?}");
    let errors = answer.json()["errors"].clone();
    let errors = errors.as_array().unwrap().iter().map(|error| {
        assert!(error["reason"].is_string(), "{error}");
        error["field"].as_str().unwrap_or_default().to_owned()
    });
    errors.collect()
}

#[tokio::test]
async fn create_refuses_fields_that_are_missing_or_wrong() {
    let linode = with_backends().await;
    let good = balancer("ccm-1");
    made(&linode, "/nodebalancers", &balancer("taken")).await;
    let long = "x".repeat(33);
    for (pointer, value, field) in [
        ("/region", Value::Null, "region"),
        ("/region", json!("mars"), "region"),
        ("/label", json!("ab"), "label"),
        ("/label", json!(long), "label"),
        ("/label", json!("a b c"), "label"),
        ("/label", json!("a.b"), "label"),
        ("/label", json!("taken"), "label"),
        ("/client_conn_throttle", json!(21), "client_conn_throttle"),
        ("/client_conn_throttle", json!(-1), "client_conn_throttle"),
        ("/type", json!("huge"), "type"),
        ("/tags", json!("kubernetes"), "tags"),
        ("/tags", json!([""]), "tags[0]"),
        ("/tags", json!(["abc", "x".repeat(51)]), "tags[1]"),
        ("/firewall_id", json!(4711), "firewall_id"),
        ("/ipv4", json!("192.0.2.1"), ""),
        ("/ipv4", json!(""), ""),
        (
            "/backend_vpcs",
            json!([{ "subnet_id": 4711 }]),
            "backend_vpcs[0].subnet_id",
        ),
        ("/backend_vpcs", json!([{}]), "backend_vpcs[0].subnet_id"),
        ("/configs", json!({}), "configs"),
    ] {
        let body = with(&good, pointer, value);
        let refused = post(&linode, "/nodebalancers", &body).await;
        assert_eq!(fields(&refused), [field], "{body}");
    }
    let everything = json!({ "label": "a", "client_conn_throttle": 99, "tags": ["b"] });
    let refused = post(&linode, "/nodebalancers", &everything).await;
    let all = ["region", "label", "client_conn_throttle", "tags[0]"];
    assert_eq!(
        fields(&refused),
        all,
        "all that is wrong is reported at once"
    );
    assert_eq!(linode.all(Kind::NodeBalancer).len(), 1);
    let nulls = json!({ "region": "eu-central", "label": null, "tags": null, "unknown": 1 });
    assert_eq!(
        made(&linode, "/nodebalancers", &nulls).await["tags"],
        json!([])
    );
}

#[tokio::test]
async fn vpcs_refuse_ranges_outside_in_use_and_too_small() {
    let linode = with_backends().await;
    let vpc = linode.add_vpc("net");
    let subnet = linode.add_subnet(vpc, "default", "10.0.0.0/28");
    linode.add_vpc_address(vpc, subnet, 1, "10.0.0.5");
    let asked = |name: &str, at: Value| with(&balancer("ccm-1"), &format!("/{name}"), at);
    for (range, reason) in [
        ("10.0.1.0/30", "Must be in the subnet 10.0.0.0/28"),
        ("10.0.0.8/31", "Must be /30 or larger"),
        ("10.0.0.4/30", "10.0.0.4/30 is in use"),
        ("10.0.0.0/30", "10.0.0.0/30 is in use"),
        ("everything", "Must be an IPv4 range in CIDR notation"),
    ] {
        let at = json!([{ "subnet_id": subnet, "ipv4_range": range }]);
        let mut body = asked("backend_vpcs", at);
        body["configs"] = json!([]);
        let refused = post(&linode, "/nodebalancers", &body).await;
        assert_eq!(fields(&refused), ["backend_vpcs[0].ipv4_range"], "{range}");
        assert_eq!(refused.json()["errors"][0]["reason"], reason);
    }
    let mut body = asked("vpcs", json!([{ "subnet_id": subnet }]));
    body["configs"][0]["nodes"] = json!([
        { "label": "node-1", "address": "10.0.1.5:30000", "subnet_id": subnet },
    ]);
    let refused = post(&linode, "/nodebalancers", &body).await;
    assert_eq!(fields(&refused), ["configs[0].nodes[0].address"]);
    body["configs"][0]["nodes"][0]["address"] = json!("10.0.0.5:30000");
    made(&linode, "/nodebalancers", &body).await;
    body["label"] = json!("ccm-2");
    let refused = post(&linode, "/nodebalancers", &body).await;
    assert!(fields(&refused).contains(&"vpcs[0].ipv4_range".to_owned()));

    let front = json!([{ "subnet_id": subnet, "ipv6_range": "2600:3c03:e000::/64" }]);
    let refused = post(&linode, "/nodebalancers", &asked("frontend_vpcs", front)).await;
    let errors = refused.json()["errors"].to_string();
    assert!(errors.contains("NodeBalancer with frontend VPC IP must be premium"));
    assert!(errors.contains("No IPv6 subnets available in VPC."));
}

#[tokio::test]
async fn update_refuses_what_create_refuses() {
    let linode = with_backends().await;
    let a = made(&linode, "/nodebalancers", &balancer("ccm-a")).await;
    made(&linode, "/nodebalancers", &balancer("ccm-b")).await;
    for (body, field) in [
        (json!({ "label": "ccm-b" }), "label"),
        (json!({ "label": "" }), "label"),
        (
            json!({ "client_conn_throttle": 21 }),
            "client_conn_throttle",
        ),
        (
            json!({ "client_udp_sess_throttle": "1" }),
            "client_udp_sess_throttle",
        ),
        (json!({ "tags": ["ab"] }), "tags[0]"),
    ] {
        assert_eq!(
            fields(&put(&linode, &path(&a), &body).await),
            [field],
            "{body}"
        );
    }
    assert_eq!(
        put(&linode, &path(&a), &json!({ "label": "ccm-a" }))
            .await
            .status,
        200
    );
    let text = put(&linode, &path(&a), &json!("text")).await;
    assert_eq!(text.json()["errors"], json!([{ "reason": "Invalid JSON" }]));
    assert_eq!(
        put(&linode, "/nodebalancers/4711", &json!({})).await.status,
        404
    );
}

#[tokio::test]
async fn writes_do_not_count_as_listings() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let url = linode.url();
    for (method, path, limit) in [
        ("GET", "/v4/nodebalancers".to_owned(), "200"),
        ("POST", "/v4/nodebalancers".to_owned(), "1600"),
        ("GET", format!("/v4{}/firewalls", path(&shown)), "200"),
        ("GET", format!("/v4{}/stats", path(&shown)), "1600"),
        ("PUT", format!("/v4beta{}", path(&shown)), "1600"),
    ] {
        let answer = send(&url, method, &path, &json!({ "region": "eu-central" })).await;
        assert_eq!(answer.header("x-ratelimit-limit"), limit, "{method} {path}");
        assert_eq!(answer.header("content-type"), "application/json");
    }
}

/// A Linode without anything refuses with 404 whatever is asked of parts of nothing.
#[tokio::test]
async fn parts_of_nothing_are_not_found() {
    let linode = Linode::start().await.unwrap();
    for (method, path) in [
        ("GET", "/v4/nodebalancers/1"),
        ("DELETE", "/v4/nodebalancers/1"),
        ("GET", "/v4/nodebalancers/1/configs"),
        ("POST", "/v4/nodebalancers/1/configs"),
        ("POST", "/v4/nodebalancers/1/configs/1/rebuild"),
        ("GET", "/v4/nodebalancers/1/configs/1/nodes"),
        ("GET", "/v4/nodebalancers/1/firewalls"),
        ("GET", "/v4/nodebalancers/1/vpcs"),
        ("GET", "/v4/networking/firewalls/1"),
        ("PUT", "/v4/networking/firewalls/1/rules"),
        ("POST", "/v4/networking/firewalls/1/devices"),
        ("DELETE", "/v4/networking/firewalls/1/devices/1"),
        ("DELETE", "/v4/networking/reserved/ips/192.0.2.1"),
    ] {
        let body = if method == "GET" {
            Value::Null
        } else {
            json!({})
        };
        let answer = send(&linode.url(), method, path, &body).await;
        assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
        let not_found = json!({ "errors": [{ "reason": "Not found" }] });
        assert_eq!(answer.json(), not_found, "{method} {path}");
    }
}
