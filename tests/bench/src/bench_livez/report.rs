//! What was measured, beside what is wanted.

use std::fmt;
use std::time::Duration;

use super::changes::Changes;
use super::cluster::Memory;
use super::wrk::{Load, Run};
use crate::bench::{Outcome, verdict, write_head, write_row};
use mooring_test_support::figures::figure;

/// One quantity.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is.
    pub quantity: String,
    /// kube-proxy's.
    pub kube_proxy: String,
    /// The daemon's.
    pub mooring: String,
    /// How many times the one the other is, if that says anything.
    pub ratio: String,
    /// What is wanted; empty: nothing is.
    pub target: String,
    /// Whether it is as wanted.
    pub met: bool,
}

/// All quantities of one run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

fn mebibytes(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}

fn words(load: Load) -> String {
    match (load.connections, load.anew) {
        (1, false) => "1 connection, kept".to_owned(),
        (count, false) => format!("{count} connections, kept"),
        (count, true) => format!("{count} at once, one request per connection"),
    }
}

impl Report {
    pub(super) fn add_load(&mut self, load: Load, theirs: &Run, ours: &Run, wanted: Option<f64>) {
        let connections = words(load);
        self.rows.push(Row {
            quantity: format!("requests/s, {connections}"),
            kube_proxy: format!("{:.0}", theirs.rate()),
            mooring: format!("{:.0}", ours.rate()),
            ratio: format!("{:.2}", ours.rate() / theirs.rate()),
            target: String::new(),
            met: true,
        });
        let ratio = ours.per_core_second() / theirs.per_core_second();
        self.rows.push(Row {
            quantity: format!("requests per core-second, {connections}"),
            kube_proxy: format!("{:.0}", theirs.per_core_second()),
            mooring: format!("{:.0}", ours.per_core_second()),
            ratio: format!("{ratio:.2}"),
            target: wanted.map_or(String::new(), |wanted| format!("at least {wanted} times")),
            met: wanted.is_none_or(|wanted| ratio >= wanted),
        });
        let (their_p99, our_p99) = (theirs.median_p99(), ours.median_p99());
        let ratio = our_p99.as_secs_f64() / their_p99.as_secs_f64();
        self.rows.push(Row {
            quantity: format!("p99, {connections}"),
            kube_proxy: millis(their_p99),
            mooring: millis(our_p99),
            ratio: format!("{ratio:.2}"),
            target: wanted.map_or(String::new(), |_| "at most 0.25 times".to_owned()),
            met: wanted.is_none() || ratio <= 0.25,
        });
    }

    /// Takes what a loop that always says the same has done.
    pub(super) fn add_floor(&mut self, load: Load, theirs: &Run, least: &Run) {
        let (their_p99, least) = (theirs.median_p99(), least.median_p99());
        self.rows.push(Row {
            quantity: format!("p99, {}, of a loop that always says the same", words(load)),
            kube_proxy: String::new(),
            mooring: millis(least),
            ratio: format!("{:.2}", least.as_secs_f64() / their_p99.as_secs_f64()),
            target: String::new(),
            met: true,
        });
    }

    /// Takes what was stolen, and all there was, before and after the loads: if it is more than one of
    /// a hundred, the slowest of a hundred answers waited for another machine.
    pub(super) fn add_stolen(&mut self, before: (Duration, Duration), after: (Duration, Duration)) {
        let stolen = after.0.saturating_sub(before.0).as_secs_f64();
        let all = after.1.saturating_sub(before.1).as_secs_f64();
        self.rows.push(Row {
            quantity: "processor time that the hypervisor gave to others meanwhile".to_owned(),
            kube_proxy: String::new(),
            mooring: format!("{:.1} %", stolen / all * 100.0),
            ratio: String::new(),
            target: String::new(),
            met: true,
        });
    }

