//! The resource owner password grant: renewed by its refresh token (RFC 6749, 4.3 and 6).

use super::*;

fn user() -> Grant {
    Grant::Password(UserCredentials {
        name: "jane".to_owned(),
        password: "s3cr3t".to_owned(),
    })
}

/// A token that lasts five minutes, and this refresh token.
fn renewable(before: usize, refresh_token: Option<&str>) -> Reply {
    let answer = json!({
        "access_token": format!("t{before}"), "expires_in": 300, "refresh_token": refresh_token,
    });
    Reply::json(answer)
}

fn asked(cloud: &Cloud) -> Vec<String> {
    cloud.seen().into_iter().map(|seen| seen.text).collect()
}

async fn advance(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

const PASSWORD: &str = "grant_type=password&username=jane&password=s3cr3t&scope=read+write";

#[tokio::test]
async fn refresh_token_renews_before_expiry() {
    let cloud = Cloud::start(|_, before| match before {
        // The second answer gives no other refresh token: the first one stays good.
        1 => renewable(1, None),
        _ => renewable(before, Some(&format!("r/{before}"))),
    })
    .await;
    let tokens = with(&cloud.base, client(), user());
    assert_eq!(tokens.current().await, Ok(token("t0")));
    for expected in ["t1", "t2", "t3"] {
        advance(241).await;
        assert_eq!(tokens.current().await, Ok(token(expected)));
    }
    assert_eq!(
        asked(&cloud),
        [
            PASSWORD,
            "grant_type=refresh_token&refresh_token=r%2F0",
            "grant_type=refresh_token&refresh_token=r%2F0",
            "grant_type=refresh_token&refresh_token=r%2F2",
        ]
    );
    // an%3Aid:s3cr3t%2F%2B, as for every grant.
    for seen in cloud.seen() {
        assert_eq!(
            seen.header("authorization"),
            Some("Basic YW4lM0FpZDpzM2NyM3QlMkYlMkI=")
        );
    }
}

#[tokio::test]
async fn password_gets_token_after_refresh_token_ended() {
    for refusal in [refused("invalid_grant"), Reply::html().status(404)] {
        let cloud = Cloud::start(move |seen, before| {
            if seen.text.starts_with("grant_type=refresh_token") {
                refusal.clone()
            } else {
                renewable(before, Some("r"))
            }
        })
        .await;
        let tokens = with(&cloud.base, client(), user());
        assert_eq!(tokens.current().await, Ok(token("t0")));
        advance(241).await;
        assert_eq!(tokens.current().await, Ok(token("t2")));
        let refresh = "grant_type=refresh_token&refresh_token=r";
        assert_eq!(asked(&cloud), [PASSWORD, refresh, PASSWORD]);
    }
}

/// An endpoint that is out of order says nothing of the refresh token.
#[tokio::test]
async fn refresh_token_outlasts_fault_of_endpoint() {
    let cloud = Cloud::start(|_, before| match before {
        1 => Reply::html().status(503),
        _ => renewable(before, Some("r")),
    })
    .await;
    let tokens = with(&cloud.base, client(), user());
    assert_eq!(tokens.current().await, Ok(token("t0")));
    advance(241).await;
    assert_eq!(tokens.current().await, Ok(token("t0")), "it lasts still");
    advance(2).await;
    assert_eq!(tokens.current().await, Ok(token("t2")));
    let refresh = "grant_type=refresh_token&refresh_token=r";
    assert_eq!(asked(&cloud), [PASSWORD, refresh, refresh]);
}

/// Whoever has revoked the token may have revoked its refresh token as well.
#[tokio::test]
async fn password_replaces_revoked_token() {
    let cloud = Cloud::start(|_, before| renewable(before, Some("r"))).await;
    let tokens = with(&cloud.base, client(), user());
    let first = tokens.current().await.unwrap();
    assert_eq!(tokens.instead_of(&first).await, Ok(Some(token("t1"))));
    assert_eq!(asked(&cloud), [PASSWORD, PASSWORD]);
}

#[tokio::test]
async fn refused_user_is_told_without_secret() {
    let cloud = Cloud::start(|_, _| refused("invalid_grant")).await;
    let tokens = with(&cloud.base, client(), user());
    let error = tokens.current().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized);
    let told = error.to_string();
    assert!(
        told.ends_with("invalid_grant: Not you; correct the credentials"),
        "{told}"
    );
    for shown in [told, format!("{tokens:?}")] {
        assert!(
            !shown.contains("s3cr3t") && !shown.contains("jane"),
            "{shown}"
        );
    }
    assert_eq!(asked(&cloud), [PASSWORD]);
}

/// Some servers give one, although RFC 6749, 4.4.3 advises against it.
#[tokio::test]
async fn client_credentials_ignore_refresh_token() {
    let cloud = Cloud::start(|_, before| renewable(before, Some("r"))).await;
    let tokens = source(&cloud.base);
    assert_eq!(tokens.current().await, Ok(token("t0")));
    advance(241).await;
    assert_eq!(tokens.current().await, Ok(token("t1")));
    let asked_for = "grant_type=client_credentials&scope=read+write";
    assert_eq!(asked(&cloud), [asked_for, asked_for]);
}
