//! Which requests a fault concerns.

use http::Method;

use crate::request::{Asked, PathPattern};

/// Which requests a fault concerns: all, unless it is said which.
#[derive(Clone, Debug)]
#[must_use]
pub struct When {
    reads: bool,
    writes: bool,
    method: Option<Method>,
    path: PathPattern,
    but: Option<PathPattern>,
    parameters: Vec<(String, String)>,
    pub(super) after: u64,
    pub(super) times: u64,
}

impl When {
    /// Requests to a path, of any method; `*` stands for one segment, `**` for any number of them.
    ///
    /// # Panics
    /// If it is no such path; here and below.
    pub fn any(path: &str) -> Self {
        Self::to(PathPattern::of(path))
    }

    pub(crate) const fn to(path: PathPattern) -> Self {
        Self {
            reads: true,
            writes: true,
            method: None,
            path,
            but: None,
            parameters: Vec::new(),
            after: 0,
            times: u64::MAX,
        }
    }

    /// All requests.
    pub fn everything() -> Self {
        Self::any("**/*")
    }

    /// GET requests to a path.
    pub fn get(path: &str) -> Self {
        Self {
            writes: false,
            ..Self::any(path)
        }
    }

    /// Requests to a path that mean to change something.
    pub fn write(path: &str) -> Self {
        Self::any(path).of_writes()
    }

    pub(crate) const fn of_writes(mut self) -> Self {
        self.reads = false;
        self
    }

    /// Not those to this path.
    pub fn but(mut self, path: &str) -> Self {
        self.but = Some(PathPattern::of(path));
        self
    }

    /// Only those of this method.
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Only those with this query parameter.
    pub fn parameter(mut self, name: &str, value: &str) -> Self {
        self.parameters.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Only those for this page.
    pub fn page(self, page: u32) -> Self {
        self.parameter("page", &page.to_string())
    }

    /// Leaves the first so many alone.
    pub fn after(mut self, count: u64) -> Self {
        self.after = count;
        self
    }

    /// Only so many.
    pub fn times(mut self, count: u64) -> Self {
        self.times = count;
        self
    }

    /// Only the n-th, counted from 1.
    pub fn nth(self, n: u64) -> Self {
        self.after(n.saturating_sub(1)).times(1)
    }

    /// Whether a request is meant, apart from how many there were.
    pub(super) fn concerns(&self, asked: &Asked) -> bool {
        let reads = asked.method == Method::GET || asked.method == Method::HEAD;
        (if reads { self.reads } else { self.writes })
            && self.method.as_ref().is_none_or(|m| *m == asked.method)
            && self.path.matches(&asked.path)
            && !self
                .but
                .as_ref()
                .is_some_and(|but| but.matches(&asked.path))
            && self.parameters.iter().all(|p| asked.query.contains(p))
    }
}
