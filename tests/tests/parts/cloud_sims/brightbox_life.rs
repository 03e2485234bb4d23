//! What becomes of things at Brightbox with time, and what they are called.

use std::time::Duration;

use mooring_cloud_sim::brightbox::{Behaviour, Brightbox, Kind, Machine};
use mooring_cloud_sim::phoenixnap::{self, Phoenixnap};
use serde_json::{Value, json};

use crate::cloud_sims::brightbox::{get, token, with_token};
use crate::cloud_sims::phoenixnap as at_phoenixnap;

/// A long time in this simulation, which passes at once.
const LONG: Duration = Duration::from_secs(3600);

async fn send(cloud: &Brightbox, method: &str, path: &str, body: Value) -> Value {
    let token = token(cloud).await;
    let answer = with_token(cloud, &token, method, path, &body).await;
    assert!(answer.status < 300, "{method} {path}: {answer:?}");
    answer.json()
}

/// A load balancer that is being made; gives its identifier.
async fn balancer(cloud: &Brightbox) -> String {
    let node = cloud.add(Machine::named("n1"));
    let options = json!({
        "name": "web", "nodes": [{ "node": node }],
        "listeners": [{ "protocol": "tcp", "in": 80, "out": 31347 }],
        "healthcheck": { "type": "tcp", "port": 31347, "request": "/" },
    });
    let made = send(cloud, "POST", "/1.0/load_balancers", options).await;
    made["id"].as_str().expect("an identifier").to_owned()
}

#[tokio::test]
async fn load_balancer_that_is_deleted_while_it_is_made_stays_deleted() {
    for deletion_shown in [Duration::ZERO, LONG / 2] {
        let cloud = Brightbox::start().await.unwrap();
        cloud.behave(Behaviour {
            creating: LONG,
            deletion_shown,
            deleting: LONG / 4,
            deleted_shown: LONG * 10,
            token_lifetime: LONG * 1000,
            ..Behaviour::default()
        });
        let id = balancer(&cloud).await;
        let path = format!("/1.0/load_balancers/{id}");
        send(&cloud, "DELETE", &path, Value::Null).await;
        let status = async || get(&cloud, &path).await.json()["status"].clone();
        cloud.advance(deletion_shown + LONG / 8);
        assert_eq!(status().await, "deleting");
        cloud.advance(LONG / 4);
        assert_eq!(status().await, "deleted");
        // By now it would have been made.
        cloud.advance(LONG);
        assert_eq!(status().await, "deleted", "it does not come alive again");
        assert_eq!(cloud.named(Kind::LoadBalancer, "web"), Vec::<Value>::new());
    }
}

#[tokio::test]
async fn load_balancer_that_failed_while_it_was_made_stays_failed() {
    let cloud = Brightbox::start().await.unwrap();
    cloud.behave(Behaviour {
        creating: LONG,
        token_lifetime: LONG * 1000,
        ..Behaviour::default()
    });
    let id = balancer(&cloud).await;
    cloud.set_in(Kind::LoadBalancer, &id, "status", "failed");
    cloud.advance(LONG);
    assert_eq!(
        cloud.get(Kind::LoadBalancer, &id).unwrap()["status"],
        "failed"
    );
}

/// How old something is, is a matter of the clock that the test moves.
#[tokio::test]
async fn listings_show_what_is_new_once_enough_time_has_passed() {
    let cloud = Brightbox::start().await.unwrap();
    cloud.adjust(|all| {
        all.listed_after = LONG;
        all.token_lifetime = LONG * 1000;
    });
    // What is made late is as new as what is made early.
    cloud.advance(LONG * 2);
    balancer(&cloud).await;
    let listed = async || get(&cloud, "/1.0/load_balancers").await.json();
    assert_eq!(listed().await, json!([]));
    cloud.advance(LONG);
    assert_eq!(listed().await[0]["name"], "web");

    let cloud = Phoenixnap::start().await.unwrap();
    cloud.adjust(|all| all.listed_after = LONG);
    cloud.advance(LONG * 2);
    cloud.put(phoenixnap::Kind::Block, json!({}));
    let path = "/ips/v1/ip-blocks";
    assert_eq!(at_phoenixnap::get(&cloud, path).await.json(), json!([]));
    cloud.advance(LONG);
    let listed = at_phoenixnap::get(&cloud, path).await.json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
}

