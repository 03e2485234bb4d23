//! `make bench-livez`.

fn main() -> std::process::ExitCode {
    mooring_tests::bench_livez::main()
}
