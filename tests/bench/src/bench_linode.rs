//! What NodeBalancers cost: requests to Linode and seconds, beside what the Go controller was measured to take.
//!
//! ```text
//!  50 Services x 2 ports ─┐
//!                         ├─► kube-apiserver ◄── mooring-central ──► Linode, simulated: a log of requests
//!  20, then 50 Nodes ─────┘
//! ```
//!
//! | phase | what happens |
//! |---|---|
//! | `create` | all Services are made at once |
//! | `touch` | an annotation of each changes that nobody reads |
//! | `joins`, `leaves` | one Node joins, and leaves; with each answer 150 ms late another one |
//! | `restart` | central ends and starts; a Node joins before anything was looked at |
//! | `resync` | all is compared anew |
//! | `delete` | all Services are deleted at once |
//!
//! The counts are of the cloud's log, and memory is the kernel's; no program of Mooring is asked how
//! well it does. Nodes leave at once: to let their connections end takes one write more for each port.

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::bench::cluster::PORTS;
use crate::bench::conclude;
use crate::bench::phases::Phases;
pub use crate::bench::phases::Scale;
pub use crate::bench::{Report, Row};
use crate::clouds::SimulatedCloud as _;
use mooring_cloud_sim::linode::Linode;

/// How many reads anything may take besides, however many Services there are.
const READS: usize = 10;

/// What the Go controller was measured with; it took the same with 20 and with 50 Nodes.
fn full() -> Scale {
    Scale::as_upstream(50, &[20, 50])
}

/// `make bench-linode`. Fails if a count is not as wanted.
pub fn main() -> ExitCode {
    let ended = full()
        .or_from_environment()
        .and_then(|scale| tokio::runtime::Runtime::new()?.block_on(run(&scale)));
    conclude("bench-linode", ended)
}

/// Runs all phases, before few Nodes and before many.
///
/// # Errors
/// If something could not be measured; what was measured and is not as wanted is in the report.
pub async fn run(scale: &Scale) -> Result<Report> {
    let flags = ["--nodebalancer-drain-period=0"];
    let mut phases = Phases::build(scale, Linode::open().await?, &flags).await?;
    for nodes in &scale.nodes {
        phases.grows_to(*nodes).await?;
        let what = format!("{nodes}-nodes");
        phases.cluster.tell(&what);
        phases.prefix = format!("{what}-");
        phases.of_node_balancers().await.context(what)?;
    }
    let writes = phases.cluster.sim.writes();
    let most = writes.values().map(|writes| writes.most_at_once).max();
    let most = usize::try_from(most.unwrap_or(0))?;
    phases
        .report
        .at_most("writes-at-once-on-a-nodebalancer", most, 1, "-");
    Ok(phases.ends().await)
}

impl Phases<Linode> {
    async fn of_node_balancers(&mut self) -> Result<()> {
        let services = self.cluster.scale.services;
        // How many parts are to be looked at for all Services: configs of each, and nodes of each config.
        let parts = services * (1 + PORTS);
        // What a Node costs that joins or leaves.
        let each = services * PORTS;
        let cost = self.cluster.create_all(services).await?;
        self.counts("create-all", &cost, services, parts + READS, ["-", "-"]);
        let cost = self.cluster.touch_all(services).await?;
        self.counts("touch-all", &cost, 0, READS, ["100", "250"]);
        self.memory("65-74 MB")?;
        let cost = self.joins().await?;
        self.counts("one-joins", &cost, each, READS, ["100", "256"]);
        self.seconds("one-joins-seconds", &cost, 19.0, "19 s");
        let cost = self.leaves().await?;
        self.counts("one-leaves", &cost, each, READS, ["100", "250"]);
        self.slowly(64.0, "64 s").await?;
        let cost = self.restarts().await?;
        self.counts("restart", &cost, 0, READS, ["100", "251"]);
        // Each load balancer has to be looked at.
        let cost = self.joins().await?;
        let most = parts + READS;
        self.counts("one-joins-after-restart", &cost, each, most, ["100", "256"]);
        self.leaves().await?;
        let cost = self.looks_at_all("/v4/nodebalancers/*/configs").await?;
        self.counts("resync", &cost, 0, parts + READS, ["100", "250"]);
        let cost = self.cluster.delete_all(services).await?;
        // Each is looked at just before.
        let most = services + READS;
        self.counts("delete-all", &cost, services, most, ["50", "150"]);
        Ok(())
    }
}
