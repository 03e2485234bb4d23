//! The simulated Brightbox: what its load balancers serve, and what leads to them.

use std::net::{Ipv4Addr, ToSocketAddrs as _};
use std::time::Duration;

use mooring_cloud_sim::brightbox::{Behaviour, Brightbox, Kind, Machine};
use serde_json::{Value, json};

use crate::cloud_sims::brightbox::{token, with_token};

const MEMBER: &str = "10.0.0.1:30080";

/// One that is served, and the identifiers of all its parts.
struct Served {
    cloud: Brightbox,
    server: String,
    group: String,
    policy: String,
    rule: String,
    balancer: String,
    ip: String,
}

async fn served() -> Served {
    let cloud = Brightbox::start().await.unwrap();
    let server = cloud.add(Machine::named("n1").interface(Some("10.0.0.1"), None));
    let group = cloud.put(Kind::ServerGroup, json!({ "servers": [server] }));
    let policy = cloud.put(Kind::FirewallPolicy, json!({ "server_group": group }));
    let rule = json!({
        "firewall_policy": policy, "protocol": "tcp", "source": "10.0.0.0/8",
        "destination_port": "22,30000-30080",
    });
    let rule = cloud.put(Kind::FirewallRule, rule);
    let balancer = json!({
        "nodes": [server], "listeners": [{ "protocol": "http", "in": 80, "out": 30080 }],
        "healthcheck": { "type": "http", "port": 30080 },
    });
    let balancer = cloud.put(Kind::LoadBalancer, balancer);
    let ip = cloud.put(Kind::CloudIp, json!({}));
    cloud.map(&ip, Some(&balancer));
    Served {
        cloud,
        server,
        group,
        policy,
        rule,
        balancer,
        ip,
    }
}

impl Served {
    fn members(&self) -> Option<Vec<String>> {
        let now = self.cloud.traffic(&self.balancer).now();
        let members = now.get("tcp/80")?;
        Some(members.iter().cloned().collect())
    }
}

/// Each part that is taken away ends it, and it is told since when.
#[tokio::test]
async fn a_server_is_served_if_everything_on_the_way_is_there() {
    let takes: [fn(&Served); 9] = [
        |all| all.cloud.map(&all.ip, None),
        |all| {
            all.cloud
                .set_in(Kind::LoadBalancer, &all.balancer, "nodes", json!([]))
        },
        |all| {
            all.cloud
                .set_in(Kind::LoadBalancer, &all.balancer, "status", "failed")
        },
        |all| {
            all.cloud
                .set_in(Kind::ServerGroup, &all.group, "servers", json!([]))
        },
        |all| {
            all.cloud.set_in(
                Kind::FirewallPolicy,
                &all.policy,
                "server_group",
                Value::Null,
            )
        },
        |all| {
            all.cloud
                .set_in(Kind::FirewallRule, &all.rule, "destination_port", "30081")
        },
        |all| {
            all.cloud
                .set_in(Kind::FirewallRule, &all.rule, "source", "192.0.2.0/24")
        },
        |all| {
            all.cloud
                .change_in(Kind::LoadBalancer, &all.balancer, |balancer| {
                    balancer["healthcheck"]["port"] = json!(31_000);
                });
        },
        |all| assert!(all.cloud.remove(&all.server)),
    ];
    for (n, take) in takes.into_iter().enumerate() {
        let all = served().await;
        assert_eq!(all.members(), Some(vec![MEMBER.to_owned()]), "{n}");
        assert!(all.cloud.outages(&all.balancer).is_empty(), "{n}");
        take(&all);
        assert!(
            all.members().is_none_or(|members| members.is_empty()),
            "{n}"
        );
        let outages = all.cloud.outages(&all.balancer);
        assert!(outages.len() == 1 && !outages[0].over, "{n}: {outages:?}");
    }
}

