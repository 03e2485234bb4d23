//! A small virtual machine, in software emulation, whose kernel has what the machine's own may lack:
//! VLANs, network emulation, bridges that filter by VLAN.
//!
//! Its file system is the machine's own, read-only, so that test programs run in it as they are; what
//! they write goes into its memory. A test runs itself there, like a test in a netlab:
//!
//! ```no_run
//! #[test]
//! fn a_vlan_carries_frames() {
//!     mooring_test_netlab::vm::in_vm(async || { /* as root of the VM, with its modules loaded */ });
//! }
//! ```
//!
//! It takes about ten seconds to start, so it is kept for the tests that follow, each of which has a
//! network, mounts and processes of its own in it. What runs in it is ten to thirty times slower than
//! outside: one test does well to show several things.

mod image;
mod run;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::netlab;
use mooring_test_support::process::Spec;

pub use run::quote;

/// What is in the VM's shared folder, by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Set inside of the VM.
const MARKER: &str = "MOORING_VM";
/// Where the VM has the folder that it shares with the machine.
const SHARED: &str = "/run/vm";
/// A test says this when it begins.
const BEGAN: &str = "::mooring-vm began";

/// How long a VM may take, its start included, unless a test says otherwise.
const LIMIT: Duration = Duration::from_secs(300);

/// What a VM has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its memory in MiB.
    pub memory: u32,
    /// Modules that are loaded before the test runs.
    pub modules: &'static [&'static str],
    /// Modules that cannot be loaded at all.
    pub without: &'static [&'static str],
    /// Whether a test has the VM's own network, with all settings, and not one beside others.
    pub whole: bool,
    /// Whether it has a network card, by which it reaches its starter's loopback at 10.0.2.2.
    pub reaches_out: bool,
    /// How long its start may take, and each test in it.
    pub limit: Duration,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            memory: 1024,
            modules: &[
                "8021q",
                "dummy",
                "veth",
                "nf_tables",
                "nft_ct",
                "nft_chain_nat",
                "bonding",
            ],
            without: &[],
            whole: false,
            reaches_out: false,
            limit: LIMIT,
        }
    }
}

impl Machine {
    /// One with a network of its own, in which Nodes are that reach an API server outside.
    pub fn of_nodes() -> Self {
        Self {
            modules: &[
                "8021q",
                "veth",
                "bridge",
                "virtio_net",
                "nf_tables",
                "nft_ct",
                "nft_chain_nat",
            ],
            whole: true,
            reaches_out: true,
            ..Self::default()
        }
    }
}

/// Whether this program is in a VM.
pub fn is_vm() -> bool {
    std::env::var_os(MARKER).is_some()
}

/// Runs the body of a test in a VM, as its root, on a tokio runtime.
///
/// Call it as the only statement of a `#[test]` function: outside of a VM it takes one, runs the
/// test program in it for just this test, and passes on its output and its outcome.
pub fn in_vm<F: AsyncFnOnce()>(body: F) {
    in_machine(Machine::default(), body);
}

/// [`in_vm`] of another kind.
pub fn in_machine<F: AsyncFnOnce()>(machine: Machine, body: F) {
    if is_vm() {
        // The test harness has begun a line: `test name ... `.
        println!("\n{BEGAN}");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        return runtime.block_on(body());
    }
    let name = netlab::test_name(std::any::type_name::<F>());
    if let Err(error) = run::run(machine, &name, &Files::new()) {
        panic!("{error:#}");
    }
}

/// Runs a test of this program, whose body is in [`in_machine`], in a VM that finds these files in its
/// shared folder.
///
/// # Errors
/// If the test fails, or did not run.
pub fn run_test_in_machine(machine: Machine, test: &str, files: &Files) -> Result<()> {
    run::run(machine, test, files)
}

/// The arguments of a program as it is to be started in a VM, and the files that they name, for its
/// shared folder: there their names begin with `prefix`.
///
/// # Errors
/// If one of the files cannot be read.
pub fn taken_along(program: &Spec, prefix: &str) -> Result<(Vec<String>, Files)> {
    let mut files = Files::new();
    let mut arguments = Vec::new();
    for argument in &program.args {
        let named = argument
            .split_once('=')
            .map(|(flag, path)| (flag, Path::new(path)));
        let Some((flag, path)) = named.filter(|(_, path)| path.is_file()) else {
            arguments.push(argument.clone());
            continue;
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{prefix}{name}");
        let content = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        arguments.push(format!("{flag}={}", shared(&name).display()));
        files.insert(name, content);
    }
    Ok((arguments, files))
}

/// Where a VM finds a file of its shared folder.
pub fn shared(name: &str) -> PathBuf {
    Path::new(SHARED).join(name)
}
