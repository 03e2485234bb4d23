//! What the audience sees: a line per event with the time since the start, and the table at the
//! end.

use std::io::{IsTerminal as _, stdout};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};

use mooring_test_support::process::{Process, tail};
use mooring_test_support::wait::try_eventually;

/// How many lines of each log are shown when a step fails.
const LOG_LINES: usize = 25;

/// How much longer than its limit a step as a whole may take.
const GRACE: Duration = Duration::from_secs(1);

/// Where the scenario is told.
#[derive(Debug)]
pub(super) struct Console {
    start: Instant,
    coloured: bool,
    table: Mutex<Vec<Row>>,
    logs: Mutex<Vec<(String, PathBuf)>>,
}

#[derive(Debug)]
struct Row {
    step: String,
    took: Duration,
    seen: String,
}

/// Colours, where the terminal has them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ink {
    Faint,
    Bold,
    Good,
    Bad,
    Address,
}

impl Ink {
    const fn code(self) -> &'static str {
        match self {
            Self::Faint => "2",
            Self::Bold => "1",
            Self::Good => "32",
            Self::Bad => "1;31",
            Self::Address => "36",
        }
    }
}

/// What a step was to be, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// As a statement.
    pub(super) name: &'static str,
    pub(super) limit: Duration,
    /// Whose logs to show if it does not happen: beginnings of names.
    pub(super) concerns: &'static [&'static str],
}

impl Step {
    pub(super) const fn new(
        name: &'static str,
        limit_seconds: u64,
        concerns: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            limit: Duration::from_secs(limit_seconds),
            concerns,
        }
    }
}

impl Step {
    /// Waits for something within the limit.
    pub(super) async fn until<T>(self, look: impl AsyncFnMut() -> Result<T>) -> Result<T> {
        let found = try_eventually(self.limit, look).await;
        found.map_err(|reason| anyhow!("not so after {}: {reason}", short(self.limit)))
    }
}

impl Console {
    pub(super) fn new() -> Self {
        let coloured = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self {
            start: Instant::now(),
            coloured,
            table: Mutex::default(),
            logs: Mutex::default(),
        }
    }

    pub(super) fn paint(&self, ink: Ink, text: &str) -> String {
        if self.coloured {
            format!("\x1b[{}m{text}\x1b[0m", ink.code())
        } else {
            text.to_owned()
        }
    }

    /// One event, as it happens.
    pub(super) fn event(&self, text: &str) {
        self.line(&self.paint(Ink::Faint, "·"), text);
    }

    /// The name of what begins.
    pub(super) fn chapter(&self, title: &str) {
        println!("\n{}", self.paint(Ink::Bold, title));
    }

    fn line(&self, sign: &str, text: &str) {
        let time = format!("{:6.1} s", self.start.elapsed().as_secs_f64());
        println!("{} {sign} {text}", self.paint(Ink::Faint, &time));
    }

    /// Does one step within its limit. The work gives what it made and what there is to see.
    pub(super) async fn run<T>(
        &self,
        step: Step,
        work: impl Future<Output = Result<(T, String)>>,
    ) -> Result<T> {
        let outcome = self.attempt(step, work).await;
        outcome.with_context(|| format!("this step did not happen: {}", step.name))
    }

    /// [`Self::run`] for who says by himself what it means that a step did not happen.
    pub(super) async fn attempt<T>(
        &self,
        step: Step,
        work: impl Future<Output = Result<(T, String)>>,
    ) -> Result<T> {
        let start = Instant::now();
        // Whatever waits in there gives up first, and knows why.
        let outcome = tokio::time::timeout(step.limit + GRACE, work).await;
        let outcome = outcome
            .map_err(|_| anyhow!("not so after {}", short(step.limit)))
            .flatten();
        match outcome {
            Ok((made, seen)) => {
                self.done(step.name, start.elapsed(), &seen);
                Ok(made)
            }
            Err(error) => {
                self.show_logs(step.concerns);
                Err(error)
            }
        }
    }

    /// Remembers where a program logs, for failures.
    pub(super) fn heed(&self, process: &Process) {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        logs.push((process.name().to_owned(), process.log_path().to_owned()));
    }

    fn show_logs(&self, concerns: &[&str]) {
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, path) in logs.iter() {
            if concerns.iter().any(|concern| name.starts_with(concern)) {
                let text = std::fs::read_to_string(path).unwrap_or_default();
                let title = format!("--- {name}, end of its log:");
                println!(
                    "{}\n{}",
                    self.paint(Ink::Bad, &title),
                    tail(&text, LOG_LINES)
                );
            }
        }
    }

    /// Tells of something that was done, and keeps it for the table.
    pub(super) fn done(&self, step: &str, took: Duration, seen: &str) {
        self.line(
            &self.paint(Ink::Good, "✔"),
            &format!("{step} ({}): {seen}", short(took)),
        );
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.push(Row {
            step: step.to_owned(),
            took,
            seen: seen.to_owned(),
        });
    }

    /// What happened, in short.
    pub(super) fn print_table(&self) {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let width = table.iter().map(|row| row.step.len()).max().unwrap_or(0);
        let head = format!("{:<width$}  {:>8}  {}", "step", "time", "seen");
        println!("\n{}", self.paint(Ink::Bold, &head));
        for Row { step, took, seen } in table.iter() {
            println!("{step:<width$}  {:>8}  {seen}", short(*took));
        }
        let whole = short(self.start.elapsed());
        println!("{:<width$}  {whole:>8}", "all of it");
    }

    /// A line for failures.
    pub(super) fn failed(&self, error: &anyhow::Error) {
        println!("\n{} {error:#}", self.paint(Ink::Bad, "FAILED:"));
    }
}

/// A duration for people: `0.31 s`, `6.4 s`, `25 s`.
pub(super) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        ..0.01 => "<0.01 s".to_owned(),
        ..1.0 => format!("{seconds:.2} s"),
        ..20.0 => format!("{seconds:.1} s"),
        _ => format!("{seconds:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_digits_that_matter() {
        let cases = [
            (3, "<0.01 s"),
            (310, "0.31 s"),
            (6_449, "6.4 s"),
            (25_200, "25 s"),
        ];
        for (millis, text) in cases {
            assert_eq!(short(Duration::from_millis(millis)), text);
        }
    }

    #[tokio::test]
    async fn a_step_that_misses_its_limit_is_named() {
        let step = Step {
            name: "the moon rises",
            limit: Duration::from_millis(1),
            concerns: &[],
        };
        let never = std::future::pending::<Result<((), String)>>();
        let error = Console::new().run(step, never).await.unwrap_err();
        assert!(format!("{error:#}").contains("the moon rises"));
    }
}
