//! The demo of PhoenixNAP, from the Service to the last call: an address from a block that is bought,
//! on a VLAN that comes and is spoken on.
//!
//! ```text
//!   outside: kube-apiserver, mooring-central, PhoenixNAP (simulated), the story
//!      │ the VM's network card: API, and what the story wants done in there
//!   the VM: servers with mooring-node ── the cloud's switch ── its router ── a client
//! ```
//!
//! The VM has the VLANs that the machine's own kernel may lack, at the price of software emulation:
//! times in it are told, and nothing follows from them.

mod costs;
mod fail_over;
mod hands;
mod network;
mod service;
mod story;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use super::perform;
use super::stage::Stage;
use crate::program::Program;
use crate::vm::{self, Machine};

/// What `make demo-baremetal` runs.
pub fn main() -> ExitCode {
    if vm::is_vm() {
        obey();
        return ExitCode::SUCCESS;
    }
    perform("demo-baremetal", async |stage, _keep| {
        // In emulation each instruction counts.
        let (build, daemon) = Program::Node.release_or_own()?;
        stage.event(&format!("mooring-node is a {build} build"));
        story::tell(stage, "the-servers", &network::SERVERS, &daemon).await
    })
}

/// The story with one server, and so without a fail-over, told by a test of this name. The test runs
/// in a world of its own, and calls [`obey`] where it finds itself in a VM.
///
/// # Errors
/// With the first step that does not happen.
pub async fn prove(test: &str) -> Result<()> {
    let daemon = Program::Node.path()?;
    story::tell(&Stage::new(), test, &network::SERVERS[..1], &daemon).await
}

/// What is to be done in the VM: whatever the story says.
pub fn obey() {
    vm::in_machine(machine(), hands::obey);
}

fn machine() -> Machine {
    Machine {
        // As long as the story outside, whose steps have limits of their own.
        limit: Duration::from_secs(900),
        ..Machine::of_nodes()
    }
}
