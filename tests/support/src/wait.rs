//! Waiting for conditions instead of sleeping.

use std::fmt::Debug;
use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use patience::Patience;

mod patience;

/// How soon a condition is looked at again. The only sleep of the suites.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// How long there is between two looks at most. The looks of those who wait long would be most of what
/// the API servers of the suites do.
const LONGEST_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Which part of the wait there is between two looks: so much later than it came about, a condition is seen.
const PART_OF_WAIT: u32 = 20;

/// The longest that a single look may take before it counts as failed and is repeated.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// What a condition may answer with: `bool`, `Option<T>` or `Result<T, E>`.
///
/// `false`, `None` and errors mean "not yet"; an error is shown if the condition never holds.
pub trait Probe {
    /// What the wait gives back once the condition holds.
    type Output;
    /// `Ok` once the condition holds, otherwise the reason why not.
    fn look(self) -> Result<Self::Output, String>;
}

impl Probe for bool {
    type Output = ();
    fn look(self) -> Result<(), String> {
        if self {
            Ok(())
        } else {
            Err("not so".to_owned())
        }
    }
}

impl<T> Probe for Option<T> {
    type Output = T;
    fn look(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing there".to_owned())
    }
}

impl<T, E: Debug> Probe for Result<T, E> {
    type Output = T;
    fn look(self) -> Result<T, String> {
        self.map_err(|error| format!("{error:?}"))
    }
}

/// Repeats `probe` until it holds, and gives back what it found.
///
/// `what` is the condition as a statement ("n1 is untainted"). Panics with it, the time that
/// has passed and the last reason when the condition does not hold within `limit`. A limit of ten
/// seconds or more is longer on a busy machine.
#[track_caller]
pub fn eventually<P, F>(what: &str, limit: Duration, probe: F) -> impl Future<Output = P::Output>
where
    P: Probe,
    F: AsyncFnMut() -> P,
{
    eventually_or(what, limit, probe, async || String::new())
}

/// Like [`eventually`], and `explain` gives what else tells why the condition does not hold. It is asked once, at the
/// end: what it looks at costs nothing while the wait lasts.
#[track_caller]
pub fn eventually_or<P, F, E>(
    what: &str,
    limit: Duration,
    mut probe: F,
    explain: E,
) -> impl Future<Output = P::Output>
where
    P: Probe,
    F: AsyncFnMut() -> P,
    E: AsyncFnOnce() -> String,
{
    let caller = Location::caller();
    async move {
        match try_eventually(limit, async || probe().await).await {
            Ok(found) => found,
            Err(reason) => panic!(
                "waited {limit:?} in vain until: {what}\n  last look: {reason}\n  at {caller}\n{}",
                explain().await
            ),
        }
    }
}

/// Like [`eventually`], but gives the last reason instead of panicking.
pub async fn try_eventually<P, F>(limit: Duration, probe: F) -> Result<P::Output, String>
where
    P: Probe,
    F: AsyncFnMut() -> P,
{
    look_until(limit, probe, until_next_look).await
}

/// How long a wait of which `elapsed` has passed pauses before it looks again.
fn until_next_look(elapsed: Duration) -> Duration {
    (elapsed / PART_OF_WAIT).clamp(POLL_INTERVAL, LONGEST_POLL_INTERVAL)
}

async fn look_until<P, F>(
    limit: Duration,
    mut probe: F,
    pause: impl Fn(Duration) -> Duration,
) -> Result<P::Output, String>
where
    P: Probe,
    F: AsyncFnMut() -> P,
{
    let patience = Patience::of(limit);
    loop {
        let reason = match within(PROBE_LIMIT.min(limit), probe()).await {
            Some(answer) => match answer.look() {
                Ok(found) => return Ok(found),
                Err(reason) => reason,
            },
            None => "the look itself took too long".to_owned(),
        };
        if patience.is_spent() {
            return Err(reason);
        }
        let elapsed = patience.elapsed();
        let pause = pause(elapsed);
        // One look is at the limit itself, so that none comes later for what is a claim.
        let left = limit.saturating_sub(elapsed);
        tokio::time::sleep(if left.is_zero() {
            pause
        } else {
            pause.min(left)
        })
        .await;
    }
}

/// Asserts that something does not happen until a marker has been reached.
///
/// "It did not happen" proves nothing unless the system had its chance to do it. So `marker` is
/// a condition that comes true only after the system has passed the point where it would have
/// done the thing (an object created later has been handled, say). `violation` gives a
/// description when the unwanted has happened; it is looked at until the marker is reached and
/// once more after it. Panics on a violation, and when the marker is not reached within `limit`.
pub async fn never<M, V>(what: &str, limit: Duration, mut marker: M, mut violation: V)
where
    M: AsyncFnMut() -> bool,
    V: AsyncFnMut() -> Option<String>,
{
    // What is there for a moment only is a violation too: the looks stay as close as they begin.
    let reached = look_until(
        limit,
        async || {
            if let Some(description) = violation().await {
                panic!("must never happen: {what}\n  but: {description}");
            }
            marker().await
        },
        |_| POLL_INTERVAL,
    );
    if let Err(reason) = reached.await {
        panic!("waited {limit:?} in vain for the marker of: never {what}\n  last look: {reason}");
    }
    if let Some(description) = violation().await {
        panic!("must never happen: {what}\n  but: {description}");
    }
}

async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, future).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rarer_and_see_a_condition_a_twentieth_late() {
        let pauses = [0, 400, 1000, 5000, 60_000]
            .map(Duration::from_millis)
            .map(until_next_look);
        assert_eq!(pauses, [25, 25, 50, 250, 250].map(Duration::from_millis));
    }

    #[tokio::test]
    async fn gives_back_what_was_found() {
        let mut looks = 0;
        let found = eventually("three looks", Duration::from_secs(1), async || {
            looks += 1;
            (looks == 3).then_some(looks)
        })
        .await;
        assert_eq!(found, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "explained once")]
    async fn explains_at_the_end_only() {
        let mut explained = 0;
        eventually_or(
            "something",
            Duration::from_millis(60),
            async || false,
            async || {
                explained += 1;
                format!("explained {}", ["never", "once"][explained])
            },
        )
        .await;
    }

    #[tokio::test]
    async fn tells_the_last_reason() {
        let reason = try_eventually(Duration::from_millis(60), async || {
            Err::<(), _>("still closed")
        })
        .await;
        assert_eq!(
            reason.expect_err("the condition never holds"),
            "\"still closed\""
        );
    }

    #[tokio::test]
    #[should_panic(expected = "must never happen: a write")]
    async fn never_reports_a_violation() {
        never(
            "a write",
            Duration::from_secs(1),
            async || false,
            async || Some("a write".to_owned()),
        )
        .await;
    }

    #[tokio::test]
    #[should_panic(expected = "the marker of: never a write")]
    async fn never_needs_its_marker() {
        never(
            "a write",
            Duration::from_millis(60),
            async || false,
            async || None,
        )
        .await;
    }
}
