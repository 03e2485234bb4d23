//! The simulated Brightbox: what it shows, what it refuses, and what takes time.

use std::time::Duration;

use mooring_cloud_sim::brightbox::{
    Behaviour, Brightbox, CLIENT_ID, CLIENT_SECRET, Kind, Machine, TOKEN_PATH,
};
use serde_json::{Value, json};

use crate::cloud_sims::client::{Answer, tell};

/// A long time in this simulation, which passes at once.
const LONG: Duration = Duration::from_secs(3600);

/// Asks for a token.
pub(crate) async fn grant(cloud: &Brightbox, fields: &[(&str, &str)]) -> Answer {
    let body: Vec<String> = fields.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let body = body.join("&");
    let length = body.len().to_string();
    let headers = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Content-Length", length.as_str()),
    ];
    let answer = tell(&cloud.url(), "POST", TOKEN_PATH, &headers, &body).await;
    answer.expect("an answer")
}

/// A good token of the client.
pub(crate) async fn token(cloud: &Brightbox) -> String {
    let fields = [
        ("grant_type", "client_credentials"),
        ("scope", "infrastructure+orbit"),
        ("client_id", CLIENT_ID),
        ("client_secret", CLIENT_SECRET),
    ];
    let answer = grant(cloud, &fields).await;
    let token = &answer.json()["access_token"];
    token.as_str().expect("a token").to_owned()
}

