mod password;

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::*;
use crate::cloud_api::testing::{Cloud, Reply, Seen, metrics};
use crate::cloud_api::{Environment, FileKey, KeyKind, Proxies};

const KEYS: &[FileKey] = &[
    FileKey {
        name: "id",
        variable: Some("ID"),
        kind: KeyKind::Secret,
    },
    FileKey {
        name: "secret",
        variable: Some("SECRET"),
        kind: KeyKind::Secret,
    },
];

fn with(url: &Url, client: ClientSource, grant: Grant) -> Arc<TokenSource> {
    let settings = Settings {
        provider: "a-cloud",
        token_url: url.join("token").unwrap(),
        client,
        grant,
        scope: Some("read write"),
        remedies: Remedies {
            refused: "correct the credentials",
            elsewhere: "correct the address",
        },
    };
    let transport = Transport {
        timeout: Duration::from_secs(10),
        proxies: &Proxies::default(),
        authorities: None,
    };
    TokenSource::new(settings, &transport, metrics()).unwrap()
}

fn client() -> ClientSource {
    ClientSource::from(ClientCredentials {
        id: "an:id".to_owned(),
        secret: "s3cr3t/+".to_owned(),
    })
}

fn source(url: &Url) -> Arc<TokenSource> {
    with(url, client(), Grant::ClientCredentials)
}

fn granted(before: usize, lasts: f64) -> Reply {
    Reply::json(json!({
        "access_token": format!("t{before}"), "token_type": "Bearer", "expires_in": lasts,
    }))
}

fn refused(error: &str) -> Reply {
    Reply::json(json!({"error": error, "error_description": "Not you"})).status(400)
}

fn token(text: &str) -> Secret {
    Secret::new(text).unwrap()
}

/// RFC 6749, 2.3.1: both parts are encoded before they are joined.
#[tokio::test]
async fn concurrent_callers_share_one_token() {
    let cloud = Cloud::start(|_, before| granted(before, 300.0)).await;
    let tokens = source(&cloud.base);
    let asked = (0..20).map(|_| tokens.current());
    for secret in futures::future::join_all(asked).await {
        assert_eq!(secret, Ok(token("t0")));
    }
    let seen = cloud.seen();
    assert_eq!(cloud.lines(), ["POST /token"]);
    // an%3Aid:s3cr3t%2F%2B
    assert_eq!(
        seen[0].header("authorization"),
        Some("Basic YW4lM0FpZDpzM2NyM3QlMkYlMkI=")
    );
    assert_eq!(
        seen[0].header("content-type"),
        Some("application/x-www-form-urlencoded")
    );
}

#[tokio::test]
async fn renews_token_before_expiry() {
    let cloud = Cloud::start(|_, before| granted(before, 300.0)).await;
    let tokens = source(&cloud.base);
    assert_eq!(tokens.current().await, Ok(token("t0")));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(239)).await;
    assert_eq!(tokens.current().await, Ok(token("t0")));
    tokio::time::advance(Duration::from_secs(2)).await;
    tokio::time::resume();
    assert_eq!(tokens.current().await, Ok(token("t1")));
    assert_eq!(cloud.lines().len(), 2);
}

/// Until its end the old one is as good.
#[tokio::test]
async fn uses_token_until_expiry_while_renewal_fails() {
    let cloud = Cloud::start(|_, before| match before {
        0 => granted(0, 300.0),
        _ => Reply::html().status(503),
    })
    .await;
    let tokens = source(&cloud.base);
    assert_eq!(tokens.current().await, Ok(token("t0")));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(250)).await;
    tokio::time::resume();
    assert_eq!(tokens.current().await, Ok(token("t0")));
    assert_eq!(tokens.current().await, Ok(token("t0")));
    assert_eq!(cloud.lines().len(), 2, "nobody asks again at once");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(51)).await;
    tokio::time::resume();
    let error = tokens.current().await.unwrap_err();
    assert_eq!((error.kind, error.status), (ErrorKind::Server, Some(503)));
    assert!(error.retry_after.is_some());
}

#[tokio::test]
async fn replaces_refused_token_once() {
    let cloud = Cloud::start(|_, before| granted(before, 300.0)).await;
    let tokens = source(&cloud.base);
    let first = tokens.current().await.unwrap();
    let instead = [tokens.instead_of(&first), tokens.instead_of(&first)];
    for secret in futures::future::join_all(instead).await {
        assert_eq!(secret, Ok(Some(token("t1"))), "the second one was quicker");
    }
    assert_eq!(cloud.lines().len(), 2);
    // The reason is another one, and asking for one token after the other would not help.
    assert_eq!(tokens.instead_of(&token("t1")).await, Ok(None));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    assert_eq!(tokens.instead_of(&token("t1")).await, Ok(Some(token("t2"))));
}

#[tokio::test]
async fn client_with_partial_scope_gets_token() {
    let cloud = Cloud::start(|seen, before| {
        if seen.text == "grant_type=client_credentials&scope=read+write" {
            refused("invalid_scope")
        } else {
            granted(before, 1.0)
        }
    })
    .await;
    let tokens = source(&cloud.base);
    assert_eq!(tokens.current().await, Ok(token("t1")));
    assert_eq!(cloud.seen()[1].text, "grant_type=client_credentials");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(2)).await;
    tokio::time::resume();
    assert_eq!(
        tokens.current().await,
        Ok(token("t2")),
        "it is not asked for again"
    );
}

