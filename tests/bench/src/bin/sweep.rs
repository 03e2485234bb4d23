//! What `make sweep-cloudscale` and `make sweep-linode` run: see [`mooring_bench::sweep`].

fn main() -> std::process::ExitCode {
    mooring_bench::sweep::main()
}
