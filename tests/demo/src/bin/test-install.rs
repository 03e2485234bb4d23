//! What `make test-install` runs: see [`mooring_demo::installed`].

fn main() -> std::process::ExitCode {
    mooring_demo::installed::main()
}
