//! The demo of several clouds: one cluster with Nodes and load balancers of Linode and cloudscale.ch, both
//! simulated, on a real API server.
//!
//! ```text
//!   kube-apiserver ◄── mooring-central --cloud-provider=linode,cloudscale ──► Linode (simulated)
//!         ▲                                                             └───► cloudscale.ch (simulated)
//!     the scenario: Nodes ─► Services ─► changes ─► table of what stands where
//! ```
//!
//! Each step looks at both clouds: at the one that something is said of, and that the other was not written to.

mod balancers;
mod changes;
mod cluster;
mod services;
mod table;

use std::process::ExitCode;

use anyhow::Result;

use super::console::Console;
use super::run_to_the_end;
use cluster::Clouds;

/// How many machines each cloud has when the demo begins.
const MACHINES: usize = 3;

/// What `make demo-clouds` runs. It needs no network of its own.
pub fn main() -> ExitCode {
    let scenario = async |console: &Console, _keep| run(console, MACHINES).await;
    run_to_the_end(scenario).unwrap_or_else(|error| super::complain("demo-clouds", &error))
}

/// The scenario with two machines in each cloud, for a test.
///
/// # Errors
/// With the first step that does not happen.
pub async fn prove() -> Result<()> {
    run(&Console::new(), 2).await
}

async fn run(console: &Console, machines: usize) -> Result<()> {
    let mut clouds = Clouds::build(console).await?;
    clouds.join(console, machines).await?;
    services::serve(console, &clouds).await?;
    changes::make(console, &mut clouds).await?;
    let standing = table::Standing::of(&clouds).await?;
    standing.check(console, &clouds).await?;
    println!("\n{standing}");
    println!("Each cloud has what the table says, and nothing besides.");
    Ok(())
}
