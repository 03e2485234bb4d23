//! IP blocks of PhoenixNAP: bought, tagged, put on public networks, given back.

use std::time::Duration;

use http::{Method, StatusCode};
use mooring_cloud_sim::phoenixnap::{Behaviour, Kind, Pace, Phoenixnap};
use mooring_cloud_sim::{Fault, When};
use serde_json::{Value, json};

use crate::cloud_sims::client::Answer;
use crate::cloud_sims::phoenixnap::{column, get, send, token};

const BLOCKS: &str = "/ips/v1/ip-blocks";
const NETWORKS: &str = "/networks/v1/public-networks";

fn new_block() -> Value {
    json!({ "location": "PHX", "cidrBlockSize": "/29" })
}

/// A cloud with a network, all of whose changes are held.
async fn held() -> (Phoenixnap, String) {
    let cloud = Phoenixnap::start().await.unwrap();
    let network = cloud.add_network("net", "PHX");
    cloud.behave(Behaviour::paced(Pace::Held));
    (cloud, network)
}

async fn buy(cloud: &Phoenixnap) -> String {
    let made = send(cloud, "POST", BLOCKS, &new_block()).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.json()["id"].as_str().unwrap().to_owned()
}

async fn attach(cloud: &Phoenixnap, network: &str, block: &str) -> Answer {
    let path = format!("{NETWORKS}/{network}/ip-blocks");
    send(cloud, "POST", &path, &json!({ "id": block })).await
}

async fn detach(cloud: &Phoenixnap, network: &str, block: &str) -> Answer {
    let path = format!("{NETWORKS}/{network}/ip-blocks/{block}");
    send(cloud, "DELETE", &path, &Value::Null).await
}

async fn block(cloud: &Phoenixnap, id: &str) -> Value {
    get(cloud, &format!("{BLOCKS}/{id}")).await.json()
}

async fn status(cloud: &Phoenixnap, id: &str) -> String {
    let block = block(cloud, id).await;
    block["status"].as_str().unwrap_or_default().to_owned()
}

async fn network_status(cloud: &Phoenixnap, id: &str) -> String {
    let network = get(cloud, &format!("{NETWORKS}/{id}")).await.json();
    network["status"].as_str().unwrap().to_owned()
}

async fn release(cloud: &Phoenixnap, id: &str) -> Answer {
    send(cloud, "DELETE", &format!("{BLOCKS}/{id}"), &Value::Null).await
}

#[tokio::test]
async fn a_block_goes_through_all_states_and_its_network_is_busy_meanwhile() {
    let (cloud, network) = held().await;
    let id = buy(&cloud).await;
    assert_eq!(status(&cloud, &id).await, "creating");
    assert_eq!(attach(&cloud, &network, &id).await.status, 409);
    assert_eq!(release(&cloud, &id).await.status, 409);
    cloud.finish();
    assert_eq!(status(&cloud, &id).await, "unassigned");

    let attached = attach(&cloud, &network, &id).await;
    assert_eq!(attached.status, 202);
    let cidr = "203.0.113.8/29";
    assert_eq!(
        attached.json(),
        json!({ "id": id, "cidr": cidr, "usedIpsCount": "0" })
    );
    assert_eq!(status(&cloud, &id).await, "assigning");
    assert_eq!(block(&cloud, &id).await.get("assignedResourceId"), None);
    assert_eq!(network_status(&cloud, &network).await, "BUSY");
    cloud.adjust(|behaviour| behaviour.creating = Pace::AT_ONCE);
    let second = buy(&cloud).await;
    assert_eq!(attach(&cloud, &network, &second).await.status, 409);
    assert_eq!(detach(&cloud, &network, &id).await.status, 409);
    assert_eq!(release(&cloud, &id).await.status, 409);
    cloud.finish();
    let assigned = block(&cloud, &id).await;
    assert_eq!(
        (
            &assigned["status"],
            &assigned["assignedResourceId"],
            &assigned["assignedResourceType"]
        ),
        (
            &json!("assigned"),
            &json!(network),
            &json!("public network")
        )
    );
    assert_eq!(network_status(&cloud, &network).await, "READY");
    assert_eq!(cloud.blocks_on(&network), std::slice::from_ref(&id));

    let detached = detach(&cloud, &network, &id).await;
    assert_eq!(detached.status, 202);
    assert!(detached.json().is_string(), "{detached:?}");
    assert_eq!(status(&cloud, &id).await, "unassigning");
    assert_eq!(detach(&cloud, &network, &id).await.status, 409);
    cloud.finish();
    assert_eq!(status(&cloud, &id).await, "unassigned");
    assert_eq!(block(&cloud, &id).await.get("assignedResourceId"), None);
    assert_eq!(cloud.blocks_on(&network), [""; 0]);
    let released = release(&cloud, &id).await;
    assert_eq!(
        (released.status, &released.json()["ipBlockId"]),
        (200, &json!(id))
    );
    assert_eq!(release(&cloud, &id).await.status, 403);
    assert_eq!(cloud.releases(), [id]);
    assert_eq!(cloud.purchases().len(), 2);
    assert!(cloud.purchases()[0].released && !cloud.purchases()[1].released);
}

