//! Load balancers of cloudscale.ch: what is made, shown, changed and deleted.

use std::time::Duration;

use mooring_tests::cloud_sim::cloudscale::{Behaviour, Cloudscale, Interface, Kind, Machine};
use mooring_tests::wait::eventually;
use serde_json::{Value, json};

use crate::client::{Answer, get, send};

pub(crate) const SUBNET: &str = "99999999-2222-4333-8444-555555555555";
const SOON: Duration = Duration::from_secs(5);

/// A cloud whose load balancers are there at once.
pub(crate) async fn quick() -> Cloudscale {
    let cloud = Cloudscale::start().await.unwrap();
    cloud.behave(Behaviour {
        provisioning: Duration::ZERO,
        ..Behaviour::default()
    });
    cloud
}

pub(crate) async fn post(cloud: &Cloudscale, path: &str, body: Value) -> Answer {
    send(
        &cloud.url(),
        "POST",
        &format!("/v1/load-balancers{path}"),
        &body,
    )
    .await
}

pub(crate) async fn made(cloud: &Cloudscale, path: &str, body: Value) -> Value {
    let answer = post(cloud, path, body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

pub(crate) async fn patch(cloud: &Cloudscale, object: &Value, body: Value) -> Answer {
    let path = path_of(cloud, object);
    send(&cloud.url(), "PATCH", &path, &body).await
}

pub(crate) async fn delete(cloud: &Cloudscale, object: &Value) -> Answer {
    let path = path_of(cloud, object);
    send(&cloud.url(), "DELETE", &path, &Value::Null).await
}

/// The path of an object, of which the `href` is absolute.
pub(crate) fn path_of(cloud: &Cloudscale, object: &Value) -> String {
    let href = object["href"].as_str().unwrap();
    href.strip_prefix(&cloud.url()).unwrap().to_owned()
}

pub(crate) fn pool_of(balancer: &Value) -> Value {
    json!({
        "name": "tcp", "load_balancer": balancer["uuid"], "algorithm": "round_robin",
        "protocol": "tcp",
    })
}

pub(crate) fn member(address: &str) -> Value {
    json!({
        "name": format!("{address}:30080"), "protocol_port": 30080, "monitor_port": 30080,
        "address": address, "subnet": SUBNET,
    })
}

pub(crate) fn listener_of(pool: &Value, port: u16) -> Value {
    json!({
        "pool": pool["uuid"], "name": format!("tcp/{port}"), "protocol": "tcp",
        "protocol_port": port, "allowed_cidrs": [], "timeout_client_data_ms": 50000,
        "timeout_member_connect_ms": 5000, "timeout_member_data_ms": 50000,
    })
}

pub(crate) fn monitor_of(pool: &Value) -> Value {
    json!({
        "pool": pool["uuid"], "delay_s": 2, "timeout_s": 1, "up_threshold": 2,
        "down_threshold": 3, "type": "tcp", "http": {},
    })
}

/// A load balancer with a pool, two members, a listener and a monitor, as the calls of the
/// controller of cloudscale.ch make it; gives it and its pool.
pub(crate) async fn balanced(cloud: &Cloudscale, name: &str) -> (Value, Value) {
    let wanted = json!({ "name": name, "flavor": "lb-standard", "vip_addresses": [] });
    let balancer = made(cloud, "", wanted).await;
    let pool = made(cloud, "/pools", pool_of(&balancer)).await;
    let members = format!("/pools/{}/members", pool["uuid"].as_str().unwrap());
    for address in ["10.0.0.1", "10.0.0.2"] {
        made(cloud, &members, member(address)).await;
    }
    made(cloud, "/listeners", listener_of(&pool, 80)).await;
    made(cloud, "/health-monitors", monitor_of(&pool)).await;
    (balancer, pool)
}

#[tokio::test]
async fn a_load_balancer_is_made_as_the_controller_of_the_vendor_makes_it() {
    let cloud = Cloudscale::start().await.unwrap();
    let private = Interface::private().subnet(SUBNET).address("10.0.0.1");
    cloud.add(Machine::named("worker-1").interface(private));
    let wanted = json!({ "name": "lb", "flavor": "lb-standard", "vip_addresses": [] });
    let balancer = made(&cloud, "", wanted).await;
    assert_eq!(balancer["status"], "changing");
    assert_eq!(
        (&balancer["zone"]["slug"], &balancer["tags"]),
        (&json!("rma1"), &json!({}))
    );
    let vips = balancer["vip_addresses"].as_array().unwrap();
    let versions: Vec<_> = vips
        .iter()
        .map(|vip| vip["version"].as_u64().unwrap())
        .collect();
    assert_eq!(versions, [4, 6]);
    eventually("it runs", SOON, async || {
        get(&cloud.url(), &path_of(&cloud, &balancer)).await.json()["status"] == "running"
    })
    .await;

    let pool = made(&cloud, "/pools", pool_of(&balancer)).await;
    assert_eq!(pool["load_balancer"]["uuid"], balancer["uuid"]);
    let members = format!("/pools/{}/members", pool["uuid"].as_str().unwrap());
    let added = made(&cloud, &members, member("10.0.0.1")).await;
    assert_eq!(
        (&added["enabled"], &added["monitor_status"]),
        (&json!(true), &json!("no_monitor"))
    );
    let server = &cloud.all(Kind::Server)[0];
    let subnet = &server["interfaces"][0]["addresses"][0]["subnet"];
    assert_eq!(&added["subnet"], subnet, "as its server shows it");
    let listener = made(&cloud, "/listeners", listener_of(&pool, 80)).await;
    let monitor = made(&cloud, "/health-monitors", monitor_of(&pool)).await;
    assert_eq!(monitor["http"], Value::Null);
    for (path, object) in [
        ("/v1/load-balancers", &balancer),
        ("/v1/load-balancers/pools", &pool),
        ("/v1/load-balancers/listeners", &listener),
        ("/v1/load-balancers/health-monitors", &monitor),
        (&format!("/v1/load-balancers{members}"), &added),
    ] {
        let listed = get(&cloud.url(), path).await.json();
        assert_eq!(listed[0]["uuid"], object["uuid"], "{path}");
        assert_eq!(listed.as_array().unwrap().len(), 1);
        let one = get(&cloud.url(), &path_of(&cloud, object)).await.json();
        assert_eq!(one, listed[0]);
        let nobody = format!("{path}/00000000-0000-4000-8000-000000004711");
        assert_eq!(get(&cloud.url(), &nobody).await.status, 404);
    }
    let member = get(&cloud.url(), &path_of(&cloud, &added)).await.json();
    assert_eq!(member["monitor_status"], "up");
    assert_eq!(cloud.members_of("lb", "tcp"), ["10.0.0.1:30080"]);
    assert_eq!((cloud.member_posts(), cloud.concurrent_writes()), (1, 0));
    assert_eq!(cloud.calls().writes().bodies().len(), 5);
}
