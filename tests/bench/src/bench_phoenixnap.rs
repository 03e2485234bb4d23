//! What addresses of Services cost at PhoenixNAP: requests to the cloud, seconds, and blocks, beside what
//! the Go controller was measured to take.
//!
//! ```text
//!  50 Services ─┐
//!               ├─► kube-apiserver ◄── mooring-central ──► PhoenixNAP, simulated: a log of requests,
//!  50 Nodes ────┘                                          and what was bought and given back
//! ```
//!
//! | phase | what happens |
//! |---|---|
//! | `start` | all Nodes register, and central initialises them |
//! | `few` | a first Service of the account, a further one; both go |
//! | `five` | five Services at once, on a network that is busy for a while after each block |
//! | `many` | all Services are made at once; nothing happens; central starts anew; all go |
//! | `unready` | no Node is Ready |
//!
//! All but the first and the last are done in both layouts: with blocks that Services share, and with a
//! block for each, as the Go controller has it.
//!
//! The counts are of the cloud's log, tokens apart, and memory is the kernel's; no program of Mooring is
//! asked how well it does.

mod cluster;
mod few;
mod five;
mod many;
mod nodes;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

pub use crate::bench::{Report, Row};

use crate::bench::{conclude, number, variable};
use cluster::Cluster;

/// How large, and how slow the cloud is.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// How many Services.
    pub services: usize,
    /// How many Nodes.
    pub nodes: usize,
    /// How long nothing happens, and for how long no Node is Ready.
    pub steady: Duration,
    /// Central's `--node-monitor-period`.
    pub monitor_period: Duration,
    /// For how long the network is busy after each change of a block, where it is.
    pub busy: Duration,
    /// How much later each answer of the cloud comes.
    pub latency: Duration,
    /// For how long a block is on its way, and the network busy, in all phases.
    pub change_time: Duration,
    /// Central's `--cloud-api-qps` and, four times that, `--cloud-api-burst`; `None`: as shipped.
    pub qps: Option<u32>,
}

impl Scale {
    /// What `make bench-phoenixnap` does.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            services: 50,
            nodes: 50,
            steady: Duration::from_secs(30),
            monitor_period: Duration::from_secs(5),
            busy: Duration::from_secs(5),
            latency: Duration::ZERO,
            change_time: Duration::ZERO,
            qps: None,
        }
    }

    /// [`Self::full`], changed by `SERVICES`, `NODES`, `LATENCY_MS`, `CHANGE_MS` and `QPS`.
    fn from_environment() -> Result<Self> {
        let full = Self::full();
        let scale = Self {
            services: number("SERVICES", full.services)?,
            nodes: number("NODES", full.nodes)?,
            latency: Duration::from_millis(number("LATENCY_MS", 0)?),
            change_time: Duration::from_millis(number("CHANGE_MS", 0)?),
            qps: variable("QPS")?,
            ..full
        };
        ensure!(
            (1..=130).contains(&scale.services) && (1..=250).contains(&scale.nodes),
            "SERVICES is {}, and NODES {}: give 1 to 130 Services, which is what a network has addresses \
             for, and 1 to 250 Nodes",
            scale.services,
            scale.nodes
        );
        Ok(scale)
    }

    /// Whether the cloud does what it is told at once.
    const fn is_quick(&self) -> bool {
        self.latency.is_zero() && self.change_time.is_zero()
    }

    /// What the Go controller was measured to take, if this is as it was then.
    const fn upstream(&self, measured: &'static str) -> &'static str {
        let full = Self::full();
        let is_full = self.services == full.services && self.nodes == full.nodes;
        if self.is_quick() && is_full {
            measured
        } else {
            "-"
        }
    }
}

/// Who shares a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Up to 13 Services share one.
    Shared,
    /// Each Service has its own.
    Own,
}

impl Layout {
    /// How names of quantities begin.
    const fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Own => "own",
        }
    }

    /// How many blocks so many Services need, as far as a network takes them.
    fn blocks(self, services: usize) -> usize {
        match self {
            Self::Shared => services.div_ceil(13).min(10),
            Self::Own => services.min(10),
        }
    }
}

/// `make bench-phoenixnap`. Fails if a count is not as wanted.
pub fn main() -> ExitCode {
    let ended = Scale::from_environment()
        .and_then(|scale| tokio::runtime::Runtime::new()?.block_on(run(&scale)));
    conclude("bench-phoenixnap", ended)
}

/// Runs all phases.
///
/// # Errors
/// If something could not be measured; what was measured and is not as wanted is in the report.
pub async fn run(scale: &Scale) -> Result<Report> {
    let mut report = Report::default();
    let mut cluster = Cluster::build(scale).await?;
    nodes::start(&cluster, &mut report).await.context("start")?;
    for layout in [Layout::Shared, Layout::Own] {
        cluster.begin(layout).await?;
        few::run(&cluster, &mut report).await.context("few")?;
        five::run(&cluster, &mut report).await.context("five")?;
        many::run(&mut cluster, &mut report).await.context("many")?;
    }
    nodes::unready(&cluster, &mut report)
        .await
        .context("unready")?;
    let pid = cluster.central.process.pid();
    report.memory("central-resident-memory", pid, 20.0, "46-52 MB")?;
    let misdirected = cluster.sim.misdirected().len();
    report.count("requests-that-miss-their-aim", misdirected, 0, "-");
    cluster.shipped.assert_no_forbidden(&cluster.cp).await;
    Ok(report)
}
