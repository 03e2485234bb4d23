//! `make bench-failover`.

fn main() -> std::process::ExitCode {
    mooring_tests::bench_failover::main()
}
