//! What is asked.

use reqwest::Method;
use serde_json::Value;

/// A request, without what is the same for all of them.
#[derive(Clone, Debug)]
pub struct Request {
    operation: &'static str,
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    headers: Vec<(&'static str, String)>,
    body: Option<Value>,
    is_page: bool,
}

impl Request {
    /// A request for `path`, which begins without a slash and is joined to the base. `operation` is
    /// what metrics call it.
    #[must_use]
    pub fn new(operation: &'static str, method: Method, path: impl Into<String>) -> Self {
        Self {
            operation,
            method,
            path: path.into(),
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
            is_page: false,
        }
    }

    /// A request for something to read.
    #[must_use]
    pub fn get(operation: &'static str, path: impl Into<String>) -> Self {
        Self::new(operation, Method::GET, path)
    }

    /// Adds `?name=value`.
    #[must_use]
    pub fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sends this along.
    #[must_use]
    pub fn json(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// It asks for one page of a listing: [`Client::listing_limits`](super::Client::listing_limits) hold
    /// for it, and whoever puts the pages together says what came of the whole
    /// ([`Client::ended`](super::Client::ended)).
    #[must_use]
    pub const fn page(mut self) -> Self {
        self.is_page = true;
        self
    }

    pub(super) const fn is_page(&self) -> bool {
        self.is_page
    }

    pub(super) const fn operation(&self) -> &'static str {
        self.operation
    }

    pub(super) const fn method(&self) -> &Method {
        &self.method
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn query_pairs(&self) -> &[(&'static str, String)] {
        &self.query
    }

    pub(super) fn header_lines(&self) -> &[(&'static str, String)] {
        &self.headers
    }

    pub(super) const fn body(&self) -> Option<&Value> {
        self.body.as_ref()
    }
}
