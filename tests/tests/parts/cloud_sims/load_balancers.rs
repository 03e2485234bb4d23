//! Load balancers of cloudscale.ch: what is made, shown, changed and deleted.

use std::time::Duration;

use mooring_cloud_sim::cloudscale::{Behaviour, Cloudscale, Interface, Kind, Machine};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::cloud_sims::client::{Answer, get, send};

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

#[tokio::test]
async fn a_load_balancer_takes_its_parts_along_and_lets_floating_ips_go() {
    let cloud = quick().await;
    cloud.put(Kind::FloatingIp, json!({ "network": "203.0.113.9/32" }));
    let (balancer, _) = balanced(&cloud, "gone").await;
    balanced(&cloud, "stays").await;
    let stays = cloud.snapshot().load_balancer("stays").clone();
    let assign = json!({ "load_balancer": balancer["uuid"] });
    let assigned = send(
        &cloud.url(),
        "PATCH",
        "/v1/floating-ips/203.0.113.9",
        &assign,
    )
    .await;
    assert_eq!(assigned.status, 204);
    let ip = get(&cloud.url(), "/v1/floating-ips/203.0.113.9")
        .await
        .json();
    assert_eq!(ip["load_balancer"]["uuid"], balancer["uuid"]);
    assert_eq!(ip["next_hop"], balancer["vip_addresses"][0]["address"]);
    let held = cloud.snapshot().load_balancer("gone")["floating_ips"].clone();
    assert_eq!(held, json!(["203.0.113.9/32"]));

    assert_eq!(delete(&cloud, &balancer).await.status, 204);
    assert_eq!(delete(&cloud, &balancer).await.status, 404);
    assert_eq!(cloud.snapshot().load_balancer("stays"), &stays);
    for (kind, left) in [
        (Kind::LoadBalancer, 1),
        (Kind::Pool, 1),
        (Kind::Member, 2),
        (Kind::Listener, 1),
        (Kind::HealthMonitor, 1),
        (Kind::FloatingIp, 1),
    ] {
        assert_eq!(cloud.all(kind).len(), left, "{kind:?}");
    }
    assert_eq!(cloud.all(Kind::FloatingIp)[0]["load_balancer"], Value::Null);
}

#[tokio::test]
async fn a_pool_takes_its_members_and_monitor_along_and_its_listeners_if_it_is_told_to() {
    for cascade in [true, false] {
        let cloud = quick().await;
        cloud.behave(Behaviour {
            pool_deletes_cascade_listeners: cascade,
            provisioning: Duration::ZERO,
            ..Behaviour::default()
        });
        let (_, pool) = balanced(&cloud, "lb").await;
        assert_eq!(delete(&cloud, &pool).await.status, 204);
        assert!(cloud.all(Kind::Member).is_empty() && cloud.all(Kind::HealthMonitor).is_empty());
        let listeners = cloud.all(Kind::Listener);
        let pools: Vec<_> = listeners.iter().map(|listener| &listener["pool"]).collect();
        let expected = if cascade { vec![] } else { vec![&Value::Null] };
        assert_eq!(pools, expected);
    }
}

