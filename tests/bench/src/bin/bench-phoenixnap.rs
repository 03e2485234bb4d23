//! What `make bench-phoenixnap` runs: see [`mooring_bench::bench_phoenixnap`].

fn main() -> std::process::ExitCode {
    mooring_bench::bench_phoenixnap::main()
}
