//! Whether the API server of this node may be asked by others: pure, from the answers of its `/readyz`.

use std::time::{Duration, Instant};

/// So many failures in a row, and it is not fit any more.
const FAILURES: u32 = 2;
/// So many successes in a row, and it is fit for the first time.
const FIRST_SUCCESSES: u32 = 3;
/// And so many to be fit again; for each relapse twice as many.
const SUCCESSES: u32 = 10;
/// A failure so soon after it was fit again is a relapse.
const RELAPSE: Duration = Duration::from_secs(60);
/// How often the successes that are needed double, at most.
const MOST_DOUBLINGS: u32 = 5;

/// What a probe has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The API server is ready, its etcd included.
    Ready,
    /// It answers that it is not.
    NotReady,
    /// It answers nobody who is not known to it: nothing can be said of it.
    Forbidden,
    /// It has not answered in time.
    Hung,
    /// It cannot be reached, and why.
    Unreachable(String),
}

impl Outcome {
    const fn is_success(&self) -> bool {
        matches!(self, Self::Ready)
    }
}

/// Whether the API server is fit to be asked.
#[derive(Clone, Debug, Default)]
pub struct Fitness {
    is_fit: bool,
    has_been_fit: bool,
    /// The same outcome so often in a row, as far as success or failure.
    in_row: u32,
    last_was_success: bool,
    relapses: u32,
    fit_since: Option<Instant>,
}

impl Fitness {
    /// Whether it is fit.
    #[must_use]
    pub const fn is_fit(&self) -> bool {
        self.is_fit
    }

    /// Takes in what a probe has found. Whether something has changed.
    pub fn note(&mut self, outcome: &Outcome, now: Instant) -> bool {
        let success = outcome.is_success();
        if success == self.last_was_success {
            self.in_row = self.in_row.saturating_add(1);
        } else {
            self.in_row = 1;
        }
        self.last_was_success = success;
        let before = self.is_fit;
        if self.is_fit && !success && self.in_row >= FAILURES {
            self.lose(now);
        } else if !self.is_fit && success && self.in_row >= self.needed() {
            self.is_fit = true;
            self.has_been_fit = true;
            self.fit_since = Some(now);
        }
        self.is_fit != before
    }

    fn lose(&mut self, now: Instant) {
        self.is_fit = false;
        let lately = self
            .fit_since
            .is_some_and(|since| now.saturating_duration_since(since) < RELAPSE);
        self.relapses = if lately { self.relapses + 1 } else { 0 };
    }

    /// How many successes in a row it takes to be fit.
    fn needed(&self) -> u32 {
        if !self.has_been_fit {
            return FIRST_SUCCESSES;
        }
        SUCCESSES << self.relapses.min(MOST_DOUBLINGS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Probed {
        fitness: Fitness,
        now: Instant,
    }

    impl Probed {
        fn new() -> Self {
            Self {
                fitness: Fitness::default(),
                now: Instant::now(),
            }
        }

        fn note(&mut self, outcome: &Outcome, times: u32) -> bool {
            for _ in 0..times {
                self.now += Duration::from_millis(100);
                self.fitness.note(outcome, self.now);
            }
            self.fitness.is_fit()
        }
    }

    #[test]
    fn is_not_fit_before_it_was_asked() {
        let mut probed = Probed::new();
        assert!(!probed.fitness.is_fit());
        assert!(!probed.note(&Outcome::Ready, FIRST_SUCCESSES - 1));
        assert!(probed.note(&Outcome::Ready, 1));
    }

    #[test]
    fn one_failure_is_none() {
        let mut probed = Probed::new();
        probed.note(&Outcome::Ready, FIRST_SUCCESSES);
        for _ in 0..10 {
            assert!(probed.note(&Outcome::Hung, FAILURES - 1));
            assert!(probed.note(&Outcome::Ready, 1));
        }
        assert!(!probed.note(&Outcome::Hung, FAILURES));
    }

    #[test]
    fn every_failure_counts() {
        for outcome in [
            Outcome::NotReady,
            Outcome::Forbidden,
            Outcome::Hung,
            Outcome::Unreachable("refused".to_owned()),
        ] {
            let mut probed = Probed::new();
            probed.note(&Outcome::Ready, FIRST_SUCCESSES);
            assert!(!probed.note(&outcome, FAILURES), "{outcome:?}");
        }
    }

    #[test]
    fn who_relapses_waits_longer_each_time() {
        let mut probed = Probed::new();
        probed.note(&Outcome::Ready, FIRST_SUCCESSES);
        for relapse in 1..10_u32 {
            assert!(!probed.note(&Outcome::NotReady, FAILURES));
            let needed = SUCCESSES << relapse.min(MOST_DOUBLINGS);
            assert!(!probed.note(&Outcome::Ready, needed - 1), "{relapse}");
            assert!(probed.note(&Outcome::Ready, 1), "{relapse}");
        }
        // After a minute without a failure it counts as well again.
        probed.now += RELAPSE;
        assert!(!probed.note(&Outcome::NotReady, FAILURES));
        assert!(!probed.note(&Outcome::Ready, SUCCESSES - 1));
        assert!(probed.note(&Outcome::Ready, 1));
    }
}
