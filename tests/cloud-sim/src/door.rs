//! The door of a simulated cloud: who is told of each request, and what can be turned from outside.

use std::any::Any;
use std::time::Duration;

use axum::response::Response;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

use super::faults::Faults;
use super::log::Log;
use super::request::Asked;

/// Held for as long as a request is under way.
pub(super) type Held = Box<dyn Any + Send>;

/// Whether a request is let in.
pub(super) type Entry = Result<Held, Box<Response>>;

/// Sees each request as it arrives, before any fault strikes.
pub(super) trait Door: Send + Sync {
    /// Whether a request meets another one that it must not meet.
    fn is_taken(&self, asked: &Asked, body: &Option<Value>) -> bool;

    /// Lets a request in, perhaps after others, or refuses it. What this gives is dropped when the
    /// request is answered, or when its connection ends.
    fn enter<'a>(&'a self, asked: &'a Asked, body: &'a Option<Value>) -> BoxFuture<'a, Entry>;

    /// Takes out of a body what must not be in the log.
    fn redact(&self, _body: &mut Value) {}

    /// Gives an answer that a fault has put in place of the cloud's own the headers that those have.
    fn dress(&self, _asked: &Asked, _answer: &mut Response) {}
}

/// What a cloud's server and whoever controls it share.
#[derive(Clone, Default)]
pub(super) struct Handles {
    pub(super) log: Log,
    pub(super) faults: Faults,
    /// Whether nobody is at home.
    pub(super) down: watch::Sender<bool>,
    /// By how much every answer is late.
    pub(super) latency: watch::Sender<Duration>,
}
