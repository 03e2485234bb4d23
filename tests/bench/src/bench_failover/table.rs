//! What was measured, beside what is wanted.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::at_rest::AtRest;
use super::large::Large;
use super::rows::{PLUGGED, ROWS, Row};
use crate::bench::{Outcome, verdict};
use mooring_test_netlab::failover::{Seen, millis};
use mooring_test_support::figures::figure;

/// Of all repetitions of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Half of them are not above.
    pub p50: u64,
    /// 95 % of them are not above.
    pub p95: u64,
    /// None is above.
    pub max: u64,
}

impl Quantiles {
    /// Of times, in milliseconds. Each is one that was measured: the smallest that enough of them are
    /// not above.
    pub fn of(times: impl IntoIterator<Item = Duration>) -> Self {
        let mut all: Vec<u64> = times.into_iter().map(millis).collect();
        all.sort_unstable();
        let at = |percent: usize| {
            let rank = (all.len() * percent).div_ceil(100).max(1);
            all.get(rank - 1).copied().unwrap_or_default()
        };
        Self {
            p50: at(50),
            p95: at(95),
            max: at(100),
        }
    }
}

impl fmt::Display for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {} / {}", self.p50, self.p95, self.max)
    }
}

/// All that was measured.
#[derive(Debug, Default)]
pub struct Table {
    measured: Vec<(&'static str, Seen)>,
    /// What it costs while nothing fails.
    pub at_rest: Option<AtRest>,
    /// The same on many nodes.
    pub large: Option<Large>,
}

impl Table {
    pub(super) fn add(&mut self, row: &'static Row, seen: Seen) {
        self.measured.push((row.name, seen));
    }

    pub(super) fn add_heal(&mut self, seen: Seen) {
        if seen.counts() || !seen.two.is_zero() {
            self.measured.push((PLUGGED.name, seen));
        }
    }

    /// The repetitions of a row.
    pub fn of(&self, row: &Row) -> Vec<&Seen> {
        let own = self.measured.iter().filter(|(name, _)| *name == row.name);
        own.map(|(_, seen)| seen).collect()
    }

    /// The rows that were measured.
    pub fn rows(&self) -> Vec<&'static Row> {
        static ALSO: &Row = &PLUGGED;
        let mut rows = Vec::new();
        for row in ROWS {
            rows.push(row);
            if row.leaves_damage {
                rows.push(ALSO);
            }
        }
        rows.retain(|row| !self.of(row).is_empty());
        rows
    }

    /// One line about a row.
    pub fn summary(&self, row: &Row) -> String {
        let all = self.of(row);
        let quantiles = |of: &dyn Fn(&Seen) -> Duration| Quantiles::of(all.iter().map(|s| of(s)));
        let (outage, dark) = (quantiles(&|seen| seen.outage), quantiles(&|seen| seen.dark));
        format!(
            "{} repetitions, outage {outage} ms, dark {dark} ms, two {} ms, {} of {} connections broken",
            all.len(),
            all.iter().map(|seen| millis(seen.two)).max().unwrap_or(0),
            all.iter().map(|seen| seen.broken).sum::<usize>(),
            all.iter().map(|seen| seen.connections).sum::<usize>(),
        )
    }

