//! Cloud Firewalls, simulated.

use mooring_cloud_sim::linode::{Behaviour, Kind, Linode};
use serde_json::{Value, json};

use crate::cloud_sims::node_balancers::{
    balancer, delete, made, path, post, put, read, with_backends,
};

/// What the Go controller sends for an allow list.
fn firewall(label: &str) -> Value {
    json!({ "label": label, "tags": ["kubernetes"], "rules": rules() })
}

fn rules() -> Value {
    json!({
        "inbound": [{
            "action": "ACCEPT", "label": "ACCEPT-web", "description": "Created by linode-ccm",
            "protocol": "TCP", "ports": "80,443",
            "addresses": { "ipv4": ["192.0.2.0/24"], "ipv6": [] },
        }],
        "inbound_policy": "DROP", "outbound": null, "outbound_policy": "ACCEPT",
    })
}

async fn firewalls_of(linode: &Linode, balancer: &Value) -> Vec<Value> {
    let firewalls = read(linode, &format!("{}/firewalls", path(balancer))).await;
    let firewalls = firewalls["data"].as_array().unwrap().iter();
    firewalls.map(|firewall| firewall["id"].clone()).collect()
}

#[tokio::test]
async fn firewalls_show_their_rules_and_what_they_are_attached_to() {
    let linode = with_backends().await;
    let made_first = made(&linode, "/networking/firewalls", &firewall("fw-1")).await;
    let shown = &made_first["rules"];
    assert_eq!(shown["inbound"][0]["ports"], "80, 443");
    assert_eq!(
        shown["inbound"][0]["addresses"],
        json!({ "ipv4": ["192.0.2.0/24"] })
    );
    assert_eq!(
        (&shown["outbound"], &shown["version"]),
        (&json!([]), &json!(1))
    );
    assert_eq!(
        (&made_first["status"], &made_first["entities"]),
        (&json!("enabled"), &json!([]))
    );

    let mut body = balancer("ccm-1");
    body["firewall_id"] = made_first["id"].clone();
    let balancer = made(&linode, "/nodebalancers", &body).await;
    assert_eq!(
        firewalls_of(&linode, &balancer).await,
        [made_first["id"].clone()]
    );
    let one = format!("/networking/firewalls/{}", made_first["id"]);
    let entity = json!({ "id": balancer["id"], "type": "nodebalancer", "label": "ccm-1",
                         "url": format!("/v4{}", path(&balancer)), "parent_entity": null });
    assert_eq!(read(&linode, &one).await["entities"], json!([entity]));
    let devices = read(&linode, &format!("{one}/devices")).await;
    assert_eq!(devices["data"][0]["entity"], entity);

    let mut rules = rules();
    rules["inbound"][0]["ports"] = json!("8000-8010");
    rules["inbound"][0]["addresses"] = json!({ "ipv6": ["::0/0", "2001:DB8:0:0::1/128"] });
    let changed = put(&linode, &format!("{one}/rules"), &rules).await.json();
    assert_eq!(changed["version"], 2);
    assert_eq!(
        changed["inbound"][0]["addresses"],
        json!({ "ipv6": ["::/0", "2001:db8::1/128"] })
    );
    assert_ne!(changed["fingerprint"], shown["fingerprint"]);
    assert_eq!(read(&linode, &format!("{one}/rules")).await, changed);

    delete(&linode, &path(&balancer)).await;
    let left = read(&linode, &one).await;
    assert_eq!(
        left["entities"],
        json!([]),
        "the firewall stays, attached to nothing"
    );
}

#[tokio::test]
async fn a_node_balancer_has_one_firewall_unless_the_api_permits_more() {
    let linode = with_backends().await;
    let balancer = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let a = made(&linode, "/networking/firewalls", &firewall("fw-a")).await;
    let b = made(&linode, "/networking/firewalls", &firewall("fw-b")).await;
    let devices = |firewall: &Value| format!("/networking/firewalls/{}/devices", firewall["id"]);
    let device = json!({ "id": balancer["id"], "type": "nodebalancer" });
    let attached = made(&linode, &devices(&a), &device).await;
    for firewall in [&a, &b] {
        let refused = post(&linode, &devices(firewall), &device).await;
        assert_eq!(refused.json()["errors"][0]["field"], "id");
    }
    let replace = format!("{}/firewalls", path(&balancer));
    let both = json!({ "firewall_ids": [a["id"], b["id"]] });
    assert_eq!(put(&linode, &replace, &both).await.status, 400);
    let only = json!({ "firewall_ids": [b["id"]] });
    assert_eq!(put(&linode, &replace, &only).await.json()["results"], 1);
    assert_eq!(firewalls_of(&linode, &balancer).await, [b["id"].clone()]);
    let gone = format!("{}/{}", devices(&a), attached["id"]);
    assert_eq!(delete(&linode, &gone).await.status, 404);

    linode.behave(Behaviour {
        several_firewalls: true,
        ..Behaviour::default()
    });
    let attached = made(&linode, &devices(&a), &device).await;
    assert_eq!(firewalls_of(&linode, &balancer).await.len(), 2);
    let detach = format!("{}/{}", devices(&a), attached["id"]);
    assert_eq!(delete(&linode, &detach).await.json(), json!({}));
    let one = format!("/networking/firewalls/{}", b["id"]);
    assert_eq!(delete(&linode, &one).await.status, 200);
    assert_eq!(firewalls_of(&linode, &balancer).await, [Value::Null; 0]);
    assert_eq!(linode.all(Kind::Device), [Value::Null; 0]);
}

