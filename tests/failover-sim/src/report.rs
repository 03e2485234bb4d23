//! What `make sim` prints.

use std::fmt;
use std::time::Duration;

use super::clock::SECOND;
use super::faults::FaultKind;
use super::network::each;
use super::schedule::Schedule;
use super::search::Found;
use super::simulation;
use super::tally::{TRANSITIONS, Tally};
use super::trace::{Stamp, Trace};
use super::whole::Off;

/// How all schedules ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was counted.
    pub tally: Tally,
    /// What must never be.
    pub found: Vec<Found>,
    /// What was switched off.
    pub off: Off,
    /// How long it took.
    pub took: Duration,
}

/// With fewer schedules than this, some things may not happen.
const ENOUGH: u64 = 200_000;

impl Report {
    /// Whether nothing was that must never be, and everything has happened that should.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let all = self.tally.schedules < ENOUGH || self.tally.missing().is_empty();
        self.tally.schedules > 0 && self.found.is_empty() && all
    }
}

/// A schedule, for people to read.
#[must_use]
pub fn describe(schedule: &Schedule) -> String {
    let shape = &schedule.shape;
    let mut text = format!(
        "seed {}: {}{} members, {} witnesses, {} nodes that come later; {} keys; {}; {}; {} echoes \
         a heartbeat\n",
        schedule.seed,
        if shape.whole {
            format!(
                "whole daemons, {} of another cluster, {}drift {} ppb; ",
                shape.strangers,
                if shape.drops_addresses {
                    "addresses go with the carrier, "
                } else {
                    ""
                },
                shape.drift_ppb,
            )
        } else {
            String::new()
        },
        shape.members,
        shape.witnesses,
        shape.late,
        shape.keys.len(),
        if shape.gateway {
            "a gateway"
        } else {
            "no gateway"
        },
        match shape.voters {
            Some(voters) => format!("voters {voters:#b}"),
            None => "no voters yet".to_owned(),
        },
        shape.parameters.echoes,
    );
    for (number, nodes) in shape.keys.iter().enumerate() {
        if let Some(nodes) = nodes {
            let nodes: Vec<String> = each(*nodes).map(|node| format!("n{}", node + 1)).collect();
            text += &format!("  k{} only on: {}\n", number + 1, nodes.join(" "));
        }
    }
    for (number, fault) in schedule.faults.iter().enumerate() {
        let steps = fault.steps(shape);
        text += &format!(
            "  {}. {} to {}: {}\n",
            number + 1,
            Stamp(fault.at),
            Stamp(fault.until),
            fault.kind,
        );
        for (at, step) in steps.iter().take(4) {
            text += &format!("       {} {step:?}\n", Stamp(*at));
        }
        if steps.len() > 4 {
            text += &format!("       and {} steps more\n", steps.len() - 4);
        }
    }
    text += &format!(
        "  healed at {}, ends at {}",
        Stamp(schedule.healed_at),
        Stamp(schedule.ends_at)
    );
    text
}

/// What happened in the last seconds before the end of a schedule.
#[must_use]
pub fn last_of(schedule: &Schedule, time: u64) -> String {
    let outcome = simulation::run(schedule, Some(Trace::default()));
    let since = outcome.ended_at.saturating_sub(time);
    let trace = outcome.trace.unwrap_or_default();
    trace.extract(since, outcome.ended_at)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tally = &self.tally;
        let seconds = self.took.as_secs_f64();
        writeln!(
            f,
            "{} schedules in {seconds:.1} s: {:.0} a second; {:.0} s of virtual time, {} events, {} messages",
            tally.schedules,
            tally.schedules as f64 / seconds,
            tally.virtual_time as f64 / SECOND as f64,
            tally.events,
            tally.messages,
        )?;
        writeln!(
            f,
            "{} times somebody began to speak, {} of them without telling everybody; {} bursts besides; {} frames left too late; {} daemons ended in order; at most {} messages of a node in a second; at most {} hops of a client's frame",
            tally.begins,
            tally.quiet,
            tally.bursts,
            tally.late_frames,
            tally.ended_in_order,
            tally.busiest,
            tally.hops,
        )?;
        writeln!(
            f,
            "\n{:<22} {:>9} {:>9} {:>8} {:>8} {:>8}",
            "fault", "times", "silences", "p50 ms", "p95 ms", "max ms"
        )?;
        for kind in FaultKind::ALL {
            let times = tally.faults.get(kind).copied().unwrap_or(0);
            let mut dark = tally.take_overs.get(kind).cloned().unwrap_or_default();
            dark.sort_unstable();
            write!(f, "{kind:<22} {times:>9} {:>9}", dark.len())?;
            match dark.last() {
                Some(_) => {
                    for part in [50, 95, 100] {
                        let place = (dark.len() * part).div_ceil(100).max(1) - 1;
                        write!(f, " {:>8.1}", f64::from(dark[place]) / 1_000.0)?;
                    }
                    writeln!(f)?;
                }
                None => writeln!(f, " {:>8} {:>8} {:>8}", "-", "-", "-")?,
            }
        }
        writeln!(f, "\n{:<22} {:>12}", "transition", "times")?;
        for (name, count) in TRANSITIONS.iter().zip(tally.transitions) {
            writeln!(f, "{name:<22} {count:>12}")?;
        }
        let missing = tally.missing();
        if !missing.is_empty() {
            writeln!(f, "\nnever happened: {}", missing.join(", "))?;
        }
        for found in &self.found {
            let without: Vec<String> = found.without.iter().map(usize::to_string).collect();
            writeln!(
                f,
                "\nVIOLATION {}\n{}\nreplay: make sim SEED={} WITHOUT={}{}\n{}",
                found.violation,
                describe(&found.schedule),
                found.schedule.seed,
                without.join(","),
                self.off,
                last_of(&found.schedule, 2 * SECOND),
            )?;
        }
        if self.is_good() {
            write!(f, "\nall is well")
        } else {
            write!(f, "\nFAILED")
        }
    }
}
