//! Questions about the simulation itself, for controllers that are pointed at it from outside: under
//! `/_sim/`, without a token, and neither in the log nor touched by faults.

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answers::{Refusal, done, error, ok};
use super::in_flight::InFlight;
use super::lock;
use super::snapshot::CloudState;
use super::writes::Handle;
use crate::cloud_sim::door::Handles;
use crate::cloud_sim::{Fault, When};

/// How long nobody is at home unless it is said.
const A_WHILE: f64 = 5.0;

#[derive(Clone)]
pub(super) struct Control {
    pub(super) state: Handle,
    pub(super) handles: Handles,
    pub(super) in_flight: InFlight,
}

pub(super) fn router(control: Control) -> Router {
    Router::new()
        .route("/_sim/state", get(state))
        .route("/_sim/calls", get(calls))
        .route("/_sim/traffic", get(traffic))
        .route("/_sim/faults", post(inject).delete(clear))
        .route("/_sim/down", post(down))
        .fallback(|| async { error(StatusCode::NOT_FOUND) })
        .with_state(control)
}

/// A fault as it is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Wish {
    path: String,
    method: Option<String>,
    writes: bool,
    nth: u64,
    times: u64,
    fault: String,
    status: u16,
    retry_after: Option<u64>,
    delay: f64,
    executed: bool,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            path: "**/*".to_owned(),
            method: None,
            writes: false,
            nth: 1,
            times: 1,
            fault: "status".to_owned(),
            status: 500,
            retry_after: None,
            delay: 0.0,
            executed: false,
        }
    }
}

impl Wish {
    fn when(&self) -> Result<When, Refusal> {
        let mut when = if self.writes {
            When::write(&self.path)
        } else {
            When::any(&self.path)
        };
        if let Some(method) = &self.method {
            let method = Method::from_bytes(method.to_uppercase().as_bytes());
            when = when.method(method.map_err(|_| Refusal::field("method", "What is that?"))?);
        }
        Ok(when.after(self.nth.saturating_sub(1)).times(self.times))
    }

    fn fault(&self) -> Result<Fault, Refusal> {
        let status = StatusCode::from_u16(self.status);
        let status = status.map_err(|_| Refusal::field("status", "Give a status of HTTP."))?;
        let mut fault = match self.fault.as_str() {
            "status" => Fault::status(status),
            "hang" => Fault::hang(),
            "html" => Fault::html(status),
            "cut" => Fault::cut_off(),
            "torn" => Fault::torn(),
            "dropped" => Fault::reset(),
            "slow" => Fault::slow(Duration::ZERO),
            _ => {
                let known = "One of status, hang, html, cut, torn, dropped, slow.";
                return Err(Refusal::field("fault", known));
            }
        };
        let delay = Duration::try_from_secs_f64(self.delay);
        fault = fault.delayed(delay.map_err(|_| Refusal::field("delay", "Give seconds."))?);
        if let Some(wait) = self.retry_after {
            fault = fault.retry_after(Duration::from_secs(wait));
        }
        Ok(if self.executed {
            fault.executed()
        } else {
            fault
        })
    }
}

async fn state(Shared(control): Shared<Control>) -> Response {
    let mut state = lock(&control.state);
    state.settle();
    ok(CloudState::of(&state).value().to_string())
}

async fn calls(Shared(control): Shared<Control>) -> Response {
    let calls = control.handles.log.calls();
    let begin = calls.first().map(|call| call.at);
    let calls = calls.iter().map(|call| {
        let since = begin.map(|begin| call.at.duration_since(begin));
        json!({
            "after_s": since.unwrap_or_default().as_secs_f64(),
            "method": call.method.as_str(),
            "path": call.path,
            "query": call.query,
            "body": call.body,
            "status": call.status.map(|status| status.as_u16()),
            "took_s": call.took.map(|took| took.as_secs_f64()),
            "faulty": call.faulty,
            "user_agent": call.user_agent,
        })
    });
    ok(calls.collect::<Value>().to_string())
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
        "concurrent_writes": control.in_flight.refused(),
    });
    ok(answer.to_string())
}

async fn inject(Shared(control): Shared<Control>, body: Bytes) -> Response {
    let parsed = serde_json::from_slice(&body);
    let wish = parsed.map_err(|error| Refusal::detail(&error.to_string()));
    let injected = wish.and_then(|wish: Wish| {
        let (when, fault) = (wish.when()?, wish.fault()?);
        control.handles.faults.inject(when, fault);
        Ok(done())
    });
    injected.unwrap_or_else(|refusal| refusal.into_response())
}

async fn clear(Shared(control): Shared<Control>) -> Response {
    control.handles.faults.clear();
    done()
}

/// `{"seconds": 5}`: nobody is at home, not even for this; somebody is again when it is over.
async fn down(Shared(control): Shared<Control>, body: Bytes) -> Response {
    let wish: Value = serde_json::from_slice(&body).unwrap_or_default();
    let seconds = wish["seconds"].as_f64().unwrap_or(A_WHILE);
    let Ok(length) = Duration::try_from_secs_f64(seconds) else {
        return Refusal::field("seconds", "Give seconds.").into_response();
    };
    let down = control.handles.down;
    tokio::spawn(async move {
        // The answer to this request has to leave first.
        tokio::time::sleep(Duration::from_millis(50)).await;
        down.send_replace(true);
        tokio::time::sleep(length).await;
        down.send_replace(false);
    });
    done()
}
