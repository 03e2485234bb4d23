//! The endpoints.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State as Shared};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use http::{Method, StatusCode, Uri, header};
use serde_json::Value;

use super::answers::{detailed, error, ok};
use super::lock;
use super::state::State;
use crate::cloud_sim::request::decoded;
use crate::cloud_sim::rows::{array, body};

type Handle = Arc<Mutex<State>>;

pub(super) fn router(state: Handle) -> Router {
    Router::new()
        .route("/v1/servers", get(servers))
        .route("/v1/servers/{uuid}", get(server))
        .fallback(|| async { error(StatusCode::NOT_FOUND) })
        .method_not_allowed_fallback(|method: Method| async move {
            let detail = format!("Method \"{method}\" not allowed.");
            detailed(StatusCode::METHOD_NOT_ALLOWED, &detail)
        })
        .layer(from_fn_with_state(state.clone(), gate))
        .with_state(state)
}

/// The token.
async fn gate(Shared(state): Shared<Handle>, request: Request<Body>, next: Next) -> Response {
    let wanted = format!("Bearer {}", lock(&state).token);
    match request.headers().get(header::AUTHORIZATION) {
        None => detailed(
            StatusCode::UNAUTHORIZED,
            "Authentication credentials were not provided.",
        ),
        Some(given) if given.as_bytes() != wanted.as_bytes() => error(StatusCode::UNAUTHORIZED),
        Some(_) => next.run(request).await,
    }
}

/// Whether an object has all the tags that a query asks for.
fn has_tags(object: &Value, query: &[(String, String)], text: &str) -> bool {
    query.iter().all(|(key, value)| {
        let Some(tag) = key.strip_prefix("tag:") else {
            return true;
        };
        let Some(found) = object["tags"].get(tag) else {
            return false;
        };
        // `?tag:key` asks for any value, `?tag:key=` for the empty one.
        let any = value.is_empty() && !text.split('&').any(|part| part.ends_with('='));
        any || found == value
    })
}

async fn servers(Shared(state): Shared<Handle>, uri: Uri) -> Response {
    let text = uri.query().unwrap_or_default();
    let query = decoded(text);
    let state = lock(&state);
    let chosen = state.servers.iter();
    ok(array(chosen.filter(|row| {
        query.is_empty() || has_tags(row.value(), &query, text)
    })))
}

async fn server(Shared(state): Shared<Handle>, Path(uuid): Path<String>) -> Response {
    let state = lock(&state);
    let row = state.servers.get(&uuid.to_lowercase());
    row.map_or_else(|| error(StatusCode::NOT_FOUND), |row| ok(body(row)))
}
