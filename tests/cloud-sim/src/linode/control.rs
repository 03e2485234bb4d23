//! Questions about this simulation that only it can be asked, and what is kept of a request.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::{Value, json};

use super::answers::error;
use super::api::Handle;
use super::certificate::REDACTED;
use super::{contents, lock};
use crate::control;
use crate::door::{Door, Handles, Held};
use crate::request::Asked;

pub(super) fn router(state: Handle, handles: Handles) -> Router {
    Router::new()
        .route("/_sim/state", get(shown))
        .route("/_sim/listed-after", post(listed_after))
        .with_state(state)
        .merge(control::router(handles))
        .fallback(|| async { error(StatusCode::NOT_FOUND) })
}

/// All there is, in the form of a state file.
async fn shown(Shared(state): Shared<Handle>) -> Response {
    let mut state = lock(&state);
    state.settle();
    control::told(&contents::shown(&state))
}

/// `{"seconds": 5}`: NodeBalancers are in no listing for so long after they are made.
async fn listed_after(Shared(state): Shared<Handle>, body: Bytes) -> Response {
    control::seconds(&body, |length| lock(&state).behaviour.listed_after = length)
}

/// Lets every request in, and keeps the keys of certificates out of the log.
pub(super) struct KeyRedactor;

impl Door for KeyRedactor {
    fn is_taken(&self, _: &Asked, _: &Option<Value>) -> bool {
        false
    }

    fn enter(&self, _: &Asked, _: &Option<Value>) -> Result<Held, Box<Response>> {
        Ok(Box::new(()))
    }

    fn redact(&self, body: &mut Value) {
        match body {
            Value::Object(object) => {
                if let Some(key) = object.get_mut("ssl_key") {
                    *key = json!(REDACTED);
                }
                object.values_mut().for_each(|value| self.redact(value));
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.redact(value)),
            _ => {}
        }
    }
}