    /// What is not as wanted, in words.
    pub fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for row in self.rows() {
            missed.extend(self.faults_of(row).into_iter().map(|fault| {
                let name = row.name;
                format!("{name}: {fault}")
            }));
        }
        missed.extend(self.at_rest.iter().flat_map(AtRest::missed));
        missed.extend(self.large.iter().flat_map(Large::missed));
        missed
    }

    fn faults_of(&self, row: &Row) -> Vec<String> {
        let (all, mut faults) = (self.of(row), Vec::new());
        for bound in row.bounds {
            let found = Quantiles::of(all.iter().map(|seen| bound.metric.of(seen)));
            if found.p50 > bound.p50 || found.max > bound.max {
                faults.push(format!(
                    "{} p50 {} max {} ms, wanted {} / {}",
                    bound.metric.name(),
                    found.p50,
                    found.max,
                    bound.p50,
                    bound.max
                ));
            }
        }
        let two = all.iter().map(|seen| millis(seen.two)).max().unwrap_or(0);
        let late: usize = all.iter().map(|seen| seen.late).sum();
        if two > 0 || late > 0 {
            faults.push(format!("two speakers for {two} ms, {late} late answers"));
        }
        let broken: usize = all.iter().map(|seen| seen.broken).sum();
        if row.keeps_connections && broken > 0 {
            faults.push(format!("{broken} connections broken"));
        }
        faults
    }

    /// Every repetition, a line each.
    pub fn to_csv(&self) -> String {
        let mut csv = "fault,outage_ms,dark_ms,two_ms,late_answers,connections_broken,connections,moves,rig_late_ms\n".to_owned();
        for (name, seen) in &self.measured {
            // Writing to a string does not fail.
            let _ = writeln!(
                csv,
                "\"{name}\",{},{},{},{},{},{},{},{}",
                millis(seen.outage),
                millis(seen.dark),
                millis(seen.two),
                seen.late,
                seen.broken,
                seen.connections,
                seen.moves,
                millis(seen.stall)
            );
        }
        csv
    }

    /// Takes over the rows that were not measured this time from what [`Self::to_csv`] gave another time.
    ///
    /// # Errors
    /// If a line is none of that.
    pub fn keep_others(&mut self, csv: &str) -> Result<()> {
        let anew: BTreeSet<&str> = self.rows().iter().map(|row| row.name).collect();
        for line in csv.lines().skip(1) {
            let (name, seen) = read(line).with_context(|| format!("{line:?} is no repetition"))?;
            if !anew.contains(name) {
                self.measured.push((name, seen));
            }
        }
        Ok(())
    }
}

impl Outcome for Table {
    fn print_figures(&self) {
        for row in self.rows() {
            figure(row.name, self.summary(row));
        }
        if let Some(rest) = &self.at_rest {
            figure("at rest", rest);
        }
        if let Some(large) = &self.large {
            figure("many nodes", large);
        }
    }

    fn is_as_wanted(&self) -> bool {
        self.missed().is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "p50 / p95 / max in ms; others: p50 / max in ms, of what is measured first here\n"
        )?;
        writeln!(
            f,
            "| fault | n | outage | dark | two | broken | wanted | | MetalLB | kube-vip 15/10/2 | kube-vip 5/3/1 |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|---|---|")?;
        for row in self.rows() {
            let all = self.of(row);
            let wanted: Vec<String> = row
                .bounds
                .iter()
                .map(|bound| format!("{} {} / {}", bound.metric.name(), bound.p50, bound.max))
                .collect();
            let verdict = verdict(self.faults_of(row).is_empty());
            let broken: usize = all.iter().map(|seen| seen.broken).sum();
            let connections: usize = all.iter().map(|seen| seen.connections).sum();
            write!(
                f,
                "| {} | {} | {} | {} | {} | {broken} of {connections} | {} | {verdict} |",
                row.name,
                all.len(),
                Quantiles::of(all.iter().map(|seen| seen.outage)),
                Quantiles::of(all.iter().map(|seen| seen.dark)),
                all.iter().map(|seen| millis(seen.two)).max().unwrap_or(0),
                wanted.join(", "),
            )?;
            for name in ["MetalLB", "kube-vip 15/10/2", "kube-vip 5/3/1"] {
                let peer = row.peers.iter().find(|peer| peer.name == name);
                let text = peer.map_or_else(String::new, |peer| {
                    let max = peer.max.map_or_else(String::new, |max| format!(" / {max}"));
                    let two = if peer.two.is_empty() {
                        String::new()
                    } else {
                        format!("; two {}", peer.two)
                    };
                    format!("{}{max}{two}", peer.p50)
                });
                write!(f, " {text} |")?;
            }
            writeln!(f)?;
        }
        if let Some(rest) = &self.at_rest {
            writeln!(f, "\nAt rest: {rest}")?;
        }
        if let Some(large) = &self.large {
            writeln!(f, "\nMany nodes: {large}")?;
        }
        for missed in self.missed() {
            writeln!(f, "MISSED {missed}")?;
        }
        Ok(())
    }
}