#[tokio::test]
async fn errors_show_no_secret() {
    type Answer = fn(&Seen, usize) -> Reply;
    let wrong: [(Answer, ErrorKind, &str); 6] = [
        (
            |_, _| refused("invalid_client"),
            ErrorKind::Unauthorized,
            "token: 400 Bad Request: invalid_client: Not you; correct the credentials",
        ),
        (
            |_, _| Reply::html().status(503),
            ErrorKind::Server,
            "token: 503 Service Unavailable",
        ),
        (
            |_, _| Reply::html().status(404),
            ErrorKind::Malformed,
            "token: 404 Not Found; correct the address",
        ),
        (
            |_, _| Reply::html(),
            ErrorKind::Malformed,
            "token: the answer has no token in it",
        ),
        (
            |_, _| Reply::json(json!({"access_token": "a b"})),
            ErrorKind::Malformed,
            "token: the token has characters that no token has",
        ),
        (
            |_, before| granted(before, 300.0).cut(5),
            ErrorKind::Transport,
            "",
        ),
    ];
    for (answer, expected, message) in wrong {
        let cloud = Cloud::start(answer).await;
        let tokens = source(&cloud.base);
        let error = tokens.current().await.unwrap_err();
        assert_eq!(error.kind, expected, "{error}");
        assert!(error.to_string().ends_with(message), "{error}");
        assert!(error.retry_after.is_some(), "{error}");
        assert!(!error.to_string().contains("s3cr3t"), "{error}");
        let _ = tokens.current().await.unwrap_err();
        assert_eq!(cloud.lines().len(), 1, "nobody asks again at once");
        assert!(!format!("{tokens:?}").contains("s3cr3t"));
    }
}

/// An endpoint that refuses the connection, and later does not.
#[tokio::test]
async fn token_recovers_with_endpoint() {
    static BACK: AtomicBool = AtomicBool::new(false);
    let cloud = Cloud::start(|_, before| {
        if BACK.load(Ordering::SeqCst) {
            granted(before, 300.0)
        } else {
            Reply::html().status(502)
        }
    })
    .await;
    let tokens = source(&cloud.base);
    assert!(tokens.current().await.is_err());
    BACK.store(true, Ordering::SeqCst);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(2)).await;
    tokio::time::resume();
    assert!(tokens.current().await.is_ok());
}

/// A time beyond all clocks must not end the process.
#[tokio::test]
async fn survives_nonsense_expiry() {
    for lasts in [
        json!(1e300),
        json!(1e18),
        json!(-1),
        json!(0),
        json!(null),
        json!("soon"),
    ] {
        let cloud = Cloud::start(move |_, _| {
            Reply::json(json!({"access_token": "t", "expires_in": lasts}))
        })
        .await;
        assert_eq!(source(&cloud.base).current().await, Ok(token("t")));
    }
}

/// RFC 6749, 5.1 asks for JSON; some servers answer with a form, or with a number in quotes.
#[tokio::test]
async fn accepts_form_and_quoted_expiry() {
    let form = "application/x-www-form-urlencoded; charset=utf-8";
    for (content_type, body, expected) in [
        (form, "access_token=t%2B&expires_in=300&scope=a", Some("t+")),
        ("text/plain", "access_token=t&expires_in=300", Some("t")),
        (
            "text/plain",
            r#"{"access_token": "t", "expires_in": "300"}"#,
            Some("t"),
        ),
        (form, "token=t", None),
        ("text/html", "access_token=t", None),
    ] {
        let cloud = Cloud::start(move |_, _| Reply::typed(content_type, body)).await;
        let tokens = source(&cloud.base);
        assert_eq!(
            tokens.current().await.ok(),
            expected.map(token),
            "{content_type} {body}"
        );
        let state = tokens.state.lock().await;
        let Some(token) = &state.token else { continue };
        let lasts = token.ends - token.obtained;
        assert!(
            Duration::from_secs(290) < lasts && lasts <= Duration::from_secs(300),
            "{content_type} {body}: {lasts:?}"
        );
    }
}

/// The file that the credentials are from has others by then.
#[tokio::test]
async fn refused_credentials_are_read_again() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |secret: &str| {
        let text = json!({"id": "an-id", "secret": secret}).to_string();
        std::fs::write(file.path(), text).unwrap();
    };
    write("old");
    let cloud = Cloud::start(|seen, before| {
        // an-id:old
        if seen.header("authorization") == Some("Basic YW4taWQ6b2xk") {
            refused("invalid_client").status(401)
        } else {
            granted(before, 300.0)
        }
    })
    .await;
    let mut environment = Environment::with_file(&|_| None, Some(file.path()), KEYS);
    let client = ClientSource::read(&mut environment, "ID", "SECRET").unwrap();
    let tokens = with(&cloud.base, client, Grant::ClientCredentials);
    assert!(tokens.current().await.is_err());
    assert_eq!(tokens.generation(), 0);
    write("new");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(2)).await;
    tokio::time::resume();
    assert_eq!(tokens.current().await, Ok(token("t2")));
    assert_eq!(tokens.generation(), 1, "another client may have it now");
}
