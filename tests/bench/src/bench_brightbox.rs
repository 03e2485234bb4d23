//! What load balancers of Brightbox cost: requests and seconds, beside what the Go controller was measured to take.
//!
//! ```text
//!  20 Services x 2 ports ─┐
//!                         ├─► kube-apiserver ◄── mooring-central ──► Brightbox, simulated: a log of requests
//!               50 Nodes ─┘
//! ```
//!
//! | phase | what happens |
//! |---|---|
//! | `create` | all Services are made at once |
//! | `touch` | an annotation of each changes that nobody reads |
//! | `joins`, `leaves` | one Node joins, and leaves; with each answer 150 ms late another one |
//! | `restart` | central ends and starts |
//! | `resync` | all is compared anew |
//! | `delete` | all Services are deleted at once |
//!
//! One port of each is of HTTPS, so each load balancer is asked for its domains alone: listings do not show them.
//! The counts are of the cloud's log, and memory is the kernel's; no program of Mooring is asked how well it does.

use std::process::ExitCode;

use anyhow::Result;

use crate::bench::conclude;
use crate::bench::phases::Phases;
pub use crate::bench::phases::Scale;
pub use crate::bench::{Report, Row};
use crate::clouds::SimulatedCloud as _;
use mooring_cloud_sim::brightbox::Brightbox;

/// How many reads anything may take besides, however many Services there are: four listings, the servers, and
/// all of that once more for those who ask a second later.
const READS: usize = 10;
/// How many reads a Service may take until it is there or gone, and all of them together while that takes time.
const WAITING: [usize; 2] = [3, 80];
/// Group, its servers, policy, rule, Cloud IP, load balancer, and where the Cloud IP leads.
const TO_CREATE: usize = 7;
/// Load balancer, Cloud IP, policy, servers, group.
const TO_DELETE: usize = 5;
/// In the group, and behind the load balancer.
const TO_MOVE: usize = 2;

/// What the Go controller was measured with.
fn full() -> Scale {
    Scale::as_upstream(20, &[50])
}

/// `make bench-brightbox`. Fails if a count is not as wanted.
pub fn main() -> ExitCode {
    let ended = full()
        .or_from_environment()
        .and_then(|scale| tokio::runtime::Runtime::new()?.block_on(run(&scale)));
    conclude("bench-brightbox", ended)
}

/// Runs all phases.
///
/// # Errors
/// If something could not be measured; what was measured and is not as wanted is in the report.
pub async fn run(scale: &Scale) -> Result<Report> {
    let mut phases = Phases::build(scale, Brightbox::open().await?, &[]).await?;
    for nodes in &scale.nodes {
        phases.grows_to(*nodes).await?;
        phases.of_load_balancers().await?;
    }
    Ok(phases.ends().await)
}

impl Phases<Brightbox> {
    async fn of_load_balancers(&mut self) -> Result<()> {
        let services = self.cluster.scale.services;
        let waiting = services * WAITING[0] + WAITING[1];
        let cost = self.cluster.create_all(services).await?;
        let writes = services * TO_CREATE;
        self.counts("create-all", &cost, writes, waiting, ["-", "-"]);
        let cost = self.cluster.touch_all(services).await?;
        // Each is looked at alone, here and below.
        let looking = READS + services;
        self.counts("touch-all", &cost, 0, looking, ["-", "-"]);
        self.memory("64-77 MB")?;
        let writes = services * TO_MOVE;
        let cost = self.joins().await?;
        self.counts("one-joins", &cost, writes, READS, ["41", "127"]);
        let cost = self.leaves().await?;
        self.counts("one-leaves", &cost, writes, READS, ["40", "120"]);
        self.slowly(30.0, "-").await?;
        let cost = self.restarts().await?;
        // And a token is got.
        self.counts("restart", &cost, 0, looking + 1, ["20", "171"]);
        let cost = self.looks_at_all("/1.0/load_balancers").await?;
        self.counts("resync", &cost, 0, looking, ["20", "120"]);
        let cost = self.cluster.delete_all(services).await?;
        let writes = services * TO_DELETE;
        self.counts("delete-all", &cost, writes, waiting, ["120", "140"]);
        Ok(())
    }
}
