//! The simulated Brightbox takes what the Go controller sends: its requests for a new Service, and for its end.

use std::time::Duration;

use mooring_cloud_sim::brightbox::{Behaviour, Brightbox, Kind, Machine};
use serde_json::{Value, json};

use crate::cloud_sims::brightbox::{token, with_token};

const NAME: &str = "web.default.kubernetes";

/// One that changes at once, and the requests of one client.
struct Client {
    cloud: Brightbox,
    token: String,
}

impl Client {
    async fn send(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let path = format!("/1.0/{path}");
        let answer = with_token(&self.cloud, &self.token, method, &path, &body).await;
        (answer.status, answer.json())
    }

    /// What is answered with this status.
    async fn expect(&self, status: u16, method: &str, path: &str, body: Value) -> Value {
        let (found, answer) = self.send(method, path, body).await;
        assert_eq!(found, status, "{method} {path}: {answer}");
        answer
    }

    async fn listed(&self, path: &str, count: usize) -> Value {
        let all = self.expect(200, "GET", path, Value::Null).await;
        assert_eq!(all.as_array().map(Vec::len), Some(count), "{path}: {all}");
        all
    }
}

fn id(answer: &Value) -> String {
    answer["id"].as_str().expect("an identifier").to_owned()
}

/// brightbox.md, 7.7 and 2.5.
#[tokio::test]
async fn a_service_of_the_go_controller_comes_and_goes() {
    let cloud = Brightbox::start().await.unwrap();
    cloud.behave(Behaviour {
        creating: Duration::ZERO,
        mapping: Duration::ZERO,
        deleting: Duration::ZERO,
        ..Behaviour::default()
    });
    let token = token(&cloud).await;
    let client = Client { cloud, token };
    let nodes = ["n1", "n2"].map(|name| client.cloud.add(Machine::named(name)));
    let servers = json!({ "servers": [{ "server": nodes[1] }, { "server": nodes[0] }] });

    client.listed("cloud_ips", 0).await;
    let named = json!({ "name": NAME });
    let ip = id(&client.expect(201, "POST", "cloud_ips", named.clone()).await);
    client.listed("load_balancers", 0).await;
    client.listed("server_groups", 0).await;
    let group = id(&client.expect(202, "POST", "server_groups", named).await);
    let add = format!("server_groups/{group}/add_servers");
    client.expect(202, "POST", &add, servers.clone()).await;
    client.listed("firewall_policies", 0).await;
    let policy = json!({ "name": NAME, "server_group": group });
    let policy = client
        .expect(201, "POST", "firewall_policies", policy)
        .await;
    let policy = id(&policy);
    let rule = json!({
        "firewall_policy": policy, "protocol": "tcp", "source": "10.0.0.0/8",
        "destination_port": "31348", "description": NAME,
    });
    let rule = client.expect(202, "POST", "firewall_rules", rule).await;
    assert_eq!(rule["firewall_policy"]["id"], json!(policy));
    let balancer = json!({
        "name": NAME, "nodes": [{ "node": nodes[0] }, { "node": nodes[1] }],
        "listeners": [{ "protocol": "http", "in": 80, "out": 31348 }],
        "healthcheck": { "type": "http", "port": 31348, "request": "/healthz" },
        "https_redirect": false,
    });
    let balancer = client.expect(202, "POST", "load_balancers", balancer).await;
    let balancer = id(&balancer);
    let map = json!({ "destination": balancer });
    client
        .expect(202, "POST", &format!("cloud_ips/{ip}/map"), map)
        .await;
    let ips = client.listed("cloud_ips", 1).await;
    assert_eq!(ips[0]["load_balancer"]["name"], NAME);
    let path = format!("load_balancers/{balancer}");
    let shown = client.expect(200, "GET", &path, Value::Null).await;
    assert_eq!(shown["cloud_ips"][0]["id"], json!(ip));

    let groups = client.listed("server_groups", 1).await;
    assert_eq!(groups[0]["servers"].as_array().map(Vec::len), Some(2));
    let remove = format!("server_groups/{group}/remove_servers");
    client.expect(202, "POST", &remove, servers).await;
    for (status, path) in [
        (202, format!("server_groups/{group}")),
        (202, format!("firewall_policies/{policy}")),
        (202, path),
        (200, format!("cloud_ips/{ip}")),
    ] {
        client.expect(status, "DELETE", &path, Value::Null).await;
    }
    for kind in [Kind::ServerGroup, Kind::FirewallPolicy, Kind::CloudIp] {
        assert_eq!(client.cloud.all(kind), Vec::<Value>::new());
    }
    // It is shown for a while, as deleted.
    assert_eq!(
        client.cloud.named(Kind::LoadBalancer, NAME),
        Vec::<Value>::new()
    );
    let left = client.listed("load_balancers", 1).await;
    assert_eq!(left[0]["status"], "deleted");
}
