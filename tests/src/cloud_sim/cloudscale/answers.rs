//! Answers in the shapes of this API.

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// An answer with this body.
pub(super) fn ok(body: impl Into<Bytes>) -> Response {
    with_body(StatusCode::OK, body.into())
}

/// The error that goes with a status.
pub(in crate::cloud_sim) fn error(status: StatusCode) -> Response {
    let detail = match status {
        StatusCode::UNAUTHORIZED => "Invalid token.",
        StatusCode::FORBIDDEN => "You do not have permission to perform this action.",
        StatusCode::NOT_FOUND => "Not found.",
        StatusCode::TOO_MANY_REQUESTS => "Request was throttled.",
        other => other.canonical_reason().unwrap_or("Unknown error."),
    };
    detailed(status, detail)
}

/// An error in words.
pub(super) fn detailed(status: StatusCode, detail: &str) -> Response {
    let body = json!({ "detail": detail }).to_string();
    let mut answer = with_body(status, body.into());
    if status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        answer
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, scheme);
    }
    answer
}

fn with_body(status: StatusCode, body: Bytes) -> Response {
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}
