//! What `make demo-move` runs: see [`mooring_demo::moving`].

fn main() -> std::process::ExitCode {
    mooring_demo::moving::main()
}
