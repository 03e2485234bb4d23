//! A small virtual machine, in software emulation, whose kernel has what the machine's own may lack:
//! VLANs, network emulation, bridges that filter by VLAN.
//!
//! Its file system is the machine's own, read-only, so that test programs run in it as they are; what
//! they write goes into its memory. A test runs itself there, like a test in a world of namespaces:
//!
//! ```no_run
//! #[test]
//! fn a_vlan_carries_frames() {
//!     mooring_tests::vm::in_vm(async || { /* as root of the VM, with its modules loaded */ });
//! }
//! ```
//!
//! It takes about ten seconds to start, and what runs in it is ten to thirty times slower than
//! outside: one test does well to show several things.

mod image;
mod run;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::netlab;

/// Set inside of the VM.
const MARKER: &str = "MOORING_VM";
/// Where the VM has the folder that it shares with the machine.
const SHARED: &str = "/run/vm";
/// The file in it by which the test says that it ran.
const PROOF: &str = "it-ran";

/// How long a VM may take, its start included, unless a test says otherwise.
const LIMIT: Duration = Duration::from_secs(300);

/// What a VM has.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Its memory in MiB.
    pub memory: u32,
    /// Modules that are loaded before the test runs.
    pub modules: &'static [&'static str],
    /// Modules that cannot be loaded at all.
    pub without: &'static [&'static str],
    /// How long it may take, its start included.
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
            ],
            without: &[],
            limit: LIMIT,
        }
    }
}

/// Whether this program is in a VM.
pub fn is_vm() -> bool {
    std::env::var_os(MARKER).is_some()
}

/// Runs the body of a test in a VM, as its root, on a tokio runtime.
///
/// Call it as the only statement of a `#[test]` function: outside of a VM it starts one, runs the
/// test program in it for just this test, and passes on its output and its outcome.
pub fn in_vm<F: AsyncFnOnce()>(body: F) {
    in_machine(Machine::default(), body);
}

/// [`in_vm`] of another kind.
pub fn in_machine<F: AsyncFnOnce()>(machine: Machine, body: F) {
    if is_vm() {
        std::fs::write(Path::new(SHARED).join(PROOF), "").expect("the shared folder is there");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        return runtime.block_on(body());
    }
    let name = netlab::test_name(std::any::type_name::<F>());
    if let Err(error) = run_test(machine, &name) {
        panic!("{error:#}");
    }
}

fn run_test(machine: Machine, test: &str) -> Result<()> {
    let myself = std::env::current_exe().context("finding this program")?;
    let myself = myself.to_str().context("the path of this program")?;
    let arguments = [
        myself,
        test,
        "--exact",
        "--nocapture",
        "--test-threads=1",
        "--include-ignored",
    ];
    let began = |shared: &Path| shared.join(PROOF).exists();
    let ended = run::run(machine, &arguments, began)?;
    if !began(ended.shared.path()) {
        bail!("the test {test} did not run in its VM; see above");
    }
    if ended.code != 0 {
        bail!("the test failed in its VM (code {}); see above", ended.code);
    }
    Ok(())
}
