use serde_json::json;

use super::super::LIMITS;
use super::blocks::{BlockCloud as _, Order};
use super::ip_blocks::{Block, BlockStatus, Holder, IpBlock};
use super::public_networks::PublicNetwork;
use super::*;
use crate::cloud_api::CloudError;
use crate::cloud_api::testing::{Cloud, Reply, Seen, connection, metrics};

async fn answered(answer: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static) -> (Cloud, Api) {
    let cloud = Cloud::start(answer).await;
    let client = Client::new(
        super::super::NAME,
        connection(&cloud.base),
        &ErrorShape,
        LIMITS,
        metrics(),
    );
    (cloud, Api::new(client.unwrap()))
}

/// A block that is being bought, if these fields do not say otherwise.
fn block(fields: &Value) -> Block {
    let mut all = json!({"id": "b", "status": "creating", "cidr": "203.0.113.8/29"});
    all.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    let block: IpBlock = serde_json::from_value(all).unwrap();
    block.read().unwrap()
}

fn refusal(status: u16, body: &str) -> Refusal {
    let status = StatusCode::from_u16(status).unwrap();
    ErrorShape.refusal(status, &HeaderMap::new(), body.as_bytes())
}

/// phoenixnap.md 4.2; the Go controller tells the status alone (B22).
#[test]
fn passes_on_the_clouds_words() {
    let invalid = refusal(
        400,
        r#"{"message": "Bad block", "validationErrors": ["size", "location"]}"#,
    );
    assert_eq!(invalid.kind, ErrorKind::Invalid);
    assert_eq!(invalid.words.as_deref(), Some("Bad block: size, location"));
    let busy = refusal(
        409,
        r#"{"message": "In transition", "validationErrors": null}"#,
    );
    assert_eq!(busy.kind, ErrorKind::Busy);
    assert_eq!(busy.words.as_deref(), Some("In transition"));
}

