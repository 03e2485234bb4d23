use std::sync::Arc;

use futures::future::join_all;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::super::testing::{Cloud, Reply, Seen, TOKEN, connection, credentials, metrics};
use super::*;
use crate::cloud_api::{Environment, Proxies};

/// Errors are `{"no": "the words"}`, 404 included.
#[derive(Debug)]
struct Plain;

impl ErrorDecoder for Plain {
    fn refusal(&self, status: StatusCode, _: &HeaderMap, body: &[u8]) -> Refusal {
        let words = self.error_in_success(body);
        let mut refusal = Refusal::by_status(status, words.clone());
        if status == StatusCode::NOT_FOUND && words.is_some() {
            refusal.kind = ErrorKind::NotFound;
        }
        refusal
    }

    fn error_in_success(&self, body: &[u8]) -> Option<String> {
        let body: Value = serde_json::from_slice(body).ok()?;
        Some(body.get("no")?.as_str()?.to_owned())
    }
}

const LIMITS: Limits = Limits {
    qps: 5.0,
    burst: 20,
};

fn client_of(connection: Connection) -> Client {
    Client::new("plain", connection, &Plain, LIMITS, metrics()).unwrap()
}

fn client(cloud: &Cloud) -> Client {
    client_of(connection(&cloud.base))
}

fn things() -> Request {
    Request::get("list_things", "things").query("page", "2")
}

async fn error_of(reply: Reply) -> (CloudError, Vec<String>) {
    let cloud = Cloud::start(move |_, _| reply.clone()).await;
    let error = client(&cloud).fetch::<Value>(&things()).await.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains(TOKEN), "{shown}");
    assert!(error.message.starts_with("GET /things: "), "{error}");
    (error, cloud.lines())
}

#[tokio::test]
async fn reads_whole_answer_and_sends_token_to_cloud_only() {
    let cloud = Cloud::start(|_, _| Reply::json(json!({"is": "well"}))).await;
    let client = client(&cloud);
    let answer: Value = client.fetch(&things()).await.unwrap();
    assert_eq!(answer, json!({"is": "well"}));
    let seen: Vec<Seen> = cloud.seen();
    assert_eq!(seen[0].line, "GET /things?page=2");
    assert_eq!(
        seen[0].header("authorization"),
        Some(&*format!("Bearer {TOKEN}"))
    );
    let shown = format!("{client:?}");
    assert!(!shown.contains(TOKEN), "{shown}");
}

/// SC-07.
#[tokio::test]
async fn rejects_incomplete_answer() {
    for (reply, kind, said) in [
        (Reply::html(), ErrorKind::Malformed, "is http://127.0.0.1"),
        (Reply::json(""), ErrorKind::Malformed, "cannot be read"),
        (
            Reply::json("{\"a\": [1,"),
            ErrorKind::Malformed,
            "cannot be read",
        ),
        (
            Reply::json("{\"a\": 1}").cut(3),
            ErrorKind::Transport,
            "the connection failed",
        ),
        (
            Reply::json(json!({"no": "way"})),
            ErrorKind::Malformed,
            "yet: way",
        ),
        (
            Reply::html().status(404),
            ErrorKind::Malformed,
            "not how the cloud answers",
        ),
        (Reply::html().status(502), ErrorKind::Server, "502"),
        (
            Reply::json(json!({"no": "it"})).status(404),
            ErrorKind::NotFound,
            "404 Not Found: it",
        ),
        (
            Reply::json(json!({"no": "b\na\u{1b}d"})).status(400),
            ErrorKind::Invalid,
            ": b a d",
        ),
        (
            Reply::json("{}").status(403),
            ErrorKind::Forbidden,
            "give the token the right",
        ),
        (Reply::json("{}").status(409), ErrorKind::Busy, "409"),
    ] {
        let shown = format!("{reply:?}");
        let (error, lines) = error_of(reply).await;
        assert_eq!(error.kind, kind, "{shown}: {error}");
        assert!(error.message.contains(said), "{shown}: {error}");
        assert_eq!(lines.len(), 1, "{shown}");
    }
}

/// SC-07 for changes, whose answers are empty.
#[tokio::test]
async fn html_page_with_status_200_is_no_success() {
    for (reply, kind) in [
        (Reply::html(), Some(ErrorKind::Malformed)),
        (Reply::json(""), None),
        (Reply::json("{}"), None),
    ] {
        let shown = format!("{reply:?}");
        let cloud = Cloud::start(move |_, _| reply.clone()).await;
        let answer = client(&cloud).call(&things()).await;
        assert_eq!(answer.err().map(|error| error.kind), kind, "{shown}");
    }
}

#[tokio::test]
async fn reports_redirect_without_following() {
    let reply = Reply::json("{}")
        .status(302)
        .header("location", "https://elsewhere.example/");
    let (error, lines) = error_of(reply).await;
    assert_eq!((error.kind, lines.len()), (ErrorKind::Malformed, 1));
    assert!(
        error.message.contains("https://elsewhere.example/"),
        "{error}"
    );
}

