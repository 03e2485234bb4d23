//! Machines that come, change and go while a controller runs.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State as Shared};
use axum::response::Response;
use axum::routing::{patch, post};
use serde_json::{Map, Value, json};

use super::{done, missing, parsed, refused, told};

/// A cloud whose machines can be changed from outside.
pub(crate) trait Machines: Clone + Send + Sync + 'static {
    /// A new machine, as the API shows it, but for what is absent; gives its identifier.
    fn add(&self, machine: &Value) -> Result<Value, String>;

    /// Changes these fields of a machine; whether it is there.
    fn change(&self, id: &str, fields: &Map<String, Value>) -> bool;

    /// A machine is gone; whether it was there.
    fn remove(&self, id: &str) -> bool;
}

/// Changes these fields of a machine.
pub(crate) fn put(machine: &mut Value, fields: &Map<String, Value>) {
    for (name, value) in fields {
        machine[name] = value.clone();
    }
}

/// What can be done to the machines of a cloud.
pub(crate) fn machines<M: Machines>(machines: M) -> Router {
    Router::new()
        .route("/_sim/machines", post(add::<M>))
        .route(
            "/_sim/machines/{id}",
            patch(change::<M>).delete(remove::<M>),
        )
        .with_state(machines)
}

async fn add<M: Machines>(Shared(machines): Shared<M>, body: Bytes) -> Response {
    let machine = parsed::<Map<String, Value>>(&body);
    match machine.and_then(|machine| machines.add(&Value::Object(machine))) {
        Ok(id) => told(&json!({ "id": id })),
        Err(why) => refused(&why),
    }
}

async fn change<M: Machines>(
    Shared(machines): Shared<M>,
    Path(id): Path<String>,
    body: Bytes,
) -> Response {
    match parsed(&body) {
        Err(why) => refused(&why),
        Ok(fields) if machines.change(&id, &fields) => done(),
        Ok(_) => missing(),
    }
}

async fn remove<M: Machines>(Shared(machines): Shared<M>, Path(id): Path<String>) -> Response {
    if machines.remove(&id) {
        done()
    } else {
        missing()
    }
}
