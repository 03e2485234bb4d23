//! What `make bench-phoenixnap` runs: see [`mooring_tests::bench_phoenixnap`].

fn main() -> std::process::ExitCode {
    mooring_tests::bench_phoenixnap::main()
}
