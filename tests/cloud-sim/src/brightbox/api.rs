//! The endpoints.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State as Shared};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::{Map, Value, json};

use super::answers::{Refusal, error, token_error, with};
use super::kind::Kind;
use super::state::State;
use super::strict;
use super::tokens::{ACCOUNT, Permit, grant};
use super::{Handle, lock};
use crate::request::decoded;

/// The fields of a request's body.
type Fields = Map<String, Value>;
/// How something is made; gives its identifier.
type Make = fn(&mut State, &Fields) -> Result<String, Refusal>;
/// How something is changed.
type Change = fn(&mut State, &str, &Fields) -> Result<(), Refusal>;
/// How something is deleted.
type Delete = fn(&mut State, &str) -> Result<(), Refusal>;

pub(super) fn router(state: Handle) -> Router {
    let (ok, created, accepted) = (StatusCode::OK, StatusCode::CREATED, StatusCode::ACCEPTED);
    let api = Router::new()
        .route("/1.0/accounts", list(Kind::Account))
        .route("/1.0/accounts/{id}", one(Kind::Account))
        .route("/1.0/servers", list(Kind::Server))
        .route("/1.0/servers/{id}", one(Kind::Server))
        .route(
            "/1.0/load_balancers",
            list(Kind::LoadBalancer).post(made(
                Kind::LoadBalancer,
                accepted,
                State::create_balancer,
            )),
        )
        .route(
            "/1.0/load_balancers/{id}",
            one(Kind::LoadBalancer)
                .put(changed(
                    Kind::LoadBalancer,
                    accepted,
                    State::change_balancer,
                ))
                .delete(deleted(
                    Kind::LoadBalancer,
                    accepted,
                    State::delete_balancer,
                )),
        )
        .route(
            "/1.0/load_balancers/{id}/{action}",
            post(balancer_action).put(lock_action),
        )
        .route(
            "/1.0/server_groups",
            list(Kind::ServerGroup).post(made(Kind::ServerGroup, accepted, State::create_group)),
        )
        .route(
            "/1.0/server_groups/{id}",
            one(Kind::ServerGroup)
                .put(changed(Kind::ServerGroup, accepted, State::change_group))
                .delete(deleted(Kind::ServerGroup, accepted, State::delete_group)),
        )
        .route("/1.0/server_groups/{id}/{action}", post(group_action))
        .route(
            "/1.0/firewall_policies",
            list(Kind::FirewallPolicy).post(made(
                Kind::FirewallPolicy,
                created,
                State::create_policy,
            )),
        )
        .route(
            "/1.0/firewall_policies/{id}",
            one(Kind::FirewallPolicy).delete(deleted(
                Kind::FirewallPolicy,
                accepted,
                State::delete_policy,
            )),
        )
        .route("/1.0/firewall_policies/{id}/{action}", post(policy_action))
        .route(
            "/1.0/firewall_rules",
            post(made(Kind::FirewallRule, accepted, State::create_rule)),
        )
        .route(
            "/1.0/firewall_rules/{id}",
            one(Kind::FirewallRule)
                .put(changed(Kind::FirewallRule, accepted, State::change_rule))
                .delete(deleted(Kind::FirewallRule, accepted, State::delete_rule)),
        )
        .route(
            "/1.0/cloud_ips",
            list(Kind::CloudIp).post(made(Kind::CloudIp, created, State::create_cloud_ip)),
        )
        .route(
            "/1.0/cloud_ips/{id}",
            one(Kind::CloudIp)
                .put(changed(Kind::CloudIp, ok, State::change_cloud_ip))
                .delete(deleted(Kind::CloudIp, ok, State::delete_cloud_ip)),
        )
        .route(
            "/1.0/cloud_ips/{id}/map",
            post(changed(Kind::CloudIp, accepted, State::map_cloud_ip)),
        )
        .route(
            "/1.0/cloud_ips/{id}/unmap",
            post(deleted(Kind::CloudIp, accepted, State::unmap_cloud_ip)),
        )
        .layer(from_fn_with_state(state.clone(), gate));
    api.route("/token", post(grant))
        .route(super::TOKEN_PATH, post(grant))
        .fallback(|| async { error(StatusCode::NOT_FOUND) })
        .method_not_allowed_fallback(|| async { error(StatusCode::METHOD_NOT_ALLOWED) })
        .with_state(state)
}

/// The token, and the account that a user must name.
async fn gate(Shared(state): Shared<Handle>, request: Request<Body>, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|given| given.to_str().ok());
    let permit = {
        let state = lock(&state);
        state.tokens.permit(given, state.now())
    };
    let query = decoded(request.uri().query().unwrap_or_default());
    let account = query.iter().find(|(name, _)| name == "account_id");
    let is_named = account.is_some_and(|(_, value)| value == ACCOUNT);
    match permit {
        Permit::Unknown => token_error("invalid_token"),
        Permit::Expired => token_error("expired_token"),
        Permit::User if !is_named && request.uri().path() != "/1.0/accounts" => {
            error(StatusCode::FORBIDDEN)
        }
        Permit::User | Permit::Client => {
            let is_read = request.method() == Method::GET;
            let path = request.uri().path().to_owned();
            let answer = next.run(request).await;
            if !is_read && answer.status().is_success() {
                lock(&state).record_write(&path);
            }
            answer
        }
    }
}

