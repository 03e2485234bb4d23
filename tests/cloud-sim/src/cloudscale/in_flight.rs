//! Never two writes on one load balancer at the same time: the real API does one after the other, and fails under
//! load.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::sync::Notify;

use super::answers::detailed;
use super::kind::Kind;
use super::lock;
use super::objects::referred;
use super::state::State;
use super::writes::Handle;
use crate::door::{Door, Entry, Held};
use crate::request::Asked;

/// The load balancers that somebody is writing on.
#[derive(Clone)]
pub(super) struct InFlight {
    state: Handle,
    written: Arc<Mutex<HashSet<String>>>,
    /// Somebody has done with writing.
    left: Arc<Notify>,
    met: Arc<AtomicU64>,
}

/// One write under way.
struct Writing {
    of: InFlight,
    balancer: String,
}

impl InFlight {
    pub(super) fn of(state: Handle) -> Self {
        Self {
            state,
            written: Arc::default(),
            left: Arc::default(),
            met: Arc::default(),
        }
    }

    /// How many writes met another one.
    pub(super) fn met(&self) -> u64 {
        self.met.load(Ordering::Relaxed)
    }

    /// Lets a write in: at once, when the one before it has been answered, or not at all.
    async fn begin(&self, balancer: String) -> Entry {
        let mut is_first = true;
        loop {
            // It is there before the look at who writes, so that nobody who leaves then is missed.
            let left = self.left.notified();
            if self.written().insert(balancer.clone()) {
                let of = self.clone();
                return Ok(Box::new(Writing { of, balancer }));
            }
            if is_first {
                self.met.fetch_add(1, Ordering::Relaxed);
            }
            is_first = false;
            if lock(&self.state).behaviour.refuse_concurrent_writes {
                return Err(Box::new(detailed(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "Another request is writing on this load balancer.",
                )));
            }
            left.await;
        }
    }

    /// The load balancer that a request writes on.
    fn balancer(&self, asked: &Asked, body: &Option<Value>) -> Option<String> {
        let body = body.as_ref().unwrap_or(&Value::Null);
        let is_write = asked.method != Method::GET;
        is_write
            .then(|| written_on(&lock(&self.state), &asked.path, body))
            .flatten()
    }

    fn written(&self) -> MutexGuard<'_, HashSet<String>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Door for InFlight {
    fn is_taken(&self, asked: &Asked, body: &Option<Value>) -> bool {
        let balancer = self.balancer(asked, body);
        balancer.is_some_and(|balancer| self.written().contains(&balancer))
    }

    fn enter<'a>(&'a self, asked: &'a Asked, body: &'a Option<Value>) -> BoxFuture<'a, Entry> {
        let balancer = self.balancer(asked, body);
        Box::pin(async move {
            match balancer {
                None => Ok(Box::new(()) as Held),
                Some(balancer) => self.begin(balancer).await,
            }
        })
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.of.written().remove(&self.balancer);
        self.of.left.notify_waiters();
    }
}

/// The load balancer that a write is on.
fn written_on(state: &State, path: &str, body: &Value) -> Option<String> {
    let path = path.strip_prefix("/v1/")?;
    let segments: Vec<&str> = path.split('/').collect();
    let of = |kind: Kind, key: &str| state.load_balancer_of(kind, &key.to_lowercase());
    let in_body = |field: &str, kind: Kind| of(kind, &referred(&body[field])?);
    match segments.as_slice() {
        ["load-balancers", "pools"] => in_body("load_balancer", Kind::LoadBalancer),
        ["load-balancers", "listeners" | "health-monitors"] => in_body("pool", Kind::Pool),
        ["load-balancers", "pools", pool, ..] => of(Kind::Pool, pool),
        ["load-balancers", "listeners", uuid] => of(Kind::Listener, uuid),
        ["load-balancers", "health-monitors", uuid] => of(Kind::HealthMonitor, uuid),
        ["load-balancers", uuid] => of(Kind::LoadBalancer, uuid),
        ["floating-ips", _] => in_body("load_balancer", Kind::LoadBalancer),
        _ => None,
    }
}
