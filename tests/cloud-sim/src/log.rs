//! What was asked of a simulated cloud.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, StatusCode, header};
use serde_json::Value;

use super::request::{Asked, PathPattern};
use super::{brightbox, phoenixnap};

/// One request, without its credentials.
#[derive(Clone, Debug)]
pub struct Call {
    /// When it arrived.
    pub at: Instant,
    /// Its method.
    pub method: Method,
    /// Its path, without the query.
    pub path: String,
    /// Its query, decoded.
    pub query: Vec<(String, String)>,
    /// Its `X-Filter` header.
    pub filter: Option<String>,
    /// Its `User-Agent` header.
    pub user_agent: String,
    /// Its body, if it meant to change something and was JSON.
    pub body: Option<Value>,
    /// The status of the answer. `None`: there is none (yet).
    pub status: Option<StatusCode>,
    /// How long the answer took, up to its header.
    pub took: Option<Duration>,
    /// Whether a fault was injected.
    pub faulty: bool,
}

impl Call {
    fn new(asked: &Asked, headers: &HeaderMap, body: &Option<Value>) -> Self {
        let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
        Self {
            at: Instant::now(),
            method: asked.method.clone(),
            path: asked.path.clone(),
            query: asked.query.clone(),
            filter: text("x-filter"),
            user_agent: text(header::USER_AGENT.as_str()).unwrap_or_default(),
            body: body.clone().filter(|_| !is_for_token(&asked.path)),
            status: None,
            took: None,
            faulty: false,
        }
    }

    /// The value of a query parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether the request meant to change something: to ask for a token does not.
    pub fn is_write(&self) -> bool {
        let reads = self.method == Method::GET || self.method == Method::HEAD;
        !reads && !is_for_token(&self.path)
    }

    /// `GET /v4/linode/instances?page=2: 200 after 3ms`, for messages.
    pub fn summary(&self) -> String {
        let query: Vec<String> = self.query.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let (status, faulty) = (
            self.status
                .map_or("no answer".to_owned(), |s| s.as_u16().to_string()),
            if self.faulty { " (fault)" } else { "" },
        );
        format!(
            "{} {}{mark}{}: {status}{faulty} after {:?}",
            self.method,
            self.path,
            query.join("&"),
            self.took.unwrap_or_default()
        )
    }
}

/// Whether tokens come from there.
fn is_for_token(path: &str) -> bool {
    [phoenixnap::TOKEN_PATH, brightbox::TOKEN_PATH, "/token"].contains(&path)
}

/// Requests in the order in which they arrived. The filters can be chained.
#[derive(Clone, Debug, Default)]
pub struct Calls(Vec<Call>);

impl Deref for Calls {
    type Target = [Call];
    fn deref(&self) -> &[Call] {
        &self.0
    }
}

impl Calls {
    /// Keeps what `wanted` approves of.
    #[must_use]
    pub fn filter(&self, wanted: impl Fn(&Call) -> bool) -> Self {
        let kept = self.0.iter().filter(|call| wanted(call));
        Self(kept.cloned().collect())
    }

    /// Requests to a path; `*` stands for one segment, `**` for any number of them.
    ///
    /// # Panics
    /// If it is no such path.
    #[must_use]
    pub fn to(&self, path: &str) -> Self {
        let pattern = PathPattern::of(path);
        self.filter(|call| pattern.matches(&call.path))
    }

    /// Requests that arrived at or after this moment.
    #[must_use]
    pub fn since(&self, start: Instant) -> Self {
        self.filter(|call| call.at >= start)
    }

    /// Requests that meant to change something.
    #[must_use]
    pub fn writes(&self) -> Self {
        self.filter(Call::is_write)
    }

    /// Requests of this method.
    #[must_use]
    pub fn method(&self, method: &Method) -> Self {
        self.filter(|call| call.method == *method)
    }

    /// The bodies that were sent, in order.
    pub fn bodies(&self) -> Vec<Value> {
        let bodies = self.0.iter().filter_map(|call| call.body.clone());
        bodies.collect()
    }

    /// Requests that were answered with this status.
    #[must_use]
    pub fn answered(&self, status: StatusCode) -> Self {
        self.filter(|call| call.status == Some(status))
    }

    /// One line per request, for messages of failed tests.
    pub fn summary(&self) -> String {
        let lines: Vec<String> = self.0.iter().map(Call::summary).collect();
        lines.join("\n")
    }
}

/// The log of one cloud.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<Call>>>);

/// A request in the log whose answer is still to come.
pub(super) struct Ticket {
    log: Log,
    index: usize,
    start: Instant,
}

impl Log {
    pub(super) fn arrived(
        &self,
        asked: &Asked,
        headers: &HeaderMap,
        body: &Option<Value>,
    ) -> Ticket {
        let call = Call::new(asked, headers, body);
        let start = call.at;
        let mut calls = self.lock();
        calls.push(call);
        Ticket {
            log: self.clone(),
            index: calls.len() - 1,
            start,
        }
    }

    pub(super) fn calls(&self) -> Calls {
        Calls(self.lock().clone())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Call>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    pub(super) fn faulty(&self) {
        self.log.lock()[self.index].faulty = true;
    }

    pub(super) fn answered(&self, status: StatusCode) {
        let call = &mut self.log.lock()[self.index];
        call.status = Some(status);
        call.took = Some(self.start.elapsed());
    }
}
