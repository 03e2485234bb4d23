use std::time::Instant;

use super::*;
use crate::report::metadata::scripted::{Scripted, ok, status};

async fn answer_to(reply: &str) -> Result<Answer, MetadataError> {
    let reply = reply.to_owned();
    let service = Scripted::start(move |_, _| reply.clone()).await;
    service.endpoint.get("/x", &[]).await
}

async fn problem(reply: &str) -> Problem {
    match answer_to(reply).await {
        Err(MetadataError::Unanswered { url, problem }) => {
            assert!(url.ends_with("/m1/x"), "{url}");
            problem
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn endpoint_must_be_address() {
    for (text, address, written) in [
        (
            "http://169.254.169.254",
            "169.254.169.254:80",
            "http://169.254.169.254",
        ),
        (
            "http://169.254.169.254/",
            "169.254.169.254:80",
            "http://169.254.169.254",
        ),
        (
            "http://[fd00:a9fe:a9fe::1]",
            "[fd00:a9fe:a9fe::1]:80",
            "http://[fd00:a9fe:a9fe::1]",
        ),
        (
            "http://127.0.0.1:8080/m/17/",
            "127.0.0.1:8080",
            "http://127.0.0.1:8080/m/17",
        ),
    ] {
        let endpoint: Endpoint = text.parse().unwrap();
        assert_eq!(endpoint.address.to_string(), address);
        assert_eq!(endpoint.to_string(), written);
        assert_eq!(written.parse::<Endpoint>().unwrap(), endpoint);
    }
    assert_eq!(Endpoint::default().to_string(), "http://169.254.169.254");
    for wrong in [
        "",
        "169.254.169.254",
        "https://169.254.169.254",
        "http://metadata.internal",
        "http://user@169.254.169.254",
        "http://169.254.169.254?x=1",
        "http://169.254.169.254:99999",
        "http://",
    ] {
        let error = wrong.parse::<Endpoint>().unwrap_err();
        assert!(
            error.to_string().contains("like http://169.254.169.254"),
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn sends_requested_path_and_headers() {
    let service = Scripted::start(|_, _| ok("hello")).await;
    let headers = [(
        HeaderName::from_static("x-a"),
        HeaderValue::from_static("1"),
    )];
    let answer = service.endpoint.get("/x", &headers).await.unwrap();
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (StatusCode::OK, "hello")
    );
    let [head] = service.heads().try_into().unwrap();
    assert!(head.starts_with("get /m1/x http/1.1\r\n"), "{head}");
    for line in [
        "\r\nx-a: 1\r\n",
        "\r\nhost: 127.0.0.1:",
        "\r\nconnection: close\r\n",
    ] {
        assert!(head.contains(line), "{head}");
    }
}

#[tokio::test]
async fn only_clear_refusal_is_answer() {
    for line in [
        "404 Not Found",
        "401 Unauthorized",
        "405 Method Not Allowed",
    ] {
        let answer = answer_to(&status(line)).await.unwrap();
        assert!(!answer.is_found(), "{line}");
        let error = answer.found("linode").unwrap_err();
        assert!(
            !error.is_retryable() && error.to_string().contains("/m1/x"),
            "{error}"
        );
    }
    for line in [
        "500 Oh",
        "503 Later",
        "429 Slowly",
        "408 Late",
        "204 Empty",
        "206 Part",
    ] {
        let problem = problem(&status(line)).await;
        assert!(matches!(problem, Problem::Status(_)), "{line}: {problem:?}");
    }
    let elsewhere = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n";
    assert!(matches!(problem(elsewhere).await, Problem::Redirected(_)));
}

#[tokio::test]
async fn distinguishes_truncated_oversized_and_malformed() {
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    assert!(matches!(problem(cut).await, Problem::CutOff));
    let chunk_missing = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    assert!(matches!(problem(chunk_missing).await, Problem::CutOff));
    for head in ["", "HTTP/1.1 200 OK\r\nContent-Le"] {
        assert!(matches!(problem(head).await, Problem::CutOff), "{head:?}");
    }
    let long = ok(&"x".repeat(LONGEST_BODY + 1));
    assert!(matches!(problem(&long).await, Problem::TooLong));
    answer_to(&ok(&"x".repeat(LONGEST_BODY))).await.unwrap();
    assert!(matches!(
        problem("hello, who is there?\r\n\r\n").await,
        Problem::NotHttp(_)
    ));
    let vast = format!(
        "HTTP/1.1 200 OK\r\nX-A: {}\r\n\r\n",
        "x".repeat(LONGEST_HEAD)
    );
    assert!(matches!(problem(&vast).await, Problem::NotHttp(_)));
    let latin = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\u{e9}";
    assert!(answer_to(latin).await.is_ok());
}

#[tokio::test]
async fn distinguishes_refused_from_timeout() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent: Endpoint = format!("http://{}", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let start = Instant::now();
    let error = silent.get("/x", &[]).await.unwrap_err();
    assert!(!error.is_unreachable() && error.is_retryable(), "{error}");
    assert!(
        error.to_string().contains("no whole answer in time"),
        "{error}"
    );
    assert!(start.elapsed() < CONNECT + EXCHANGE);
    drop(listener);
    let error = silent.get("/x", &[]).await.unwrap_err();
    assert!(error.is_unreachable() && error.is_retryable(), "{error}");
    assert!(error.to_string().contains("--metadata-endpoint"), "{error}");
}
