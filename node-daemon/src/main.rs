//! `mooring-node`, the program.

use std::process::ExitCode;

fn main() -> ExitCode {
    mooring_node::run::main(std::env::args().skip(1).collect())
}
