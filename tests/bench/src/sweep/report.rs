//! How all cases ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::disturbance::Disturbance;
use super::swept_cloud::Operation;
use super::verdict::Verdict;

/// How all cases ended.
#[derive(Clone, Debug)]
pub struct Report<O> {
    disturbances: &'static [Disturbance],
    verdicts: Vec<Verdict<O>>,
}

/// How those of one operation and one disturbance ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    cases: usize,
    ok: usize,
    struck: usize,
}

impl<O: Operation> Report<O> {
    /// Of none yet, among whom these go wrong.
    pub(super) const fn new(disturbances: &'static [Disturbance]) -> Self {
        Self {
            disturbances,
            verdicts: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, verdict: Verdict<O>) {
        self.verdicts.push(verdict);
    }

    /// How many cases were done.
    #[must_use]
    pub fn len(&self) -> usize {
        self.verdicts.len()
    }

    /// Whether none was done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.verdicts.is_empty()
    }

    /// Those that failed.
    #[must_use]
    pub fn failures(&self) -> Vec<&Verdict<O>> {
        let failed = |verdict: &&Verdict<O>| verdict.failure.is_some();
        self.verdicts.iter().filter(failed).collect()
    }

    /// Whether something was done, and all of it ended well.
    #[must_use]
    pub fn is_good(&self) -> bool {
        !self.is_empty() && self.failures().is_empty()
    }

    /// What was to go wrong, and did in no case.
    #[must_use]
    pub fn never_struck(&self) -> Vec<Disturbance> {
        let struck = self.disturbances();
        let all = self.disturbances.iter().copied();
        all.filter(|wanted| !struck.contains(wanted)).collect()
    }

    /// What went wrong in any case.
    fn disturbances(&self) -> BTreeSet<Disturbance> {
        let struck = self.verdicts.iter().filter(|verdict| verdict.has_struck);
        struck.map(|verdict| verdict.case.disturbance).collect()
    }

    /// What was done in any case.
    #[must_use]
    pub fn operations(&self) -> BTreeSet<O> {
        let all = self.verdicts.iter();
        all.map(|verdict| verdict.case.operation).collect()
    }

    fn counts(&self) -> BTreeMap<(Disturbance, O), Count> {
        let mut counts: BTreeMap<_, Count> = BTreeMap::new();
        for verdict in &self.verdicts {
            let case = verdict.case;
            let count = counts.entry((case.disturbance, case.operation));
            let count = count.or_default();
            count.cases += 1;
            count.ok += usize::from(verdict.failure.is_none());
            count.struck += usize::from(verdict.has_struck);
        }
        counts
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cases, ok, struck } = *self;
        if cases == 0 {
            return f.write_str("-");
        }
        write!(f, "{ok}/{cases}")?;
        if struck < cases {
            write!(f, " ({} no such call)", cases - struck)?;
        }
        Ok(())
    }
}

impl<O: Operation> fmt::Display for Report<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts();
        write!(f, "| ok/cases |")?;
        for operation in O::ALL {
            write!(f, " {} |", operation.name())?;
        }
        writeln!(f, "\n|---|{}", "---|".repeat(O::ALL.len()))?;
        for &disturbance in self.disturbances {
            write!(f, "| {disturbance} |")?;
            for &operation in O::ALL {
                let count = counts.get(&(disturbance, operation));
                write!(f, " {} |", count.copied().unwrap_or_default())?;
            }
            writeln!(f)?;
        }
        let failures = self.failures();
        writeln!(f, "\n{} cases, {} failed", self.len(), failures.len())?;
        for verdict in failures {
            let what = verdict.failure.as_ref().map(|failure| &*failure.what);
            writeln!(f, "  {}: {}", verdict.case, what.unwrap_or_default())?;
        }
        Ok(())
    }
}
