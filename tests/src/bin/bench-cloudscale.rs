//! What `make bench-cloudscale` runs: see [`mooring_tests::bench_cloudscale`].

fn main() -> std::process::ExitCode {
    mooring_tests::bench_cloudscale::main()
}
