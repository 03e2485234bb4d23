//! Questions about this simulation that only it can be asked.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::{delete, get, post};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answers::error;
use super::behaviour::Behaviour;
use super::kind::Kind;
use super::{Handle, lock};
use crate::control::{self, Machines, machines, put};
use crate::door::Handles;

pub(super) fn router(state: Handle, handles: Handles) -> Router {
    Router::new()
        .route("/_sim/state", get(shown))
        .route("/_sim/advance", post(advance))
        .route("/_sim/behaviour", post(behave))
        .route("/_sim/tokens", delete(revoke))
        .route("/_sim/access", post(access))
        .route("/_sim/limits", post(limit))
        .with_state(state.clone())
        .merge(machines(state))
        .merge(control::router(handles))
        .fallback(|| async { error(StatusCode::NOT_FOUND) })
}

/// What the client may do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Access {
    /// Whether its secret is not good any more, nor any token.
    revoked: bool,
}

/// How much the account may have. What is absent stays as it is.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    cloud_ips: Option<usize>,
    load_balancers: Option<usize>,
}

impl Machines for Handle {
    fn add(&self, machine: &Value) -> Result<Value, String> {
        let mut state = lock(self);
        let id = machine["id"].as_str().unwrap_or_default();
        if state.rows(Kind::Server).get(id).is_some() {
            return Err(format!("{id}: there is one already"));
        }
        let added = state.add(Kind::Server, machine);
        added.map_or_else(|error| Err(format!("{error:#}")), |id| Ok(json!(id)))
    }

    fn change(&self, id: &str, fields: &Map<String, Value>) -> bool {
        let mut state = lock(self);
        let servers = state.rows_mut(Kind::Server);
        let there = servers.change(id, |server| put(server, fields));
        state.record_all("");
        there
    }

    fn remove(&self, id: &str) -> bool {
        lock(self).take(Kind::Server, id)
    }
}

/// `{"revoked": true}`.
async fn access(Shared(state): Shared<Handle>, body: Bytes) -> Response {
    control::wish(&body, |access: Access| {
        let mut state = lock(&state);
        state.tokens.change_secret(access.revoked);
        if access.revoked {
            state.tokens.revoke();
        }
        Ok(())
    })
}

/// `{"cloud_ips": 5, "load_balancers": 2}`.
async fn limit(Shared(state): Shared<Handle>, body: Bytes) -> Response {
    control::wish(&body, |limits: Limits| {
        let behaviour = &mut lock(&state).behaviour;
        let all = &mut behaviour.cloud_ips_limit;
        *all = limits.cloud_ips.unwrap_or(*all);
        let all = &mut behaviour.load_balancers_limit;
        *all = limits.load_balancers.unwrap_or(*all);
        Ok(())
    })
}

/// All there is, in the form of a state file.
async fn shown(Shared(state): Shared<Handle>) -> Response {
    let state = lock(&state);
    let mut all = json!({});
    for kind in Kind::ALL {
        let rows = state.rows(kind).iter();
        all[kind.key()] = rows.map(|row| state.shown(kind, row.key())).collect();
    }
    control::told(&all)
}

/// `{"seconds": 300}`: so much time passes at once.
async fn advance(Shared(state): Shared<Handle>, body: Bytes) -> Response {
    control::seconds(&body, |length| lock(&state).advance(length))
}

/// `{"creating": 1.5, "deleting": 1, "mapping": 0.5, "unmapping": 6, "validating": 2, "emptying": 0,
/// "listed_after": 5, "deletion_shown": 2, "deleted_shown": 60, "token_lifetime": 60, "numeric_names": true,
/// "acme_in_listings": true, "takes_no_nodes": true, "keeps_last_node": true, "invalid_domains": ["a.example"]}`, all
/// of it optional, times in seconds.
async fn behave(Shared(state): Shared<Handle>, body: Bytes) -> Response {
    control::wish(&body, |wish: Map<String, Value>| {
        let behaviour = &mut lock(&state).behaviour;
        for (name, value) in &wish {
            if let Some(field) = flag_of(behaviour, name) {
                *field = control::flag(name, value)?;
            } else if let Some(field) = length_of(behaviour, name) {
                *field = control::length(name, value)?;
            } else if name == "invalid_domains" {
                let domains = BTreeSet::deserialize(value);
                behaviour.invalid_domains =
                    domains.map_err(|_| format!("{name}: give a list of names"))?;
            } else {
                return Err(format!("{name}: no such behaviour"));
            }
        }
        Ok(())
    })
}

fn flag_of<'a>(behaviour: &'a mut Behaviour, name: &str) -> Option<&'a mut bool> {
    Some(match name {
        "numeric_names" => &mut behaviour.numeric_names,
        "acme_in_listings" => &mut behaviour.acme_in_listings,
        "takes_no_nodes" => &mut behaviour.takes_no_nodes,
        "keeps_last_node" => &mut behaviour.keeps_last_node,
        _ => return None,
    })
}

fn length_of<'a>(behaviour: &'a mut Behaviour, name: &str) -> Option<&'a mut Duration> {
    Some(match name {
        "creating" => &mut behaviour.creating,
        "deleting" => &mut behaviour.deleting,
        "deleted_shown" => &mut behaviour.deleted_shown,
        "mapping" => &mut behaviour.mapping,
        "unmapping" => &mut behaviour.unmapping,
        "deletion_shown" => &mut behaviour.deletion_shown,
        "validating" => &mut behaviour.validating,
        "emptying" => &mut behaviour.emptying,
        "listed_after" => &mut behaviour.listed_after,
        "token_lifetime" => &mut behaviour.token_lifetime,
        _ => return None,
    })
}

async fn revoke(Shared(state): Shared<Handle>) -> Response {
    lock(&state).tokens.revoke();
    control::done()
}
