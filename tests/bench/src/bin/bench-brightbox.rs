//! What `make bench-brightbox` runs: see [`mooring_bench::bench_brightbox`].

fn main() -> std::process::ExitCode {
    mooring_bench::bench_brightbox::main()
}
