//! What `make bench-cloudscale` runs: see [`mooring_bench::bench_cloudscale`].

fn main() -> std::process::ExitCode {
    mooring_bench::bench_cloudscale::main()
}
