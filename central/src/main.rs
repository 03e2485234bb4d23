//! `mooring-central`, the program.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    mooring_central::run::main(&program, arguments.collect())
}
