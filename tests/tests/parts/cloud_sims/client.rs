//! A client that shows what comes over the wire, byte for byte.

use std::io::ErrorKind;
use std::time::Duration;

use http::HeaderMap;
use mooring_cloud_sim::TOKEN;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// No answer of a test takes longer.
const LIMIT: Duration = Duration::from_secs(10);

/// The header that says where a request is sent to: unless it is given, the address of the connection.
pub(crate) const HOST: &str = "Host";

/// An answer, as far as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    /// How the connection ended.
    pub(crate) ended: Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All that was announced has come.
    Whole,
    /// Less has come than was announced, and then the connection was closed.
    Short,
    /// The connection was reset.
    Reset,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        let value = value.unwrap_or_else(|| panic!("no {name}: {self:?}"));
        value.to_str().unwrap()
    }
}

/// GET with the token. `None`: the connection was reset before any answer.
pub(crate) async fn get(url: &str, path: &str) -> Answer {
    try_get(url, path).await.expect("an answer")
}

pub(crate) async fn try_get(url: &str, path: &str) -> Option<Answer> {
    ask(
        url,
        "GET",
        path,
        &[("Authorization", &format!("Bearer {TOKEN}"))],
    )
    .await
}

/// GET with the token and a filter.
pub(crate) async fn filtered(url: &str, path: &str, filter: &str) -> Answer {
    let token = format!("Bearer {TOKEN}");
    let headers = [("Authorization", token.as_str()), ("X-Filter", filter)];
    ask(url, "GET", path, &headers).await.expect("an answer")
}

/// A write with the token. `None`: the connection was reset before any answer.
pub(crate) async fn try_send(url: &str, method: &str, path: &str, body: &Value) -> Option<Answer> {
    let token = format!("Bearer {TOKEN}");
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let length = body.len().to_string();
    let headers = [
        ("Authorization", token.as_str()),
        ("Content-Length", &length),
    ];
    let asked = tokio::time::timeout(LIMIT, exchange(url, method, path, &headers, &body));
    asked.await.expect("the simulation answers in time")
}

/// A write with the token.
pub(crate) async fn send(url: &str, method: &str, path: &str, body: &Value) -> Answer {
    let answer = try_send(url, method, path, body).await;
    answer.expect("an answer")
}

pub(crate) async fn ask(
    url: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Option<Answer> {
    tell(url, method, path, headers, "").await
}

/// Any request. `None`: the connection was reset before any answer.
pub(crate) async fn tell(
    url: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<Answer> {
    let asked = tokio::time::timeout(LIMIT, exchange(url, method, path, headers, body));
    asked.await.expect("the simulation answers in time")
}

async fn exchange(
    url: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<Answer> {
    let address = url.strip_prefix("http://").expect("an address");
    let stream = match TcpStream::connect(address).await {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
        connected => connected.expect("a connection"),
    };
    let host = headers.iter().find(|(name, _)| *name == HOST);
    let host = host.map_or(address, |(_, host)| host);
    talk(stream, host, method, path, headers, body).await
}

/// A request to this host, on a connection that there is.
pub(crate) async fn talk<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<Answer> {
    let headers = headers.iter().filter(|(name, _)| *name != HOST);
    let headers: String = headers.map(|(k, v)| format!("{k}: {v}\r\n")).collect();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{HOST}: {host}\r\nConnection: close\r\n{headers}\r\n{body}"
    );
    // What was reset already is seen when reading.
    let _ = stream.write_all(request.as_bytes()).await;
    let (mut received, mut buffer, mut reset) = (Vec::new(), [0; 4096], false);
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => break,
            Ok(count) => received.extend_from_slice(&buffer[..count]),
            Err(_) => {
                reset = true;
                break;
            }
        }
    }
    let text = String::from_utf8(received).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
    let headers: HeaderMap = lines
        .map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            let name = http::HeaderName::try_from(name).unwrap();
            (name, http::HeaderValue::try_from(value).unwrap())
        })
        .collect();
    // An answer without a body has no length either.
    let length = headers.get("content-length");
    let length = length.map_or(0, |length| length.to_str().unwrap().parse().unwrap());
    let ended = match (reset, body.len() == length) {
        (true, _) => Ended::Reset,
        (false, true) => Ended::Whole,
        (false, false) => Ended::Short,
    };
    Some(Answer {
        status,
        headers,
        body: body.to_owned(),
        ended,
    })
}
