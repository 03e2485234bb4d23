//! What `make demo-control-plane` runs: see [`mooring_demo::control_plane`].

fn main() -> std::process::ExitCode {
    mooring_demo::control_plane::main()
}
