//! What all benches share: how they are told their scale, how they see that a program has come to rest,
//! and how they end with a table.

mod beside;
pub(crate) mod cluster;
pub(crate) mod phases;
pub(crate) mod proc;
mod rest;

use std::fmt::{self, Display};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context as _, Result};

use mooring_test_netlab::netlab::{self, TEMPORARY};

pub use beside::{Report, Row};
pub(crate) use rest::{cloud_rests, end, program_rests};

/// What kind of quantity something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A count: the same on every machine.
    Count,
    /// A time, or memory: it depends on the machine and the build.
    Measure,
}

/// What a bench has measured. It is shown as a table.
pub(crate) trait Outcome: Display {
    /// Prints each quantity as a line that begins with `FIGURE`.
    fn print_figures(&self);

    /// Whether all that makes the bench fail is as wanted.
    fn is_as_wanted(&self) -> bool;
}

/// What an environment variable says. `None`: it is not set, or empty.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn variable<T: FromStr>(name: &str) -> Result<Option<T>>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text = std::env::var(name).ok().filter(|text| !text.is_empty());
    let parsed = text.map(|text| {
        text.parse()
            .with_context(|| format!("{name} is {text:?}; write a whole number"))
    });
    parsed.transpose()
}

/// [`variable`], or what counts without it.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn number<T: FromStr>(name: &str, default: T) -> Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    Ok(variable(name)?.unwrap_or(default))
}

/// How `make bench-…` ends: with what was measured, or with why it could not be.
pub(crate) fn conclude(name: &str, ended: Result<impl Outcome>) -> ExitCode {
    match ended {
        Ok(outcome) => {
            outcome.print_figures();
            println!("\n{outcome}");
            ExitCode::from(u8::from(!outcome.is_as_wanted()))
        }
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `make bench-…` of one that runs in a netlab: its whole `main`.
pub(crate) fn in_netlab<T: Outcome>(name: &str, run: impl AsyncFnOnce() -> Result<T>) -> ExitCode {
    let ended = netlab::enter_netlab_with(&[("TMPDIR", TEMPORARY)]).and_then(|()| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        runtime.block_on(run())
    });
    conclude(name, ended)
}

/// Writes the head of a table in Markdown.
pub(crate) fn write_head(f: &mut fmt::Formatter<'_>, columns: &[&str]) -> fmt::Result {
    write_row(f, columns)?;
    writeln!(f, "|{}", "---|".repeat(columns.len()))
}

/// Writes a row of it.
pub(crate) fn write_row(f: &mut fmt::Formatter<'_>, cells: &[&str]) -> fmt::Result {
    write!(f, "|")?;
    for cell in cells {
        match cell {
            &"" => write!(f, " |")?,
            cell => write!(f, " {cell} |")?,
        }
    }
    writeln!(f)
}

/// What the table says of a quantity.
pub(crate) const fn verdict(is_met: bool) -> &'static str {
    if is_met { "ok" } else { "MISSED" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_not_set_leaves_the_default() {
        assert_eq!(number("MOORING_BENCH_NOBODY_SETS_THIS", 7).unwrap(), 7);
    }

    #[test]
    fn a_variable_that_is_no_number_is_named() {
        let error = number("PATH", 7).unwrap_err().to_string();
        assert!(error.starts_with("PATH is "), "{error}");
    }
}
