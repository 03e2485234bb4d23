//! `make bench-connections`.

fn main() -> std::process::ExitCode {
    mooring_bench::bench_connections::main()
}
