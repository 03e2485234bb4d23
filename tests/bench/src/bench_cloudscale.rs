//! What load balancers of cloudscale.ch cost: requests to the cloud, seconds, and how long users are
//! cut off, beside what the Go controller was measured to take.
//!
//! ```text
//!  20 Services x 2 ports ─┐
//!                         ├─► kube-apiserver ◄── mooring-central ──► cloudscale.ch, simulated:
//!  50 Nodes ──────────────┘                                          a log of requests, and of what
//!                                                                    listeners led to
//! ```
//!
//! | phase | what happens |
//! |---|---|
//! | `create` | all Services are made at once |
//! | `touch` | an annotation of each changes that nobody reads |
//! | `restart` | central ends and starts |
//! | `joins`, `leaves` | one Node joins, five do, one leaves |
//! | `crowd` | many Nodes join one after the other |
//! | `between` | a Service changes while all load balancers follow the Nodes |
//! | `changes` | each kind of change of one Service, on three Nodes as the Go controller was measured |
//!
//! The counts are of the cloud's log, and memory is the kernel's; no program of Mooring is asked how
//! well it does.

mod changes;
mod create;
mod kinds;
mod nodes;
mod unchanged;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

pub use crate::bench::{Report, Row};

use crate::bench::cluster::{self, rate};
use crate::bench::{Kind, conclude, variable};
use mooring_cloud_sim::cloudscale::{Behaviour, Cloudscale};

type Cluster = cluster::Cluster<Cloudscale, Scale>;

/// How large, and how slow the cloud is.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// How many Services, with two ports each.
    pub services: usize,
    /// How many Nodes there are at first.
    pub nodes: usize,
    /// How many Nodes join one after the other.
    pub crowd: usize,
    /// How long that takes them.
    pub crowd_within: Duration,
    /// How much later each answer of the cloud comes.
    pub latency: Duration,
    /// For how long a load balancer is at work after each change.
    pub change_time: Duration,
    /// Central's `--cloud-api-qps` and, four times that, `--cloud-api-burst`; `None`: as shipped.
    pub qps: Option<u32>,
}

impl Scale {
    /// What `make bench-cloudscale` does.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            services: 20,
            nodes: 50,
            crowd: 20,
            crowd_within: Duration::from_secs(12),
            latency: Duration::ZERO,
            change_time: Duration::ZERO,
            qps: None,
        }
    }

    /// [`Self::full`], changed by `SERVICES`, `NODES`, `CROWD`, `LATENCY_MS`, `CHANGE_MS` and `QPS`.
    fn from_environment() -> Result<Self> {
        let full = Self::full();
        let milliseconds = |name: &str| -> Result<Duration> {
            Ok(Duration::from_millis(variable(name)?.unwrap_or(0)))
        };
        let scale = Self {
            services: variable("SERVICES")?.unwrap_or(full.services),
            nodes: variable("NODES")?.unwrap_or(full.nodes),
            crowd: variable("CROWD")?.unwrap_or(full.crowd),
            latency: milliseconds("LATENCY_MS")?,
            change_time: milliseconds("CHANGE_MS")?,
            qps: variable("QPS")?,
            ..full
        };
        ensure!(
            scale.services > 0 && scale.nodes >= kinds::NODES && scale.nodes + scale.crowd < 60_000,
            "SERVICES is {}, NODES {} and CROWD {}: give at least one Service and {} Nodes",
            scale.services,
            scale.nodes,
            scale.crowd,
            kinds::NODES
        );
        Ok(scale)
    }

    /// Whether the cloud is as it was when the Go controller was measured first.
    const fn is_quick(&self) -> bool {
        self.latency.is_zero() && self.change_time.is_zero()
    }

    /// Whether all is as large as when it was measured.
    const fn is_full(&self) -> bool {
        self.services == Self::full().services && self.nodes == Self::full().nodes
    }

    /// What the Go controller was measured to take, as far as this is the same.
    const fn upstream(&self, quick: &'static str, slow: &'static str) -> &'static str {
        match (self.is_full(), self.is_quick()) {
            (true, true) => quick,
            (true, false) => slow,
            (false, _) => "-",
        }
    }
}

/// `make bench-cloudscale`. Fails if a count is not as wanted.
pub fn main() -> ExitCode {
    let ended = Scale::from_environment()
        .and_then(|scale| tokio::runtime::Runtime::new()?.block_on(run(&scale)));
    conclude("bench-cloudscale", ended)
}

async fn build(scale: &Scale) -> Result<Cluster> {
    let sim = Cloudscale::start().await?;
    sim.set_latency(scale.latency);
    sim.behave(Behaviour {
        change_time: scale.change_time,
        ..Behaviour::default()
    });
    let cluster = Cluster::build(*scale, sim, rate(scale.qps)).await?;
    cluster.join(scale.nodes).await?;
    cluster.rests().await?;
    cluster.tell(&format!("{} Nodes are there", scale.nodes));
    Ok(cluster)
}

/// Runs all phases.
///
/// # Errors
/// If something could not be measured; what was measured and is not as wanted is in the report.
pub async fn run(scale: &Scale) -> Result<Report> {
    let mut report = Report::default();
    let mut cluster = build(scale).await?;
    create::run(&cluster, &mut report).await.context("create")?;
    unchanged::touch(&cluster, &mut report)
        .await
        .context("touch")?;
    unchanged::restart(&mut cluster, &mut report)
        .await
        .context("restart")?;
    nodes::joins_and_leaves(&mut cluster, &mut report).await?;
    nodes::crowd(&mut cluster, &mut report)
        .await
        .context("crowd")?;
    nodes::between(&mut cluster, &mut report)
        .await
        .context("between")?;
    changes::run(&cluster, &mut report)
        .await
        .context("changes")?;
    let pid = cluster.central.process.pid();
    report.memory("central-resident-memory", pid, 20.0, "52-60 MB")?;
    let concurrent = cluster.sim.concurrent_writes();
    report.add(Row {
        name: "writes-at-once-on-a-load-balancer".to_owned(),
        measured: concurrent.to_string(),
        upstream: "-".to_owned(),
        target: "0".to_owned(),
        met: concurrent == 0,
        kind: Kind::Count,
    });
    cluster.shipped.assert_no_forbidden(&cluster.cp).await;
    Ok(report)
}
