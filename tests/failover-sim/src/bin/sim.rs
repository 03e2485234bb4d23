//! What `make sim` runs: see [`mooring_failover_sim`].

fn main() -> std::process::ExitCode {
    mooring_failover_sim::main()
}
