//! For how long a cloud wants to be left alone, as its answers say it.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// Nothing makes us wait for longer: a wrong answer would switch a cloud off for good.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// What `Retry-After` asks for, in seconds or as a date. A date counts from the answer's own
/// `Date`, so that no two clocks need to agree. None: absent, not readable, or already over.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => http_date(text)?
            .duration_since(date(headers).unwrap_or(now))
            .ok()?,
    };
    (!wait.is_zero()).then_some(wait.min(LONGEST))
}

/// When the budget that `X-RateLimit-Remaining` calls spent is filled up again
/// (`X-RateLimit-Reset`, seconds since 1970). None: it is not spent.
pub(super) fn spent_budget(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    if number("x-ratelimit-remaining")? != 0 {
        return None;
    }
    let reset =
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(number("x-ratelimit-reset")?))?;
    let wait = reset.duration_since(date(headers).unwrap_or(now)).ok()?;
    (!wait.is_zero()).then_some(wait.min(LONGEST))
}

/// For how long to wait after this many refusals one after the other, where the cloud does not
/// say: from one second on, doubling.
pub(super) fn unasked(refusals: u32) -> Duration {
    let factor = 1_u32
        .checked_shl(refusals.saturating_sub(1))
        .unwrap_or(u32::MAX);
    Duration::from_secs(1)
        .saturating_mul(factor)
        .min(LONGEST / 5)
}

fn date(headers: &HeaderMap) -> Option<SystemTime> {
    http_date(headers.get(DATE)?.to_str().ok()?)
}

fn http_date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn parses_seconds_and_dates() {
        let now = SystemTime::UNIX_EPOCH;
        let seconds = |text: &str| retry_after(&headers(&[("retry-after", text)]), now);
        assert_eq!(seconds("7"), Some(Duration::from_secs(7)));
        assert_eq!(seconds("99999999"), Some(LONGEST));
        for nothing in ["0", "-1", "soon", "", "Thu, 01 Jan 1970 00:00:00 GMT"] {
            assert_eq!(seconds(nothing), None, "{nothing:?}");
        }
        let dated = headers(&[
            ("retry-after", "Sat, 21 Nov 2026 08:00:30 GMT"),
            ("date", "Sat, 21 Nov 2026 08:00:00 GMT"),
        ]);
        assert_eq!(retry_after(&dated, now), Some(Duration::from_secs(30)));
    }

    #[test]
    fn waits_only_for_spent_budget() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let budget = |left: &str| {
            let lines = [
                ("x-ratelimit-remaining", left),
                ("x-ratelimit-reset", "1012"),
            ];
            spent_budget(&headers(&lines), now)
        };
        assert_eq!(budget("0"), Some(Duration::from_secs(12)));
        assert_eq!(budget("1"), None);
    }

    #[test]
    fn refusals_without_retry_after_back_off_to_limit() {
        assert_eq!(unasked(1), Duration::from_secs(1));
        assert_eq!(unasked(4), Duration::from_secs(8));
        assert_eq!(unasked(60), Duration::from_secs(120));
    }
}
