//! Where the tokens of PhoenixNAP come from.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mooring_cloud_sim::phoenixnap::{CLIENT_ID, CLIENT_SECRET, Phoenixnap, TOKEN_PATH};
use serde_json::{Value, json};

use crate::cloud_sims::client::{ask, tell};
use crate::cloud_sims::phoenixnap::{get, grant, token, with_token};

const SERVERS: &str = "/bmc/v1/servers";
const GRANT: (&str, &str) = ("grant_type", "client_credentials");
const ID: (&str, &str) = ("client_id", CLIENT_ID);
const SECRET: (&str, &str) = ("client_secret", CLIENT_SECRET);

#[tokio::test]
async fn a_token_is_given_to_the_right_client_alone() {
    let cloud = Phoenixnap::start().await.unwrap();
    let given = grant(&cloud, &[GRANT, ID, SECRET]).await;
    let body = given.json();
    assert_eq!(
        (given.status, &body["token_type"], &body["expires_in"]),
        (200, &json!("Bearer"), &json!(300))
    );
    for (fields, status, error) in [
        (
            vec![GRANT, ID, ("client_secret", "x")],
            401,
            "invalid_client",
        ),
        (
            vec![GRANT, ("client_id", "x"), SECRET],
            401,
            "invalid_client",
        ),
        (vec![GRANT], 401, "invalid_client"),
        (vec![ID, SECRET], 400, "invalid_request"),
        (
            vec![("grant_type", "password"), ID, SECRET],
            400,
            "unsupported_grant_type",
        ),
        (
            vec![GRANT, ID, SECRET, ("scope", "bmc+gold")],
            400,
            "invalid_scope",
        ),
    ] {
        let refused = grant(&cloud, &fields).await;
        assert_eq!(
            (refused.status, &refused.json()["error"]),
            (status, &json!(error)),
            "{fields:?}"
        );
    }
    let token = body["access_token"].as_str().unwrap();
    let used = with_token(&cloud, token, "GET", SERVERS, &Value::Null).await;
    assert_eq!(used.status, 200);
    let calls = format!("{:?}", cloud.calls());
    assert!(!calls.contains(CLIENT_SECRET) && !calls.contains(token));
}

#[tokio::test]
async fn the_client_can_name_itself_in_the_header() {
    let cloud = Phoenixnap::start().await.unwrap();
    let basic =
        |secret: &str| format!("Basic {}", STANDARD.encode(format!("{CLIENT_ID}:{secret}")));
    let body = "grant_type=client_credentials&scope=bmc.read";
    for (secret, status) in [(CLIENT_SECRET, 200), ("x", 401)] {
        let headers = [
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Content-Length", &*body.len().to_string()),
            ("Authorization", &*basic(secret)),
        ];
        let answer = tell(&cloud.url(), "POST", TOKEN_PATH, &headers, body)
            .await
            .unwrap();
        assert_eq!(answer.status, status, "{answer:?}");
        if status == 200 {
            assert_eq!(answer.json()["scope"], "bmc.read");
        }
    }
}

#[tokio::test]
async fn a_token_ends_by_time_or_when_it_is_revoked() {
    let cloud = Phoenixnap::start().await.unwrap();
    let status = async |token: &str| {
        with_token(&cloud, token, "GET", SERVERS, &Value::Null)
            .await
            .status
    };
    assert_eq!(
        ask(&cloud.url(), "GET", SERVERS, &[]).await.unwrap().status,
        401
    );
    assert_eq!(status("another").await, 401);
    let first = token(&cloud).await;
    cloud.advance(Duration::from_secs(280));
    let second = token(&cloud).await;
    assert_eq!((status(&first).await, status(&second).await), (200, 200));
    cloud.advance(Duration::from_secs(21));
    assert_eq!((status(&first).await, status(&second).await), (401, 200));
    cloud.revoke_tokens();
    assert_eq!(status(&second).await, 401);
    assert_eq!(get(&cloud, SERVERS).await.status, 200);
    cloud.change_secret(true);
    assert_eq!(grant(&cloud, &[GRANT, ID, SECRET]).await.status, 401);
    cloud.change_secret(false);
    assert_eq!(grant(&cloud, &[GRANT, ID, SECRET]).await.status, 200);
}

#[tokio::test]
async fn a_token_opens_what_its_scopes_say() {
    let cloud = Phoenixnap::start().await.unwrap();
    let tag = json!({ "name": "usage", "isBillingTag": false });
    let statuses = async |scope: Option<&str>| {
        let scope = scope.map(|scope| ("scope", scope));
        let fields: Vec<_> = [GRANT, ID, SECRET].into_iter().chain(scope).collect();
        let answer = grant(&cloud, &fields).await.json();
        let token = answer["access_token"].as_str().unwrap().to_owned();
        let mut statuses = Vec::new();
        for (method, path, body) in [
            ("GET", SERVERS, &Value::Null),
            ("POST", "/ips/v1/ip-blocks", &json!({})),
            ("GET", "/tag-manager/v1/tags", &Value::Null),
            ("POST", "/tag-manager/v1/tags", &tag),
        ] {
            let answer = with_token(&cloud, &token, method, path, body).await;
            statuses.push(answer.status);
        }
        statuses
    };
    assert_eq!(statuses(Some("bmc.read")).await, [200, 403, 403, 403]);
    assert_eq!(statuses(Some("bmc+tags.read")).await, [200, 400, 200, 403]);
    assert_eq!(statuses(None).await, [200, 400, 200, 201]);
    cloud.permit(&["tags", "tags.read"]);
    assert_eq!(statuses(None).await, [403, 403, 200, 409]);
}