#[tokio::test]
async fn a_rule_can_admit_a_single_load_balancer() {
    let all = served().await;
    for (source, is_served) in [(all.balancer.as_str(), true), ("lba-00000", false)] {
        all.cloud
            .set_in(Kind::FirewallRule, &all.rule, "source", source);
        let served = all.members().is_some_and(|members| !members.is_empty());
        assert_eq!(served, is_served, "{source}");
    }
}

/// A request by the API is recorded as well.
#[tokio::test]
async fn what_a_request_changes_is_recorded() {
    let all = served().await;
    let token = token(&all.cloud).await;
    let path = format!("/1.0/firewall_rules/{}", all.rule);
    for ports in ["22", "30080"] {
        let body = json!({ "destination_port": ports });
        let answer = with_token(&all.cloud, &token, "PUT", &path, &body).await;
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    let outages = all.cloud.outages(&all.balancer);
    assert!(outages.len() == 1 && outages[0].over, "{outages:?}");
}

#[tokio::test]
async fn nothing_leads_to_a_load_balancer_before_it_is_there() {
    const LONG: Duration = Duration::from_secs(3600);
    let cloud = Brightbox::start().await.unwrap();
    cloud.behave(Behaviour {
        creating: LONG,
        mapping: Duration::ZERO,
        numeric_names: true,
        token_lifetime: LONG * 10,
        ..Behaviour::default()
    });
    let token = token(&cloud).await;
    let send = async |path: &str, body: Value| {
        let answer = with_token(&cloud, &token, "POST", path, &body).await;
        assert!(answer.status < 300, "{answer:?}");
        answer.json()["id"].as_str().unwrap_or_default().to_owned()
    };
    let balancer = json!({
        "listeners": [], "healthcheck": { "type": "tcp", "port": 80 },
    });
    let balancer = send("/1.0/load_balancers", balancer).await;
    let ip = send("/1.0/cloud_ips", json!({})).await;
    let map = json!({ "destination": balancer });
    send(&format!("/1.0/cloud_ips/{ip}/map"), map).await;
    let status = || cloud.get(Kind::CloudIp, &ip).unwrap()["status"].clone();
    assert_eq!(status(), "unmapped");
    cloud.advance(LONG);
    assert_eq!(status(), "mapped");
    // Its name is known without any DNS server.
    let ip = cloud.get(Kind::CloudIp, &ip).unwrap();
    let name = (ip["fqdn"].as_str().unwrap(), 443);
    let found: Vec<_> = name
        .to_socket_addrs()
        .unwrap()
        .map(|found| found.ip())
        .collect();
    let wanted: Ipv4Addr = ip["public_ipv4"].as_str().unwrap().parse().unwrap();
    assert_eq!(found, [wanted]);
    // It is deleted by hand: the Cloud IP is free.
    assert!(cloud.take(Kind::LoadBalancer, &balancer));
    assert_eq!(cloud.all(Kind::CloudIp)[0]["status"], "unmapped");
}

/// What a change leaves out stays as it is; an empty list of nodes is none.
#[tokio::test]
async fn a_change_is_of_what_it_names() {
    let all = served().await;
    let token = token(&all.cloud).await;
    let path = format!("/1.0/load_balancers/{}", all.balancer);
    let put = async |body: Value| {
        with_token(&all.cloud, &token, "PUT", &path, &body)
            .await
            .status
    };
    let check = json!({ "type": "tcp", "port": 30080, "interval": 7000 });
    assert_eq!(put(json!({ "healthcheck": check })).await, 202);
    let check = json!({ "type": "http", "port": 30080 });
    assert_eq!(put(json!({ "healthcheck": check })).await, 202);
    let shown = all.cloud.get(Kind::LoadBalancer, &all.balancer).unwrap();
    assert_eq!(shown["healthcheck"]["interval"], 7000);
    assert_eq!(put(json!({ "nodes": [] })).await, 422);
    let none = json!([{ "node": all.server }]);
    let remove = format!("{path}/remove_nodes");
    let answer = with_token(&all.cloud, &token, "POST", &remove, &none).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let shown = all.cloud.get(Kind::LoadBalancer, &all.balancer).unwrap();
    assert_eq!(shown["nodes"], json!([]));
}
