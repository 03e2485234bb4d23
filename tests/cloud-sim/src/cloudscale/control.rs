//! Questions about this simulation that only it can be asked.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::{Value, json};

use super::answers::{error, ok};
use super::in_flight::InFlight;
use super::lock;
use super::snapshot;
use super::writes::Handle;
use crate::control;
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
        .with_state(control)
        .merge(control::router(handles))
        .fallback(|| async { error(StatusCode::NOT_FOUND) })
}

async fn state(Shared(control): Shared<Control>) -> Response {
    let mut state = lock(&control.state);
    state.settle();
    ok(snapshot::of(&state).value().to_string())
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