/// T13: who wants to be left alone is, by every request, and no caller is held up.
#[tokio::test]
async fn rate_limit_refusal_pauses_all_requests() {
    for (reply, kind) in [
        (
            Reply::json("{}").status(429).header("retry-after", 60),
            ErrorKind::RateLimited,
        ),
        (
            Reply::json("{}").status(503).header("retry-after", 60),
            ErrorKind::Server,
        ),
    ] {
        let cloud = Cloud::start(move |_, _| reply.clone()).await;
        let client = client(&cloud);
        let error = client.call(&things()).await.unwrap_err();
        assert_eq!(
            (error.kind, error.retry_after),
            (kind, Some(Duration::from_secs(60)))
        );
        let began = Instant::now();
        let error = client
            .call(&Request::get("other", "other"))
            .await
            .unwrap_err();
        assert_eq!((error.kind, error.status), (ErrorKind::RateLimited, None));
        let wait = error.retry_after.unwrap();
        assert!(
            wait > Duration::from_secs(50) && wait <= Duration::from_secs(60),
            "{wait:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(1));
        assert_eq!(cloud.lines(), ["GET /things?page=2"]);
    }
}

/// Requests that are on their way together are refused together, and that is one refusal.
#[tokio::test]
async fn ten_concurrent_refusals_pause_one_second() {
    let cloud = Cloud::start(|_, _| Reply::json("{}").status(429)).await;
    let (client, request) = (client(&cloud), things());
    let answers = join_all((0..10).map(|_| client.call(&request))).await;
    for answer in answers {
        let error = answer.unwrap_err();
        assert_eq!(error.retry_after, Some(Duration::from_secs(1)), "{error}");
    }
}

#[tokio::test]
async fn last_request_of_budget_is_followed_by_pause() {
    let spent = Reply::json("{}")
        .header("x-ratelimit-remaining", 0)
        .header("x-ratelimit-reset", 1_795_248_060)
        .header("date", "Sat, 21 Nov 2026 08:00:00 GMT");
    let cloud = Cloud::start(move |_, _| spent.clone()).await;
    let client = client(&cloud);
    client.call(&things()).await.unwrap();
    let error = client.call(&things()).await.unwrap_err();
    assert!(
        error.retry_after.unwrap() > Duration::from_secs(50),
        "{error}"
    );
    assert_eq!(cloud.lines().len(), 1);
}

/// PR-18: a token that was exchanged is in use with the first refusal of the old one.
#[tokio::test]
async fn rereads_refused_token() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), " old-token\n").unwrap();
    let cloud = Cloud::start(|seen, _| match seen.header("authorization") {
        Some("Bearer new-token") => Reply::json("{}"),
        _ => Reply::json("{}").status(401),
    })
    .await;
    let mut connection = connection(&cloud.base);
    connection.credentials = Arc::new(credentials(Some(file.path())));
    let client = client_of(connection);
    let error = client.call(&things()).await.unwrap_err();
    assert_eq!(
        (error.kind, cloud.lines().len()),
        (ErrorKind::Unauthorized, 1)
    );
    let shown = format!("{error} {client:?}");
    assert!(
        shown.contains(&file.path().display().to_string()),
        "{shown}"
    );
    assert!(!shown.contains("old-token"), "{shown}");
    std::fs::write(file.path(), "new-token").unwrap();
    client.call(&things()).await.unwrap();
    client.call(&things()).await.unwrap();
    assert_eq!(cloud.lines().len(), 4);
    std::fs::remove_file(file.path()).unwrap();
    client.call(&things()).await.unwrap();
}

#[tokio::test]
async fn timeout_error_names_variable() {
    let cloud = Cloud::start(|_, _| Reply::never()).await;
    let mut connection = connection(&cloud.base);
    connection.timeout = Duration::from_millis(50);
    let error = client_of(connection).call(&things()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(
        error.message.contains("TIMEOUT") && error.may_have_been_done(),
        "{error}"
    );
}

#[tokio::test]
async fn unreachable_cloud_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base: Url = format!("http://{}/", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    drop(listener);
    let error = client_of(connection(&base))
        .call(&things())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transport, "{error}");
}

#[tokio::test]
async fn uses_proxy_of_environment() {
    let proxy = Cloud::start(|_, _| Reply::json("{}")).await;
    let address = proxy.base.to_string();
    let read = |name: &str| match name {
        "http_proxy" => Some(address.clone()),
        "NO_PROXY" => Some(".direct.invalid".to_owned()),
        _ => None,
    };
    let through = |base: &str| {
        let mut connection = connection(&base.parse().unwrap());
        connection.proxies = Proxies::read(&mut Environment::new(&read));
        client_of(connection)
    };
    through("http://cloud.invalid/v1/")
        .call(&things())
        .await
        .unwrap();
    assert_eq!(proxy.lines(), ["GET http://cloud.invalid/v1/things?page=2"]);
    let direct = through("http://cloud.direct.invalid/")
        .call(&things())
        .await;
    assert_eq!(direct.unwrap_err().kind, ErrorKind::Transport);
}

