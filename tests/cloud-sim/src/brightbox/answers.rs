//! Answers in the shapes of this API.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

/// An answer with this in it.
pub(super) fn with(status: StatusCode, body: &Value) -> Response {
    let mut answer = Response::new(Body::from(body.to_string()));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

/// A request that is not granted.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    status: StatusCode,
    name: &'static str,
    errors: Vec<String>,
}

impl Refusal {
    fn new(status: StatusCode, name: &'static str, error: impl Into<String>) -> Self {
        Self {
            status,
            name,
            errors: vec![error.into()],
        }
    }

    /// 422: a field is wrong.
    pub(super) fn invalid(error: impl Into<String>) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "unprocessable_entity",
            error,
        )
    }

    /// 404.
    pub(super) fn missing(id: &str) -> Self {
        let error = format!("Resource could not be found using the supplied identifier {id}");
        Self::new(StatusCode::NOT_FOUND, "missing_resource", error)
    }

    /// 409: the thing is in a state in which this cannot be done.
    pub(super) fn conflict(error: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "resource_conflict", error)
    }

    /// 403: the account is full.
    pub(super) fn limit(what: &str) -> Self {
        let error = format!("The limit of {what} of this account has been reached");
        Self::new(StatusCode::FORBIDDEN, "account_limit_reached", error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({ "error_name": self.name, "errors": self.errors });
        with(self.status, &body)
    }
}

/// The error that goes with a status.
pub(crate) fn error(status: StatusCode) -> Response {
    let name = match status {
        StatusCode::UNAUTHORIZED => return token_error("invalid_token"),
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::NOT_FOUND => "missing_resource",
        StatusCode::CONFLICT => "resource_conflict",
        StatusCode::UNPROCESSABLE_ENTITY => "unprocessable_entity",
        StatusCode::TOO_MANY_REQUESTS => "too_many_requests",
        _ => "internal_error",
    };
    let words = status.canonical_reason().unwrap_or("Unknown error");
    Refusal::new(status, name, words).into_response()
}

/// 401: the token is none, is not good any more, or is refused.
pub(super) fn token_error(error: &str) -> Response {
    let description = "The access token was not accepted";
    let body = json!({ "error": error, "error_description": description });
    let mut answer = with(StatusCode::UNAUTHORIZED, &body);
    let scheme = HeaderValue::from_static("Bearer realm=\"Brightbox API\"");
    answer
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, scheme);
    answer
}
