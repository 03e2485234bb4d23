//! Questions about this simulation that only it can be asked.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::answers::error;
use super::api::Handle;
use super::writers::Writers;
use super::{contents, control_rights, lock};
use crate::control::{self, Machines, machines, put};
use crate::door::Handles;

#[derive(Clone)]
struct Control {
    state: Handle,
    writers: Writers,
}

pub(super) fn router(state: Handle, writers: Writers, handles: Handles) -> Router {
    Router::new()
        .route("/_sim/state", get(shown))
        .route("/_sim/writes", get(writes))
        .route("/_sim/behaviour", post(behaviour))
        .with_state(Control {
            state: state.clone(),
            writers,
        })
        .merge(control_rights::routes(state.clone()))
        .merge(machines(state))
        .merge(control::router(handles))
        .fallback(|| async { error(StatusCode::NOT_FOUND) })
}

impl Machines for Handle {
    fn add(&self, machine: &Value) -> Result<Value, String> {
        let mut state = lock(self);
        let id = &machine["id"];
        if state.instances.get(&id.to_string()).is_some() {
            return Err(format!("{id}: there is one already"));
        }
        Ok(json!(state.add_instance(machine.clone())))
    }

    fn change(&self, id: &str, fields: &Map<String, Value>) -> bool {
        let mut state = lock(self);
        let instances = &mut state.instances;
        instances.change(id, |instance| put(instance, fields))
    }

    fn remove(&self, id: &str) -> bool {
        let id = id.parse();
        id.is_ok_and(|id| lock(self).remove_instance(id))
    }
}

/// All there is, in the form of a state file.
async fn shown(Shared(control): Shared<Control>) -> Response {
    let mut state = lock(&control.state);
    state.settle();
    control::told(&contents::shown(&state))
}

/// How many writes there were on each NodeBalancer, and how many at once.
async fn writes(Shared(control): Shared<Control>) -> Response {
    let counted = control.writers.counted().into_iter();
    let counted: Map<String, Value> = counted
        .map(|(id, writes)| {
            let writes = json!({ "all": writes.all, "most_at_once": writes.most_at_once });
            (id.to_string(), writes)
        })
        .collect();
    control::told(&Value::Object(counted))
}

/// Changes those fields of the behaviour that are given: durations in seconds.
async fn behaviour(Shared(control): Shared<Control>, body: Bytes) -> Response {
    control::wish(&body, |wish: Value| {
        let mut state = lock(&control.state);
        state.behaviour = state.behaviour.with(&wish)?;
        Ok(())
    })
}
