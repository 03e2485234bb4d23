//! Questions about this simulation that only it can be asked.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answers::{error, ok};
use super::in_flight::InFlight;
use super::kind::Kind;
use super::lock;
use super::snapshot;
use super::writes::Handle;
use crate::TOKEN;
use crate::control::{self, Machines, machines, put};
use crate::door::Handles;

#[derive(Clone)]
pub(super) struct Control {
    pub(super) state: Handle,
    pub(super) handles: Handles,
    pub(super) in_flight: InFlight,
}

pub(super) fn router(control: Control) -> Router {
    let handles = control.handles.clone();
    Router::new()
        .route("/_sim/state", get(state))
        .route("/_sim/traffic", get(traffic))
        .route("/_sim/listed-after", post(listed_after))
        .route("/_sim/behaviour", post(behave))
        .route("/_sim/access", post(access))
        .with_state(control.clone())
        .merge(machines(control))
        .merge(control::router(handles))
        .fallback(|| async { error(StatusCode::NOT_FOUND) })
}

async fn state(Shared(control): Shared<Control>) -> Response {
    let mut state = lock(&control.state);
    state.settle();
    ok(snapshot::of(&state).value().to_string())
}

/// What the token may do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Access {
    /// Whether it is not good any more.
    revoked: bool,
}

impl Machines for Control {
    fn add(&self, machine: &Value) -> Result<Value, String> {
        let mut state = lock(&self.state);
        let uuid = machine["uuid"].as_str().unwrap_or_default().to_lowercase();
        if state.rows(Kind::Server).get(&uuid).is_some() {
            return Err(format!("{uuid}: there is one already"));
        }
        let added = state.add(Kind::Server, machine);
        added.map_or_else(|error| Err(format!("{error:#}")), |id| Ok(json!(id)))
    }

    fn change(&self, id: &str, fields: &Map<String, Value>) -> bool {
        lock(&self.state).change(Kind::Server, id, |server| put(server, fields))
    }

    fn remove(&self, id: &str) -> bool {
        lock(&self.state).remove(Kind::Server, id)
    }
}

/// `{"revoked": true}`.
async fn access(Shared(control): Shared<Control>, body: Bytes) -> Response {
    control::wish(&body, |access: Access| {
        let token = if access.revoked { "another" } else { TOKEN };
        token.clone_into(&mut lock(&control.state).token);
        Ok(())
    })
}

/// Changes those fields of the behaviour that are given: durations in seconds.
async fn behave(Shared(control): Shared<Control>, body: Bytes) -> Response {
    control::wish(&body, |wish: Value| {
        let mut state = lock(&control.state);
        state.behaviour = state.behaviour.with(&wish)?;
        Ok(())
    })
}

/// `{"seconds": 5}`: load balancers are in no listing for so long after they are made.
async fn listed_after(Shared(control): Shared<Control>, body: Bytes) -> Response {
    control::seconds(&body, |length| {
        lock(&control.state).behaviour.listed_after = length
    })
}

async fn traffic(Shared(control): Shared<Control>) -> Response {
    let state = lock(&control.state);
    let balancers = state.history.iter().map(|(name, traffic)| {
        let outages = traffic.outages().into_iter().map(|outage| {
            json!({
                "listener": outage.listener,
                "lack": format!("{:?}", outage.lack).to_lowercase(),
                "lasted_s": outage.lasted.as_secs_f64(),
                "writes": outage.writes,
                "over": outage.over,
            })
        });
        json!({
            "name": name,
            "writes": traffic.writes,
            "served": traffic.now(),
            "outages": outages.collect::<Value>(),
        })
    });
    let answer = json!({
        "load_balancers": balancers.collect::<Value>(),
        "concurrent_writes": control.in_flight.met(),
    });
    ok(answer.to_string())
}
