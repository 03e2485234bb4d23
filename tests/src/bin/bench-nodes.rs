//! What `make bench-nodes` runs: see [`mooring_tests::bench_nodes`].

fn main() -> std::process::ExitCode {
    mooring_tests::bench_nodes::main()
}