/// A line of [`Table::to_csv`]; `None`: it is none, or of a row that there is no more.
fn read(line: &str) -> Option<(&'static str, Seen)> {
    let (name, numbers) = line.strip_prefix('"')?.split_once("\",")?;
    let name = ROWS
        .iter()
        .chain([&PLUGGED])
        .find(|row| row.name == name)?
        .name;
    let numbers: Vec<u64> = numbers
        .split(',')
        .map(|number| number.parse().ok())
        .collect::<Option<_>>()?;
    let [outage, dark, two, late, broken, connections, moves, stall] = numbers[..] else {
        return None;
    };
    let count = |number| usize::try_from(number).ok();
    let seen = Seen {
        outage: Duration::from_millis(outage),
        dark: Duration::from_millis(dark),
        two: Duration::from_millis(two),
        late: count(late)?,
        broken: count(broken)?,
        connections: count(connections)?,
        moves: count(moves)?,
        stall: Duration::from_millis(stall),
        ..Seen::default()
    };
    Some((name, seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(all: &[u64]) -> Vec<Duration> {
        all.iter().map(|ms| Duration::from_millis(*ms)).collect()
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let all: Vec<u64> = (1..=30).rev().map(|n| n * 10).collect();
        let expected = Quantiles {
            p50: 150,
            p95: 290,
            max: 300,
        };
        assert_eq!(Quantiles::of(ms(&all)), expected);
        let one = Quantiles::of(ms(&[7]));
        assert_eq!((one.p50, one.p95, one.max), (7, 7, 7));
        assert_eq!(Quantiles::of(ms(&[])), Quantiles::default());
    }

    fn table(seen: Seen) -> Table {
        let mut table = Table::default();
        table.add(&ROWS[0], seen);
        table
    }

    #[test]
    fn a_row_is_missed_for_each_of_its_reasons() {
        let good = Seen {
            outage: Duration::from_millis(400),
            broken: 4,
            connections: 4,
            ..Seen::default()
        };
        assert_eq!(table(good.clone()).missed(), Vec::<String>::new());
        let slow = Seen {
            outage: Duration::from_millis(1001),
            ..good.clone()
        };
        let two = Seen {
            two: Duration::from_millis(20),
            ..good
        };
        for (seen, words) in [(slow, "outage p50 1001"), (two, "two speakers for 20 ms")] {
            let table = table(seen);
            let [missed] = &table.missed()[..] else {
                panic!("{:?}", table.missed());
            };
            assert!(missed.contains(words), "{missed}");
            assert!(table.to_string().contains("MISSED"));
        }
    }

    #[test]
    fn every_repetition_is_a_line() {
        let csv = table(Seen::default()).to_csv();
        assert_eq!(csv.lines().nth(1), Some("\"node crash\",0,0,0,0,0,0,0,0"));
        assert_eq!(csv.lines().count(), 2);
    }

    #[test]
    fn rows_that_were_not_measured_anew_stay() {
        let slow = Seen {
            outage: Duration::from_millis(300),
            ..Seen::default()
        };
        let before = |row: &'static Row| {
            let mut table = Table::default();
            table.add(row, slow.clone());
            table.to_csv()
        };
        let mut now = table(Seen::default());
        now.keep_others(&before(&ROWS[2])).unwrap();
        now.keep_others(&before(&ROWS[0])).unwrap();
        let lines: Vec<String> = now.to_csv().lines().map(str::to_owned).collect();
        assert_eq!(
            lines[1..],
            [
                "\"node crash\",0,0,0,0,0,0,0,0",
                "\"daemon killed -9, stays dead\",300,0,0,0,0,0,0,0"
            ]
        );
        let fault = now.keep_others("head\n\"node crash\",1,2\n").unwrap_err();
        assert!(fault.to_string().contains("node crash"), "{fault}");
    }
}
