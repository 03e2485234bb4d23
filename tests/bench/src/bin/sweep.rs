//! What `make sweep-cloudscale` runs: see [`mooring_bench::sweep`].

fn main() -> std::process::ExitCode {
    mooring_bench::sweep::main()
}
