//! The endpoints.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State as Shared};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use http::{HeaderMap, StatusCode, Uri, header};
use serde_json::{Value, json};

use super::answers::{Refusal, error, with};
use super::kind::Kind;
use super::shown::has_tags;
use super::state::State;
use super::strict;
use super::tokens::{Permit, grant};
use super::{Handle, TOKEN_PATH, billing, blocks, lock, members, networks, peer_groups, tags};
use crate::request::decoded;

/// The parameters of a query, in order.
pub(super) type Query = [(String, String)];

/// What comes of a request.
pub(super) type Answered = Result<Response, Refusal>;

pub(super) fn router(state: Handle) -> Router {
    let api = Router::new()
        .route("/bmc/v1/servers", listing(Kind::Server))
        .route("/bmc/v1/servers/{id}", single(Kind::Server))
        .route(
            "/bmc/v1/servers/{id}/tags",
            put(|state, path, headers, body| {
                written(state, path, headers, body, |state, id, body| {
                    tags::replace(state, Kind::Server, id, &body)
                })
            }),
        )
        .route("/bmc/v1/quotas", get(quotas))
        .route("/bmc/v1/quotas/{id}", get(one_quota))
        .nest("/bmc/v1/servers/{id}/network-configuration", memberships())
        .route(
            "/ips/v1/ip-blocks",
            listing(Kind::Block)
                .post(async |state, headers, body| made(state, headers, body, blocks::buy)),
        )
        .route(
            "/ips/v1/ip-blocks/{id}",
            single(Kind::Block)
                .patch(|state, path, headers, body| {
                    written(state, path, headers, body, blocks::describe)
                })
                .delete(async |state, path| deleted(state, path, blocks::release)),
        )
        .route(
            "/ips/v1/ip-blocks/{id}/tags",
            put(|state, path, headers, body| {
                written(state, path, headers, body, |state, id, body| {
                    tags::replace(state, Kind::Block, id, &body)
                })
            }),
        )
        .route(
            "/billing/v1/rated-usage/month-to-date",
            get(billing::month_to_date),
        )
        .merge(public_networks())
        .route(
            "/networks/v1/bgp-peer-groups",
            listing(Kind::PeerGroup)
                .post(async |state, headers, body| made(state, headers, body, peer_groups::create)),
        )
        .route(
            "/networks/v1/bgp-peer-groups/{id}",
            single(Kind::PeerGroup)
                .patch(|state, path, headers, body| {
                    written(state, path, headers, body, peer_groups::change)
                })
                .delete(async |state, path| deleted(state, path, peer_groups::delete)),
        )
        .route(
            "/tag-manager/v1/tags",
            listing(Kind::Tag)
                .post(async |state, headers, body| made(state, headers, body, tags::create)),
        )
        .route(
            "/tag-manager/v1/tags/{id}",
            single(Kind::Tag)
                .patch(|state, path, headers, body| {
                    written(state, path, headers, body, tags::change)
                })
                .delete(async |state, path| deleted(state, path, tags::delete)),
        )
        .layer(from_fn_with_state(state.clone(), gate));
    api.route(TOKEN_PATH, post(grant))
        .fallback(|| async { error(StatusCode::NOT_FOUND) })
        .method_not_allowed_fallback(|| async { error(StatusCode::METHOD_NOT_ALLOWED) })
        .with_state(state)
}

fn public_networks() -> Router<Handle> {
    Router::new()
        .route(
            "/networks/v1/public-networks",
            listing(Kind::Network)
                .post(async |state, headers, body| made(state, headers, body, networks::create)),
        )
        .route(
            "/networks/v1/public-networks/{id}",
            single(Kind::Network)
                .patch(|state, path, headers, body| {
                    written(state, path, headers, body, networks::change)
                })
                .delete(async |state, path| deleted(state, path, networks::delete)),
        )
        .route(
            "/networks/v1/public-networks/{id}/ip-blocks",
            post(|state, path, headers, body| {
                written(state, path, headers, body, networks::attach)
            }),
        )
        .route(
            "/networks/v1/public-networks/{id}/ip-blocks/{block}",
            delete(async |state, path, uri| part_deleted(state, path, uri, networks::detach)),
        )
}

/// What a server is a member of.
fn memberships() -> Router<Handle> {
    Router::new()
        .route(
            "/public-network-configuration/public-networks",
            post(
                async |Shared(state): Shared<Handle>,
                       Path(id): Path<String>,
                       uri: Uri,
                       headers: HeaderMap,
                       body: Bytes| {
                    let forced = is_forced(&query(&uri));
                    answered(
                        strict::json(&headers, &body)
                            .and_then(|body| members::join(&mut lock(&state), &id, body, forced)),
                    )
                },
            ),
        )
        .route(
            "/public-network-configuration/public-networks/{network}",
            patch(
                async |Shared(state): Shared<Handle>,
                       Path((id, network)): Path<(String, String)>,
                       uri: Uri,
                       headers: HeaderMap,
                       body: Bytes| {
                    let forced = is_forced(&query(&uri));
                    answered(strict::json(&headers, &body).and_then(|body| {
                        members::readdress(&mut lock(&state), &id, &network, body, forced)
                    }))
                },
            )
            .delete(async |state, path, uri| {
                part_deleted(state, path, uri, |state, id, network, _| {
                    members::leave(state, id, network)
                })
            }),
        )
}

