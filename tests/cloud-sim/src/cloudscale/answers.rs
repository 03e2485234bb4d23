//! Answers in the shapes of this API.

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

/// An answer with this body.
pub(super) fn ok(body: impl Into<Bytes>) -> Response {
    with_body(StatusCode::OK, body.into())
}

/// An answer about something new.
pub(super) fn created(body: impl Into<Bytes>) -> Response {
    with_body(StatusCode::CREATED, body.into())
}

/// An answer without anything in it.
pub(super) fn done() -> Response {
    let mut answer = with_body(StatusCode::NO_CONTENT, Bytes::new());
    answer.headers_mut().remove(header::CONTENT_TYPE);
    answer
}

/// A request that is not granted.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) body: Value,
}

impl Refusal {
    /// 400 in words.
    pub(super) fn detail(detail: &str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            body: json!({ "detail": detail }),
        }
    }

    /// 400 about one field.
    pub(super) fn field(field: &str, message: &str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            body: json!({ field: [message] }),
        }
    }

    pub(super) fn not_found() -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            body: json!({ "detail": "Not found." }),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        with_body(self.status, self.body.to_string().into())
    }
}

/// The error that goes with a status.
pub(crate) fn error(status: StatusCode) -> Response {
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