#[tokio::test]
async fn time_passes_by_the_clock_or_by_looks() {
    let cloud = Phoenixnap::start().await.unwrap();
    let network = cloud.add_network("net", "PHX");
    cloud.behave(Behaviour::paced(Pace::Takes(Duration::from_secs(60))));
    let id = buy(&cloud).await;
    assert_eq!(status(&cloud, &id).await, "creating");
    cloud.advance(Duration::from_secs(61));
    assert_eq!(status(&cloud, &id).await, "unassigned");
    assert!(cloud.purchases()[0].held >= Duration::from_secs(61));
    let created = |id: &str| cloud.get(Kind::Block, id).unwrap()["createdOn"].to_string();
    let later = buy(&cloud).await;
    assert!(created(&later) > created(&id));
    cloud.take(Kind::Block, &later);

    cloud.behave(Behaviour::paced(Pace::Looks(2)));
    assert_eq!(attach(&cloud, &network, &id).await.status, 202);
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(column(&get(&cloud, BLOCKS).await.json(), "status").remove(0));
    }
    assert_eq!(seen, ["assigning", "assigning", "assigned"]);
}

#[tokio::test]
async fn an_assignment_can_fail_and_be_repeated_or_given_up() {
    let (cloud, network) = held().await;
    cloud.behave(Behaviour {
        failing_assignments: 2,
        failing_unassignments: 1,
        ..Behaviour::default()
    });
    let id = buy(&cloud).await;
    assert_eq!(attach(&cloud, &network, &id).await.status, 202);
    assert_eq!(status(&cloud, &id).await, "error assigning");
    assert_eq!(release(&cloud, &id).await.status, 409);
    assert_eq!(attach(&cloud, &network, &id).await.status, 202);
    assert_eq!(status(&cloud, &id).await, "error assigning");
    assert_eq!(detach(&cloud, &network, &id).await.status, 202);
    assert_eq!(status(&cloud, &id).await, "error unassigning");
    assert_eq!(detach(&cloud, &network, &id).await.status, 202);
    assert_eq!(status(&cloud, &id).await, "unassigned");
    assert_eq!(cloud.misdirected(), [""; 0]);
}

#[tokio::test]
async fn a_block_is_put_only_where_it_fits_and_taken_only_off_where_it_is() {
    let cloud = Phoenixnap::start().await.unwrap();
    let network = cloud.add_network("net", "PHX");
    let elsewhere = cloud.add_network("elsewhere", "ASH");
    let id = buy(&cloud).await;
    assert_eq!(attach(&cloud, &elsewhere, &id).await.status, 400);
    assert_eq!(attach(&cloud, "nowhere", &id).await.status, 403);
    assert_eq!(attach(&cloud, &network, "nothing").await.status, 403);
    assert_eq!(attach(&cloud, &network, &id).await.status, 202);
    assert_eq!(attach(&cloud, &network, &id).await.status, 409);
    assert_eq!(detach(&cloud, &elsewhere, &id).await.status, 403);
    let told = cloud.misdirected();
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(told[3], format!("detach {id} from {elsewhere}"));
    assert_eq!(cloud.blocks_on(&network), std::slice::from_ref(&id));
    cloud.occupy(&network);
    assert_eq!(detach(&cloud, &network, &id).await.status, 409);
    cloud.finish();
    cloud.set_in(Kind::Network, &network, "status", "ERROR");
    assert_eq!(detach(&cloud, &network, &id).await.status, 409);
}

#[tokio::test]
async fn the_eleventh_block_does_not_fit() {
    let cloud = Phoenixnap::start().await.unwrap();
    let network = cloud.add_network("net", "PHX");
    for _ in 0..10 {
        let id = buy(&cloud).await;
        assert_eq!(attach(&cloud, &network, &id).await.status, 202);
    }
    let id = buy(&cloud).await;
    assert_eq!(attach(&cloud, &network, &id).await.status, 409);
    cloud.adjust(|behaviour| behaviour.full_network = StatusCode::BAD_REQUEST);
    assert_eq!(attach(&cloud, &network, &id).await.status, 400);
    let v6 = json!({ "location": "PHX", "cidrBlockSize": "/64", "ipVersion": "V6" });
    let v6 = send(&cloud, "POST", BLOCKS, &v6).await.json();
    let v6 = v6["id"].as_str().unwrap();
    assert_eq!(
        attach(&cloud, &network, v6).await.status,
        202,
        "one of IPv6 besides"
    );
    let cidrs = column(&get(&cloud, BLOCKS).await.json(), "cidr");
    let distinct: std::collections::BTreeSet<_> = cidrs.iter().collect();
    assert_eq!(distinct.len(), 12, "{cidrs:?}");
}

