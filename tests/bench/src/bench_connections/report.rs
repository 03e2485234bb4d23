//! What was measured, as tables.

use std::fmt;

use mooring_test_support::figures::figure;

use super::{Flows, Load};
use crate::bench::{Outcome, verdict, write_head, write_row};
use mooring_test_netlab::failover::{EvenedOut, Seen, millis};

/// All of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of single connections.
    pub loads: Vec<Load>,
    /// Of many, while their address moved and daemons were restarted.
    pub seen: Seen,
    /// Of as many, while half of their addresses or more went to other nodes.
    pub evened_out: EvenedOut,
    /// Of conntrack and the table.
    pub flows: Flows,
}

impl Outcome for Report {
    fn print_figures(&self) {
        figure(
            "Connections broken by a move, the return, and a rolling update",
            format_args!("{} of {}", self.seen.broken, self.seen.connections),
        );
        let EvenedOut {
            connections,
            broken,
            moved,
        } = self.evened_out;
        figure(
            &format!("Connections broken by evening out, which moved {moved} addresses"),
            format_args!("{broken} of {connections}"),
        );
    }

    fn is_as_wanted(&self) -> bool {
        self.seen.broken == 0 && self.seen.two.is_zero() && self.evened_out.broken == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = [
            "",
            "the connection",
            "Gbit/s each way",
            "processor s/Gbit",
            "p50 µs",
            "p99 µs",
        ];
        write_head(f, &columns)?;
        for load in &self.loads {
            let cells = [
                format!("{:.2}", load.gigabits),
                format!("{:.2}", load.processor),
                load.p50.as_micros().to_string(),
                load.p99.as_micros().to_string(),
            ];
            let [gigabits, processor, p50, p99] = cells.each_ref().map(String::as_str);
            write_row(f, &[load.family, load.way, gigabits, processor, p50, p99])?;
        }
        writeln!(
            f,
            "\n{} connections at 20 messages a second, to another node and back, and a rolling update: {} broken; and {} while \
             {} addresses are evened out: {} broken: {}\n{}",
            self.seen.connections,
            self.seen.broken,
            self.evened_out.connections,
            self.evened_out.moved,
            self.evened_out.broken,
            verdict(self.is_as_wanted()),
            self.seen,
        )?;
        writeln!(
            f,
            "\n{} connections of conntrack: read in {} ms, written into the table in {} ms, about {} MiB of the kernel's memory",
            self.flows.count,
            millis(self.flows.read),
            millis(self.flows.written),
            self.flows.memory / 1024,
        )
    }
}
