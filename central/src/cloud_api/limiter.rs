//! How often one cloud is asked.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Limits;
use super::wait;

/// Nobody waits for longer inside a request.
const PATIENCE: Duration = Duration::from_secs(5);

/// A token bucket (the generic cell rate algorithm) that a cloud can shut for a while. First come,
/// first served.
#[derive(Debug)]
pub struct Limiter {
    /// How long one token takes to come.
    interval: Duration,
    /// How much of the future may be spent at once.
    credit: Duration,
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
}

impl Limiter {
    /// With a full bucket.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let interval = Duration::try_from_secs_f64(1.0 / limits.qps).unwrap_or(Duration::ZERO);
        let now = Instant::now();
        Self {
            interval,
            credit: interval.saturating_mul(limits.burst.max(1)),
            state: Mutex::new(State {
                full: now,
                shut: now,
                refusals: 0,
            }),
        }
    }

    /// Takes a token, and waits for it for a few seconds at most. Gives how long that was.
    ///
    /// # Errors
    /// How long it would have to wait, if that is longer. No token is taken then.
    pub async fn admit(&self) -> Result<Duration, Duration> {
        let began = Instant::now();
        loop {
            let now = Instant::now();
            tokio::time::sleep(self.take(now, began)?).await;
            // The cloud may have shut the door in the meantime.
            if self.state().shut <= Instant::now() {
                return Ok(began.elapsed());
            }
        }
    }

    fn take(&self, now: Instant, began: Instant) -> Result<Duration, Duration> {
        let mut state = self.state();
        let full = state.full.max(now) + self.interval;
        let token = full
            .saturating_duration_since(now)
            .saturating_sub(self.credit);
        let wait = token.max(state.shut.saturating_duration_since(now));
        if wait + (now - began) > PATIENCE {
            return Err(wait);
        }
        state.full = full;
        Ok(wait)
    }

    /// The cloud refused for want of budget. It is left alone for as long as it asks, else for
    /// longer each time. Gives for how long.
    pub fn refused(&self, asked: Option<Duration>) -> Duration {
        let mut state = self.state();
        state.refusals = state.refusals.saturating_add(1);
        let wait = asked.unwrap_or_else(|| wait::unasked(state.refusals));
        self.shut(&mut state, wait);
        wait
    }

    /// The cloud wants to be left alone for so long.
    pub fn pause(&self, wait: Duration) {
        self.shut(&mut self.state(), wait);
    }

    /// The cloud took a request.
    pub fn accepted(&self) {
        self.state().refusals = 0;
    }

    /// Nothing has gathered in the bucket when the door opens again, so that it is not slammed at
    /// once.
    fn shut(&self, state: &mut State, wait: Duration) {
        let until = Instant::now() + wait;
        state.shut = state.shut.max(until);
        state.full = state
            .full
            .max(until + self.credit.saturating_sub(self.interval));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
