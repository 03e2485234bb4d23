//! Answers in the shapes of this API.

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

/// The type of every answer: the Go client takes errors of no other, not even with a `charset`.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What a request is answered.
pub(super) type Answer = Result<Response, Refusal>;

/// An answer with this body.
pub(super) fn ok(body: impl Into<Bytes>) -> Response {
    with_body(StatusCode::OK, body.into())
}

/// An answer about something that is gone.
pub(super) fn done() -> Response {
    ok("{}")
}

/// A request that is refused, with all that is wrong.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    errors: Vec<Value>,
}

impl Refusal {
    /// 404.
    pub(super) fn not_found() -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            errors: vec![json!({ "reason": "Not found" })],
        }
    }

    /// 400 about the request as a whole.
    pub(super) fn reason(reason: &str) -> Self {
        let mut errors = Errors::default();
        errors.add_plain(reason);
        errors.refusal()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({ "errors": self.errors }).to_string();
        with_body(self.status, body.into())
    }
}

/// What is wrong with a request. All of it is reported at once.
#[derive(Debug, Default)]
pub(super) struct Errors(Vec<Value>);

impl Errors {
    /// This field is wrong.
    pub(super) fn add(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.0
            .push(json!({ "field": field.into(), "reason": reason.into() }));
    }

    /// The request is wrong, and the API names no field.
    pub(super) fn add_plain(&mut self, reason: impl Into<String>) {
        self.0.push(json!({ "reason": reason.into() }));
    }

    /// An error if anything is wrong.
    pub(super) fn into_result(self) -> Result<(), Refusal> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(self.refusal())
        }
    }

    fn refusal(self) -> Refusal {
        Refusal {
            status: StatusCode::BAD_REQUEST,
            errors: self.0,
        }
    }
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
