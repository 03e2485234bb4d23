//! Answers in the shapes of this API.

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// The type of every answer: the Go client takes errors of no other, not even with a `charset`.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer with this body.
pub(super) fn ok(body: impl Into<Bytes>) -> Response {
    with_body(StatusCode::OK, body.into())
}

/// The error that goes with a status.
pub(crate) fn error(status: StatusCode) -> Response {
    let reason = match status {
        StatusCode::UNAUTHORIZED => "Invalid Token",
        StatusCode::FORBIDDEN => "Unauthorized",
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::METHOD_NOT_ALLOWED => "Method Not Allowed",
        StatusCode::TOO_MANY_REQUESTS => "Too many requests",
        other => other.canonical_reason().unwrap_or("Unknown error"),
    };
    refusal(status, None, reason)
}

/// An error about one field.
pub(super) fn refusal(status: StatusCode, field: Option<&str>, reason: &str) -> Response {
    let error = match field {
        Some(field) => json!({ "field": field, "reason": reason }),
        None => json!({ "reason": reason }),
    };
    with_body(status, json!({ "errors": [error] }).to_string().into())
}

fn with_body(status: StatusCode, body: Bytes) -> Response {
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, JSON);
    answer
}