    pub(super) fn add_paced(&mut self, per_second: u32, p99: Duration) {
        self.rows.push(Row {
            quantity: format!("p99 at {per_second} requests/s"),
            kube_proxy: String::new(),
            mooring: millis(p99),
            ratio: String::new(),
            target: "under 5 ms".to_owned(),
            met: p99 < Duration::from_millis(5),
        });
    }

    pub(super) fn add_changes(&mut self, changes: &Changes) {
        for (name, theirs, ours, most) in [
            ("p50", changes.kube_proxy.0, changes.mooring.0, None),
            (
                "p99",
                changes.kube_proxy.1,
                changes.mooring.1,
                Some(Duration::from_millis(50)),
            ),
        ] {
            self.rows.push(Row {
                quantity: format!("EndpointSlice change to changed answer, {name}"),
                kube_proxy: millis(theirs),
                mooring: millis(ours),
                ratio: format!("{:.2}", ours.as_secs_f64() / theirs.as_secs_f64()),
                target: most.map_or(String::new(), |most| {
                    format!("under {} ms", most.as_millis())
                }),
                met: most.is_none_or(|most| ours < most),
            });
        }
    }

    pub(super) fn add_memory(&mut self, what: &str, memory: Memory, most_kib: Option<u64>) {
        self.rows.push(Row {
            quantity: what.to_owned(),
            kube_proxy: mebibytes(memory.kube_proxy),
            mooring: format!("{} ({} build)", mebibytes(memory.mooring), memory.profile),
            ratio: format!("{:.2}", memory.mooring as f64 / memory.kube_proxy as f64),
            target: most_kib.map_or(String::new(), |most| format!("under {}", mebibytes(most))),
            met: most_kib.is_none_or(|most| memory.mooring < most),
        });
    }

    /// All rows.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Those that are not as wanted.
    #[must_use]
    pub fn missed(&self) -> Vec<&Row> {
        self.rows.iter().filter(|row| !row.met).collect()
    }
}

impl Outcome for Report {
    fn print_figures(&self) {
        for row in &self.rows {
            let theirs = match row.kube_proxy.as_str() {
                "" => String::new(),
                theirs => format!(" (kube-proxy {theirs})"),
            };
            figure(&row.quantity, format!("{}{theirs}", row.mooring));
        }
    }

    fn is_as_wanted(&self) -> bool {
        self.missed().is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = [
            "quantity",
            "kube-proxy",
            "mooring-node",
            "ratio",
            "wanted",
            "",
        ];
        write_head(f, &columns)?;
        for row in &self.rows {
            let Row {
                quantity,
                kube_proxy,
                mooring,
                ratio,
                target,
                met,
            } = row;
            let verdict = match target.as_str() {
                "" => "",
                _ => verdict(*met),
            };
            write_row(f, &[quantity, kube_proxy, mooring, ratio, target, verdict])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(requests: u64, p99: u64) -> Run {
        Run {
            requests,
            took: Duration::from_secs(1),
            processor: Duration::from_millis(500),
            p99: vec![Duration::from_millis(p99)],
        }
    }

    #[test]
    fn what_is_not_as_wanted_is_missed() {
        let mut report = Report::default();
        report.add_load(Load::kept(16), &run(100, 8), &run(299, 2), Some(3.0));
        report.add_load(Load::kept(64), &run(100, 8), &run(300, 3), Some(3.0));
        report.add_load(Load::kept(1), &run(100, 1), &run(100, 1), None);
        report.add_paced(10_000, Duration::from_millis(5));
        let missed: Vec<_> = report
            .missed()
            .iter()
            .map(|row| row.quantity.clone())
            .collect();
        assert_eq!(
            missed,
            [
                "requests per core-second, 16 connections, kept",
                "p99, 64 connections, kept",
                "p99 at 10000 requests/s",
            ]
        );
        let line = "| requests per core-second, 64 connections, kept | 200 | 600 | 3.00 | \
                    at least 3 times | ok |";
        assert!(report.to_string().contains(line), "{report}");
    }
}
