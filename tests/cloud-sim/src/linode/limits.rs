//! How much may be asked: windows of a minute.

use std::time::{Duration, Instant};

use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use jiff::Timestamp;

use super::answers;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Which limit a request is held to, besides that of all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Only that of all.
    Other,
    /// That of listings.
    Listing,
    /// That of new Linodes.
    Creation,
}

/// How much may be asked in how long.
#[derive(Debug)]
pub struct Limits {
    all: Window,
    listings: Window,
    creations: Window,
}

impl Default for Limits {
    /// As documented: 1,600 requests a minute, of which 200 for listings, and 20 new Linodes in 15 seconds.
    fn default() -> Self {
        Self {
            creations: Window::of(20, Duration::from_secs(15)),
            ..Self::per(Duration::from_secs(60), 1600, 200)
        }
    }
}

impl Limits {
    /// So many requests, and so many for listings, in such a window. New Linodes are like any other request.
    pub const fn per(window: Duration, all: u32, listings: u32) -> Self {
        Self {
            all: Window::of(all, window),
            listings: Window::of(listings, window),
            creations: Window::of(all, window),
        }
    }

    /// No more new Linodes than so many in such a window.
    #[must_use]
    pub const fn creations(mut self, window: Duration, most: u32) -> Self {
        self.creations = Window::of(most, window);
        self
    }

    /// None that a test could reach.
    pub const fn none() -> Self {
        Self::per(Duration::from_secs(60), u32::MAX, u32::MAX)
    }

    /// Counts one request. The headers that the answer shall have, or the refusal.
    pub(super) fn count(&mut self, counted: Counted) -> Result<HeaderMap, Box<Response>> {
        let now = Instant::now();
        let general = self.all.count(now);
        let special = match counted {
            Counted::Other => Ok(()),
            Counted::Listing => self.listings.count(now),
            Counted::Creation => self.creations.count(now),
        };
        let shown = self.window(counted);
        match general.and(special) {
            Ok(()) => Ok(shown.headers(now)),
            Err(wait) => {
                let mut refusal = answers::error(StatusCode::TOO_MANY_REQUESTS);
                let headers = refusal.headers_mut();
                headers.extend(shown.headers(now));
                headers.insert(header::RETRY_AFTER, whole_seconds(wait));
                Err(Box::new(refusal))
            }
        }
    }

    /// Gives an answer that a test has put in place of the API's own what such an answer says of limits: with 429
    /// that nothing is left, and until when.
    pub(super) fn dress(&self, counted: Counted, answer: &mut Response) {
        let now = Instant::now();
        let window = self.window(counted);
        let is_limited = answer.status() == StatusCode::TOO_MANY_REQUESTS;
        let headers = answer.headers_mut();
        headers.extend(window.headers(now));
        if is_limited {
            let asked = headers.get(header::RETRY_AFTER);
            let asked = asked.and_then(|asked| asked.to_str().ok()?.parse().ok());
            let wait = asked.map_or_else(|| window.left(now), Duration::from_secs);
            headers.insert(REMAINING, HeaderValue::from(0));
            headers.insert(RESET, HeaderValue::from(in_epoch(wait)));
            let seconds = || whole_seconds(wait);
            headers.entry(header::RETRY_AFTER).or_insert_with(seconds);
        }
    }

    const fn window(&self, counted: Counted) -> &Window {
        match counted {
            Counted::Other => &self.all,
            Counted::Listing => &self.listings,
            Counted::Creation => &self.creations,
        }
    }
}

fn whole_seconds(wait: Duration) -> HeaderValue {
    HeaderValue::from(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}

/// The second since 1970 that is so far away.
fn in_epoch(wait: Duration) -> i64 {
    let seconds = i64::try_from(wait.as_secs()).unwrap_or(0);
    Timestamp::now().as_second().saturating_add(seconds)
}

#[derive(Debug)]
struct Window {
    limit: u32,
    length: Duration,
    used: u32,
    since: Option<Instant>,
}

impl Window {
    const fn of(limit: u32, length: Duration) -> Self {
        Self {
            limit,
            length,
            used: 0,
            since: None,
        }
    }

    /// Counts one request, or tells how long until the next is permitted.
    fn count(&mut self, now: Instant) -> Result<(), Duration> {
        let age = self.since.map(|since| now.duration_since(since));
        if age.is_none_or(|age| age >= self.length) {
            self.since = Some(now);
            self.used = 0;
        }
        if self.used >= self.limit {
            return Err(self.left(now));
        }
        self.used += 1;
        Ok(())
    }

    fn left(&self, now: Instant) -> Duration {
        let age = self.since.map(|since| now.duration_since(since));
        self.length.saturating_sub(age.unwrap_or_default())
    }

    fn headers(&self, now: Instant) -> HeaderMap {
        HeaderMap::from_iter([
            (LIMIT, HeaderValue::from(self.limit)),
            (REMAINING, HeaderValue::from(self.limit - self.used)),
            (RESET, HeaderValue::from(in_epoch(self.left(now)))),
        ])
    }
}
