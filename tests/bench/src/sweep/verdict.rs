//! How a case ended.

use std::fmt;
use std::time::Duration;

use super::case::Case;
use super::case_cluster::CaseCluster;
use super::swept_cloud::{Operation, SweptCloud};

/// How a case ended.
#[derive(Clone, Debug)]
pub struct Verdict<O> {
    /// Which case.
    pub case: Case<O>,
    /// Whether there was the call at which something was to go wrong. Reads that are made side by
    /// side may be one more or less.
    pub has_struck: bool,
    /// How long it took.
    pub took: Duration,
    /// What is not as it should be.
    pub failure: Option<Failure>,
}

/// What is not as it should be.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What it is.
    pub what: String,
    /// The calls and central's log.
    pub traces: String,
}

impl Failure {
    pub(super) fn on<C: SweptCloud>(case: &CaseCluster<C>, error: &anyhow::Error) -> Self {
        Self {
            what: format!("{error:#}"),
            traces: case.traces(),
        }
    }

    pub(super) fn without_stage(error: &anyhow::Error) -> Self {
        Self {
            what: format!("{error:#}"),
            traces: String::new(),
        }
    }
}

impl<O: Operation> fmt::Display for Verdict<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (case, seconds) = (&self.case, self.took.as_secs_f64());
        let missed = if self.has_struck {
            ""
        } else {
            ", no such call"
        };
        match &self.failure {
            None => write!(f, "{case} ok ({seconds:.1} s{missed})"),
            Some(Failure { what, traces }) => write!(
                f,
                "{case} FAILED ({seconds:.1} s{missed}): {what}\n--- {case}, {traces}\n--- replay \
                 it with CASE={case}"
            ),
        }
    }
}
