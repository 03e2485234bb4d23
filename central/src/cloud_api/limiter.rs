//! How often one cloud is asked.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Limits;
use super::wait;

/// Nobody waits for longer inside a request for a cloud that wants to be left alone, or for its turn at
/// the configured rate.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Nobody waits for longer inside a request for its turn at a rate that the cloud has taught us: whoever
/// needs several requests in a row would begin anew for ever.
const LEARNED_PATIENCE: Duration = Duration::from_secs(30);
/// A cloud's refusals slow us down to one request in this time at most. What it wants beyond that it says
/// in `Retry-After`.
const SLOWEST: Duration = Duration::from_secs(2);
/// In which time without a refusal the rate doubles again.
const RECOVERY: Duration = Duration::from_secs(300);

/// A token bucket (the generic cell rate algorithm) that a cloud can shut for a while. First come,
/// first served.
///
/// How many requests a cloud takes is often documented nowhere, and may be less than is configured. So
/// the rate is learned: a refusal halves it and ends bursts, and it grows back slowly, by itself, to what
/// is configured.
#[derive(Debug)]
pub struct Limiter {
    /// The configured rate, in requests each second.
    qps: f64,
    /// How many requests may come at once after a pause, at that rate.
    burst: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the bucket will be full.
    full: Instant,
    /// Until when the cloud wants to be left alone.
    shut: Instant,
    /// How many times in a row it has refused for want of budget.
    refusals: u32,
    /// What it has taught us by that. `None`: to go by the configured rate.
    learned: Option<Learned>,
    /// How often it has refused at all: a token that was taken before is void.
    generation: u64,
}

/// A rate that a cloud takes, as far as can be told.
#[derive(Clone, Copy, Debug)]
struct Learned {
    /// In requests each second, when the door opens again.
    rate: f64,
    /// When that is.
    since: Instant,
    /// When it refused.
    refused: Instant,
}

/// How tokens come at a time.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// How long one takes to come.
    interval: Duration,
    /// How much of the future may be spent at once.
    credit: Duration,
    /// For how long one is waited for.
    patience: Duration,
}

impl Limiter {
    /// With a full bucket.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let now = Instant::now();
        Self {
            qps: limits.qps,
            burst: limits.burst.max(1),
            state: Mutex::new(State {
                full: now,
                shut: now,
                refusals: 0,
                learned: None,
                generation: 0,
            }),
        }
    }

    /// Takes a token, and waits for it: for a few seconds at most, or for a little longer where the cloud
    /// has turned out to be slow. Gives how long that was.
    ///
    /// # Errors
    /// How long it would have to wait, if that is longer. No token is taken then.
    pub async fn admit(&self) -> Result<Duration, Duration> {
        let began = Instant::now();
        loop {
            let (wait, generation) = self.take(Instant::now(), began)?;
            tokio::time::sleep(wait).await;
            // The cloud may have shut the door in the meantime, or refused what came before.
            let state = self.state();
            if state.shut <= Instant::now() && state.generation == generation {
                return Ok(began.elapsed());
            }
        }
    }

    fn take(&self, now: Instant, began: Instant) -> Result<(Duration, u64), Duration> {
        let mut state = self.state();
        let pace = self.pace(&mut state, now);
        let full = state.full.max(now) + pace.interval;
        let turn = full
            .saturating_duration_since(now)
            .saturating_sub(pace.credit);
        let shut = state.shut.saturating_duration_since(now);
        let waited = now - began;
        if shut + waited > LONGEST_WAIT || turn + waited > pace.patience {
            return Err(turn.max(shut));
        }
        state.full = full;
        Ok((turn.max(shut), state.generation))
    }

    /// The cloud refused a request for want of budget that was sent at that time. It is left alone for as
    /// long as it asks, else for longer each time, and asked more slowly then. Gives for how long.
    ///
    /// What was on its way when it refused before says nothing new.
    pub fn refused(&self, sent: Instant, asked: Option<Duration>) -> Duration {
        let now = Instant::now();
        let mut state = self.state();
        if state.learned.is_some_and(|learned| sent <= learned.refused) {
            let left = state.shut.saturating_duration_since(now);
            let wait = asked.unwrap_or_else(|| left.max(wait::unasked(1)));
            if asked.is_some() {
                state.shut = state.shut.max(now + wait);
            }
            return wait;
        }
        let rate = self.rate(&state, now);
        state.refusals = state.refusals.saturating_add(1);
        state.generation += 1;
        let wait = asked.unwrap_or_else(|| wait::unasked(state.refusals));
        state.shut = state.shut.max(now + wait);
        // One token, and no more, has come by then.
        state.full = state.shut;
        state.learned = Some(Learned {
            rate: (rate / 2.0).max(self.slowest()),
            since: state.shut,
            refused: now,
        });
        wait
    }

    /// The cloud wants to be left alone for so long. Nothing has gathered in the bucket when the door
    /// opens again, so that it is not slammed at once.
    pub fn pause(&self, wait: Duration) {
        let now = Instant::now();
        let mut state = self.state();
        let pace = self.pace(&mut state, now);
        let until = now + wait;
        state.shut = state.shut.max(until);
        state.full = state
            .full
            .max(until + pace.credit.saturating_sub(pace.interval));
    }

    /// The cloud took a request.
    pub fn accepted(&self) {
        self.state().refusals = 0;
    }

    /// The lowest rate, in requests each second, that refusals lead to.
    fn slowest(&self) -> f64 {
        self.qps.min(1.0 / SLOWEST.as_secs_f64())
    }

    /// The rate by now, in requests each second.
    fn rate(&self, state: &State, now: Instant) -> f64 {
        state.learned.map_or(self.qps, |learned| {
            let recovering = now.saturating_duration_since(learned.since);
            let doublings = recovering.as_secs_f64() / RECOVERY.as_secs_f64();
            (learned.rate * doublings.exp2()).min(self.qps)
        })
    }

    fn pace(&self, state: &mut State, now: Instant) -> Pace {
        let rate = self.rate(state, now);
        let is_recovered = state
            .learned
            .is_some_and(|learned| rate >= self.qps && now >= learned.since + RECOVERY);
        if is_recovered {
            state.learned = None;
        }
        let interval = Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::ZERO);
        match state.learned {
            None => Pace {
                interval,
                credit: interval.saturating_mul(self.burst),
                patience: LONGEST_WAIT,
            },
            Some(_) => Pace {
                interval,
                credit: interval,
                patience: LEARNED_PATIENCE,
            },
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
