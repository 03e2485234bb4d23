//! The requests of Linode's Go controller on the simulation, and what it leaves of its Services.

use mooring_cloud_sim::linode::{Kind, Linode, Served};
use serde_json::{Value, json};

use crate::cloud_sims::node_balancers::{made, path, post, read, with_backends};

fn web() -> Served {
    let pair = rcgen::generate_simple_self_signed(["example.org".to_owned()]).unwrap();
    let acl = json!({ "allowList": { "ipv4": ["192.0.2.0/24"], "ipv6": ["2001:db8::/32"] } });
    Served::named("web-with-a-name-of-more-than-32-letters")
        .tag("team-a")
        .port(80, "tcp", 30080)
        .port(8080, "http", 30081)
        .port(443, "https", 30443)
        .port(53, "udp", 30053)
        .node("n1", "192.168.128.1")
        .node("worker-2", "192.168.128.2")
        .certificate(&pair.cert.pem(), &pair.signing_key.serialize_pem())
        .acl(acl)
}

/// Everything that there is.
fn everything(linode: &Linode) -> Vec<(Kind, Vec<Value>)> {
    let all = Kind::ALL.into_iter().map(|kind| (kind, linode.all(kind)));
    all.collect()
}

/// Makes what a Service needs with the requests of the Go controller, in their order.
async fn serve(linode: &Linode, service: &Served) -> Value {
    let firewall = match service.firewall_request() {
        Some(request) => Some(made(linode, "/networking/firewalls", &request).await),
        None => None,
    };
    let firewall = firewall.and_then(|firewall| firewall["id"].as_u64());
    let request = service.node_balancer_request(firewall);
    made(linode, "/nodebalancers", &request).await
}

#[tokio::test]
async fn what_is_left_is_what_the_requests_of_the_go_controller_make() {
    let by_api = with_backends().await;
    let by_hand = with_backends().await;
    let plain = Served::named("plain")
        .labelled("ccm-18b3f0a1c2d5")
        .port(80, "tcp", 30000);
    for service in [web(), plain.node("n2", "2600:3c03::2")] {
        let shown = serve(&by_api, &service).await;
        let left = by_hand.leave(&service);
        assert_eq!(everything(&by_hand), everything(&by_api));
        assert_eq!(shown["id"], left.node_balancer);
        assert_eq!(
            (&shown["ipv4"], &shown["hostname"]),
            (&json!(left.ipv4), &json!(left.hostname))
        );
        assert_eq!(
            left.firewall.is_some(),
            service.firewall_request().is_some()
        );
    }
}

#[tokio::test]
async fn what_is_left_names_the_service_in_the_firewall_alone() {
    let linode = with_backends().await;
    let left = linode.leave(&web());
    let balancer = linode.get(Kind::NodeBalancer, left.node_balancer).unwrap();
    assert_eq!(balancer["label"], "ccm-18b3f0a1c2d4");
    assert_eq!(balancer["tags"], json!(["kubernetes", "team-a"]));
    let firewall = linode.get(Kind::Firewall, left.firewall.unwrap()).unwrap();
    assert_eq!(firewall["label"], balancer["label"]);
    assert_eq!(firewall["entities"][0]["id"], left.node_balancer);
    assert_eq!(firewall["rules"]["inbound_policy"], "DROP");
    let rule = &firewall["rules"]["inbound"][0];
    assert_eq!(rule["label"], "ACCEPT-web-with-a-name-of-more-t");
    let description = "Created by linode-ccm: ccm-18b3f0a1c2d4, \
                       for web-with-a-name-of-more-than-32-letters";
    assert_eq!(rule["description"], description);
    assert_eq!(rule["ports"], "80, 8080, 443, 53");
    let nodes = linode.all(Kind::Node);
    let labels: Vec<&Value> = nodes.iter().map(|node| &node["label"]).take(2).collect();
    assert_eq!(labels, ["node-n1", "worker-2"]);
    let denied = json!({ "denyList": { "ipv4": ["192.0.2.0/24"] } });
    let denied = web().acl(denied).firewall_request().unwrap();
    assert_eq!(denied["rules"]["inbound_policy"], "ACCEPT");
    assert_eq!(denied["rules"]["inbound"][0]["action"], "DROP");
    let none = web().firewall(left.firewall.unwrap()).firewall_request();
    assert_eq!(none, None, "firewall-id is stronger");
}

