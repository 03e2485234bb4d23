//! Questions about this simulation that only it can be asked.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::{Value, json};

use super::answers::error;
use super::kind::Kind;
use super::{Handle, lock};
use crate::control;
use crate::door::Handles;

pub(super) fn router(state: Handle, handles: Handles) -> Router {
    Router::new()
        .route("/_sim/state", get(shown))
        .route("/_sim/ledger", get(ledger))
        .route("/_sim/advance", post(advance))
        .route("/_sim/listed-after", post(listed_after))
        .route("/_sim/tokens", axum::routing::delete(revoke))
        .with_state(state)
        .merge(control::router(handles))
        .fallback(|| async { error(StatusCode::NOT_FOUND) })
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
