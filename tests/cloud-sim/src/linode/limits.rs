//! How much may be asked: windows of a minute.

use std::time::{Duration, Instant};

use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use jiff::Timestamp;

use super::answers;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// How much may be asked in how long.
#[derive(Debug)]
pub struct Limits {
    all: Window,
    listings: Window,
}

impl Default for Limits {
    /// As documented: 1,600 requests a minute, of which 200 for listings.
    fn default() -> Self {
        Self::per(Duration::from_secs(60), 1600, 200)
    }
}

impl Limits {
    /// So many requests, and so many for listings, in such a window.
    pub const fn per(window: Duration, all: u32, listings: u32) -> Self {
        Self {
            all: Window::of(all, window),
            listings: Window::of(listings, window),
        }
    }

    /// None that a test could reach.
    pub const fn none() -> Self {
        Self::per(Duration::from_secs(60), u32::MAX, u32::MAX)
    }

    /// Counts one request. The headers that the answer shall have, or the refusal.
    pub(super) fn count(&mut self, is_listing: bool) -> Result<HeaderMap, Box<Response>> {
        let now = Instant::now();
        let general = self.all.count(now);
        let window = if is_listing {
            self.listings.count(now)
        } else {
            general
        };
        let strictest = if general.is_ok() { window } else { general };
        let counted = if is_listing {
            &self.listings
        } else {
            &self.all
        };
        match strictest {
            Ok(()) => Ok(counted.headers(now)),
            Err(wait) => {
                let mut refusal = answers::error(StatusCode::TOO_MANY_REQUESTS);
                let headers = refusal.headers_mut();
                headers.extend(counted.headers(now));
                let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
                Err(Box::new(refusal))
            }
        }
    }
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
        let reset =
            Timestamp::now().as_second() + i64::try_from(self.left(now).as_secs()).unwrap_or(0);
        HeaderMap::from_iter([
            (LIMIT, HeaderValue::from(self.limit)),
            (REMAINING, HeaderValue::from(self.limit - self.used)),
            (RESET, HeaderValue::from(reset)),
        ])
    }
}
