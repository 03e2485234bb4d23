//! The demo of PhoenixNAP, from the Service to the last call: an address from a block that is bought,
//! on a VLAN that comes and is spoken on.
//!
//! ```text
//!   outside: kube-apiserver, mooring-central, PhoenixNAP (simulated), the scenario
//!      │ the VM's network card: API, and what the scenario wants done in there
//!   the VM: servers with mooring-node ── the cloud's switch ── its router ── a client
//! ```
//!
//! The VM has the VLANs that the machine's own kernel may lack, at the price of software emulation:
//! times in it are told, and nothing follows from them.

mod costs;
mod fail_over;
mod hands;
mod network;
mod scenario;
mod service;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use super::console::Console;
use super::run_demo;
use mooring_test_netlab::vm::{self, Machine};
use mooring_test_support::program::Program;

/// What `make demo-baremetal` runs.
pub fn main() -> ExitCode {
    if vm::is_vm() {
        obey();
        return ExitCode::SUCCESS;
    }
    run_demo("demo-baremetal", async |console, _keep| {
        // In emulation each instruction counts.
        let (build, daemon) = Program::Node.release_or_own()?;
        console.event(&format!("mooring-node is a {build} build"));
        scenario::tell(console, "the-servers", &network::SERVERS, &daemon).await
    })
}

/// The scenario with one server, and so without a fail-over, told by a test of this name. The test runs
/// in a netlab of its own, and calls [`obey`] where it finds itself in a VM.
///
/// # Errors
/// With the first step that does not happen.
pub async fn prove(test: &str) -> Result<()> {
    let daemon = Program::Node.path()?;
    scenario::tell(&Console::new(), test, &network::SERVERS[..1], &daemon).await
}

/// What is to be done in the VM: whatever the scenario says.
pub fn obey() {
    vm::in_machine(machine(), hands::obey);
}

fn machine() -> Machine {
    Machine {
        // As long as the scenario outside, whose steps have limits of their own.
        limit: Duration::from_secs(900),
        ..Machine::of_nodes()
    }
}
