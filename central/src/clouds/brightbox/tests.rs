use serde_json::{Value, json};

use super::*;
use crate::cloud_api::ErrorKind;
use crate::cloud_api::testing::{Cloud, Reply, metrics};
use crate::cloud_provider::{MachineSource as _, servers};

fn brightbox(cloud: &Cloud, more: &[(&str, &str)]) -> Arc<Brightbox> {
    let url = cloud.base.as_str().to_owned();
    let env = |name: &str| {
        let found = more.iter().find(|(key, _)| *key == name);
        match (found, name) {
            (Some((_, value)), _) => Some((*value).to_owned()),
            (None, "BRIGHTBOX_API_URL") => Some(url.clone()),
            (None, "BRIGHTBOX_CLIENT_SECRET") => Some("s3cr3t".to_owned()),
            _ => None,
        }
    };
    Brightbox::new(Config::read(&env).unwrap(), LIMITS, metrics()).unwrap()
}

/// A cloud that gives tokens, and answers like this else.
async fn answering(reply: Reply) -> (Cloud, Arc<Brightbox>) {
    let cloud = Cloud::start(move |seen, _| {
        if seen.line.starts_with("POST /token/") {
            Reply::json(json!({ "access_token": "a-long-token", "expires_in": 7200 }))
        } else {
            reply.clone()
        }
    })
    .await;
    let brightbox = brightbox(&cloud, &[("BRIGHTBOX_CLIENT", "cli-12345")]);
    (cloud, brightbox)
}

fn entry(id: &str) -> Value {
    json!({ "id": id, "status": "active" })
}

#[tokio::test]
async fn user_names_account_in_each_request() {
    let cloud = Cloud::start(|seen, _| {
        if seen.line.starts_with("POST /token/") {
            let expected =
                "grant_type=password&username=jane&password=pa55&scope=infrastructure+orbit";
            assert_eq!(seen.text, expected);
            Reply::json(json!({ "access_token": "a-long-token", "expires_in": 7200 }))
        } else {
            Reply::json("[]")
        }
    })
    .await;
    let user = [
        ("BRIGHTBOX_USER_NAME", "jane"),
        ("BRIGHTBOX_PASSWORD", "pa55"),
        ("BRIGHTBOX_ACCOUNT", "acc-12345"),
    ];
    let brightbox = brightbox(&cloud, &user);
    assert_eq!(brightbox.list().await, Ok(vec![]));
    // What is answered is of no interest here.
    let id = brightbox.parse_id("brightbox://srv-gdqms").unwrap();
    let _ = brightbox.get(&id).await;
    let _ = brightbox.client.call(&api::accounts()).await;
    let expected = [
        "POST /token/",
        "GET /1.0/servers?account_id=acc-12345",
        "GET /1.0/servers/srv-gdqms?account_id=acc-12345",
        "GET /1.0/accounts?account_id=acc-12345",
    ];
    assert_eq!(cloud.lines(), expected);
}

#[tokio::test]
async fn token_and_api_are_asked_through_the_proxy() {
    let cloud = Cloud::start(|seen, _| {
        if seen.line.starts_with("POST") {
            Reply::json(json!({ "access_token": "a-long-token", "expires_in": 7200 }))
        } else {
            Reply::json("[]")
        }
    })
    .await;
    let more = [
        ("BRIGHTBOX_CLIENT", "cli-12345"),
        ("BRIGHTBOX_API_URL", "http://api.example/"),
        ("HTTP_PROXY", cloud.base.as_str()),
    ];
    assert_eq!(brightbox(&cloud, &more).list().await, Ok(vec![]));
    let expected = [
        "POST http://api.example/token/",
        "GET http://api.example/1.0/servers",
    ];
    assert_eq!(cloud.lines(), expected);
}

#[tokio::test]
async fn rejects_incomplete_listing() {
    for reply in [
        Reply::html(),
        Reply::json("[]").status(500),
        Reply::json(json!({ "error_name": "missing_resource", "errors": [] })).status(404),
        Reply::json(json!({ "error_name": "Forbidden", "errors": ["no"] })),
        Reply::json(json!([entry("srv-a")])).cut(1),
        Reply::json(json!([entry("srv-a"), { "status": "active" }])),
        Reply::json(json!([entry("srv-a"), entry("srv-a")])),
    ] {
        let shown = format!("{reply:?}");
        let (_cloud, brightbox) = answering(reply).await;
        let listed = brightbox.list().await;
        assert!(listed.is_err(), "{shown}: {listed:?}");
    }
}

#[tokio::test]
async fn only_the_clouds_word_means_no_server() {
    let id = servers::parse_id::<Brightbox>("brightbox://srv-gdqms").unwrap();
    let missing = json!({ "error_name": "missing_resource", "errors": ["no"] });
    let deleted = json!({ "id": "srv-gdqms", "status": "deleted" });
    for (reply, expected) in [
        (Reply::json(entry("srv-gdqms")), Some(true)),
        (Reply::json(deleted), Some(false)),
        (Reply::json(missing.clone()).status(404), Some(false)),
        (
            Reply::json(json!({ "error_name": "missing_resource", "errors": null })).status(404),
            Some(false),
        ),
        (
            Reply::json(json!({ "error_name": "missing_resource", "errors": { "id": "no" } }))
                .status(404),
            Some(false),
        ),
        (Reply::json(missing), None),
        (Reply::json("{}").status(404), None),
        (Reply::html().status(404), None),
        (Reply::json(entry("srv-other")), None),
        (Reply::json("{}").status(503), None),
    ] {
        let shown = format!("{reply:?}");
        let (_cloud, brightbox) = answering(reply).await;
        let got = brightbox.get(&id).await;
        assert_eq!(got.map(|m| m.is_some()).ok(), expected, "{shown}");
    }
}

#[tokio::test]
async fn full_account_is_no_matter_of_the_token() {
    let said = json!({ "error_name": "account_limit_reached", "errors": ["no more"] });
    let (_cloud, brightbox) = answering(Reply::json(said).status(403)).await;
    let error = brightbox.list().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden);
    let text = error.to_string();
    assert!(
        text.contains("higher limit") && !text.contains("token"),
        "{text}"
    );
}

#[tokio::test]
async fn refusals_keep_the_clouds_words() {
    let said = json!({ "error_name": "unprocessable_entity", "errors": ["a", "b"] });
    let (_cloud, brightbox) = answering(Reply::json(said).status(422)).await;
    let error = brightbox.list().await.unwrap_err();
    assert_eq!(error.words.as_deref(), Some("unprocessable_entity: a, b"));
}
