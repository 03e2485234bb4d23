//! `--enable-token-health-checker`.

use std::time::Duration;

use super::*;
use crate::cloud_api::TokenCheck;
use crate::cloud_api::testing::{Cloud, Reply, connection, credentials};
use crate::clouds::linode::Flags;

async fn start(linode: Arc<Linode>) -> Result<Arc<TokenCheck<Linode>>, CloudError> {
    TokenCheck::start(linode, api::profile()).await
}

fn refused() -> Reply {
    Reply::json(r#"{"errors": [{"reason": "Invalid Token"}]}"#).status(401)
}

#[tokio::test]
async fn refusal_at_start_is_an_error_and_nothing_else_is() {
    let cloud = Cloud::start(|_, _| refused()).await;
    let error = start(linode(&cloud.base, Flags::default())).await;
    assert_eq!(error.unwrap_err().kind, ErrorKind::Unauthorized);
    assert_eq!(cloud.lines(), ["GET /v4/profile"]);
    let reason = "Your OAuth token is not authorized to use this endpoint.";
    let no_scope = json!({"errors": [{"reason": reason}]});
    for reply in [Reply::html().status(502), Reply::json(no_scope).status(401)] {
        let cloud = Cloud::start(move |_, _| reply.clone()).await;
        let check = start(linode(&cloud.base, Flags::default())).await;
        assert_eq!(check.unwrap().obstacle(), None);
    }
}

/// Only the clock of the waits is stopped: it goes on by itself when all wait.
#[tokio::test]
async fn refused_variable_ends_the_program() {
    let cloud = Cloud::start(|_, before| match before {
        0 => Reply::json("{}"),
        _ => refused(),
    })
    .await;
    let check = start(linode(&cloud.base, Flags::default())).await;
    let check = check.unwrap();
    let waits = tokio::spawn(async move { check.watch().await });
    tokio::task::yield_now().await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(5 * 60)).await;
    tokio::time::resume();
    let error = waits.await.unwrap();
    assert_eq!(error.kind, ErrorKind::Unauthorized);
    assert_eq!(cloud.lines().len(), 2);
}

#[tokio::test]
async fn refused_file_may_get_another_token() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "old").unwrap();
    let cloud = Cloud::start(|seen, before| match seen.header("authorization") {
        Some("Bearer new") => Reply::json("{}"),
        _ if before == 0 => Reply::json("{}"),
        _ => refused(),
    })
    .await;
    let mut connection = connection(&cloud.base.join("v4/").unwrap());
    connection.credentials = Arc::new(credentials(Some(file.path())));
    let linode = linode_with(connection, Flags::default());
    let check = start(linode.clone()).await.unwrap();
    assert!(linode.client.token_may_change());
    assert!(check.look().await.is_some());
    let obstacle = check.obstacle().unwrap();
    for part in [
        "the linode api token is invalid",
        "Invalid Token",
        "put a valid token into",
    ] {
        assert!(obstacle.contains(part), "{part}: {obstacle}");
    }
    std::fs::write(file.path(), "new").unwrap();
    assert!(check.look().await.is_none());
    assert_eq!(check.obstacle(), None);
}