#[tokio::test]
async fn trusts_only_named_authorities() {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = own.signing_key.serialize_der().try_into().unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
                let _ = stream.read(&mut [0; 4096]).await;
                let answer = b"HTTP/1.1 204 Done\r\nconnection: close\r\n\r\n";
                let _ = stream.write_all(answer).await;
                let _ = stream.shutdown().await;
            }
        }
    });
    let base: Url = format!("https://localhost:{port}/").parse().unwrap();
    let trusting = |pem: String| {
        let mut connection = connection(&base);
        connection.authorities = Some(pem.into_bytes());
        client_of(connection)
    };
    trusting(own.cert.pem()).call(&things()).await.unwrap();
    let error = trusting(other.cert.pem())
        .call(&things())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transport, "{error}");
}

#[tokio::test]
async fn counts_requests_by_outcome() {
    let cloud = Cloud::start(|_, before| match before {
        0 => Reply::json("{}"),
        1 => Reply::html(),
        _ => Reply::json("{}").status(429).header("retry-after", 60),
    })
    .await;
    let mut registry = Registry::default();
    let counted = Metrics::register(&mut registry);
    let limits = LIMITS;
    let client = Client::new("plain", connection(&cloud.base), &Plain, limits, counted).unwrap();
    for _ in 0..4 {
        let _ = client.fetch::<Value>(&things()).await;
    }
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for result in ["ok", "malformed", "rate_limited", "held_back"] {
        let line = format!(
            "mooring_cloud_requests_total{{provider=\"plain\",operation=\"list_things\",\
             result=\"{result}\"}} 1\n"
        );
        assert!(text.contains(&line), "{result}: {text}");
    }
    let took = "mooring_cloud_request_duration_seconds_count{provider=\"plain\",\
                operation=\"list_things\"} 3\n";
    assert!(text.contains(took), "{text}");
}

fn page_of_things(number: u32) -> Request {
    let request = Request::get("list_things", "things");
    request.query("page", number.to_string()).page()
}

/// Whoever counts with a Go controller's counter sees one call, whatever it took.
#[tokio::test]
async fn counts_whole_calls_by_other_names() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "old-token").unwrap();
    let cloud = Cloud::start(|seen, _| match seen.header("authorization") {
        Some("Bearer new-token") => Reply::json("{}"),
        _ => Reply::json("{}").status(401),
    })
    .await;
    let mut registry = Registry::default();
    let counted = Metrics::register(&mut registry);
    let counted = counted.with_calls(&mut registry, "go_calls", str::to_uppercase);
    let mut connection = connection(&cloud.base);
    connection.credentials = Arc::new(credentials(Some(file.path())));
    let client = Client::new("plain", connection, &Plain, LIMITS, counted).unwrap();
    let thing = Request::get("get_thing", "things/1");
    client.call(&thing).await.unwrap_err();
    std::fs::write(file.path(), "new-token").unwrap();
    client.call(&thing).await.unwrap();
    for number in 1..=3 {
        client.call(&page_of_things(number)).await.unwrap();
    }
    client.ended(&page_of_things(1), &Ok(()));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let calls = text
        .lines()
        .filter(|line| line.starts_with("go_calls_total"));
    let mut calls: Vec<&str> = calls.collect();
    calls.sort_unstable();
    assert_eq!(
        calls,
        [
            r#"go_calls_total{method="GET_THING",result="error"} 1"#,
            r#"go_calls_total{method="GET_THING",result="ok"} 1"#,
            r#"go_calls_total{method="LIST_THINGS",result="ok"} 1"#,
        ]
    );
}

#[tokio::test]
async fn spent_budget_of_listings_holds_back_listings_only() {
    for spent in [
        Reply::json("{}")
            .header("x-ratelimit-remaining", 0)
            .header("x-ratelimit-reset", 1_795_248_060)
            .header("date", "Sat, 21 Nov 2026 08:00:00 GMT"),
        Reply::json("{}").status(429).header("retry-after", 60),
    ] {
        let cloud = Cloud::start(move |seen, _| match seen.line.contains("page=") {
            true => spent.clone(),
            false => Reply::json("{}"),
        })
        .await;
        let client = client(&cloud).listing_limits(LIMITS);
        let _ = client.call(&page_of_things(1)).await;
        let error = client.call(&page_of_things(2)).await.unwrap_err();
        let wait = error.retry_after.unwrap();
        assert!(wait > Duration::from_secs(50), "{error}");
        client
            .call(&Request::get("get_thing", "things/1"))
            .await
            .unwrap();
        assert_eq!(cloud.lines().len(), 2, "{:?}", cloud.lines());
    }
}

#[tokio::test]
async fn token_that_a_cloud_repeats_is_not_shown() {
    let words = json!({"no": format!("{TOKEN} is not known")});
    for (status, expected) in [(400, "*** is not known"), (200, "yet: *** is not known")] {
        let (error, _) = error_of(Reply::json(&words).status(status)).await;
        assert!(error.message.contains(expected), "{error}");
    }
}
