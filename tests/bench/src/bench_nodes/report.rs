//! What was measured, beside what is wanted.

use std::fmt;

use crate::bench::{Kind, Outcome, verdict, write_head, write_row};
use mooring_test_support::figures::figure;

/// One quantity.
#[derive(Clone, Debug)]
pub struct Row {
    /// For example `T5`.
    pub id: &'static str,
    /// What it is.
    pub quantity: String,
    /// What was found.
    pub measured: String,
    /// What is wanted.
    pub target: String,
    /// Whether it is as wanted.
    pub met: bool,
    /// What kind of quantity it is.
    pub kind: Kind,
}

/// All quantities of one run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    /// All rows, in the order of their ids.
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

    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
        let number = |row: &Row| row.id.trim_start_matches('T').parse::<u32>().unwrap_or(0);
        self.rows.sort_by_key(number);
    }
}

impl Outcome for Report {
    fn print_figures(&self) {
        for row in &self.rows {
            figure(&format!("{} {}", row.id, row.quantity), &row.measured);
        }
    }

    fn is_as_wanted(&self) -> bool {
        self.missed_counts().is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_head(f, &["", "quantity", "measured", "target", ""])?;
        for row in &self.rows {
            let Row {
                id,
                quantity,
                measured,
                target,
                ..
            } = row;
            write_row(f, &[id, quantity, measured, target, verdict(row.met)])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counts_that_are_missed_are_missed_counts() {
        let row = |id, met, kind| Row {
            id,
            quantity: "q".into(),
            measured: "m".into(),
            target: "t".into(),
            met,
            kind,
        };
        let mut report = Report::default();
        report.add(row("T10", false, Kind::Count));
        report.add(row("T2", true, Kind::Count));
        report.add(row("T5", false, Kind::Measure));
        let ids: Vec<_> = report.rows().iter().map(|row| row.id).collect();
        assert_eq!(ids, ["T2", "T5", "T10"]);
        assert_eq!(report.missed_counts().len(), 1);
        assert!(report.to_string().contains("| T10 | q | m | t | MISSED |"));
    }
}
