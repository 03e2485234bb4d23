//! What `make bench-linode` runs: see [`mooring_bench::bench_linode`].

fn main() -> std::process::ExitCode {
    mooring_bench::bench_linode::main()
}
