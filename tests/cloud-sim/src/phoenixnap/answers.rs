//! Answers in the shapes of this API.

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

/// An answer with this in it.
pub(super) fn with(status: StatusCode, body: &Value) -> Response {
    with_text(status, body.to_string())
}

/// An answer with this JSON in it.
pub(super) fn with_text(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut answer = Response::new(Body::from(body.into()));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

/// A request that is not granted.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    message: String,
    errors: Vec<String>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: &str) -> Self {
        Self {
            status,
            message: message.to_owned(),
            errors: Vec::new(),
        }
    }

    /// 400: what is wrong with which fields.
    pub(super) fn invalid(errors: Vec<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message: "The request failed due to wrong data. Please check the provided parameters \
                      and try again."
                .to_owned(),
            errors,
        }
    }

    /// 400: what is wrong with one field.
    pub(super) fn field(error: &str) -> Self {
        Self::invalid(vec![error.to_owned()])
    }

    /// 409: the thing is in a state in which this cannot be done.
    pub(super) fn conflict(message: &str) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// What is not there, or not ours: the API does not tell which.
    pub(super) fn missing(status: StatusCode) -> Self {
        let message = match status {
            StatusCode::NOT_FOUND => "The resource with the given ID was not found.",
            _ => "The requested resource is not accessible with the given credentials.",
        };
        Self::new(status, message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut body = json!({ "message": self.message });
        if !self.errors.is_empty() {
            body["validationErrors"] = json!(self.errors);
        }
        with(self.status, &body)
    }
}

/// The error that goes with a status.
pub(crate) fn error(status: StatusCode) -> Response {
    let message = match status {
        StatusCode::UNAUTHORIZED => "Unauthorized access. Please check the access token.",
        StatusCode::FORBIDDEN => "Access to the requested resource is forbidden.",
        StatusCode::NOT_FOUND => "The requested resource was not found.",
        StatusCode::TOO_MANY_REQUESTS => "Too many requests. Please try again later.",
        StatusCode::INTERNAL_SERVER_ERROR => "An internal error has occurred.",
        other => other.canonical_reason().unwrap_or("Unknown error."),
    };
    Refusal::new(status, message).into_response()
}
