//! `kubectl-mooring`, the program: kubectl finds it in the path and starts it as `kubectl mooring`.
//!
//! All that it does is in `mooring_central::run::inspect`, since `mooring-central` has the same commands.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    mooring_central::run::inspect::plugin(&program, arguments.collect())
}
