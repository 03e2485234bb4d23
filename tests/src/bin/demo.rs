//! What `make demo` runs: see [`mooring_tests::demo`].

fn main() -> std::process::ExitCode {
    mooring_tests::demo::main()
}