/// brightbox.md, 6 and 7.
#[tokio::test]
async fn names_and_addresses_are_those_of_the_real_one() {
    let cloud = Brightbox::start().await.unwrap();
    let machine = Machine::named("n1").zone("gb1s-a");
    let machine = machine.interface(Some("10.1.69.162"), Some("2001:db8::1"));
    let id = cloud.add(machine);
    let server = get(&cloud, &format!("/1.0/servers/{id}")).await.json();
    assert_eq!(server["fqdn"], format!("{id}.gb1s.brightbox.com"));
    assert!(server["image"]["id"].is_string());
    let interface = &server["interfaces"][0];
    assert_eq!(interface["mac_address"], "02:24:19:01:45:a2");
    assert_eq!(interface["id"], id.replace("srv-", "int-"));

    let ip = json!({ "id": "cip-vsalc", "public_ip": "109.107.39.92" });
    cloud.put(Kind::CloudIp, ip);
    let ip = get(&cloud, "/1.0/cloud_ips/cip-vsalc").await.json();
    for (field, wanted) in [
        ("public_ip", "109.107.39.92"),
        ("public_ipv4", "109.107.39.92"),
        ("public_ipv6", "2a02:1348:ffff:ffff::6d6b:275c"),
        ("fqdn", "cip-vsalc.gb1.brightbox.com"),
        ("reverse_dns", "cip-109-107-39-92.gb1.brightbox.com"),
    ] {
        assert_eq!(ip[field], wanted, "{field}");
    }
    let [first, second] = ["cip-00001", "cip-00002"].map(|id| {
        cloud.put(Kind::CloudIp, json!({ "id": id }));
        cloud.get(Kind::CloudIp, id).unwrap()["public_ip"].clone()
    });
    assert_ne!(first, second);
    let unnamed = json!({ "public_ipv4": "192.0.2.7", "reverse_dns": null, "fqdn": null });
    let unnamed = cloud.put(Kind::CloudIp, unnamed);
    let unnamed = cloud.get(Kind::CloudIp, &unnamed).unwrap();
    assert_eq!(
        (
            &unnamed["reverse_dns"],
            &unnamed["fqdn"],
            &unnamed["public_ip"]
        ),
        (&Value::Null, &Value::Null, &json!("192.0.2.7"))
    );
}

#[tokio::test]
async fn cloud_ip_leads_to_an_interface_or_a_server_group_too() {
    let cloud = Brightbox::start().await.unwrap();
    cloud.adjust(|all| all.mapping = Duration::ZERO);
    let server = cloud.add(Machine::named("n1").interface(Some("10.0.0.1"), None));
    let interface = server.replace("srv-", "int-");
    let made = send(
        &cloud,
        "POST",
        "/1.0/server_groups",
        json!({ "name": "web" }),
    )
    .await;
    let group = made["id"].as_str().unwrap().to_owned();
    let ip = send(&cloud, "POST", "/1.0/cloud_ips", json!({})).await;
    let path = format!("/1.0/cloud_ips/{}", ip["id"].as_str().unwrap());
    let (map, unmap) = (format!("{path}/map"), format!("{path}/unmap"));

    send(&cloud, "POST", &map, json!({ "destination": interface })).await;
    let shown = get(&cloud, &path).await.json();
    assert_eq!(
        (&shown["interface"]["id"], &shown["server"]["id"]),
        (&json!(interface), &json!(server))
    );
    let of_server = get(&cloud, &format!("/1.0/servers/{server}")).await.json();
    assert_eq!(of_server["cloud_ips"][0]["id"], ip["id"]);
    send(&cloud, "POST", &unmap, Value::Null).await;
    let shown = get(&cloud, &path).await.json();
    assert_eq!(
        (&shown["interface"], &shown["server"]),
        (&Value::Null, &Value::Null)
    );

    send(&cloud, "POST", &map, json!({ "destination": group })).await;
    let shown = get(&cloud, &path).await.json();
    assert_eq!(
        (&shown["server_group"]["name"], &shown["status"]),
        (&json!("web"), &json!("mapped"))
    );
    send(
        &cloud,
        "DELETE",
        &format!("/1.0/server_groups/{group}"),
        Value::Null,
    )
    .await;
    let shown = get(&cloud, &path).await.json();
    assert_eq!(
        (&shown["server_group"], &shown["status"]),
        (&Value::Null, &json!("unmapped"))
    );

    let token = token(&cloud).await;
    for nowhere in ["int-zzzzz", "grp-zzzzz", "dbs-zzzzz"] {
        let nowhere = json!({ "destination": nowhere });
        let refused = with_token(&cloud, &token, "POST", &map, &nowhere).await;
        assert_eq!(refused.status, 404, "{nowhere}");
    }
}
