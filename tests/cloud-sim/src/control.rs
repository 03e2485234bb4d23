//! Questions about the simulation itself, for controllers that are pointed at it from outside: under
//! `/_sim/`, without a token, and neither in the log nor touched by faults. What only one cloud can
//! be asked, its own module adds.

mod machines;

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::{get, post};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::door::Handles;
use super::request::PathPattern;
use super::{Fault, When};

pub(super) use machines::{Machines, machines, put};

/// How long nobody is at home unless it is said.
const A_WHILE: f64 = 5.0;

/// What every cloud can be asked.
pub(super) fn router(handles: Handles) -> Router {
    Router::new()
        .route("/_sim/calls", get(calls))
        .route("/_sim/faults", post(inject).delete(clear))
        .route("/_sim/down", post(down))
        .with_state(handles)
}

/// An answer with JSON in it.
pub(super) fn told(value: &Value) -> Response {
    with_body(StatusCode::OK, value.to_string())
}

/// It is done.
pub(super) fn done() -> Response {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// Does what is asked for, if it can be understood; the error says what is wrong with it.
pub(super) fn wish<T: DeserializeOwned>(
    body: &Bytes,
    carry_out: impl FnOnce(T) -> Result<(), String>,
) -> Response {
    match parsed(body).and_then(carry_out) {
        Ok(()) => done(),
        Err(why) => refused(&why),
    }
}

/// Does something with a wish like `{"seconds": 5}`.
pub(super) fn seconds(body: &Bytes, carry_out: impl FnOnce(Duration)) -> Response {
    wish(body, |asked: Value| {
        carry_out(length("seconds", &asked["seconds"])?);
        Ok(())
    })
}

/// A field that is a time in seconds.
pub(super) fn length(name: &str, value: &Value) -> Result<Duration, String> {
    let length = value.as_f64().map(Duration::try_from_secs_f64);
    length
        .and_then(Result::ok)
        .ok_or_else(|| format!("{name}: give seconds"))
}

/// A field that is true or false.
pub(super) fn flag(name: &str, value: &Value) -> Result<bool, String> {
    let flag = value.as_bool();
    flag.ok_or_else(|| format!("{name}: give true or false"))
}

fn parsed<T: DeserializeOwned>(body: &Bytes) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// What was asked for cannot be understood.
fn refused(why: &str) -> Response {
    with_body(
        StatusCode::BAD_REQUEST,
        json!({ "detail": why }).to_string(),
    )
}

/// There is no such thing.
fn missing() -> Response {
    let body = json!({ "detail": "there is none" });
    with_body(StatusCode::NOT_FOUND, body.to_string())
}

fn with_body(status: StatusCode, body: String) -> Response {
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
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
    headers: BTreeMap<String, String>,
    delay: f64,
    executed: bool,
    body: Option<Value>,
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
            headers: BTreeMap::new(),
            delay: 0.0,
            executed: false,
            body: None,
        }
    }
}

impl Wish {
    fn when(&self) -> Result<When, String> {
        let mut when = When::to(PathPattern::parse(&self.path)?);
        if self.writes {
            when = when.of_writes();
        }
        if let Some(method) = &self.method {
            let method = Method::from_bytes(method.to_uppercase().as_bytes());
            when = when.method(method.map_err(|_| "method: what is that?".to_owned())?);
        }
        Ok(when.after(self.nth.saturating_sub(1)).times(self.times))
    }

    fn fault(&self) -> Result<Fault, &'static str> {
        let status = StatusCode::from_u16(self.status);
        let status = status.map_err(|_| "status: give a status of HTTP")?;
        let delay = Duration::try_from_secs_f64(self.delay);
        let delay = delay.map_err(|_| "delay: give seconds")?;
        let mut fault = match self.fault.as_str() {
            "late" => return Ok(Fault::late(delay)),
            "status" => match &self.body {
                Some(body) => Fault::body(status, body.to_string()),
                None => Fault::status(status),
            },
            "hang" => Fault::hang(),
            "html" => Fault::html(status),
            "cut" => Fault::cut_off(),
            "torn" => Fault::torn(),
            "dropped" => Fault::reset(),
            "slow" => Fault::slow(Duration::ZERO),
            _ => return Err("fault: one of status, hang, html, cut, torn, dropped, slow, late"),
        }
        .delayed(delay);
        if let Some(wait) = self.retry_after {
            fault = fault.retry_after(Duration::from_secs(wait));
        }
        for (name, value) in &self.headers {
            let is_header =
                HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok();
            if !is_header {
                return Err("headers: give names of headers with what they hold");
            }
            fault = fault.header(name, value);
        }
        Ok(if self.executed {
            fault.executed()
        } else {
            fault
        })
    }
}

async fn calls(Shared(handles): Shared<Handles>) -> Response {
    let calls = handles.log.calls();
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
    told(&calls.collect())
}

async fn inject(Shared(handles): Shared<Handles>, body: Bytes) -> Response {
    wish(&body, |wish: Wish| {
        handles.faults.inject(wish.when()?, wish.fault()?);
        Ok(())
    })
}

async fn clear(Shared(handles): Shared<Handles>) -> Response {
    handles.faults.clear();
    done()
}

/// `{"seconds": 5}`: nobody is at home, not even for this; somebody is again when it is over.
async fn down(Shared(handles): Shared<Handles>, body: Bytes) -> Response {
    let wish: Value = serde_json::from_slice(&body).unwrap_or_default();
    let seconds = wish["seconds"].as_f64().unwrap_or(A_WHILE);
    let Ok(length) = Duration::try_from_secs_f64(seconds) else {
        return refused("seconds: give seconds");
    };
    let down = handles.down;
    tokio::spawn(async move {
        // The answer to this request has to leave first.
        tokio::time::sleep(Duration::from_millis(50)).await;
        down.send_replace(true);
        tokio::time::sleep(length).await;
        down.send_replace(false);
    });
    done()
}
