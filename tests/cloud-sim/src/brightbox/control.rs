//! Questions about this simulation that only it can be asked.

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::{delete, get, post};
use http::StatusCode;
use serde_json::{Value, json};

use super::answers::error;
use super::behaviour::Behaviour;
use super::kind::Kind;
use super::{Handle, lock};
use crate::control;
use crate::door::Handles;

pub(super) fn router(state: Handle, handles: Handles) -> Router {
    Router::new()
        .route("/_sim/state", get(shown))
        .route("/_sim/advance", post(advance))
        .route("/_sim/behaviour", post(behave))
        .route("/_sim/tokens", delete(revoke))
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
        all[kind.key()] = rows.map(|row| state.shown(kind, row.key())).collect();
    }
    control::told(&all)
}

/// `{"seconds": 300}`: so much time passes at once.
async fn advance(Shared(state): Shared<Handle>, body: Bytes) -> Response {
    control::seconds(&body, |length| lock(&state).advance(length))
}

/// `{"creating": 1.5, "deleting": 1, "mapping": 0.5, "unmapping": 6, "validating": 2, "emptying": 0,
/// "listed_after": 5, "deletion_shown": 2, "deleted_shown": 60, "token_lifetime": 60, "numeric_names": true}`, all
/// of it optional, times in seconds.
async fn behave(Shared(state): Shared<Handle>, body: Bytes) -> Response {
    let wish: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut state = lock(&state);
    for (name, value) in wish.as_object().into_iter().flatten() {
        if let ("numeric_names", Some(value)) = (name.as_str(), value.as_bool()) {
            state.behaviour.numeric_names = value;
            continue;
        }
        let length = value.as_f64().map(Duration::try_from_secs_f64);
        match (length_of(&mut state.behaviour, name), length) {
            (Some(field), Some(Ok(length))) => *field = length,
            _ => return control::refused(&format!("{name}: what is that?")),
        }
    }
    control::done()
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