/// A request with this token; `null` is no body.
pub(crate) async fn with_token(
    cloud: &Brightbox,
    token: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> Answer {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let (token, length) = (format!("Bearer {token}"), body.len().to_string());
    let headers = [
        ("Authorization", token.as_str()),
        ("Content-Type", "application/json"),
        ("Content-Length", &length),
    ];
    let answer = tell(&cloud.url(), method, path, &headers, &body).await;
    answer.expect("an answer")
}

/// Reads with a token of its own.
pub(crate) async fn get(cloud: &Brightbox, path: &str) -> Answer {
    send(cloud, "GET", path, Value::Null).await
}

/// A request with a token of its own.
async fn send(cloud: &Brightbox, method: &str, path: &str, body: Value) -> Answer {
    let token = token(cloud).await;
    with_token(cloud, &token, method, path, &body).await
}

/// What is made, of which the identifier.
async fn make(cloud: &Brightbox, path: &str, body: Value) -> String {
    let made = send(cloud, "POST", path, body).await;
    assert!([201, 202].contains(&made.status), "{made:?}");
    let id = made.json()["id"]
        .as_str()
        .expect("an identifier")
        .to_owned();
    assert!(made.header("Location").ends_with(&id), "{made:?}");
    id
}

/// One whose changes wait until time passes.
async fn slow() -> Brightbox {
    let cloud = Brightbox::start().await.unwrap();
    cloud.behave(Behaviour {
        creating: LONG,
        deleting: LONG,
        mapping: LONG,
        validating: LONG,
        emptying: LONG,
        token_lifetime: LONG * 1000,
        ..Behaviour::default()
    });
    cloud
}

fn options(node: &str) -> Value {
    json!({
        "name": "web", "nodes": [{ "node": node }],
        "listeners": [{ "protocol": "https", "in": 443, "out": 31347 }],
        "healthcheck": { "type": "http", "port": 31347, "request": "/healthz" },
        "domains": ["a.example.com"], "https_redirect": true,
    })
}

#[tokio::test]
async fn a_load_balancer_takes_its_time() {
    let cloud = slow().await;
    let node = cloud.add(Machine::named("n1"));
    let id = make(&cloud, "/1.0/load_balancers", options(&node)).await;
    let path = format!("/1.0/load_balancers/{id}");
    let shown = get(&cloud, &path).await.json();
    assert_eq!(shown["status"], "creating");
    assert_eq!(shown["nodes"][0]["id"], json!(node));
    assert_eq!(shown["listeners"][0]["timeout"], 50_000);
    assert_eq!(shown["policy"], "least-connections");
    assert_eq!(shown["acme"]["domains"][0]["status"], "validating");
    // The listing lacks what one alone shows.
    let listed = get(&cloud, "/1.0/load_balancers").await.json();
    assert!(listed[0].get("acme").is_none() && listed[0]["name"] == "web");

    let ip = make(&cloud, "/1.0/cloud_ips", json!({ "name": "web" })).await;
    let map = format!("/1.0/cloud_ips/{ip}/map");
    let mapped = send(&cloud, "POST", &map, json!({ "destination": id })).await;
    assert_eq!(
        (mapped.status, &mapped.json()["status"]),
        (202, &json!("unmapped"))
    );
    cloud.advance(LONG);
    let shown = get(&cloud, &path).await.json();
    assert_eq!(
        (&shown["status"], &shown["cloud_ips"][0]["id"]),
        (&json!("active"), &json!(ip))
    );
    // Only now does anybody reach it by its domain.
    assert_eq!(shown["acme"]["domains"][0]["status"], "validating");
    cloud.advance(LONG);
    let shown = get(&cloud, &path).await.json();
    assert_eq!(shown["acme"]["domains"][0]["status"], "valid");

    let cip = format!("/1.0/cloud_ips/{ip}");
    assert_eq!(send(&cloud, "DELETE", &cip, Value::Null).await.status, 409);
    assert_eq!(send(&cloud, "DELETE", &path, Value::Null).await.status, 202);
    assert_eq!(get(&cloud, &path).await.json()["status"], "deleting");
    assert_eq!(
        send(&cloud, "PUT", &path, json!({ "name": "x" }))
            .await
            .status,
        409
    );
    cloud.advance(LONG);
    assert_eq!(get(&cloud, &cip).await.json()["status"], "unmapped");
    assert_eq!(get(&cloud, &path).await.json()["status"], "deleted");
    cloud.advance(LONG);
    assert_eq!(
        get(&cloud, &path).await.json()["error_name"],
        "missing_resource"
    );
    assert_eq!(send(&cloud, "DELETE", &cip, Value::Null).await.status, 200);
}

#[tokio::test]
async fn a_domain_can_be_refused_and_domains_can_be_cleared() {
    let cloud = Brightbox::start().await.unwrap();
    cloud.behave(Behaviour {
        invalid_domains: ["a.example.com".to_owned()].into(),
        creating: Duration::ZERO,
        mapping: Duration::ZERO,
        validating: Duration::ZERO,
        ..Behaviour::default()
    });
    let node = cloud.add(Machine::named("n1"));
    let id = make(&cloud, "/1.0/load_balancers", options(&node)).await;
    let ip = make(&cloud, "/1.0/cloud_ips", json!({})).await;
    send(
        &cloud,
        "POST",
        &format!("/1.0/cloud_ips/{ip}/map"),
        json!({ "destination": id }),
    )
    .await;
    let path = format!("/1.0/load_balancers/{id}");
    let domain = get(&cloud, &path).await.json()["acme"]["domains"][0].clone();
    assert_eq!(domain["status"], "invalid");
    assert!(domain["last_message"].is_string());
    let cleared = json!({
        "domains": [], "listeners": [{ "protocol": "tcp", "in": 80, "out": 31347 }],
    });
    assert_eq!(
        send(&cloud, "PUT", &path, cleared).await.json()["acme"],
        Value::Null
    );
}

#[tokio::test]
async fn wrong_load_balancers_are_refused() {
    let cloud = Brightbox::start().await.unwrap();
    let node = cloud.add(Machine::named("n1"));
    let listener = |field: &str, value: Value| {
        let mut listener = json!({ "protocol": "http", "in": 80, "out": 31347 });
        listener[field] = value;
        json!([listener])
    };
    let same = json!({ "protocol": "http", "in": 80, "out": 31347 });
    for (field, value, status) in [
        ("colour", json!("red"), 422),
        ("policy", json!("magic-routing"), 422),
        ("listeners", listener("protocol", json!("http+ws")), 422),
        ("listeners", listener("out", json!(0)), 422),
        ("listeners", listener("timeout", json!(4999)), 422),
        (
            "listeners",
            listener("proxy_protocol", json!("v1-ssl")),
            422,
        ),
        ("listeners", json!([same, same]), 422),
        ("healthcheck", json!({ "type": "https", "port": 80 }), 422),
        ("healthcheck", json!({ "type": "tcp" }), 422),
        ("domains", json!([]), 422),
        ("nodes", json!([{ "node": "srv-z4711" }]), 404),
    ] {
        let mut wrong = options(&node);
        wrong[field] = value.clone();
        let refused = send(&cloud, "POST", "/1.0/load_balancers", wrong).await;
        assert_eq!(refused.status, status, "{field} {value}: {refused:?}");
    }
    assert_eq!(cloud.all(Kind::LoadBalancer), Vec::<Value>::new());
}

#[tokio::test]
async fn a_locked_load_balancer_stays() {
    let cloud = Brightbox::start().await.unwrap();
    let node = cloud.add(Machine::named("n1"));
    let id = make(&cloud, "/1.0/load_balancers", options(&node)).await;
    let path = format!("/1.0/load_balancers/{id}");
    let locked = send(&cloud, "PUT", &format!("{path}/lock_resource"), Value::Null).await;
    assert_eq!(
        (locked.status, &locked.json()["locked"]),
        (200, &json!(true))
    );
    assert_eq!(send(&cloud, "DELETE", &path, Value::Null).await.status, 409);
    send(
        &cloud,
        "PUT",
        &format!("{path}/unlock_resource"),
        Value::Null,
    )
    .await;
    assert_eq!(send(&cloud, "DELETE", &path, Value::Null).await.status, 202);
}

#[tokio::test]
async fn nodes_and_listeners_come_and_go() {
    let cloud = Brightbox::start().await.unwrap();
    let (one, two) = (
        cloud.add(Machine::named("n1")),
        cloud.add(Machine::named("n2")),
    );
    let id = make(&cloud, "/1.0/load_balancers", options(&one)).await;
    let path = format!("/1.0/load_balancers/{id}");
    for (action, body) in [
        ("add_nodes", json!([{ "node": two }])),
        ("remove_nodes", json!([{ "node": one }])),
        (
            "add_listeners",
            json!([{ "protocol": "http", "in": 80, "out": 31348 }]),
        ),
        (
            "remove_listeners",
            json!([{ "protocol": "https", "in": 443, "out": 31347 }]),
        ),
    ] {
        let changed = send(&cloud, "POST", &format!("{path}/{action}"), body).await;
        assert_eq!(changed.status, 202, "{action}: {changed:?}");
    }
    let shown = cloud.get(Kind::LoadBalancer, &id).unwrap();
    assert_eq!(
        (
            shown["nodes"].as_array().unwrap().len(),
            &shown["nodes"][0]["id"]
        ),
        (1, &json!(two))
    );
    assert_eq!(shown["listeners"].as_array().unwrap().len(), 1);
    assert_eq!(shown["listeners"][0]["in"], 80);
    // A server that is gone is in no load balancer.
    cloud.remove(&two);
    assert_eq!(
        cloud.get(Kind::LoadBalancer, &id).unwrap()["nodes"],
        json!([])
    );
}

#[tokio::test]
async fn groups_are_emptied_before_they_are_deleted() {
    let cloud = slow().await;
    let node = cloud.add(Machine::named("n1"));
    let id = make(&cloud, "/1.0/server_groups", json!({ "name": "web" })).await;
    let path = format!("/1.0/server_groups/{id}");
    let servers = json!({ "servers": [{ "server": node }] });
    let add = format!("{path}/add_servers");
    assert_eq!(
        send(&cloud, "POST", &add, servers.clone()).await.status,
        202
    );
    let policy = json!({ "name": "web", "server_group": id });
    let policy = make(&cloud, "/1.0/firewall_policies", policy).await;
    let second = json!({ "name": "other", "server_group": id });
    assert_eq!(
        send(&cloud, "POST", "/1.0/firewall_policies", second)
            .await
            .status,
        409
    );
    assert_eq!(send(&cloud, "DELETE", &path, Value::Null).await.status, 409);
    let remove = format!("{path}/remove_servers");
    let emptied = send(&cloud, "POST", &remove, servers.clone()).await;
    assert_eq!(emptied.json()["servers"][0]["id"], json!(node));
    cloud.advance(LONG);
    assert_eq!(send(&cloud, "POST", &remove, servers).await.status, 409);
    assert_eq!(send(&cloud, "DELETE", &path, Value::Null).await.status, 202);
    let policy = cloud.get(Kind::FirewallPolicy, &policy).unwrap();
    assert_eq!(policy["server_group"], Value::Null);
}

#[tokio::test]
async fn rules_go_with_their_policy_and_policies_move() {
    let cloud = Brightbox::start().await.unwrap();
    let group = make(&cloud, "/1.0/server_groups", json!({ "name": "web" })).await;
    let policy = make(&cloud, "/1.0/firewall_policies", json!({ "name": "web" })).await;
    let rule = |ports: &str, source: &str| {
        json!({
            "firewall_policy": policy, "protocol": "tcp", "source": source,
            "destination_port": ports, "description": "web",
        })
    };
    let made = make(
        &cloud,
        "/1.0/firewall_rules",
        rule("31347,31348", "10.0.0.0/8"),
    )
    .await;
    let sixteen: Vec<String> = (0..16).map(|n| (31_000 + n).to_string()).collect();
    for wrong in [
        rule(&sixteen.join(","), "10.0.0.0/8"),
        rule("0", "10.0.0.0/8"),
        rule("31347", "somewhere"),
        rule("31347", "10.0.0.0/33"),
    ] {
        let refused = send(&cloud, "POST", "/1.0/firewall_rules", wrong.clone()).await;
        assert_eq!(refused.status, 422, "{wrong}");
    }
    let path = format!("/1.0/firewall_rules/{made}");
    let changed = send(&cloud, "PUT", &path, rule("30000-32767", "lba-12345")).await;
    assert_eq!(
        (changed.status, &changed.json()["source"]),
        (202, &json!("lba-12345"))
    );
    let policies = format!("/1.0/firewall_policies/{policy}");
    let to = json!({ "server_group": group });
    let applied = send(&cloud, "POST", &format!("{policies}/apply_to"), to.clone()).await;
    assert_eq!(
        (applied.status, &applied.json()["server_group"]["id"]),
        (202, &json!(group))
    );
    assert_eq!(applied.json()["rules"][0]["id"], json!(made));
    let again = send(&cloud, "POST", &format!("{policies}/apply_to"), to.clone()).await;
    assert_eq!(again.status, 409);
    assert_eq!(
        send(&cloud, "POST", &format!("{policies}/remove"), to)
            .await
            .status,
        202
    );
    assert_eq!(
        send(&cloud, "DELETE", &policies, Value::Null).await.status,
        202
    );
    assert_eq!(cloud.all(Kind::FirewallRule), Vec::<Value>::new());
}

#[tokio::test]
async fn a_cloud_ip_leads_to_one_place_and_an_account_can_be_full() {
    let cloud = Brightbox::start().await.unwrap();
    cloud.behave(Behaviour {
        mapping: Duration::ZERO,
        cloud_ips_limit: 1,
        load_balancers_limit: 0,
        ..Behaviour::default()
    });
    let node = cloud.add(Machine::named("n1"));
    let ip = make(&cloud, "/1.0/cloud_ips", json!({})).await;
    let full = send(&cloud, "POST", "/1.0/cloud_ips", json!({})).await;
    assert_eq!(
        (full.status, &full.json()["error_name"]),
        (403, &json!("account_limit_reached"))
    );
    let full = send(&cloud, "POST", "/1.0/load_balancers", options(&node)).await;
    assert_eq!(full.status, 403);
    let path = format!("/1.0/cloud_ips/{ip}");
    let there = json!({ "destination": node });
    assert_eq!(
        send(&cloud, "POST", &format!("{path}/unmap"), Value::Null)
            .await
            .status,
        409
    );
    assert_eq!(
        send(&cloud, "POST", &format!("{path}/map"), there.clone())
            .await
            .status,
        202
    );
    assert_eq!(
        send(&cloud, "POST", &format!("{path}/map"), there)
            .await
            .status,
        409
    );
    let server = get(&cloud, &format!("/1.0/servers/{node}")).await.json();
    assert_eq!(server["cloud_ips"][0]["id"], json!(ip));
    assert_eq!(
        send(&cloud, "POST", &format!("{path}/unmap"), Value::Null)
            .await
            .status,
        202
    );
    let renamed = send(
        &cloud,
        "PUT",
        &path,
        json!({ "reverse_dns": "www.example.com" }),
    )
    .await;
    assert_eq!(
        (renamed.status, &renamed.json()["reverse_dns"]),
        (200, &json!("www.example.com"))
    );
    let account = get(&cloud, "/1.0/accounts").await.json();
    assert_eq!(
        (
            account.as_array().unwrap().len(),
            &account[0]["cloud_ips_used"]
        ),
        (1, &json!(1))
    );
}

#[tokio::test]
async fn what_is_shown_can_be_loaded() {
    let cloud = Brightbox::start().await.unwrap();
    let node = cloud.add(Machine::named("n1").interface(Some("10.0.0.1"), Some("2001:db8::1")));
    make(&cloud, "/1.0/load_balancers", options(&node)).await;
    let group = make(&cloud, "/1.0/server_groups", json!({ "name": "web" })).await;
    let servers = json!({ "servers": [{ "server": node }] });
    send(
        &cloud,
        "POST",
        &format!("/1.0/server_groups/{group}/add_servers"),
        servers,
    )
    .await;
    let mut all = json!({});
    for kind in [Kind::Server, Kind::ServerGroup, Kind::LoadBalancer] {
        all[kind.key()] = cloud.all(kind).into();
    }
    let second = Brightbox::start().await.unwrap();
    second.load(&all).unwrap();
    assert_eq!(
        second.snapshot().diff(&cloud.snapshot()),
        Vec::<String>::new()
    );
    assert_eq!(
        second.snapshot().value()["server_groups"][0]["servers"],
        json!([node])
    );
    assert!(second.load(&json!({ "colours": [] })).is_err());
}
