//! Linode's API, simulated.

use std::time::Duration;

use mooring_cloud_sim::TOKEN;
use mooring_cloud_sim::linode::{Instance, Limits, Linode};
use serde_json::{Value, json};

use crate::cloud_sims::client::{ask, filtered, get};

async fn with(count: usize) -> Linode {
    let linode = Linode::start().await.unwrap();
    for index in 0..count {
        linode.add(Instance::labelled(&format!("n{index}")).ipv4("192.0.2.1"));
    }
    linode
}

fn labels(page: &Value) -> Vec<&str> {
    let rows = page["data"].as_array().expect("data");
    rows.iter()
        .map(|row| row["label"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn an_instance_has_what_the_api_shows() {
    let linode = with(0).await;
    let instance = Instance::labelled("n1")
        .ipv4("192.0.2.1")
        .ipv4("192.168.128.7");
    let id = linode.add(instance.ipv6("2600:3c03::1").kind("g6-nanode-1").tag("k8s"));
    let one = get(&linode.url(), &format!("/v4/linode/instances/{id}")).await;
    assert_eq!(
        (one.status, one.header("content-type")),
        (200, "application/json")
    );
    let shown = one.json();
    assert_eq!(shown["id"], json!(id));
    assert_eq!(shown["ipv4"], json!(["192.0.2.1", "192.168.128.7"]));
    assert_eq!(shown["ipv6"], "2600:3c03::1/128");
    assert_eq!(
        (&shown["type"], &shown["status"]),
        (&json!("g6-nanode-1"), &json!("running"))
    );
    assert!(shown["host_uuid"].is_string() && shown["region"].is_string());
    let beta = get(&linode.url(), &format!("/v4beta/linode/instances/{id}")).await;
    assert_eq!(beta.json(), shown);
    let listed = get(&linode.url(), "/v4/linode/instances").await.json();
    assert_eq!(
        listed,
        json!({ "data": [shown], "page": 1, "pages": 1, "results": 1 })
    );

    linode.set(id, "status", "offline");
    let one = get(&linode.url(), &format!("/v4/linode/instances/{id}")).await;
    assert_eq!(one.json()["status"], "offline");
    assert!(linode.remove(id));
    let gone = get(&linode.url(), &format!("/v4/linode/instances/{id}")).await;
    assert_eq!(gone.status, 404);
    assert_eq!(
        gone.json(),
        json!({ "errors": [{ "reason": "Not found" }] })
    );
}

#[tokio::test]
async fn pages_are_as_large_as_asked() {
    let linode = with(60).await;
    let page =
        async |query: &str| get(&linode.url(), &format!("/v4/linode/instances{query}")).await;
    let second = page("?page=2&page_size=25").await.json();
    assert_eq!(labels(&second)[0], "n25");
    assert_eq!(labels(&second).len(), 25);
    let numbers = [&second["page"], &second["pages"], &second["results"]];
    assert_eq!(numbers, [2, 3, 60]);
    let last = page("?page=3&page_size=25").await.json();
    assert_eq!(labels(&last).len(), 10);
    assert_eq!(
        labels(&page("").await.json()).len(),
        60,
        "100 is the default"
    );
    for (query, status, field) in [
        ("?page_size=24", 400, "page_size"),
        ("?page_size=501", 400, "page_size"),
        ("?page_size=all", 400, "page_size"),
        ("?page=0", 400, "page"),
        ("?page=x", 400, "page"),
    ] {
        let refused = page(query).await;
        assert_eq!(refused.status, status, "{query}");
        assert_eq!(refused.json()["errors"][0]["field"], field, "{query}");
    }
    assert_eq!(page("?page=4&page_size=25").await.status, 404);
    let none = with(0).await;
    let empty = get(&none.url(), "/v4/linode/instances").await.json();
    assert_eq!(
        empty,
        json!({ "data": [], "page": 1, "pages": 1, "results": 0 })
    );
}

#[tokio::test]
async fn filters_choose_rows() {
    let linode = with(0).await;
    linode.add(Instance::labelled("a").tag("k8s-one").with("group", "x"));
    linode.add(Instance::labelled("b").tag("k8s-one").tag("other"));
    linode.add(Instance::labelled("c").tag("other").ipv4("192.0.2.9"));
    for (filter, expected) in [
        ("{}", vec!["a", "b", "c"]),
        (r#"{"label":"b"}"#, vec!["b"]),
        (r#"{"tags":{"+contains":"k8s"}}"#, vec!["a", "b"]),
        (r#"{"tags":"other"}"#, vec!["b", "c"]),
        (r#"{"tags":{"+neq":"other"}}"#, vec!["a"]),
        (r#"{"ipv4":"192.0.2.9"}"#, vec!["c"]),
        (r#"{"+or":[{"label":"a"},{"label":"c"}]}"#, vec!["a", "c"]),
        (
            r#"{"+and":[{"tags":"other"},{"label":{"+gt":"b"}}]}"#,
            vec!["c"],
        ),
        (
            r#"{"id":{"+gte":10000002},"label":{"+neq":"c"}}"#,
            vec!["b"],
        ),
        (
            r#"{"+order_by":"label","+order":"desc"}"#,
            vec!["c", "b", "a"],
        ),
    ] {
        let page = filtered(&linode.url(), "/v4/linode/instances", filter).await;
        assert_eq!(labels(&page.json()), expected, "{filter}");
    }
    for (filter, reason) in [
        (r#"{"hypervisor":"kvm"}"#, "Cannot filter on hypervisor"),
        (
            r#"{"+or":[{"hypervisor":"kvm"}]}"#,
            "Cannot filter on hypervisor",
        ),
        (r#"{"label":{"+like":"a"}}"#, "Unknown operator +like"),
        ("label", "Invalid JSON"),
        ("[]", "Invalid JSON"),
    ] {
        let refused = filtered(&linode.url(), "/v4/linode/instances", filter).await;
        assert_eq!(refused.status, 400, "{filter}");
        let error = &refused.json()["errors"][0];
        assert_eq!(
            (&error["field"], &error["reason"]),
            (&json!("X-Filter"), &json!(reason))
        );
    }
}

#[tokio::test]
async fn vpcs_have_subnets_and_addresses_of_both_families() {
    let linode = with(0).await;
    let instance = linode.add(Instance::labelled("n1"));
    let vpc = linode.add_vpc("net");
    let (first, second) = (
        linode.add_subnet(vpc, "default", "10.0.0.0/24"),
        linode.add_subnet(vpc, "other", "10.0.1.0/24"),
    );
    linode.add_vpc_address(vpc, first, instance, "10.0.0.2");
    linode.add_vpc_address(vpc, second, instance, "10.0.1.2");
    linode.add_vpc_row(
        vpc,
        json!({ "subnet_id": first, "address_range": "10.9.0.0/24" }),
    );
    linode.add_vpc_ipv6(vpc, first, instance, "2600:3c03:e000::2", true);
    let url = linode.url();
    let shown = filtered(&url, "/v4/vpcs", r#"{"label":"net"}"#)
        .await
        .json();
    assert_eq!(shown["data"][0]["id"], json!(vpc));
    assert_eq!(shown["data"][0]["subnets"].as_array().unwrap().len(), 2);
    assert_eq!(
        get(&url, &format!("/v4/vpcs/{vpc}")).await.json()["label"],
        "net"
    );
    let subnets = get(&url, &format!("/v4/vpcs/{vpc}/subnets")).await.json();
    assert_eq!(labels(&subnets), ["default", "other"]);
    let one = get(&url, &format!("/v4/vpcs/{vpc}/subnets/{second}"))
        .await
        .json();
    assert_eq!(one["ipv4"], "10.0.1.0/24");

    let ips = |filter: Value| {
        let (url, path) = (url.clone(), format!("/v4/vpcs/{vpc}/ips"));
        async move { filtered(&url, &path, &filter.to_string()).await.json() }
    };
    assert_eq!(ips(json!({})).await["results"], 3);
    let of_first = ips(json!({ "subnet_id": first.to_string() })).await;
    assert_eq!(of_first["data"][0]["address"], "10.0.0.2");
    assert_eq!(of_first["data"][1]["address"], Value::Null);
    assert_eq!(of_first["data"][1]["address_range"], "10.9.0.0/24");
    assert_eq!(
        ips(json!({ "subnet_id": format!("{first},{second}") })).await["results"],
        3
    );
    assert_eq!(ips(json!({ "subnet_id": "" })).await["results"], 0);
    let ipv6s = get(&url, &format!("/v4/vpcs/{vpc}/ipv6s")).await.json();
    assert_eq!(
        ipv6s["data"][0]["ipv6_addresses"][0]["slaac_address"],
        "2600:3c03:e000::2"
    );
    assert_eq!(ipv6s["data"][0]["ipv6_is_public"], true);
    assert_eq!(get(&url, "/v4/vpcs/1/ips").await.status, 404);
}

#[tokio::test]
async fn who_has_no_token_and_what_does_not_exist_is_told_so() {
    let linode = with(1).await;
    let url = linode.url();
    for headers in [
        &[][..],
        &[("Authorization", "Bearer wrong")],
        &[("Authorization", TOKEN)],
    ] {
        let refused = ask(&url, "GET", "/v4/profile", headers).await.unwrap();
        assert_eq!(refused.status, 401);
        assert_eq!(refused.header("content-type"), "application/json");
        assert_eq!(
            refused.json(),
            json!({ "errors": [{ "reason": "Invalid Token" }] })
        );
    }
    assert_eq!(get(&url, "/v4/profile").await.json()["username"], "mooring");
    for path in [
        "/v4/nothing",
        "/v3/profile",
        "/",
        "/v4/linode/instances/abc",
    ] {
        let missing = get(&url, path).await;
        assert_eq!(missing.status, 404, "{path}");
        assert_eq!(missing.json()["errors"][0]["reason"], "Not found");
    }
    let token = format!("Bearer {TOKEN}");
    let refused = ask(
        &url,
        "PUT",
        "/v4/linode/instances",
        &[("Authorization", &token)],
    )
    .await;
    let refused = refused.unwrap();
    assert_eq!(refused.status, 405);
    assert_eq!(refused.json()["errors"][0]["reason"], "Method Not Allowed");

    linode.set_token("new");
    assert_eq!(get(&url, "/v4/profile").await.status, 401);
}

#[tokio::test]
async fn who_asks_too_much_is_told_when_to_come_back() {
    let linode = with(1).await;
    linode.limit(Limits::per(Duration::from_secs(2), 5, 2));
    let (url, listing) = (linode.url(), "/v4/linode/instances");
    let first = get(&url, listing).await;
    let limits = ["limit", "remaining"].map(|name| first.header(&format!("x-ratelimit-{name}")));
    assert_eq!(limits, ["2", "1"]);
    assert!(first.header("x-ratelimit-reset").parse::<u64>().unwrap() > 1_700_000_000);
    assert_eq!(get(&url, listing).await.status, 200);
    let refused = get(&url, listing).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["errors"][0]["reason"], "Too many requests");
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=2).contains(&wait), "{wait}");
    // What is no listing is counted apart.
    assert_eq!(get(&url, "/v4/profile").await.status, 200);
    assert_eq!(get(&url, "/v4/profile").await.status, 200);
    assert_eq!(get(&url, "/v4/profile").await.status, 429);
    let whole_window = Duration::from_secs(3);
    mooring_test_support::wait::eventually("the next window begins", whole_window, async || {
        get(&url, "/v4/profile").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn what_is_asked_is_in_the_log_without_the_token() {
    let linode = with(1).await;
    filtered(
        &linode.url(),
        "/v4/linode/instances?page=1&page_size=500",
        r#"{"label":"n0"}"#,
    )
    .await;
    get(&linode.url(), "/v4/nothing").await;
    let calls = linode.calls();
    assert_eq!(calls.len(), 2);
    let first = &calls[0];
    assert_eq!(first.path, "/v4/linode/instances");
    assert_eq!(first.parameter("page_size"), Some("500"));
    assert_eq!(first.filter.as_deref(), Some(r#"{"label":"n0"}"#));
    assert_eq!(first.status.map(|s| s.as_u16()), Some(200));
    assert!(first.took.is_some() && !first.is_write() && !first.faulty);
    assert_eq!(calls[1].status.map(|s| s.as_u16()), Some(404));
    assert!(!format!("{calls:?}").contains(TOKEN));
    assert_eq!(calls.to("**/instances").len(), 1);
}
