//! `mooring-central`, the program.

use std::process::ExitCode;

fn main() -> ExitCode {
    mooring_central::run::main(std::env::args().skip(1).collect())
}
