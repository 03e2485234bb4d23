//! Who writes on which NodeBalancer: nothing is known of what the real API does with two writes at a
//! time, so a controller must not send them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::response::Response;
use futures::future::{BoxFuture, ready};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::access::unknown_scopes;
use super::api::{Handle, counted};
use super::certificate::REDACTED;
use super::kind::Kind;
use super::lock;
use super::state::State;
use crate::door::{Door, Entry, Held};
use crate::request::Asked;

/// The writes on one NodeBalancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// How many there were.
    pub all: u64,
    /// How many were under way at the same time, at most.
    pub most_at_once: u64,
    now: u64,
}

type Counts = Arc<Mutex<BTreeMap<u64, Writes>>>;

/// Lets every request in, counts the writes, and keeps the keys of certificates and the passwords of machines
/// out of the log.
#[derive(Clone)]
pub(super) struct Writers {
    state: Handle,
    counts: Counts,
}

/// One write under way.
struct Writing {
    counts: Counts,
    balancer: u64,
}

impl Writers {
    pub(super) fn of(state: Handle) -> Self {
        Self {
            state,
            counts: Counts::default(),
        }
    }

    /// The writes so far, by NodeBalancer.
    pub(super) fn counted(&self) -> BTreeMap<u64, Writes> {
        counts(&self.counts).clone()
    }

    fn begin(&self, balancer: u64) -> Writing {
        let mut counts = counts(&self.counts);
        let writes = counts.entry(balancer).or_default();
        writes.all += 1;
        writes.now += 1;
        writes.most_at_once = writes.most_at_once.max(writes.now);
        Writing {
            counts: self.counts.clone(),
            balancer,
        }
    }

    fn balancer(&self, asked: &Asked, body: &Option<Value>) -> Option<u64> {
        let body = body.as_ref().unwrap_or(&Value::Null);
        let is_write = asked.method != Method::GET && asked.method != Method::HEAD;
        is_write
            .then(|| written_on(&lock(&self.state), &asked.path, body))
            .flatten()
    }
}

impl Door for Writers {
    fn is_taken(&self, asked: &Asked, body: &Option<Value>) -> bool {
        let balancer = self.balancer(asked, body);
        let counts = counts(&self.counts);
        balancer.is_some_and(|id| counts.get(&id).is_some_and(|writes| writes.now > 0))
    }

    fn enter<'a>(&'a self, asked: &'a Asked, body: &'a Option<Value>) -> BoxFuture<'a, Entry> {
        let held: Held = match self.balancer(asked, body) {
            None => Box::new(()),
            Some(balancer) => Box::new(self.begin(balancer)),
        };
        Box::pin(ready(Ok(held)))
    }

    fn redact(&self, body: &mut Value) {
        match body {
            Value::Object(object) => {
                for secret in ["ssl_key", "root_pass"] {
                    if let Some(secret) = object.get_mut(secret) {
                        *secret = json!(REDACTED);
                    }
                }
                object.values_mut().for_each(|value| self.redact(value));
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.redact(value)),
            _ => {}
        }
    }

    /// What every answer says of limits and scopes.
    fn dress(&self, asked: &Asked, answer: &mut Response) {
        let segments: Vec<&str> = asked.path.split('/').skip(2).collect();
        let state = lock(&self.state);
        state
            .limits
            .dress(counted(&asked.method, &asked.path), answer);
        let scopes = match answer.status() {
            StatusCode::UNAUTHORIZED => unknown_scopes(),
            _ => state.access.headers(&asked.method, &segments),
        };
        answer.headers_mut().extend(scopes);
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(writes) = counts(&self.counts).get_mut(&self.balancer) {
            writes.now -= 1;
        }
    }
}

fn counts(counts: &Counts) -> MutexGuard<'_, BTreeMap<u64, Writes>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The NodeBalancer that a write is on: its own path, or the device of a firewall.
fn written_on(state: &State, path: &str, body: &Value) -> Option<u64> {
    let of_balancer = |entity: &Value| {
        let id = entity["id"].as_u64();
        id.filter(|_| entity["type"] == "nodebalancer")
    };
    match path.split('/').skip(2).collect::<Vec<_>>()[..] {
        ["nodebalancers", id, ..] => id.parse().ok(),
        ["networking", "firewalls", _, "devices"] => of_balancer(body),
        ["networking", "firewalls", firewall, "devices", device] => {
            let devices = state.rows(Kind::Device);
            of_balancer(&devices.value(&format!("{firewall}/{device}"))["entity"])
        }
        _ => None,
    }
}
