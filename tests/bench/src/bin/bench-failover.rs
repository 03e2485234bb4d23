//! `make bench-failover`.

fn main() -> std::process::ExitCode {
    mooring_bench::bench_failover::main()
}
