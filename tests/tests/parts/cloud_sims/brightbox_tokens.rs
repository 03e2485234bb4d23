//! Where the tokens of the simulated Brightbox come from.

use std::time::Duration;

use mooring_cloud_sim::brightbox::{
    ACCOUNT, APPLICATION, Brightbox, CLIENT_ID, CLIENT_SECRET, PASSWORD, USER,
};
use serde_json::{Value, json};

use crate::cloud_sims::brightbox::{grant, token, with_token};

const SERVERS: &str = "/1.0/servers";
const GRANT: (&str, &str) = ("grant_type", "client_credentials");
const ID: (&str, &str) = ("client_id", CLIENT_ID);
const SECRET: (&str, &str) = ("client_secret", CLIENT_SECRET);
const APP: (&str, &str) = ("client_id", APPLICATION);
const PASSWORD_GRANT: (&str, &str) = ("grant_type", "password");

async fn status(cloud: &Brightbox, token: &str, path: &str) -> u16 {
    with_token(cloud, token, "GET", path, &Value::Null)
        .await
        .status
}

#[tokio::test]
async fn a_token_is_given_to_who_may_have_one() {
    let cloud = Brightbox::start().await.unwrap();
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
        (vec![ID, SECRET], 400, "unsupported_grant_type"),
        (
            vec![GRANT, ID, SECRET, ("scope", "gold")],
            400,
            "invalid_scope",
        ),
        (vec![PASSWORD_GRANT, ID, SECRET], 400, "unauthorized_client"),
        (vec![GRANT, APP, SECRET], 400, "unauthorized_client"),
        (
            vec![PASSWORD_GRANT, APP, SECRET, ("username", USER)],
            400,
            "invalid_grant",
        ),
    ] {
        let refused = grant(&cloud, &fields).await;
        let said = (refused.status, refused.json()["error"].clone());
        assert_eq!(said, (status, json!(error)), "{fields:?}");
    }
    let given = grant(&cloud, &[GRANT, ID, SECRET]).await.json();
    assert_eq!(
        (&given["expires_in"], given.get("refresh_token")),
        (&json!(7200), None)
    );
}

#[tokio::test]
async fn a_token_of_a_user_names_the_account_and_is_renewed() {
    let cloud = Brightbox::start().await.unwrap();
    let user = [
        PASSWORD_GRANT,
        APP,
        SECRET,
        ("username", USER),
        ("password", PASSWORD),
    ];
    let given = grant(&cloud, &user).await.json();
    let token = given["access_token"].as_str().unwrap();
    assert_eq!(status(&cloud, token, SERVERS).await, 403);
    let named = format!("{SERVERS}?account_id={ACCOUNT}");
    assert_eq!(status(&cloud, token, &named).await, 200);
    assert_eq!(status(&cloud, token, "/1.0/accounts").await, 200);
    let refresh = given["refresh_token"].as_str().unwrap();
    let renewal = [
        ("grant_type", "refresh_token"),
        APP,
        SECRET,
        ("refresh_token", refresh),
    ];
    let renewed = grant(&cloud, &renewal).await.json();
    let renewed = renewed["access_token"].as_str().unwrap();
    assert_eq!(status(&cloud, renewed, &named).await, 200);
    assert_eq!(status(&cloud, token, &named).await, 401);
    assert_eq!(grant(&cloud, &renewal).await.status, 400);
}

#[tokio::test]
async fn tokens_end() {
    let cloud = Brightbox::start().await.unwrap();
    let first = token(&cloud).await;
    assert_eq!(status(&cloud, &first, SERVERS).await, 200);
    cloud.revoke_tokens();
    let refused = with_token(&cloud, &first, "GET", SERVERS, &Value::Null).await;
    assert_eq!(
        (refused.status, &refused.json()["error"]),
        (401, &json!("invalid_token"))
    );
    assert!(refused.header("WWW-Authenticate").starts_with("Bearer"));
    let second = token(&cloud).await;
    cloud.advance(Duration::from_secs(7201));
    let refused = with_token(&cloud, &second, "GET", SERVERS, &Value::Null).await;
    assert_eq!(
        (refused.status, &refused.json()["error"]),
        (401, &json!("expired_token"))
    );
    // Of requests for tokens nothing is kept, and none of them is a write.
    let calls = cloud.calls();
    assert_eq!((calls.writes().len(), calls.bodies().len()), (0, 0));
}
