//! Servers of PhoenixNAP on public networks, and the networks themselves.

use mooring_cloud_sim::phoenixnap::{Behaviour, Kind, Machine, Pace, Phoenixnap};
use serde_json::{Value, json};

use crate::cloud_sims::phoenixnap::{column, get, send};

const NETWORKS: &str = "/networks/v1/public-networks";

fn memberships_of(server: &str) -> String {
    format!(
        "/bmc/v1/servers/{server}/network-configuration/public-network-configuration/public-networks"
    )
}

/// A cloud with a server, a network and a block on it.
async fn cloud() -> (Phoenixnap, String, String) {
    let cloud = Phoenixnap::start().await.unwrap();
    let server = cloud.add(Machine::named("n1").public("192.0.2.1"));
    let network = cloud.add_network("net", "PHX");
    let block = json!({ "cidr": "203.0.113.8/29", "assignedResourceId": network });
    cloud.put(Kind::Block, block);
    (cloud, server, network)
}

#[tokio::test]
async fn a_server_joins_and_its_addresses_are_public_ones() {
    let (cloud, server, network) = cloud().await;
    cloud.behave(Behaviour::paced(Pace::Held));
    let path = memberships_of(&server);
    let body = json!({ "id": network, "ips": ["203.0.113.11"] });
    let joined = send(&cloud, "POST", &path, &body).await;
    assert_eq!(
        (joined.status, &joined.json()["statusDescription"]),
        (202, &json!("in-progress"))
    );
    let busy = get(&cloud, &format!("{NETWORKS}/{network}")).await.json();
    assert_eq!(busy["status"], "BUSY");
    cloud.finish();
    let shown = get(&cloud, &format!("/bmc/v1/servers/{server}"))
        .await
        .json();
    assert_eq!(
        shown["publicIpAddresses"],
        json!(["192.0.2.1", "203.0.113.11"])
    );
    let networks = &shown["networkConfiguration"]["publicNetworkConfiguration"]["publicNetworks"];
    assert_eq!(
        networks,
        &json!([{ "id": network, "ips": ["203.0.113.11"], "statusDescription": "assigned" }])
    );
    let shown = get(&cloud, &format!("{NETWORKS}/{network}")).await.json();
    let member = json!({ "resourceId": server, "resourceType": "server", "ips": ["203.0.113.11"] });
    assert_eq!(
        (&shown["memberships"], &shown["status"]),
        (&json!([member]), &json!("READY"))
    );
    assert_eq!(shown["ipBlocks"][0]["usedIpsCount"], "1");
    assert_eq!(send(&cloud, "POST", &path, &body).await.status, 409, "once");

    // A block whose addresses members use stays, unless it is forced off.
    let block = cloud.blocks_on(&network).remove(0);
    let off = format!("{NETWORKS}/{network}/ip-blocks/{block}");
    assert_eq!(send(&cloud, "DELETE", &off, &Value::Null).await.status, 409);
    let left = send(&cloud, "DELETE", &format!("{path}/{network}"), &Value::Null).await;
    assert_eq!(left.status, 202);
    cloud.finish();
    let shown = get(&cloud, &format!("/bmc/v1/servers/{server}"))
        .await
        .json();
    assert_eq!(shown["publicIpAddresses"], json!(["192.0.2.1"]));
    assert_eq!(send(&cloud, "DELETE", &off, &Value::Null).await.status, 202);
}

#[tokio::test]
async fn a_server_joins_without_addresses_by_force_alone() {
    let (cloud, server, network) = cloud().await;
    let path = memberships_of(&server);
    let (none, forced) = (
        json!({ "id": network, "ips": [] }),
        format!("{path}?force=true"),
    );
    assert_eq!(send(&cloud, "POST", &path, &none).await.status, 400);
    for body in [
        json!({ "id": network }),
        json!({ "id": network, "ips": ["198.51.100.1"] }),
        json!({ "id": network, "ips": ["everywhere"] }),
        json!({ "id": network, "ips": [], "surprise": 1 }),
    ] {
        assert_eq!(
            send(&cloud, "POST", &forced, &body).await.status,
            400,
            "{body}"
        );
    }
    let far = cloud.add_network("far", "ASH");
    let body = json!({ "id": far, "ips": [] });
    assert_eq!(send(&cloud, "POST", &forced, &body).await.status, 400);
    assert_eq!(send(&cloud, "POST", &forced, &none).await.status, 202);
    let path = format!("{path}/{network}");
    let body = json!({ "ips": ["203.0.113.12"] });
    assert_eq!(send(&cloud, "PATCH", &path, &body).await.status, 200);
    let taken = cloud.add(Machine::named("n2"));
    let body = json!({ "id": network, "ips": ["203.0.113.12"] });
    let path = memberships_of(&taken);
    assert_eq!(
        send(&cloud, "POST", &path, &body).await.status,
        400,
        "it is taken"
    );
}

#[tokio::test]
async fn networks_are_made_changed_and_deleted_when_they_are_empty() {
    let (cloud, _, first) = cloud().await;
    let body = json!({ "name": "second", "location": "ASH", "vlanId": 77 });
    let made = send(&cloud, "POST", NETWORKS, &body).await;
    assert_eq!((made.status, &made.json()["vlanId"]), (201, &json!(77)));
    let list = get(&cloud, &format!("{NETWORKS}?location=ASH"))
        .await
        .json();
    assert_eq!(column(&list, "name"), ["second"]);
    let path = format!("{NETWORKS}/{}", list[0]["id"].as_str().unwrap());
    let renamed = send(&cloud, "PATCH", &path, &json!({ "name": "third" })).await;
    assert_eq!(
        (renamed.status, &renamed.json()["name"]),
        (200, &json!("third"))
    );
    assert_eq!(
        send(&cloud, "PATCH", &path, &json!({ "vlanId": 78 }))
            .await
            .status,
        400
    );
    assert_eq!(
        send(&cloud, "DELETE", &path, &Value::Null).await.status,
        204
    );
    let full = format!("{NETWORKS}/{first}");
    assert_eq!(
        send(&cloud, "DELETE", &full, &Value::Null).await.status,
        409
    );
    for body in [
        json!({ "name": "x" }),
        json!({ "name": "x", "location": "MARS" }),
        json!({ "name": "x", "location": "ASH", "vlanId": 1 }),
    ] {
        assert_eq!(
            send(&cloud, "POST", NETWORKS, &body).await.status,
            400,
            "{body}"
        );
    }
}