/// The token, and what it permits.
async fn gate(Shared(state): Shared<Handle>, request: Request<Body>, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|given| given.to_str().ok());
    let permit = {
        let state = lock(&state);
        let path = request.uri().path();
        state
            .tokens
            .permit(given, request.method(), path, state.now())
    };
    match permit {
        Permit::Unknown => error(StatusCode::UNAUTHORIZED),
        Permit::Forbidden => error(StatusCode::FORBIDDEN),
        Permit::Granted => next.run(request).await,
    }
}

pub(super) fn answered(result: Answered) -> Response {
    result.unwrap_or_else(IntoResponse::into_response)
}

fn query(uri: &Uri) -> Vec<(String, String)> {
    decoded(uri.query().unwrap_or_default())
}

/// `?force=true`.
pub(super) fn is_forced(query: &Query) -> bool {
    query
        .iter()
        .any(|(key, value)| key == "force" && value == "true")
}

/// An object of this kind, or that it is missing.
pub(super) fn existing(state: &State, kind: Kind, id: &str) -> Result<(), Refusal> {
    if state.has(kind, id) {
        Ok(())
    } else {
        Err(Refusal::missing(state.behaviour.missing))
    }
}

/// An object as an answer.
pub(super) fn shown(state: &State, kind: Kind, id: &str, status: StatusCode) -> Response {
    let row = state.rows(kind).get(id);
    let shown = row.map_or(Value::Null, |row| state.shown(kind, row));
    with(status, &shown)
}

/// Which objects of a kind a query chooses.
fn is_chosen(kind: Kind, value: &Value, query: &Query, tags_widen: bool) -> bool {
    let parameter = match kind {
        Kind::Server | Kind::Block => return has_tags(value, query, tags_widen),
        Kind::Network | Kind::PeerGroup => "location",
        Kind::Tag => "name",
    };
    let mut wanted = query.iter().filter(|(key, _)| key == parameter);
    wanted.all(|(key, wanted)| value[key.as_str()] == *wanted)
}

fn listing(kind: Kind) -> MethodRouter<Handle> {
    get(async move |Shared(state): Shared<Handle>, uri: Uri| {
        let mut state = lock(&state);
        let (query, widen) = (query(&uri), state.behaviour.tags_widen);
        let hidden = match kind {
            Kind::Block => state.behaviour.listed_after,
            _ => Duration::ZERO,
        };
        let (rows, now) = (state.rows(kind).iter(), state.now());
        let rows = rows.filter(|row| row.age(now) >= hidden);
        let (mut keys, mut list) = (Vec::new(), Vec::new());
        for row in rows.filter(|row| is_chosen(kind, row.value(), &query, widen)) {
            keys.push(row.key().to_owned());
            list.push(state.shown(kind, row));
        }
        for key in keys {
            state.looked_at(kind, &key);
        }
        with(StatusCode::OK, &json!(list))
    })
}

fn single(kind: Kind) -> MethodRouter<Handle> {
    get(
        async move |Shared(state): Shared<Handle>, Path(id): Path<String>| {
            let mut state = lock(&state);
            if let Err(refusal) = existing(&state, kind, &id) {
                return refusal.into_response();
            }
            let answer = shown(&state, kind, &id, StatusCode::OK);
            state.looked_at(kind, &id);
            answer
        },
    )
}

/// Something new.
fn made(
    Shared(state): Shared<Handle>,
    headers: HeaderMap,
    body: Bytes,
    make: impl FnOnce(&mut State, Value) -> Answered,
) -> Response {
    let body = strict::json(&headers, &body);
    answered(body.and_then(|body| make(&mut lock(&state), body)))
}

/// Something that is there, changed.
async fn written(
    Shared(state): Shared<Handle>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
    write: impl FnOnce(&mut State, &str, Value) -> Answered,
) -> Response {
    let body = strict::json(&headers, &body);
    answered(body.and_then(|body| write(&mut lock(&state), &id, body)))
}

fn deleted(
    Shared(state): Shared<Handle>,
    Path(id): Path<String>,
    delete: impl FnOnce(&mut State, &str) -> Answered,
) -> Response {
    answered(delete(&mut lock(&state), &id))
}

/// A part of something that is there.
fn part_deleted(
    Shared(state): Shared<Handle>,
    Path((id, part)): Path<(String, String)>,
    uri: Uri,
    delete: impl FnOnce(&mut State, &str, &str, bool) -> Answered,
) -> Response {
    let forced = is_forced(&query(&uri));
    answered(delete(&mut lock(&state), &id, &part, forced))
}

/// The only quota that there is: that of the addresses.
fn quota(state: &State) -> Value {
    let (limit, used) = (state.behaviour.quota, state.rows(Kind::Block).len());
    let status = match used.cmp(&limit) {
        std::cmp::Ordering::Less => "WITHIN_LIMIT",
        std::cmp::Ordering::Equal => "ON_LIMIT",
        std::cmp::Ordering::Greater => "OVER_LIMIT",
    };
    json!({
        "id": "bmc.ips.max_count", "name": "Public IPs", "description": "IP blocks of the account",
        "status": status, "limit": limit, "used": used, "unit": "COUNT",
        "quotaEditLimitRequestDetails": [],
    })
}

async fn quotas(Shared(state): Shared<Handle>) -> Response {
    with(StatusCode::OK, &json!([quota(&lock(&state))]))
}

/// Unlike most of what is not there, a quota is not found.
async fn one_quota(Shared(state): Shared<Handle>, Path(id): Path<String>) -> Response {
    let quota = quota(&lock(&state));
    if quota["id"] == id {
        with(StatusCode::OK, &quota)
    } else {
        error(StatusCode::NOT_FOUND)
    }
}
