//! What a large cluster costs: thousands of Nodes against a real API server and a simulated cloud.
//!
//! ```text
//!  kubelets (tasks) ──► kube-apiserver ◄── mooring-central ──► Linode, simulated: a log of requests
//!                         ▲    ▲   └── audit log
//!   daemons as programs ──┘    └── daemons as tasks, one API connection each
//!          └────────► metadata services ◄────────┘
//! ```
//!
//! | phase | what happens | quantities |
//! |---|---|---|
//! | `start` | Nodes register at a steady rate, each daemon starts when its Node is there | T1, T5, T6 |
//! | `steady` | nothing but the kubelets' heartbeats | T2, T3, T7, T11, T12, T15 |
//! | `unready` | a tenth of the Nodes is not Ready all at once, and back | T4 |
//! | `restart` | central ends and starts | T10, T11 |
//! | `storm` | the cloud refuses everything for a while | T13 |
//!
//! The quantities and their targets are those of issue 4. What is counted is counted in the API
//! server's audit log, in the cloud's log of requests and in the kernel's tables; no program of
//! Mooring is asked how well it does.

mod audit;
mod cluster;
mod daemons;
mod kubelets;
mod report;
mod restart;
mod start;
mod steady;
mod storm;
mod unready;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};

pub use report::{Report, Row};

use crate::bench::{conclude, number};
use cluster::Cluster;
use mooring_test_netlab::netlab;

/// How large, and how long.
#[derive(Clone, Debug)]
pub struct Scale {
    /// How many Nodes.
    pub nodes: usize,
    /// How many of their daemons are programs.
    pub programs: usize,
    /// How many Nodes register each second.
    pub per_second: u32,
    /// How long nothing happens but heartbeats.
    pub steady: Duration,
    /// Central's `--node-monitor-period`. What is wanted per minute is wanted per so many of these, so
    /// that a test need not take minutes.
    pub monitor_period: Duration,
    /// What the cloud's `Retry-After` asks for in the storm. Whole seconds.
    pub retry_after: Duration,
}

impl Scale {
    /// What `make bench-nodes` does.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            nodes: 5000,
            programs: 50,
            per_second: 45,
            steady: Duration::from_secs(120),
            monitor_period: Duration::from_secs(5),
            retry_after: Duration::from_secs(20),
        }
    }

    /// [`Self::full`], changed by `NODES`, `DAEMONS`, `PER_SECOND` and `SECONDS_STEADY`.
    ///
    /// # Errors
    /// If one of them is no number, or there are more daemons than Nodes.
    fn from_environment() -> Result<Self> {
        let full = Self::full();
        let scale = Self {
            nodes: number("NODES", full.nodes)?,
            programs: number("DAEMONS", full.programs)?,
            per_second: number("PER_SECOND", full.per_second)?,
            steady: Duration::from_secs(number("SECONDS_STEADY", full.steady.as_secs())?),
            ..full
        };
        ensure!(
            scale.programs <= scale.nodes && scale.nodes <= 40_000 && scale.per_second > 0,
            "NODES is {}, DAEMONS {} and PER_SECOND {}: there cannot be more daemons than Nodes, \
             nor more than 40000 Nodes, and the rate must be above 0",
            scale.nodes,
            scale.programs,
            scale.per_second
        );
        Ok(scale)
    }

    /// What counts as a minute here, in which two listings are wanted at most while Nodes are not
    /// Ready. Central then takes a listing that is 6 monitor periods old, or 3 where the period is
    /// shorter than by default.
    const fn minute(&self) -> Duration {
        let oldest = if self.monitor_period.as_secs() < 5 {
            3
        } else {
            6
        };
        self.monitor_period.saturating_mul(2 * oldest)
    }
}

/// `make bench-nodes`. Fails if a count is not as wanted.
pub fn main() -> ExitCode {
    let ended = netlab::enter_netlab().and_then(|()| {
        let scale = Scale::from_environment()?;
        tokio::runtime::Runtime::new()?.block_on(run(&scale))
    });
    conclude("bench-nodes", ended)
}

/// Runs all phases. In a netlab of its own: it listens on all addresses.
///
/// # Errors
/// If something could not be measured; what was measured and is not as wanted is in the report.
pub async fn run(scale: &Scale) -> Result<Report> {
    let mut report = Report::default();
    let mut cluster = Cluster::build(scale).await?;
    start::run(&mut cluster, &mut report).await?;
    let connections_counted = steady::run(&mut cluster, &mut report).await?;
    unready::run(&mut cluster, &mut report).await?;
    restart::run(&mut cluster, &mut report).await?;
    storm::run(&mut cluster, &mut report).await?;
    if !connections_counted {
        let patience = steady::WaitLimit::UntilIdleOnesEnd;
        steady::connections(&cluster, &mut report, patience).await?;
    }
    cluster.nothing_was_refused().await?;
    Ok(report)
}
