//! What `make sweep-cloudscale` runs: see [`mooring_tests::sweep`].

fn main() -> std::process::ExitCode {
    mooring_tests::sweep::main()
}
