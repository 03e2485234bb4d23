//! What `make demo-baremetal` runs: see [`mooring_tests::demo::baremetal`].

fn main() -> std::process::ExitCode {
    mooring_tests::demo::baremetal::main()
}