#[tokio::test]
async fn what_is_left_can_be_in_a_vpc_and_at_a_reserved_address() {
    let linode = with_backends().await;
    let vpc = linode.add_vpc("net");
    let subnet = linode.add_subnet(vpc, "default", "10.0.0.0/24");
    let reserved = linode.reserve("eu-central", None);
    let service = Served::named("web")
        .port(80, "tcp", 30080)
        .node("node-1", "10.0.0.5");
    let left = linode.leave(&service.subnet(subnet).reserved(&reserved));
    assert_eq!(left.ipv4, reserved);
    let attached = &linode.all(Kind::NodeBalancerVpc)[0];
    assert_eq!(attached["nodebalancer_id"], left.node_balancer);
    assert_eq!(linode.all(Kind::Node)[0]["vpc_config_id"], attached["id"]);
}

#[tokio::test]
async fn an_update_of_the_go_controller_is_accepted_and_changes_nothing() {
    let linode = with_backends().await;
    let left = linode.leave(&web());
    let configs = format!("/nodebalancers/{}/configs", left.node_balancer);
    let before = everything(&linode);
    let request = web().node_balancer_request(None);
    for (index, config) in request["configs"].as_array().unwrap().iter().enumerate() {
        if config["protocol"] == "https" {
            continue;
        }
        let shown = read(&linode, &configs).await["data"][index].clone();
        let of_config = format!("{configs}/{}", shown["id"]);
        let nodes = read(&linode, &format!("{of_config}/nodes")).await["data"].clone();
        let mut rebuilt = config.clone();
        for (at, node) in nodes.as_array().unwrap().iter().enumerate() {
            assert_eq!(rebuilt["nodes"][at]["address"], node["address"]);
            rebuilt["nodes"][at]["id"] = node["id"].clone();
        }
        made(&linode, &format!("{of_config}/rebuild"), &rebuilt).await;
    }
    assert_eq!(everything(&linode), before);
}

#[tokio::test]
async fn a_new_port_is_rebuilt_with_what_its_create_showed() {
    let linode = with_backends().await;
    let empty = json!({ "region": "eu-central", "tags": [] });
    let balancer = made(&linode, "/nodebalancers", &empty).await;
    let configs = format!("{}/configs", path(&balancer));
    let request = web().node_balancer_request(None);
    for config in request["configs"].as_array().unwrap() {
        let shown = made(&linode, &configs, config).await;
        assert_eq!(shown["nodes_status"], json!({ "up": 0, "down": 0 }));
        let mut rebuilt = shown.clone();
        for field in [
            "id",
            "nodebalancer_id",
            "nodes_status",
            "ssl_commonname",
            "ssl_fingerprint",
            "udp_session_timeout",
        ] {
            rebuilt.as_object_mut().unwrap().remove(field);
        }
        for (field, value) in rebuilt.clone().as_object().unwrap() {
            // The Go client leaves empty texts out.
            if value == "" || value.is_null() {
                rebuilt.as_object_mut().unwrap().remove(field);
            }
        }
        for field in ["ssl_cert", "ssl_key", "nodes"] {
            if let Some(value) = config.get(field) {
                rebuilt[field] = value.clone();
            }
        }
        let rebuild = format!("{configs}/{}/rebuild", shown["id"]);
        let answer = post(&linode, &rebuild, &rebuilt).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["nodes_status"], json!({ "up": 0, "down": 2 }));
    }
}
