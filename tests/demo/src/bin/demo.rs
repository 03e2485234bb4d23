//! What `make demo` runs: see [`mooring_demo`].

fn main() -> std::process::ExitCode {
    mooring_demo::main()
}
