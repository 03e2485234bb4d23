//! The endpoints.

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State as Shared};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use http::{Method, StatusCode, Uri, header};
use serde_json::Value;

use super::answers::{Refusal, detailed, error, ok};
use super::kind::Kind;
use super::lock;
use super::writes::{self, Handle};
use crate::request::decoded;
use crate::rows::{array, body};

pub(super) fn router(state: Handle) -> Router {
    Router::new()
        .route(
            "/v1/servers",
            get(|state, uri| list(state, Kind::Server, None, uri)),
        )
        .route(
            "/v1/servers/{uuid}",
            get(async |state, Path(key): Path1| one(state, Kind::Server, None, &key).await),
        )
        .route("/v1/load-balancers", many(Kind::LoadBalancer))
        .route("/v1/load-balancers/{uuid}", single(Kind::LoadBalancer))
        .route("/v1/load-balancers/pools", many(Kind::Pool))
        .route("/v1/load-balancers/pools/{uuid}", single(Kind::Pool))
        .route("/v1/load-balancers/pools/{pool}/members", members())
        .route("/v1/load-balancers/pools/{pool}/members/{uuid}", member())
        .route("/v1/load-balancers/listeners", many(Kind::Listener))
        .route(
            "/v1/load-balancers/listeners/{uuid}",
            single(Kind::Listener),
        )
        .route(
            "/v1/load-balancers/health-monitors",
            many(Kind::HealthMonitor),
        )
        .route(
            "/v1/load-balancers/health-monitors/{uuid}",
            single(Kind::HealthMonitor),
        )
        .route(
            "/v1/floating-ips",
            get(|state, uri| list(state, Kind::FloatingIp, None, uri)),
        )
        .route(
            "/v1/floating-ips/{address}",
            single_without_deletion(Kind::FloatingIp),
        )
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

type Path1 = Path<String>;
type Path2 = Path<(String, String)>;

/// The listing of a kind.
async fn list(Shared(state): Shared<Handle>, kind: Kind, pool: Option<&str>, uri: Uri) -> Response {
    let text = uri.query().unwrap_or_default();
    let query = decoded(text);
    let mut state = lock(&state);
    state.settle();
    if pool.is_some_and(|pool| state.rows(Kind::Pool).get(pool).is_none()) {
        return error(StatusCode::NOT_FOUND);
    }
    let hidden = match kind {
        Kind::LoadBalancer => state.behaviour.listed_after,
        _ => Duration::ZERO,
    };
    let (all, now) = (state.rows(kind).iter(), Instant::now());
    let all = all.filter(|row| row.age(now) >= hidden);
    ok(array(all.filter(|row| {
        pool.is_none_or(|pool| row.value()["pool"]["uuid"] == pool)
            && (query.is_empty() || has_tags(row.value(), &query, text))
    })))
}

async fn one(Shared(state): Shared<Handle>, kind: Kind, pool: Option<&str>, key: &str) -> Response {
    let mut state = lock(&state);
    state.settle();
    let row = state.rows(kind).get(&key.to_lowercase());
    let row = row.filter(|row| is_in(row.value(), pool));
    row.map_or_else(|| error(StatusCode::NOT_FOUND), |row| ok(body(row)))
}

/// Whether an object belongs to the pool of its path, if there is one in it.
fn is_in(object: &Value, pool: Option<&str>) -> bool {
    pool.is_none_or(|pool| object["pool"]["uuid"] == pool)
}

fn answered(result: Result<Response, Refusal>) -> Response {
    result.unwrap_or_else(IntoResponse::into_response)
}

/// The listing of a kind, and making one.
fn many(kind: Kind) -> MethodRouter<Handle> {
    get(move |state, uri| list(state, kind, None, uri)).post(
        async move |Shared(state): Shared<Handle>, given: Bytes| {
            answered(writes::create(&state, kind, None, &given).await)
        },
    )
}

/// One of a kind: what it is, changing it, deleting it.
fn single(kind: Kind) -> MethodRouter<Handle> {
    single_without_deletion(kind).delete(
        async move |Shared(state): Shared<Handle>, Path(key): Path1| {
            answered(writes::delete(&state, kind, &key.to_lowercase()).await)
        },
    )
}

fn single_without_deletion(kind: Kind) -> MethodRouter<Handle> {
    get(async move |state, Path(key): Path1| one(state, kind, None, &key).await).patch(
        async move |Shared(state): Shared<Handle>, Path(key): Path1, given: Bytes| {
            answered(writes::change(&state, kind, &key.to_lowercase(), &given).await)
        },
    )
}

fn members() -> MethodRouter<Handle> {
    get(async |state, Path(pool): Path1, uri| {
        list(state, Kind::Member, Some(&pool.to_lowercase()), uri).await
    })
    .post(
        async |Shared(state): Shared<Handle>, Path(pool): Path1, given: Bytes| {
            let pool = Some(pool.to_lowercase());
            answered(writes::create(&state, Kind::Member, pool, &given).await)
        },
    )
}

fn member() -> MethodRouter<Handle> {
    get(async |state, Path((pool, key)): Path2| {
        one(state, Kind::Member, Some(&pool.to_lowercase()), &key).await
    })
    .patch(
        async |Shared(state): Shared<Handle>, Path((pool, key)): Path2, given: Bytes| {
            let key = key.to_lowercase();
            if !is_member(&state, &pool, &key) {
                return error(StatusCode::NOT_FOUND);
            }
            answered(writes::change(&state, Kind::Member, &key, &given).await)
        },
    )
    .delete(
        async |Shared(state): Shared<Handle>, Path((pool, key)): Path2| {
            let key = key.to_lowercase();
            if !is_member(&state, &pool, &key) {
                return error(StatusCode::NOT_FOUND);
            }
            answered(writes::delete(&state, Kind::Member, &key).await)
        },
    )
}

fn is_member(state: &Handle, pool: &str, key: &str) -> bool {
    let state = lock(state);
    is_in(
        state.rows(Kind::Member).value(key),
        Some(&pool.to_lowercase()),
    )
}
