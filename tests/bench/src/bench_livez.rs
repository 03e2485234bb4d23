//! How fast health checks are answered, beside kube-proxy's own health server in the same namespace.
//!
//! ```text
//!   netlab: kube-apiserver ── br0
//!             n1: mooring-node, kube-proxy, wrk ── eth0 ─┘
//! ```
//!
//! Both are asked about the same Service in turns, by the same program, over the Node's own address:
//! kube-proxy at the Service's `healthCheckNodePort`, the daemon by its path. What counts is how much
//! processor time an answer costs, since `wrk` needs as much of the machine as it can get. How soon the
//! slowest of a hundred answers comes is in part `wrk`'s own doing: a loop that always says the same is
//! asked as well.

mod changes;
mod cluster;
mod floor;
mod paced;
mod report;
mod wrk;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

pub use report::{Report, Row};

use crate::bench::{in_netlab, number, proc};
use cluster::LivezCluster;
use floor::Floor;
use wrk::{Load, Run};

/// What is done.
#[derive(Clone, Debug)]
pub struct Scale {
    /// For how long each is asked in each repetition.
    pub span: Duration,
    /// Repetitions.
    pub repetitions: u32,
    /// Questions per second, where they are paced.
    pub paced: u32,
    /// How often an EndpointSlice is changed.
    pub changes: usize,
    /// With how many Services memory is measured.
    pub services: usize,
}

impl Scale {
    /// What `make bench-livez` does.
    #[must_use]
    pub fn full() -> Self {
        Self {
            span: Duration::from_secs(5),
            repetitions: 3,
            paced: 10_000,
            changes: 200,
            services: 1000,
        }
    }

    /// [`Self::full`], changed by `REPETITIONS`, `SERVICES` and `CHANGES`.
    fn from_environment() -> Result<Self> {
        let full = Self::full();
        Ok(Self {
            repetitions: number("REPETITIONS", full.repetitions)?,
            services: number("SERVICES", full.services)?,
            changes: number("CHANGES", full.changes)?,
            ..full
        })
    }
}

/// How they are asked, and how many times kube-proxy's requests per core-second are wanted.
const LOADS: [(Load, Option<f64>); 4] = [
    (Load::kept(1), None),
    (Load::kept(16), Some(3.0)),
    (Load::kept(64), Some(3.0)),
    (Load::anew(16), Some(2.0)),
];

/// `make bench-livez`. Fails if something is not as wanted.
pub fn main() -> ExitCode {
    in_netlab("bench-livez", async || {
        run(&Scale::from_environment()?).await
    })
}

/// Measures. In a netlab.
///
/// # Errors
/// If something could not be measured; what was measured and is not as wanted is in the report.
pub async fn run(scale: &Scale) -> Result<Report> {
    let mut report = Report::default();
    let cluster = LivezCluster::build().await?;
    let before = proc::stolen_time()?;
    let floor = Floor::start(cluster.node()).await?;
    for (load, wanted) in LOADS {
        let (theirs, ours) = compare(&cluster, load, scale)?;
        report.add_load(load, &theirs, &ours, wanted);
        let mut least = Run::default();
        for _ in 0..scale.repetitions {
            least.add(&wrk::run(cluster.node(), load, scale.span, &floor.url)?);
        }
        report.add_floor(load, &theirs, &least);
    }
    drop(floor);
    report.add_stolen(before, proc::stolen_time()?);
    report.add_memory("memory under load", cluster.memory()?, None);
    let p99 = paced::p99(&cluster, scale.paced, scale.span).await?;
    report.add_paced(scale.paced, p99);
    report.add_changes(&changes::measure(&cluster, scale.changes).await?);
    cluster.add_services(scale.services).await?;
    let what = format!("memory with {} Services", scale.services);
    report.add_memory(&what, cluster.memory()?, Some(15 * 1024));
    Ok(report)
}

/// Asks both in turns.
fn compare(cluster: &LivezCluster, load: Load, scale: &Scale) -> Result<(Run, Run)> {
    let mut sums = [Run::default(), Run::default()];
    for _ in 0..scale.repetitions {
        for (sum, target) in sums.iter_mut().zip([&cluster.kube_proxy, &cluster.daemon]) {
            let before = proc::processor_time(target.pid)?;
            let mut run = wrk::run(cluster.node(), load, scale.span, &target.url)?;
            run.processor = proc::processor_time(target.pid)?.saturating_sub(before);
            sum.add(&run);
        }
    }
    Ok(sums.into())
}
