//! What every controller shares: observe, plan, apply.
//!
//! `observe` makes a snapshot of the world; `plan` turns it into a [`Plan`] of [`Step`]s and does
//! nothing else, so that a plan can be printed, counted, rated and tested in a table; `apply` runs
//! the steps and says how it went with an [`Outcome`].

use std::fmt;
use std::time::Duration;

/// How much a step disturbs the traffic of users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Impact {
    /// Nobody notices.
    #[default]
    None,
    /// A few packets or connection attempts may be lost.
    Brief,
    /// Connections break, or new ones fail for seconds.
    Considerable,
    /// The service is gone, or changes its address.
    Major,
}

impl fmt::Display for Impact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Brief => "brief",
            Self::Considerable => "considerable",
            Self::Major => "major",
        })
    }
}

/// One change to the world, as data. Its `Display` tells a person what will be done.
pub trait Step: fmt::Display + fmt::Debug {
    /// What users will notice of it.
    fn impact(&self) -> Impact {
        Impact::None
    }
}

/// The steps that lead from what is to what should be, in the order to take them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<S> {
    steps: Vec<S>,
}

impl<S> Default for Plan<S> {
    fn default() -> Self {
        Self { steps: Vec::new() }
    }
}

impl<S: Step> Plan<S> {
    /// Adds a step after those that are there.
    pub fn push(&mut self, step: S) {
        self.steps.push(step);
    }

    /// Whether all is as it should be.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The steps in order.
    #[must_use]
    pub fn steps(&self) -> &[S] {
        &self.steps
    }

    /// The worst that users will notice of any step.
    #[must_use]
    pub fn impact(&self) -> Impact {
        self.steps
            .iter()
            .map(Step::impact)
            .max()
            .unwrap_or_default()
    }
}

impl<S> FromIterator<S> for Plan<S> {
    fn from_iter<I: IntoIterator<Item = S>>(steps: I) -> Self {
        Self {
            steps: steps.into_iter().collect(),
        }
    }
}

impl<S: Step> fmt::Display for Plan<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            writeln!(f, "{}. {step} (impact: {})", index + 1, step.impact())?;
        }
        Ok(())
    }
}

/// How one pass of a controller over one object ended: it decides when the next one is.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome<E> {
    /// All is as it should be.
    Done,
    /// All went well, and there is more to do after this long; the backoff starts anew.
    RetryAfter(Duration),
    /// All is as it should be for this long; what changes meanwhile need not wait for that.
    DoneFor(Duration),
    /// It failed: again after a delay that grows with each failure in a row.
    Backoff(E),
    /// It failed after having come further than the time before: the delay begins anew.
    BackoffAnew(E),
    /// There is more to do, and others come first: again when nobody waits.
    Yield,
    /// Nothing can be done until the object, or what it depends on, changes.
    WaitForChange(String),
    /// The object is somebody else's.
    NotOurs(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Pull(Impact);

    impl fmt::Display for Pull {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("pull the plug")
        }
    }

    impl Step for Pull {
        fn impact(&self) -> Impact {
            self.0
        }
    }

    #[test]
    fn plan_impact_is_that_of_worst_step() {
        let plan: Plan<Pull> = [Pull(Impact::None), Pull(Impact::Major), Pull(Impact::Brief)]
            .into_iter()
            .collect();
        assert_eq!(plan.impact(), Impact::Major);
        assert_eq!(
            plan.to_string().lines().nth(1),
            Some("2. pull the plug (impact: major)")
        );
        assert_eq!(Plan::<Pull>::default().impact(), Impact::None);
    }
}
