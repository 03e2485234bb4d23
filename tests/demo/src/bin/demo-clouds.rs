//! What `make demo-clouds` runs: see [`mooring_demo::clouds`].

fn main() -> std::process::ExitCode {
    mooring_demo::clouds::main()
}