#[tokio::test]
async fn tags_come_with_the_purchase_and_are_replaced_as_a_whole() {
    let cloud = Phoenixnap::start().await.unwrap();
    let tags = json!([{ "name": "usage", "value": "auto" }, { "name": "cluster", "value": "a" }]);
    let mut body = new_block();
    body["tags"] = tags.clone();
    let refused = send(&cloud, "POST", BLOCKS, &body).await;
    assert_eq!(refused.status, 400);
    assert_eq!(
        refused.json()["validationErrors"].as_array().unwrap().len(),
        2
    );
    assert_eq!(cloud.purchases().len(), 0);
    for name in ["usage", "cluster", "delete"] {
        let tag = json!({ "name": name, "isBillingTag": false });
        let path = "/tag-manager/v1/tags";
        assert_eq!(send(&cloud, "POST", path, &tag).await.status, 201);
        assert_eq!(send(&cloud, "POST", path, &tag).await.status, 409);
    }
    let made = send(&cloud, "POST", BLOCKS, &body).await.json();
    let id = made["id"].as_str().unwrap();
    assert_eq!(
        cloud.tagged(&[("usage", "auto"), ("cluster", "a")]).len(),
        1
    );
    assert_eq!(made["tags"][0]["name"], "usage");

    let path = format!("{BLOCKS}/{id}/tags");
    let unknown = json!([{ "name": "Usage", "value": "auto" }]);
    assert_eq!(send(&cloud, "PUT", &path, &unknown).await.status, 400);
    let dying = json!([{ "name": "cluster", "value": "a" }, { "name": "delete", "value": "true" }]);
    let put = send(&cloud, "PUT", &path, &dying).await;
    assert_eq!(put.status, 200);
    assert_eq!(column(&put.json()["tags"], "name"), ["cluster", "delete"]);
    let listed = get(&cloud, "/tag-manager/v1/tags?name=delete").await.json();
    assert_eq!(
        listed[0]["resourceAssignments"],
        json!([{ "resourceName": format!("{BLOCKS}/{id}"), "value": "true" }])
    );
    assert_eq!(listed[0]["values"], json!(["true"]));
    assert_eq!(listed.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn stock_and_quota_end() {
    let cloud = Phoenixnap::start().await.unwrap();
    cloud.behave(Behaviour {
        stock: 1,
        ..Behaviour::default()
    });
    let id = buy(&cloud).await;
    assert_eq!(send(&cloud, "POST", BLOCKS, &new_block()).await.status, 406);
    cloud.behave(Behaviour {
        quota: 1,
        ..Behaviour::default()
    });
    assert_eq!(send(&cloud, "POST", BLOCKS, &new_block()).await.status, 403);
    let quota = get(&cloud, "/bmc/v1/quotas").await.json();
    let one = get(&cloud, "/bmc/v1/quotas/bmc.ips.max_count").await.json();
    assert_eq!(one, quota[0]);
    assert_eq!(get(&cloud, "/bmc/v1/quotas/bmc.ponies").await.status, 404);
    assert_eq!(
        (&quota[0]["name"], &quota[0]["status"]),
        (&json!("Public IPs"), &json!("ON_LIMIT"))
    );
    assert_eq!(release(&cloud, &id).await.status, 200);
    buy(&cloud).await;
}

/// A purchase whose answer is lost has been made all the same.
#[tokio::test]
async fn a_purchase_can_be_made_although_its_answer_is_lost() {
    let cloud = Phoenixnap::start().await.unwrap();
    let token = token(&cloud).await;
    let lost = Fault::reset().executed();
    let purchase = When::write(BLOCKS).method(Method::POST).times(1);
    cloud.faults().inject(purchase, lost);
    let body = new_block().to_string();
    let headers = [
        ("Authorization", &*format!("Bearer {token}")),
        ("Content-Type", "application/json"),
        ("Content-Length", &*body.len().to_string()),
    ];
    let answer =
        crate::cloud_sims::client::tell(&cloud.url(), "POST", BLOCKS, &headers, &body).await;
    assert!(answer.is_none(), "{answer:?}");
    assert_eq!(cloud.purchases().len(), 1);
    assert_eq!(cloud.all(Kind::Block).len(), 1);
    assert_eq!(cloud.writes().len(), 1, "tokens are no writes");
    assert_eq!(cloud.writes().bodies(), [new_block()]);
}
