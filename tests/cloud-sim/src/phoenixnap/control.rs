//! Questions about this simulation that only it can be asked.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answers::error;
use super::kind::Kind;
use super::tokens::ALL_SCOPES;
use super::{Handle, lock};
use crate::control::{self, Machines, machines, put};
use crate::door::Handles;

pub(super) fn router(state: Handle, handles: Handles) -> Router {
    Router::new()
        .route("/_sim/state", get(shown))
        .route("/_sim/ledger", get(ledger))
        .route("/_sim/advance", post(advance))
        .route("/_sim/listed-after", post(listed_after))
        .route("/_sim/tokens", axum::routing::delete(revoke))
        .route("/_sim/access", post(access))
        .route("/_sim/limits", post(limit))
        .with_state(state.clone())
        .merge(machines(state))
        .merge(control::router(handles))
        .fallback(|| async { error(StatusCode::NOT_FOUND) })
}

/// What the client may do. What is absent stays as it is.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Access {
    /// Whether its secret is not good any more, nor any token.
    revoked: Option<bool>,
    /// What tokens that it gets from now on are good for.
    scopes: Option<Vec<String>>,
}

/// How much there is. What is absent stays as it is.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    /// How many blocks can still be bought.
    stock: Option<u32>,
    /// How many blocks the account may have.
    quota: Option<usize>,
    blocks_per_network: Option<usize>,
}

impl Machines for Handle {
    fn add(&self, machine: &Value) -> Result<Value, String> {
        let added = lock(self).add(Kind::Server, machine);
        added.map_or_else(|error| Err(format!("{error:#}")), |id| Ok(json!(id)))
    }

    fn change(&self, id: &str, fields: &Map<String, Value>) -> bool {
        lock(self).change(Kind::Server, id, |server| put(server, fields))
    }

    fn remove(&self, id: &str) -> bool {
        lock(self).remove(Kind::Server, id)
    }
}

/// `{"revoked": true, "scopes": ["bmc.read", "tags"]}`, all of it optional.
async fn access(Shared(state): Shared<Handle>, body: Bytes) -> Response {
    control::wish(&body, |access: Access| {
        let mut scopes = access.scopes.iter().flatten();
        if let Some(strange) = scopes.find(|scope| !ALL_SCOPES.contains(&scope.as_str())) {
            return Err(format!("{strange}: one of {}", ALL_SCOPES.join(", ")));
        }
        let mut state = lock(&state);
        if let Some(scopes) = access.scopes {
            state.tokens.scopes = scopes;
        }
        if let Some(is_revoked) = access.revoked {
            state.tokens.change_secret(is_revoked);
            if is_revoked {
                state.tokens.revoke();
            }
        }
        Ok(())
    })
}

/// `{"stock": 3, "quota": 5, "blocks_per_network": 10}`, all of it optional.
async fn limit(Shared(state): Shared<Handle>, body: Bytes) -> Response {
    control::wish(&body, |limits: Limits| {
        let behaviour = &mut lock(&state).behaviour;
        let all = &mut behaviour.stock;
        *all = limits.stock.unwrap_or(*all);
        let all = &mut behaviour.quota;
        *all = limits.quota.unwrap_or(*all);
        let all = &mut behaviour.blocks_per_network;
        *all = limits.blocks_per_network.unwrap_or(*all);
        Ok(())
    })
}

/// All there is, in the form of a state file.
async fn shown(Shared(state): Shared<Handle>) -> Response {
    let state = lock(&state);
    let mut all = json!({});
    for kind in Kind::ALL {
        let rows = state.rows(kind).iter();
        all[kind.key()] = rows.map(|row| state.shown(kind, row)).collect();
    }
    control::told(&all)
}

async fn ledger(Shared(state): Shared<Handle>) -> Response {
    let state = lock(&state);
    let purchases = state.ledger.purchases(state.now()).into_iter();
    let purchases = purchases.map(|purchase| {
        json!({
            "block": purchase.block,
            "released": purchase.released,
            "held_s": purchase.held.as_secs_f64(),
        })
    });
    control::told(&json!({
        "purchases": purchases.collect::<Value>(),
        "releases": state.ledger.releases(),
        "misdirected": state.ledger.misdirected,
    }))
}

/// `{"seconds": 300}`: so much time passes at once.
async fn advance(Shared(state): Shared<Handle>, body: Bytes) -> Response {
    control::seconds(&body, |length| lock(&state).advance(length))
}

/// `{"seconds": 5}`: blocks that are bought from now on are in no listing for so long.
async fn listed_after(Shared(state): Shared<Handle>, body: Bytes) -> Response {
    control::seconds(&body, |length| lock(&state).behaviour.listed_after = length)
}

async fn revoke(Shared(state): Shared<Handle>) -> Response {
    lock(&state).tokens.revoke();
    control::done()
}