#[tokio::test]
async fn names_tags_and_numbers_change_in_place() {
    let cloud = quick().await;
    let (balancer, pool) = balanced(&cloud, "lb").await;
    let listener = cloud.all(Kind::Listener).remove(0);
    let monitor = cloud.all(Kind::HealthMonitor).remove(0);
    let member = cloud.all(Kind::Member).remove(0);
    for (object, change) in [
        (&balancer, json!({ "name": "new" })),
        (&balancer, json!({ "tags": { "owner": "mooring" } })),
        (&pool, json!({ "name": "tcp/new" })),
        (&member, json!({ "enabled": false })),
        (
            &listener,
            json!({ "allowed_cidrs": ["10.0.0.0/8", "2001:db8::/32"] }),
        ),
        (&listener, json!({ "timeout_client_data_ms": 7 })),
        (&monitor, json!({ "delay_s": 9 })),
        (&monitor, json!({})),
    ] {
        let answer = patch(&cloud, object, change.clone()).await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{change}");
        let shown = get(&cloud.url(), &path_of(&cloud, object)).await.json();
        for (field, value) in change.as_object().unwrap() {
            assert_eq!(&shown[field], value);
        }
    }
    let listener = get(&cloud.url(), &path_of(&cloud, &listener)).await.json();
    assert_eq!(
        listener["load_balancer"]["name"], "new",
        "names are shown as they are now"
    );
    assert_eq!(listener["pool"]["name"], "tcp/new");
    for (query, count) in [
        ("?tag:owner=mooring", 1),
        ("?tag:owner=else", 0),
        ("?tag:owner", 1),
    ] {
        let listed = get(&cloud.url(), &format!("/v1/load-balancers{query}"))
            .await
            .json();
        assert_eq!(listed.as_array().unwrap().len(), count, "{query}");
    }
}

#[tokio::test]
async fn two_ends_are_equal_whatever_the_way_there() {
    let (one, other) = (quick().await, quick().await);
    balanced(&one, "a").await;
    balanced(&one, "b").await;
    balanced(&other, "b").await;
    let (_, pool) = balanced(&other, "a").await;
    assert_eq!(one.snapshot(), other.snapshot());
    assert!(one.snapshot().diff(&other.snapshot()).is_empty());

    let uuid = pool["uuid"].as_str().unwrap();
    other.set_in(Kind::Pool, uuid, "tags", json!({ "owner": "mooring" }));
    assert_ne!(one.snapshot(), other.snapshot());
    assert_eq!(
        one.snapshot().without_tags(),
        other.snapshot().without_tags()
    );
    other.set_in(Kind::Pool, uuid, "algorithm", "source_ip");
    let diff = one
        .snapshot()
        .without_tags()
        .diff(&other.snapshot().without_tags());
    assert_eq!(
        diff,
        [r#"/load_balancers/0/pools/0/algorithm: "round_robin" and "source_ip""#]
    );
}

#[tokio::test]
async fn a_state_file_tells_of_load_balancers_and_all_their_parts() {
    let cloud = quick().await;
    let uuid = |n: u8| format!("00000000-0000-4000-8000-0000000000{n:02}");
    let content = json!({
        "load_balancers": [{ "uuid": uuid(1), "name": "lb", "tags": { "a": "b" } }],
        "pools": [{ "uuid": uuid(2), "name": "tcp", "load_balancer": uuid(1) }],
        "members": [{ "uuid": uuid(3), "pool": uuid(2), "address": "10.0.0.1", "subnet": SUBNET }],
        "listeners": [{ "uuid": uuid(4), "pool": { "uuid": uuid(2) }, "protocol_port": 443 }],
        "health_monitors": [{ "uuid": uuid(5), "pool": uuid(2), "type": "http" }],
        "floating_ips": [{ "network": "2001:db8::7/128", "load_balancer": uuid(1) }],
    });
    cloud.load(&content).unwrap();
    let monitor = cloud.get(Kind::HealthMonitor, &uuid(5)).unwrap();
    assert_eq!(monitor["http"]["version"], "1.1");
    assert_eq!(monitor["load_balancer"]["name"], "lb");
    assert_eq!(cloud.members_of("lb", "tcp"), ["10.0.0.1:80"]);
    let ip = get(&cloud.url(), "/v1/floating-ips/2001:db8::7")
        .await
        .json();
    assert_eq!(
        (&ip["ip_version"], &ip["load_balancer"]["uuid"]),
        (&json!(6), &json!(uuid(1)))
    );
    for (content, complaint) in [
        (json!({ "serverz": [] }), "serverz"),
        (json!({ "pools": {} }), "pools"),
        (
            json!({ "pools": [{ "load_balancer": uuid(9) }] }),
            "pools[0]",
        ),
    ] {
        let refused = format!("{:#}", cloud.load(&content).unwrap_err());
        assert!(refused.starts_with(complaint), "{refused}");
    }
}
