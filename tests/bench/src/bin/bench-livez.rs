//! `make bench-livez`.

fn main() -> std::process::ExitCode {
    mooring_bench::bench_livez::main()
}
