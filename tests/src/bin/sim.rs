//! What `make sim` runs: see [`mooring_tests::sim`].

fn main() -> std::process::ExitCode {
    mooring_tests::sim::main()
}
