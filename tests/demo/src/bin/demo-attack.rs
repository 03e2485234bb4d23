//! What `make demo-attack` runs: see [`mooring_demo::attack`].

fn main() -> std::process::ExitCode {
    mooring_demo::attack::main()
}
