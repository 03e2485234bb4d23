//! What `make bench-nodes` runs: see [`mooring_bench::bench_nodes`].

fn main() -> std::process::ExitCode {
    mooring_bench::bench_nodes::main()
}
