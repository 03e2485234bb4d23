//! What the programs' `main`s have in common: from a command line to an exit code.

use std::fmt::Display;
use std::io::Write as _;
use std::process::{ExitCode, Termination};

use tokio::runtime::Builder;

use crate::flags::{FlagFaults, FlagTable, Parsed, Values};
use crate::telemetry::{self, LogFormat};

/// How many threads the runtime has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One: the smallest, for what runs on every node.
    One,
    /// One for each core.
    PerCore,
}

/// Reads a command line with the table and `read`, starts logging as `logging` says, and runs.
///
/// The exit code is 0 when it ended as asked (SIGTERM, `--help`), or what it ended with, 1 after a failure, which is
/// logged in its long form (`{:#}`: with its causes), and 2 for a command line that cannot be read, whose every
/// fault is told on standard error.
pub fn main<F, R, T, E>(
    table: &FlagTable,
    arguments: Vec<String>,
    read: impl Fn(&Values) -> Result<F, FlagFaults>,
    logging: impl Fn(&F) -> (u8, LogFormat),
    threads: Threads,
    run: impl FnOnce(F) -> R,
) -> ExitCode
where
    R: Future<Output = Result<T, E>>,
    T: Termination,
    E: Display,
{
    let parsed = table.parse(arguments, |name| std::env::var(name).ok());
    let flags = match parsed {
        Ok(Parsed::Print(text)) => return print(&text),
        Ok(Parsed::Run(values)) => read(&values),
        Err(faults) => Err(faults),
    };
    let flags = match flags {
        Ok(flags) => flags,
        Err(faults) => {
            let _ = writeln!(std::io::stderr(), "{faults}");
            return ExitCode::from(2);
        }
    };
    let (verbosity, format) = logging(&flags);
    telemetry::start(verbosity, format);
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        tracing::debug!("a TLS provider was installed before");
    }
    let mut runtime = match threads {
        Threads::One => Builder::new_current_thread(),
        Threads::PerCore => Builder::new_multi_thread(),
    };
    let ended = match runtime.enable_all().build() {
        Ok(runtime) => runtime
            .block_on(run(flags))
            .map_err(|error| format!("{error:#}")),
        Err(error) => Err(format!("cannot start the runtime: {error}")),
    };
    match ended {
        Ok(ended) => ended.report(),
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> ExitCode {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