#[test]
fn only_404_means_not_found_403_does_not() {
    let kind = |status, body| refusal(status, body).kind;
    assert_eq!(kind(404, r#"{"message": "no"}"#), ErrorKind::NotFound);
    assert_eq!(kind(404, "<html>"), ErrorKind::Malformed);
    assert_eq!(kind(404, ""), ErrorKind::Malformed);
    let hidden = refusal(403, r#"{"message": "Access denied"}"#);
    assert_eq!(hidden.kind, ErrorKind::Forbidden);
    assert!(hidden.remedy.unwrap().contains("no such thing"));
}

/// 4.4: the documentation's words and those of its examples.
#[test]
fn reads_block_status_and_holder_in_both_spellings() {
    for (word, expected) in [
        ("creating", BlockStatus::Creating),
        ("error assigning", BlockStatus::ErrorAssigning),
        ("ERROR_ASSIGNING", BlockStatus::ErrorAssigning),
        ("Error-Unassigning", BlockStatus::ErrorUnassigning),
        ("ASSIGNED", BlockStatus::Assigned),
        ("unassigned", BlockStatus::Unassigned),
        ("subnetted", BlockStatus::Subnetted),
        ("what is new", BlockStatus::Unknown),
    ] {
        assert_eq!(block(&json!({"status": word})).status, expected);
    }
    assert_eq!(block(&json!({"status": null})).status, BlockStatus::Unknown);
    let holder = |kind: Value, id: Value| {
        let fields = json!({"assignedResourceType": kind, "assignedResourceId": id});
        block(&fields).holder
    };
    let network = Some(Holder::PublicNetwork("n".to_owned()));
    assert_eq!(holder(json!("public network"), json!("n")), network);
    assert_eq!(holder(json!("PUBLIC_NETWORK"), json!("n")), network);
    assert_eq!(holder(json!(null), json!(null)), None);
    for (kind, id) in [
        (json!("server"), json!("s")),
        (json!("public network"), json!(null)),
        (json!(null), json!("n")),
    ] {
        assert!(matches!(holder(kind, id), Some(Holder::Other(_))));
    }
}

/// 3.2: that several tags are heeded together is documented nowhere.
#[tokio::test]
async fn checks_tags_of_filtered_listing() {
    let (cloud, api) = answered(|_, _| {
        Reply::json(json!([
            {"id": "ours", "status": "creating", "tags": [{"id": "1", "name": "cluster", "value": "c"},
                                    {"id": "2", "name": "usage", "value": "u"}]},
            {"id": "half", "tags": [{"name": "cluster", "value": "c"}]},
            {"id": "other", "tags": [{"name": "cluster", "value": "d"},
                                     {"name": "usage", "value": "u"}]},
            {"id": "torn", "tags": [{"value": "c"}, {"name": "usage", "value": "u"}]},
            {"id": "bare"},
            {"id": "six", "cidr": "2001:db8::/64", "tags": [{"name": "cluster", "value": "c"},
                                                            {"name": "usage", "value": "u"}]},
        ]))
    })
    .await;
    let tags = [Tag::new("cluster", "c"), Tag::new("usage", "u")];
    let blocks = api.blocks(&tags).await.unwrap();
    let ids: Vec<&str> = blocks.read.iter().map(|block| block.id.as_str()).collect();
    assert_eq!(ids, ["ours"]);
    assert_eq!(
        cloud.lines(),
        ["GET /ips/v1/ip-blocks?tag=cluster.c&tag=usage.u"]
    );
}

/// One odd entry hides no other, and it is not left out in silence: it would be bought again.
#[tokio::test]
async fn odd_entries_hide_no_block() {
    let (_cloud, api) = answered(|_, _| {
        let ours = json!([{"name": "cluster", "value": "c"}]);
        Reply::json(json!([
            "s3cr3t",
            {"id": "ours", "status": "creating", "tags": ours},
            {"id": "torn", "cidr": "203.0.113", "tags": ours},
            {"cidr": "203.0.113.8/29", "tags": ours},
            {"id": "another's", "cidr": 7, "tags": [{"name": "cluster", "value": "d"}]},
            null,
        ]))
    })
    .await;
    let listed = api.blocks(&[Tag::new("cluster", "c")]).await.unwrap();
    let ids: Vec<&str> = listed.read.iter().map(|block| block.id.as_str()).collect();
    assert_eq!(ids, ["ours"]);
    let told = listed.unread.join("; ");
    for words in [
        "a text",
        "null",
        "the IP block torn",
        "203.0.113.8/29 has no",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(
        listed.unread.len() == 4 && !told.contains("s3cr3t"),
        "{told}"
    );
}

#[tokio::test]
async fn buys_block_with_its_tags_once() {
    let (cloud, api) = answered(|_, _| Reply::html().status(504)).await;
    let order = Order {
        location: "PHX".to_owned(),
        prefix: 29,
        tags: vec![Tag::new("cluster", "c")],
    };
    let error = api.buy(&order).await.unwrap_err();
    assert!(error.may_have_been_done(), "{error:?}");
    let seen = cloud.seen();
    assert_eq!(cloud.lines(), ["POST /ips/v1/ip-blocks"]);
    assert_eq!(
        seen[0].body,
        json!({
            "location": "PHX", "cidrBlockSize": "/29",
            "tags": [{"name": "cluster", "value": "c"}],
        })
    );
}

/// 4.5: the answer to a detachment is a sentence, quoted or not.
#[tokio::test]
async fn accepts_text_answer_rejects_html() {
    for (said, is_done) in [
        ("The IP block is being removed.", true),
        (r#""The IP block is being removed.""#, true),
        (r#"{"result": "deleted", "ipBlockId": "b"}"#, true),
        ("", true),
        ("<html><body>Sign in</body></html>", false),
    ] {
        let (cloud, api) = answered(move |_, _| Reply::json("").status(202).saying(said)).await;
        let answer = api.detach("n", "b").await;
        assert_eq!(answer.is_ok(), is_done, "{said}: {answer:?}");
        assert_eq!(
            cloud.lines(),
            ["DELETE /networks/v1/public-networks/n/ip-blocks/b"]
        );
    }
}

/// 4.6 and B24.
#[tokio::test]
async fn existing_tag_is_success() {
    let (cloud, api) = answered(|seen, _| match seen.line.split(' ').next() {
        Some("GET") => Reply::json(json!([{"id": "1", "name": "Usage"}])),
        _ => Reply::json(json!({"message": "exists"})).status(409),
    })
    .await;
    assert_eq!(api.tag_names().await, Ok(["Usage".to_owned()].into()));
    assert_eq!(api.create_tag("usage").await, Ok(()));
    let seen = cloud.seen();
    assert_eq!(seen[0].line, "GET /tag-manager/v1/tags");
    assert_eq!(
        seen[1].body,
        json!({"name": "usage", "isBillingTag": false, "description": "IP blocks of Kubernetes clusters"})
    );
}

#[tokio::test]
async fn rejects_answer_about_another_object() {
    let (_cloud, api) = answered(|_, _| Reply::json(json!({"id": "other"}))).await;
    let kind = |error: CloudError| error.kind;
    let malformed = Some(ErrorKind::Malformed);
    assert_eq!(api.server("mine").await.err().map(kind), malformed);
    assert_eq!(api.block("mine").await.err().map(kind), malformed);
    assert_eq!(api.network("mine").await.err().map(kind), malformed);
    assert_eq!(api.set_tags("mine", &[]).await.err().map(kind), malformed);
}

#[tokio::test]
async fn rejects_listing_with_duplicate_server() {
    let (_cloud, api) = answered(|_, _| Reply::json(json!([{"id": "a"}, {"id": "a"}]))).await;
    let error = api.servers().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Malformed);
}

#[tokio::test]
async fn detects_error_with_status_200() {
    let (_cloud, api) = answered(|_, _| Reply::json(json!({"message": "Not now"}))).await;
    let error = api.block("b").await.unwrap_err();
    assert_eq!(error.words.as_deref(), Some("Not now"));
}

#[test]
fn reads_network_and_members() {
    let network: PublicNetwork = serde_json::from_value(json!({
        "id": "n", "location": "PHX", "vlanId": 2051, "status": "BUSY",
        "ipBlocks": [{"id": "b", "cidr": "203.0.113.8/29", "usedIpsCount": "1"}],
        "memberships": [{"resourceId": "s", "resourceType": "server", "ips": ["203.0.113.10"]},
                        {"resourceId": "t", "resourceType": "storage",
                         "ips": ["203.0.113.12 - 203.0.113.13", "2001:db8::1", "?"]},
                        {"resourceId": "v", "resourceType": "virtual"}],
    }))
    .unwrap();
    let network = network.read().unwrap();
    let used = (8_u8..16).filter(|last| network.uses([203, 0, 113, *last].into()));
    assert_eq!(used.collect::<Vec<_>>(), [10, 12, 13]);
    assert!(!network.is_ready);
    assert_eq!((network.vlan, &*network.location), (Some(2051), "PHX"));
    assert!(network.has("b"));
    assert_eq!(network.servers, Some(vec!["s".to_owned()]));
}

#[test]
fn odd_entries_hide_nothing_else_of_a_network() {
    let network: PublicNetwork = serde_json::from_value(json!({
        "id": "n", "location": "PHX",
        "ipBlocks": ["?", {"id": "b", "cidr": "203.0.113.8/29"}],
        "memberships": [{"resourceId": "s", "ips": ["203.0.113.10"]}, {"resourceId": 7}],
    }))
    .unwrap();
    let network = network.read().unwrap();
    assert!(network.has("b"));
    assert_eq!(network.blocks.len(), 2, "it may take up room");
    assert!(network.uses([203, 0, 113, 10].into()));
    assert_eq!(network.servers, None, "nobody is not a member");
    assert_eq!(network.unread.len(), 2, "{:?}", network.unread);
}

#[tokio::test]
async fn odd_peer_group_hides_no_other_and_counts_as_there() {
    let (_cloud, api) =
        answered(|_, _| Reply::json(json!([7, {"id": "1", "location": "PHX", "status": "READY"}])))
            .await;
    assert!(api.peers(None, "PHX").await.unwrap().is_some());
    let unknown = api.peers(None, "ASH").await.unwrap_err();
    assert_eq!(unknown.kind, ErrorKind::Malformed);
}

#[tokio::test]
async fn attaches_server_without_addresses() {
    let (cloud, api) = answered(|_, _| Reply::json(json!({"id": "n"})).status(202)).await;
    assert_eq!(api.add_server("n", "s").await, Ok(()));
    let path = "/bmc/v1/servers/s/network-configuration/public-network-configuration";
    let seen = cloud.seen();
    assert_eq!(
        seen[0].line,
        format!("POST {path}/public-networks?force=true")
    );
    assert_eq!(seen[0].body, json!({"id": "n", "ips": []}));
}

#[tokio::test]
async fn ignores_peer_groups_of_other_locations() {
    let (_cloud, api) = answered(|_, _| {
        Reply::json(json!([
            {"id": "1", "location": "PHX", "status": "READY", "password": "s3cr3t",
             "eBgpMultiHop": 7, "peeringLoopbacksV4": ["169.254.247.0", "169.254.247.1"],
             "targetAsnDetails": {"asn": 65401}, "activeAsnDetails": {"asn": 65402}},
            {"id": "2", "location": "ASH"},
        ]))
    })
    .await;
    let peers = api.peers(None, "phx").await.unwrap().unwrap();
    assert!(peers.is_ready && peers.is_multi_hop);
    assert_eq!((peers.asn, peers.routers.len()), (65402, 2));
    assert!(!format!("{peers:?}").contains("s3cr3t"));
    assert_eq!(api.peers(None, "ams").await, Ok(None));
}
