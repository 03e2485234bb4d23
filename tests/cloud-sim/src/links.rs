//! Links in answers: they lead to the host that the request was sent to, by whichever name that was.

use std::io;

use axum::body::Body;
use axum::response::Response;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt as _;

/// What links in an answer begin with, and what they shall begin with.
pub(super) struct Links {
    own: String,
    asked: String,
}

impl Links {
    /// What is to be done to the answer of a request with these headers to a cloud with this URL: nothing if that
    /// is where it was sent.
    pub(super) fn of(url: &str, headers: &HeaderMap) -> Option<Self> {
        let host: Authority = headers.get(header::HOST)?.to_str().ok()?.parse().ok()?;
        let (scheme, _) = url.split_once("://")?;
        let asked = format!("{scheme}://{host}");
        (asked != url).then(|| Self {
            own: format!("{url}/"),
            asked: format!("{asked}/"),
        })
    }

    /// The answer with links that lead there.
    pub(super) async fn put_into(&self, answer: Response) -> io::Result<Response> {
        let (mut parts, body) = answer.into_parts();
        let location = parts.headers.get_mut(header::LOCATION);
        if let Some((location, text)) = location.and_then(|location| {
            let text = location.to_str().ok()?.replace(&self.own, &self.asked);
            Some((location, text))
        }) {
            *location = HeaderValue::try_from(text).map_err(io::Error::other)?;
        }
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let body = match std::str::from_utf8(&body) {
            Ok(text) if text.contains(&self.own) => text.replace(&self.own, &self.asked).into(),
            _ => body,
        };
        if parts.headers.contains_key(header::CONTENT_LENGTH) {
            let length = HeaderValue::from(body.len());
            parts.headers.insert(header::CONTENT_LENGTH, length);
        }
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://127.0.0.1:8000";

    fn links(host: &'static str) -> Option<Links> {
        let host = HeaderValue::from_static(host);
        Links::of(URL, &HeaderMap::from_iter([(header::HOST, host)]))
    }

    async fn led(host: &'static str, body: &str) -> (Option<String>, String) {
        let mut answer = Response::new(Body::from(body.to_owned()));
        let location = HeaderValue::try_from(format!("{URL}/1.0/a")).unwrap();
        answer.headers_mut().insert(header::LOCATION, location);
        let answer = links(host).unwrap().put_into(answer).await.unwrap();
        let location = answer.headers().get(header::LOCATION).cloned();
        let location = location.map(|location| location.to_str().unwrap().to_owned());
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (location, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn links_lead_to_the_host_of_the_request() {
        let (location, body) =
            led("api.example:81", r#"{"href":"http://127.0.0.1:8000/v1/a"}"#).await;
        assert_eq!(location.as_deref(), Some("http://api.example:81/1.0/a"));
        assert_eq!(body, r#"{"href":"http://api.example:81/v1/a"}"#);
        let (_, body) = led("sim", "http://127.0.0.1:80001/").await;
        assert_eq!(body, "http://127.0.0.1:80001/", "it is another port");
    }

    #[test]
    fn links_that_lead_there_already_or_would_lead_nowhere_stay() {
        for host in ["127.0.0.1:8000", "not a host", ""] {
            assert!(links(host).is_none(), "{host}");
        }
        assert!(Links::of(URL, &HeaderMap::new()).is_none());
    }
}
