//! What `make demo-baremetal` runs: see [`mooring_demo::baremetal`].

fn main() -> std::process::ExitCode {
    mooring_demo::baremetal::main()
}
