//! Whether the API server of this node may be asked by others: pure, from the answers of its `/readyz`.

use std::time::{Duration, Instant};

/// So many failures in a row, and it is not ready any more. By the first of them the others know that they should not
/// count on it: where all fail at once, nobody gives the address to one that is about to find out.
const FAILURES: u32 = 3;
/// So many if nothing listens: that happens to one alone.
const REFUSALS: u32 = 2;
/// So many successes in a row, and it is ready for the first time, or while no other is.
const FEW_SUCCESSES: u32 = 3;
/// And so many to be ready again; for each relapse twice as many.
const SUCCESSES: u32 = 10;
/// A failure so soon after it was ready again is a relapse.
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

/// What can be expected of the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// It serves.
    Ready,
    /// It was ready, and has not answered so lately.
    Doubtful,
    /// It runs, and is not ready. Where none is, it is as good as any: the address is better with it than with nobody.
    NotReady,
    /// It does not run.
    Absent,
    /// It was not asked often enough to say.
    #[default]
    Unknown,
}

impl Readiness {
    /// Whether this node counts on it.
    #[must_use]
    pub const fn is_ready(self) -> bool {
        matches!(self, Self::Ready | Self::Doubtful)
    }
}

/// How soon it should be ready again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urgency {
    /// Another API server is ready: it need not be soon.
    #[default]
    None,
    /// No other is.
    NoneReady,
    /// This node has the address, since no other was ready: nothing moves by it.
    HasAddress,
}

impl Outcome {
    const fn readiness(&self) -> Readiness {
        match self {
            Self::Ready => Readiness::Ready,
            Self::NotReady | Self::Forbidden | Self::Hung => Readiness::NotReady,
            Self::Unreachable(_) => Readiness::Absent,
        }
    }
}

/// Follows what can be expected of the API server.
#[derive(Clone, Debug, Default)]
pub struct Fitness {
    readiness: Readiness,
    has_been_ready: bool,
    /// The same outcome so often in a row, as far as success or failure.
    in_row: u32,
    last_was_success: bool,
    relapses: u32,
    ready_since: Option<Instant>,
}

impl Fitness {
    /// What can be expected.
    #[must_use]
    pub const fn readiness(&self) -> Readiness {
        self.readiness
    }

    /// Takes in what a probe has found. Whether something has changed.
    pub fn note(&mut self, outcome: &Outcome, urgency: Urgency, now: Instant) -> bool {
        let found = outcome.readiness();
        let success = found == Readiness::Ready;
        if success == self.last_was_success {
            self.in_row = self.in_row.saturating_add(1);
        } else {
            self.in_row = 1;
        }
        self.last_was_success = success;
        let before = self.readiness;
        let is_over = match found {
            Readiness::Absent => self.in_row >= REFUSALS,
            _ => self.in_row >= FAILURES,
        };
        if success && (before.is_ready() || self.in_row >= self.needed(urgency)) {
            if !before.is_ready() {
                self.has_been_ready = true;
                self.ready_since = Some(now);
            }
            self.readiness = Readiness::Ready;
        } else if !success && before.is_ready() && !is_over {
            self.readiness = Readiness::Doubtful;
        } else if !success && before.is_ready() {
            self.lose(found, now);
        } else if !success && (is_over || before != Readiness::Unknown) {
            self.readiness = found;
        }
        self.readiness != before
    }

    fn lose(&mut self, found: Readiness, now: Instant) {
        self.readiness = found;
        let lately = self
            .ready_since
            .is_some_and(|since| now.saturating_duration_since(since) < RELAPSE);
        self.relapses = if lately { self.relapses + 1 } else { 0 };
    }

    /// How many successes in a row it takes to be ready.
    fn needed(&self, urgency: Urgency) -> u32 {
        match urgency {
            Urgency::HasAddress => 1,
            Urgency::NoneReady => FEW_SUCCESSES,
            Urgency::None if !self.has_been_ready => FEW_SUCCESSES,
            Urgency::None => SUCCESSES << self.relapses.min(MOST_DOUBLINGS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Probed {
        fitness: Fitness,
        urgency: Urgency,
        now: Instant,
    }

    impl Probed {
        fn new() -> Self {
            Self {
                fitness: Fitness::default(),
                urgency: Urgency::None,
                now: Instant::now(),
            }
        }

        /// Whether it is ready after so many of these.
        fn note(&mut self, outcome: &Outcome, times: u32) -> bool {
            for _ in 0..times {
                self.now += Duration::from_millis(100);
                self.fitness.note(outcome, self.urgency, self.now);
            }
            self.fitness.readiness().is_ready()
        }
    }

    #[test]
    fn nothing_is_known_before_it_was_asked() {
        let mut probed = Probed::new();
        assert!(!probed.note(&Outcome::Ready, FEW_SUCCESSES - 1));
        assert_eq!(probed.fitness.readiness(), Readiness::Unknown);
        assert!(probed.note(&Outcome::Ready, 1));
        let mut probed = Probed::new();
        probed.note(&Outcome::Hung, FAILURES - 1);
        assert_eq!(probed.fitness.readiness(), Readiness::Unknown);
        probed.note(&Outcome::Hung, 1);
        assert_eq!(probed.fitness.readiness(), Readiness::NotReady);
    }

    #[test]
    fn one_failure_is_none() {
        let mut probed = Probed::new();
        probed.note(&Outcome::Ready, FEW_SUCCESSES);
        for _ in 0..10 {
            assert!(probed.note(&Outcome::Hung, FAILURES - 1));
            assert_eq!(probed.fitness.readiness(), Readiness::Doubtful);
            assert!(probed.note(&Outcome::Ready, 1));
            assert_eq!(probed.fitness.readiness(), Readiness::Ready);
        }
        let refused = Outcome::Unreachable("refused".to_owned());
        assert!(!probed.clone().note(&refused, REFUSALS));
        assert!(!probed.note(&Outcome::Hung, FAILURES));
    }

    #[test]
    fn every_failure_counts_and_who_runs_is_told_from_who_does_not() {
        for (outcome, readiness) in [
            (Outcome::NotReady, Readiness::NotReady),
            (Outcome::Forbidden, Readiness::NotReady),
            (Outcome::Hung, Readiness::NotReady),
            (
                Outcome::Unreachable("refused".to_owned()),
                Readiness::Absent,
            ),
        ] {
            let mut probed = Probed::new();
            probed.note(&Outcome::Ready, FEW_SUCCESSES);
            assert!(!probed.note(&outcome, FAILURES), "{outcome:?}");
            assert_eq!(probed.fitness.readiness(), readiness);
        }
    }

    #[test]
    fn who_relapses_waits_longer_each_time() {
        let mut probed = Probed::new();
        probed.note(&Outcome::Ready, FEW_SUCCESSES);
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

    #[test]
    fn while_none_is_ready_it_is_soon() {
        for (urgency, needed) in [
            (Urgency::HasAddress, 1),
            (Urgency::NoneReady, FEW_SUCCESSES),
            (Urgency::None, SUCCESSES),
        ] {
            let mut probed = Probed::new();
            probed.note(&Outcome::Ready, FEW_SUCCESSES);
            probed.now += RELAPSE;
            assert!(!probed.note(&Outcome::Hung, FAILURES));
            probed.urgency = urgency;
            assert!(!probed.note(&Outcome::Ready, needed - 1), "{urgency:?}");
            assert!(probed.note(&Outcome::Ready, 1), "{urgency:?}");
        }
    }
}
