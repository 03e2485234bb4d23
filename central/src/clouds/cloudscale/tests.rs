use serde_json::{Value, json};

use super::*;
use crate::cloud_api::ErrorKind;
use crate::cloud_api::testing::{Cloud, Reply, connection, metrics};
use crate::cloud_provider::{MachineSource as _, servers};

const A: &str = "47cec963-fcd2-482f-bdb6-24461b2d47b1";
const B: &str = "f0bbd27c-3ac1-4b3c-8e3e-6d1b1d9d0f6e";

fn cloudscale(cloud: &Cloud) -> Arc<Cloudscale> {
    let config = Config {
        connection: connection(&cloud.base.join("v1/").unwrap()),
        notices: Vec::new(),
    };
    Cloudscale::new(config, LIMITS, metrics()).unwrap()
}

async fn answering(reply: Reply) -> (Cloud, Arc<Cloudscale>) {
    let cloud = Cloud::start(move |_, _| reply.clone()).await;
    let cloudscale = cloudscale(&cloud);
    (cloud, cloudscale)
}

fn entry(uuid: &str, name: &str) -> Value {
    json!({"uuid": uuid, "name": name})
}

#[tokio::test]
async fn lists_servers_of_equal_names() {
    let servers = json!([entry(A, "clone"), entry(B, "clone")]);
    let (cloud, cloudscale) = answering(Reply::json(servers)).await;
    let machines = cloudscale.list().await.unwrap();
    let names: Vec<_> = machines
        .iter()
        .map(|m| (m.id.instance(), m.names.clone()))
        .collect();
    let clone = vec!["clone".to_owned()];
    assert_eq!(names, [(A, clone.clone()), (B, clone)]);
    assert_eq!(cloud.lines(), ["GET /v1/servers"]);
}

#[tokio::test]
async fn empty_project_lists_no_servers() {
    let (_cloud, cloudscale) = answering(Reply::json("[]")).await;
    assert_eq!(cloudscale.list().await, Ok(vec![]));
}

#[tokio::test]
async fn rejects_incomplete_listing() {
    for reply in [
        Reply::html(),
        Reply::json("[]").status(500),
        Reply::json(json!({"detail": "Not found."})).status(404),
        Reply::json(json!({"detail": "maintenance"})),
        Reply::json(json!({"count": 0, "results": []})),
        Reply::json(json!([entry(A, "a")])).cut(1),
        Reply::json(json!([entry(A, "a"), {"name": "b"}])),
        Reply::json(json!([entry(A, "a"), entry("b", "b")])),
        Reply::json(json!([entry(A, "a"), entry(&A.to_uppercase(), "b")])),
    ] {
        let shown = format!("{reply:?}");
        let (_cloud, cloudscale) = answering(reply).await;
        let listed = cloudscale.list().await;
        assert!(listed.is_err(), "{shown}: {listed:?}");
    }
}

#[tokio::test]
async fn only_the_clouds_404_means_no_server() {
    let id = servers::parse_id::<Cloudscale>(&format!("cloudscale://{A}")).unwrap();
    for (reply, expected) in [
        (Reply::json(entry(A, "a")), Some(true)),
        (Reply::json(entry(&A.to_uppercase(), "a")), Some(true)),
        (
            Reply::json(json!({"detail": "Not found."})).status(404),
            Some(false),
        ),
        (
            Reply::json(json!({"detail": ["Not", "found."]})).status(404),
            Some(false),
        ),
        (Reply::json("{}").status(404), Some(false)),
        (Reply::json("").status(404), Some(false)),
        (Reply::html().status(404), None),
        (Reply::html(), None),
        (Reply::json(entry(B, "a")), None),
        (Reply::json(json!({"detail": "Not found."})), None),
        (Reply::json("{}").status(401), None),
        (Reply::json("{}").status(503), None),
    ] {
        let shown = format!("{reply:?}");
        let (cloud, cloudscale) = answering(reply).await;
        let got = cloudscale.get(&id).await;
        assert_eq!(got.map(|m| m.is_some()).ok(), expected, "{shown}");
        assert_eq!(cloud.lines(), [format!("GET /v1/servers/{A}")]);
    }
}

#[tokio::test]
async fn refusals_keep_the_clouds_words() {
    let said = json!({"name": ["too long", "not unique"], "detail": "no"});
    let (_cloud, cloudscale) = answering(Reply::json(said).status(400)).await;
    let error = cloudscale.list().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    let words = "detail: no; name: too long, not unique";
    assert_eq!(error.words.as_deref(), Some(words));
}
