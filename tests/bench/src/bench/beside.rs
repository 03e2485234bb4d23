//! What was measured of a cloud, beside what its Go controller takes and what is wanted.

use std::fmt;

use anyhow::Result;

use super::proc::memory_kib;
use super::{Kind, Outcome, verdict, write_head, write_row};
use mooring_test_support::figures::figure;

/// One quantity.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is.
    pub name: String,
    /// What was found.
    pub measured: String,
    /// What the Go controller was measured to take.
    pub upstream: String,
    /// What is wanted.
    pub target: String,
    /// Whether it is as wanted.
    pub met: bool,
    /// What kind of quantity it is.
    pub kind: Kind,
}

/// All quantities of one run, in the order in which they were measured.
#[derive(Clone, Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    /// All rows.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The counts that are not as wanted.
    #[must_use]
    pub fn missed_counts(&self) -> Vec<&Row> {
        let missed = |row: &&Row| row.kind == Kind::Count && !row.met;
        self.rows.iter().filter(missed).collect()
    }

    /// Prints it, for a bench in small, where neither times nor memory say anything.
    ///
    /// # Panics
    /// If a count is missed, or one of these rows was not measured.
    pub fn assert_counts(&self, measured: &[&str]) {
        println!("{self}");
        let missed = self.missed_counts();
        assert!(missed.is_empty(), "{missed:#?}");
        for name in measured {
            let mut rows = self.rows().iter();
            assert!(rows.any(|row| row.name == *name), "{name} is not measured");
        }
    }

    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// A count that must be this.
    pub(crate) fn count(&mut self, name: &str, found: usize, wanted: usize, upstream: &str) {
        self.add(Row {
            name: name.to_owned(),
            measured: found.to_string(),
            upstream: upstream.to_owned(),
            target: wanted.to_string(),
            met: found == wanted,
            kind: Kind::Count,
        });
    }

    /// A count that must not be above this.
    pub(crate) fn at_most(&mut self, name: &str, found: usize, most: usize, upstream: &str) {
        self.add(Row {
            name: name.to_owned(),
            measured: found.to_string(),
            upstream: upstream.to_owned(),
            target: format!("<= {most}"),
            met: found <= most,
            kind: Kind::Count,
        });
    }

    /// A time that should be below this.
    pub(crate) fn seconds(&mut self, name: &str, found: f64, most: f64, upstream: &str) {
        self.add(Row {
            name: name.to_owned(),
            measured: format!("{found:.1} s"),
            upstream: upstream.to_owned(),
            target: format!("< {most} s"),
            met: found < most,
            kind: Kind::Measure,
        });
    }

    /// How much of a program is resident now, which should be below so many MiB.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub(crate) fn memory(&mut self, name: &str, pid: u32, most: f64, upstream: &str) -> Result<()> {
        let resident = memory_kib(pid, "VmRSS")? as f64 / 1024.0;
        self.add(Row {
            name: name.to_owned(),
            measured: format!("{resident:.1} MiB"),
            upstream: upstream.to_owned(),
            target: format!("< {most} MiB"),
            met: resident < most,
            kind: Kind::Measure,
        });
        Ok(())
    }
}

impl Outcome for Report {
    fn print_figures(&self) {
        for row in &self.rows {
            let Row {
                name,
                measured,
                upstream,
                target,
                ..
            } = row;
            figure(
                name,
                format_args!("{measured} (upstream {upstream}; target {target})"),
            );
        }
    }

    fn is_as_wanted(&self) -> bool {
        self.missed_counts().is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_head(f, &["quantity", "measured", "upstream", "target", ""])?;
        for row in &self.rows {
            let Row {
                name,
                measured,
                upstream,
                target,
                ..
            } = row;
            write_row(f, &[name, measured, upstream, target, verdict(row.met)])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_are_missed_are_told() {
        let mut report = Report::default();
        report.count("writes", 40, 40, "40");
        report.at_most("reads", 21, 20, "2479");
        report.seconds("time", 9.0, 5.0, "69 s");
        let missed: Vec<_> = report
            .missed_counts()
            .iter()
            .map(|row| &*row.name)
            .collect();
        assert_eq!(missed, ["reads"]);
        let table = report.to_string();
        assert!(table.contains("| reads | 21 | 2479 | <= 20 | MISSED |"));
        assert!(table.contains("| time | 9.0 s | 69 s | < 5 s | MISSED |"));
    }
}