fn list(kind: Kind) -> MethodRouter<Handle> {
    get(async move |Shared(state): Shared<Handle>| {
        let state = lock(&state);
        let hidden = match kind {
            Kind::LoadBalancer => state.behaviour.listed_after,
            _ => Duration::ZERO,
        };
        let (rows, now) = (state.rows(kind).iter(), state.now());
        let rows = rows.filter(|row| row.age(now) >= hidden);
        let all = rows.map(|row| state.listed(kind, row.key()));
        with(StatusCode::OK, &all.collect())
    })
}

fn one(kind: Kind) -> MethodRouter<Handle> {
    get(
        async move |Shared(state): Shared<Handle>, Path(id): Path<String>| {
            let state = lock(&state);
            match state.existing(kind, &id) {
                Ok(_) => with(StatusCode::OK, &state.shown(kind, &id)),
                Err(refusal) => refusal.into_response(),
            }
        },
    )
}

type Making = std::future::Ready<Response>;

fn made(
    kind: Kind,
    status: StatusCode,
    make: Make,
) -> impl Fn(Shared<Handle>, HeaderMap, Bytes) -> Making + Clone {
    move |Shared(state), headers, body| {
        let mut state = lock(&state);
        let id = strict::json(&headers, &body).and_then(|given| make(&mut state, &given));
        std::future::ready(id.map_or_else(IntoResponse::into_response, |id| {
            let mut answer = with(status, &state.shown(kind, &id));
            let location = format!("{}/1.0/{}/{id}", state.url, kind.key());
            if let Ok(location) = HeaderValue::try_from(location) {
                answer.headers_mut().insert(header::LOCATION, location);
            }
            answer
        }))
    }
}

fn changed(
    kind: Kind,
    status: StatusCode,
    change: Change,
) -> impl Fn(Shared<Handle>, Path<String>, HeaderMap, Bytes) -> Making + Clone {
    move |Shared(state), Path(id), headers, body| {
        let mut state = lock(&state);
        let given = strict::json(&headers, &body);
        let done = given.and_then(|given| change(&mut state, &id, &given));
        std::future::ready(echoed(&state, kind, &id, status, done))
    }
}

/// A deletion, or something else that is asked for without a body. It tells what was there.
fn deleted(
    kind: Kind,
    status: StatusCode,
    delete: Delete,
) -> impl Fn(Shared<Handle>, Path<String>) -> Making + Clone {
    move |Shared(state), Path(id)| {
        let mut state = lock(&state);
        let before = state.shown(kind, &id);
        let answer = match delete(&mut state, &id) {
            Err(refusal) => refusal.into_response(),
            Ok(()) => match state.shown(kind, &id) {
                Value::Null => with(status, &before),
                after => with(status, &after),
            },
        };
        std::future::ready(answer)
    }
}

fn echoed(
    state: &State,
    kind: Kind,
    id: &str,
    status: StatusCode,
    done: Result<(), Refusal>,
) -> Response {
    match done {
        Ok(()) => with(status, &state.shown(kind, id)),
        Err(refusal) => refusal.into_response(),
    }
}

type Action = Path<(String, String)>;

async fn balancer_action(
    Shared(state): Shared<Handle>,
    Path((id, action)): Action,
    body: Bytes,
) -> Response {
    const KNOWN: [&str; 4] = [
        "add_nodes",
        "remove_nodes",
        "add_listeners",
        "remove_listeners",
    ];
    if !KNOWN.contains(&action.as_str()) {
        return error(StatusCode::NOT_FOUND);
    }
    let mut state = lock(&state);
    let list: Value = serde_json::from_slice(&body).unwrap_or_default();
    let done = state.change_list(&id, &action, &list);
    echoed(&state, Kind::LoadBalancer, &id, StatusCode::ACCEPTED, done)
}

async fn lock_action(Shared(state): Shared<Handle>, Path((id, action)): Action) -> Response {
    let locked = match action.as_str() {
        "lock_resource" => true,
        "unlock_resource" => false,
        _ => return error(StatusCode::NOT_FOUND),
    };
    let mut state = lock(&state);
    let done = state.existing(Kind::LoadBalancer, &id).map(|_| ());
    let rows = state.rows_mut(Kind::LoadBalancer);
    rows.change(&id, |balancer| balancer["locked"] = json!(locked));
    echoed(&state, Kind::LoadBalancer, &id, StatusCode::OK, done)
}

async fn group_action(
    Shared(state): Shared<Handle>,
    Path((id, action)): Action,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !["add_servers", "remove_servers", "move_servers"].contains(&action.as_str()) {
        return error(StatusCode::NOT_FOUND);
    }
    let mut state = lock(&state);
    let given = strict::json(&headers, &body);
    let done = given.and_then(|given| state.change_servers(&id, &action, &given));
    echoed(&state, Kind::ServerGroup, &id, StatusCode::ACCEPTED, done)
}

async fn policy_action(
    Shared(state): Shared<Handle>,
    Path((id, action)): Action,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !["apply_to", "remove"].contains(&action.as_str()) {
        return error(StatusCode::NOT_FOUND);
    }
    let mut state = lock(&state);
    let given = strict::json(&headers, &body);
    let done = given.and_then(|given| state.apply_policy(&id, &action, &given));
    echoed(
        &state,
        Kind::FirewallPolicy,
        &id,
        StatusCode::ACCEPTED,
        done,
    )
}
