//! How PhoenixNAP gives tokens.

use serde_json::json;

use super::super::*;
use crate::cloud_api::oauth2::{ClientCredentials, TokenSource};
use crate::cloud_api::testing::{Cloud, Reply, metrics};
use crate::cloud_api::{Secret, Tokens as _, Transport};

async fn ask(cloud: &Cloud) -> Result<Secret, String> {
    let client = ClientSource::from(ClientCredentials {
        id: "an-id".to_owned(),
        secret: "s3cr3t".to_owned(),
    });
    let settings = tokens(cloud.base.join("token").unwrap(), client);
    let transport = Transport {
        timeout: Duration::from_secs(10),
        proxies: &Proxies::default(),
        authorities: None,
    };
    let source = TokenSource::new(settings, &transport, metrics()).unwrap();
    source.current().await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn client_with_partial_scope_gets_token() {
    let cloud = Cloud::start(|seen, _| {
        if seen.text.contains("scope=bmc+bmc.read+tags+tags.read") {
            Reply::json(json!({"error": "invalid_scope"})).status(400)
        } else {
            Reply::json(json!({"access_token": "t", "expires_in": 300}))
        }
    })
    .await;
    assert_eq!(ask(&cloud).await, Ok(Secret::new("t").unwrap()));
    assert_eq!(cloud.seen()[1].text, "grant_type=client_credentials");
}

#[tokio::test]
async fn refusals_name_variables_and_keys() {
    for (reply, told) in [
        (
            Reply::json(json!({"error": "invalid_client"})).status(401),
            "401 Unauthorized: invalid_client; put the credentials of a client that exists into \
             PNAP_CLIENT_ID and PNAP_CLIENT_SECRET and start again, or into clientID and \
             clientSecret of --cloud-config, which is read again by itself",
        ),
        (
            Reply::html().status(404),
            "404 Not Found; is this the right address for tokens? PNAP_TOKEN_URL, or token-url \
             of --cloud-config, sets it",
        ),
    ] {
        let cloud = Cloud::start(move |_, _| reply.clone()).await;
        let expected = format!("phoenixnap: no token from {}token: {told}", cloud.base);
        assert_eq!(ask(&cloud).await, Err(expected));
    }
}