#[tokio::test]
async fn firewalls_refuse_labels_rules_and_devices_that_are_wrong() {
    let linode = with_backends().await;
    made(&linode, "/networking/firewalls", &firewall("taken")).await;
    let many = |count: usize| -> Value {
        let addresses = (0..count).map(|n| json!(format!("10.0.{}.{}/32", n / 256, n % 256)));
        addresses.collect()
    };
    let ports: Vec<String> = (1..=16).map(|port| port.to_string()).collect();
    let rule = rules()["inbound"][0].clone();
    let rules_26: Value = (0..26).map(|_| rule.clone()).collect();
    let inbound = "rules.inbound[0]";
    for (pointer, value, field) in [
        ("/label", Value::Null, "label".to_owned()),
        ("/label", json!("fw"), "label".to_owned()),
        ("/label", json!("-fw"), "label".to_owned()),
        ("/label", json!("fw--1"), "label".to_owned()),
        ("/label", json!("taken"), "label".to_owned()),
        ("/rules", Value::Null, "rules".to_owned()),
        (
            "/rules/inbound_policy",
            Value::Null,
            "rules.inbound_policy".to_owned(),
        ),
        (
            "/rules/outbound_policy",
            json!("REJECT"),
            "rules.outbound_policy".to_owned(),
        ),
        ("/rules/inbound", rules_26, "rules.inbound".to_owned()),
        (
            "/rules/inbound/0/action",
            json!("REJECT"),
            format!("{inbound}.action"),
        ),
        (
            "/rules/inbound/0/action",
            Value::Null,
            format!("{inbound}.action"),
        ),
        (
            "/rules/inbound/0/protocol",
            json!("tcp"),
            format!("{inbound}.protocol"),
        ),
        (
            "/rules/inbound/0/protocol",
            json!("ICMP"),
            format!("{inbound}.ports"),
        ),
        (
            "/rules/inbound/0/ports",
            json!("0"),
            format!("{inbound}.ports"),
        ),
        (
            "/rules/inbound/0/ports",
            json!("90-80"),
            format!("{inbound}.ports"),
        ),
        (
            "/rules/inbound/0/ports",
            json!("http"),
            format!("{inbound}.ports"),
        ),
        (
            "/rules/inbound/0/ports",
            json!(ports.join(",")),
            format!("{inbound}.ports"),
        ),
        (
            "/rules/inbound/0/label",
            json!("x".repeat(33)),
            format!("{inbound}.label"),
        ),
        (
            "/rules/inbound/0/description",
            json!("x".repeat(101)),
            format!("{inbound}.description"),
        ),
        (
            "/rules/inbound/0/addresses/ipv4",
            json!(["192.0.2.1"]),
            format!("{inbound}.addresses.ipv4[0]"),
        ),
        (
            "/rules/inbound/0/addresses/ipv6",
            json!(["2001:db8::/129"]),
            format!("{inbound}.addresses.ipv6[0]"),
        ),
        (
            "/rules/inbound/0/addresses/ipv4",
            json!([]),
            format!("{inbound}.addresses"),
        ),
        (
            "/rules/inbound/0/addresses/ipv4",
            many(256),
            format!("{inbound}.addresses"),
        ),
        (
            "/devices",
            json!({ "nodebalancers": [4711] }),
            "devices.nodebalancers[0]".to_owned(),
        ),
        ("/tags", json!(["ab"]), "tags[0]".to_owned()),
    ] {
        let mut body = firewall("fw-1");
        body["devices"] = json!({});
        let (parent, last) = pointer.rsplit_once('/').unwrap();
        body.pointer_mut(parent).unwrap()[last] = value;
        let refused = post(&linode, "/networking/firewalls", &body).await;
        assert_eq!(refused.status, 400, "{pointer}: {refused:?}");
        let errors = refused.json()["errors"].clone();
        let mut errors = errors.as_array().unwrap().iter();
        assert!(
            errors.any(|error| error["field"] == *field),
            "{pointer}: {refused:?}"
        );
    }
    assert_eq!(linode.all(Kind::Firewall).len(), 1);
    let mut body = firewall("fw-2");
    body["rules"]["inbound"][0]["addresses"]["ipv4"] = many(255);
    let linodes = linode.add(mooring_cloud_sim::linode::Instance::labelled("n3"));
    body["devices"] = json!({ "linodes": [linodes] });
    let shown = made(&linode, "/networking/firewalls", &body).await;
    assert_eq!(shown["entities"][0]["label"], "n3");
}

#[tokio::test]
async fn put_firewall_attaches_it_to_its_entities() {
    let linode = with_backends().await;
    let balancer = linode.put_node_balancer(&json!({ "label": "by-hand", "ipv4": "192.0.2.7" }));
    let entities = json!([{ "type": "nodebalancer", "id": balancer }]);
    let firewall = linode.put_firewall(&json!({ "label": "fw-1", "entities": entities }));
    let shown = linode.get(Kind::NodeBalancer, balancer).unwrap();
    assert_eq!(shown["ipv4"], "192.0.2.7");
    assert_eq!(firewalls_of(&linode, &shown).await, [json!(firewall)]);
    linode.set_in(Kind::NodeBalancer, balancer, "client_conn_throttle", 7);
    assert_eq!(
        read(&linode, &path(&shown)).await["client_conn_throttle"],
        7
    );
    assert!(linode.remove_firewall(firewall) && !linode.remove_firewall(firewall));
    assert!(linode.remove_node_balancer(balancer) && !linode.remove_node_balancer(balancer));
    assert_eq!(linode.reserve("eu-central", Some("192.0.2.8")), "192.0.2.8");
}
