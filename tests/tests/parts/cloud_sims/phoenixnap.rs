//! PhoenixNAP: what every suite about it needs, and its listings.

use mooring_cloud_sim::phoenixnap::{
    CLIENT_ID, CLIENT_SECRET, Kind, Machine, Phoenixnap, Spelling, TOKEN_PATH,
};
use serde_json::{Value, json};

use crate::cloud_sims::client::{Answer, tell};

/// Asks for a token with these fields.
pub(crate) async fn grant(cloud: &Phoenixnap, fields: &[(&str, &str)]) -> Answer {
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

/// A good token.
pub(crate) async fn token(cloud: &Phoenixnap) -> String {
    let fields = [
        ("grant_type", "client_credentials"),
        ("client_id", CLIENT_ID),
        ("client_secret", CLIENT_SECRET),
    ];
    let answer = grant(cloud, &fields).await;
    let token = &answer.json()["access_token"];
    token.as_str().expect("a token").to_owned()
}

/// A request with this token; `null` is no body.
pub(crate) async fn with_token(
    cloud: &Phoenixnap,
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

/// A request with a token of its own.
pub(crate) async fn send(cloud: &Phoenixnap, method: &str, path: &str, body: &Value) -> Answer {
    with_token(cloud, &token(cloud).await, method, path, body).await
}

pub(crate) async fn get(cloud: &Phoenixnap, path: &str) -> Answer {
    send(cloud, "GET", path, &Value::Null).await
}

/// The values of this field in a list, in order.
pub(crate) fn column(list: &Value, field: &str) -> Vec<String> {
    let list = list.as_array().expect("a list");
    list.iter()
        .map(|item| item[field].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn servers_are_listed_whole_and_one_that_is_not_there_is_forbidden() {
    let cloud = Phoenixnap::start().await.unwrap();
    for number in 0..120 {
        cloud.add(Machine::named(&format!("n{number}")));
    }
    let machine = Machine::named("web")
        .public("192.0.2.1")
        .private("10.0.0.1");
    let id = cloud.add(machine.location("ASH").kind("d1.c1.small"));
    let list = get(&cloud, "/bmc/v1/servers").await.json();
    assert_eq!(list.as_array().unwrap().len(), 121);
    assert_eq!(id.len(), 24);
    let one = get(&cloud, &format!("/bmc/v1/servers/{id}")).await.json();
    assert_eq!(one, list[120]);
    for (field, value) in [
        ("hostname", json!("web")),
        ("status", json!("powered-on")),
        ("type", json!("d1.c1.small")),
        ("location", json!("ASH")),
        ("publicIpAddresses", json!(["192.0.2.1"])),
        ("privateIpAddresses", json!(["10.0.0.1"])),
    ] {
        assert_eq!(one[field], value, "{field}");
    }
    for kind in Kind::ALL {
        let path = format!("{}/60473c25ffffffff00004711", kind.path());
        let missing = get(&cloud, &path).await;
        assert_eq!(missing.status, 403, "{path}");
        assert!(missing.json()["message"].is_string(), "{missing:?}");
        assert_eq!(missing.json().get("validationErrors"), None);
    }
    assert_eq!(get(&cloud, "/bmc/v1/nonsense").await.status, 404);
    cloud.adjust(|behaviour| behaviour.missing = http::StatusCode::NOT_FOUND);
    assert_eq!(get(&cloud, "/bmc/v1/servers/x").await.status, 404);
}

#[tokio::test]
async fn tags_narrow_a_listing_unless_it_is_said_that_they_widen_it() {
    let cloud = Phoenixnap::start().await.unwrap();
    for (cluster, service) in [("a", "web"), ("a", "db"), ("b", "web")] {
        let tags = json!({ "cluster": cluster, "service": service });
        cloud.put(
            Kind::Block,
            json!({ "tags": tags, "description": format!("{cluster}/{service}") }),
        );
    }
    cloud.put(Kind::Block, json!({ "description": "bare" }));
    let found = async |query: &str| {
        let path = format!("/ips/v1/ip-blocks{query}");
        column(&get(&cloud, &path).await.json(), "description")
    };
    let all = ["a/web", "a/db", "b/web", "bare"];
    assert_eq!(found("").await, all);
    assert_eq!(found("?tag=cluster.a").await, all[..2]);
    assert_eq!(found("?tag=cluster").await, all[..3]);
    assert_eq!(found("?tag=cluster.a&tag=service.web").await, all[..1]);
    assert_eq!(found("?tag=cluster.c").await, [""; 0]);
    cloud.adjust(|behaviour| behaviour.tags_widen = true);
    assert_eq!(found("?tag=cluster.a&tag=service.web").await, all[..3]);
}

#[tokio::test]
async fn statuses_and_types_have_two_spellings() {
    let cloud = Phoenixnap::start().await.unwrap();
    let network = cloud.add_network("net", "PHX");
    let block = cloud.put(Kind::Block, json!({ "assignedResourceId": network }));
    let spelled = async || {
        let block = get(&cloud, &format!("/ips/v1/ip-blocks/{block}"))
            .await
            .json();
        let text = |field: &str| block[field].as_str().unwrap().to_owned();
        [text("assignedResourceType"), text("status")]
    };
    assert_eq!(spelled().await, ["public network", "assigned"]);
    cloud.adjust(|behaviour| {
        behaviour.resource_type = Spelling::Constants;
        behaviour.status = Spelling::Constants;
    });
    assert_eq!(spelled().await, ["PUBLIC_NETWORK", "ASSIGNED"]);
    cloud.set_in(Kind::Block, &block, "status", "error assigning");
    assert_eq!(spelled().await, ["PUBLIC_NETWORK", "ERROR_ASSIGNING"]);
}

#[tokio::test]
async fn peer_groups_are_pending_before_they_are_ready() {
    let cloud = Phoenixnap::start().await.unwrap();
    cloud.adjust(|behaviour| behaviour.peering = mooring_cloud_sim::phoenixnap::Pace::Looks(1));
    let path = "/networks/v1/bgp-peer-groups";
    let body = json!({ "location": "PHX", "asn": 65401, "advertisedRoutes": "NONE" });
    let made = send(&cloud, "POST", path, &body).await;
    assert_eq!(
        (made.status, &made.json()["status"]),
        (202, &json!("PENDING"))
    );
    let statuses = async || column(&get(&cloud, path).await.json(), "status");
    assert_eq!(statuses().await, ["PENDING"]);
    assert_eq!(statuses().await, ["READY"]);
    let group = get(&cloud, "/networks/v1/bgp-peer-groups?location=PHX")
        .await
        .json();
    assert_eq!(group[0]["activeAsnDetails"]["asn"], 65401);
    assert_eq!(
        group[0]["peeringLoopbacksV4"],
        json!(["169.254.247.0", "169.254.247.1"])
    );
    assert_eq!(
        send(&cloud, "POST", path, &body).await.status,
        409,
        "one per location"
    );
    let path = format!("{path}/{}", group[0]["id"].as_str().unwrap());
    assert_eq!(
        send(&cloud, "DELETE", &path, &Value::Null).await.status,
        202
    );
    assert_eq!(
        get(&cloud, &path).await.json()["status"],
        "PENDING_DELETION"
    );
    assert_eq!(get(&cloud, &path).await.status, 403);
}
