//! What `make demo-attack` runs: see [`mooring_tests::demo::attack`].

fn main() -> std::process::ExitCode {
    mooring_tests::demo::attack::main()
}
