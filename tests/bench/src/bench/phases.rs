//! What benches of load balancers with members measure alike, on whatever cloud.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::cluster::{self, Cost, LIMIT, rate};
use super::{Kind, Report, Row, variable};
use crate::clouds::SimulatedCloud;
use mooring_test_support::wait::try_eventually;

pub(crate) type Cluster<C> = cluster::Cluster<C, Scale>;

/// How late each answer is where that is measured.
const LATENCY: Duration = Duration::from_millis(150);

/// How large.
#[derive(Clone, Debug)]
pub struct Scale {
    /// How many Services, with two ports each.
    pub services: usize,
    /// How many Nodes there are, one after the other.
    pub nodes: Vec<usize>,
    /// Central's `--cloud-api-qps` and, four times that, `--cloud-api-burst`; `None`: as shipped.
    pub qps: Option<u32>,
    /// When all is compared anew, in seconds.
    pub resync: u32,
    /// Whether the Go controller was measured with so many.
    pub is_as_upstream: bool,
}

impl Scale {
    /// What the Go controller was measured with, the largest number of Nodes last.
    pub(crate) fn as_upstream(services: usize, nodes: &[usize]) -> Self {
        Self {
            services,
            nodes: nodes.to_vec(),
            qps: None,
            resync: 90,
            is_as_upstream: true,
        }
    }

    /// The same, changed by `SERVICES`, `NODES` and `QPS`.
    pub(crate) fn or_from_environment(self) -> Result<Self> {
        let services = variable("SERVICES")?.unwrap_or(self.services);
        let nodes = variable("NODES")?.map_or_else(|| self.nodes.clone(), |nodes| vec![nodes]);
        ensure!(
            services > 0 && nodes.iter().all(|nodes| (2..30_000).contains(nodes)),
            "SERVICES is {services}, and NODES {nodes:?}: give at least one Service and two Nodes",
        );
        Ok(Self {
            is_as_upstream: services == self.services && nodes.last() == self.nodes.last(),
            qps: variable("QPS")?,
            services,
            nodes,
            ..self
        })
    }
}

/// What is measured of a cluster, in phases.
pub(crate) struct Phases<C> {
    pub(crate) cluster: Cluster<C>,
    pub(crate) report: Report,
    /// What the names of all rows begin with.
    pub(crate) prefix: String,
}

impl<C: SimulatedCloud> Phases<C> {
    /// Before a cluster with this cloud, whose central has these flags besides.
    pub(crate) async fn build(scale: &Scale, sim: C, flags: &[&str]) -> Result<Self> {
        let mut all = rate(scale.qps);
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        Ok(Self {
            cluster: Cluster::build(scale.clone(), sim, all).await?,
            report: Report::default(),
            prefix: String::new(),
        })
    }

    /// There are so many Nodes.
    pub(crate) async fn grows_to(&self, nodes: usize) -> Result<()> {
        self.cluster.join(nodes - self.cluster.nodes()).await?;
        self.cluster.rests().await
    }

    /// What was measured, if nothing was refused to central.
    pub(crate) async fn ends(self) -> Report {
        let cluster = &self.cluster;
        cluster.shipped.assert_no_forbidden(&cluster.cp).await;
        self.report
    }

    /// A Node joins.
    pub(crate) async fn joins(&self) -> Result<Cost> {
        let start = Instant::now();
        self.cluster.join(1).await?;
        self.followed(start, "one joins").await
    }

    /// The Node that came last leaves.
    pub(crate) async fn leaves(&self) -> Result<Cost> {
        let start = Instant::now();
        self.cluster.leave().await?;
        self.followed(start, "one leaves").await
    }

    async fn followed(&self, start: Instant, what: &str) -> Result<Cost> {
        self.cluster.all_served().await.context(what.to_owned())?;
        self.cluster.settled(start, what).await
    }

    /// A Node joins, and leaves, while each answer is late. `most`: seconds that it may take, and what the Go
    /// controller took.
    pub(crate) async fn slowly(&mut self, most: f64, upstream: &'static str) -> Result<()> {
        self.cluster.sim.set_latency(LATENCY);
        let cost = self.joins().await?;
        self.cluster.sim.set_latency(Duration::ZERO);
        self.seconds("one-joins-150-ms-seconds", &cost, most, upstream);
        let at_once = cost.at_once();
        let wanted = self.cluster.scale.services.min(2);
        self.report.add(Row {
            name: self.name("one-joins-150-ms-writes-at-once"),
            measured: at_once.to_string(),
            upstream: "1".to_owned(),
            target: format!(">= {wanted}"),
            met: at_once >= wanted,
            kind: Kind::Count,
        });
        self.leaves().await.map(drop)
    }

    /// Central starts anew.
    pub(crate) async fn restarts(&mut self) -> Result<Cost> {
        let start = Instant::now();
        self.cluster.restart_central(&[]).await?;
        self.cluster.settled(start, "restarted").await
    }

    /// Central looks at everything, which begins with requests to this path.
    pub(crate) async fn looks_at_all(&mut self, path: &str) -> Result<Cost> {
        let flag = format!(
            "--load-balancer-resync-period={}s",
            self.cluster.scale.resync
        );
        self.cluster.restart_central(&[&flag]).await?;
        self.cluster.rests().await?;
        let start = Instant::now();
        let looks = try_eventually(LIMIT, async || {
            let calls = self.cluster.sim.calls().since(start);
            !calls.to(path).is_empty()
        });
        looks.await.map_err(anyhow::Error::msg)?;
        let cost = self.cluster.settled(start, "compared anew").await?;
        self.cluster.restart_central(&[]).await?;
        self.cluster.rests().await?;
        Ok(cost)
    }

    /// How much memory central has. `upstream`: what the Go controller has.
    pub(crate) fn memory(&mut self, upstream: &'static str) -> Result<()> {
        let pid = self.cluster.central.process.pid();
        let name = self.name("central-resident-memory");
        self.report.memory(&name, pid, 20.0, upstream)
    }

    /// Writes that must be these, and reads that must not be more.
    pub(crate) fn counts(
        &mut self,
        what: &str,
        cost: &Cost,
        writes: usize,
        reads: usize,
        [of_writes, of_reads]: [&'static str; 2],
    ) {
        let found = cost.writes.len();
        let name = self.name(&format!("{what}-writes"));
        let upstream = self.upstream(of_writes);
        self.report.count(&name, found, writes, upstream);
        let found = cost.reads.len();
        let name = self.name(&format!("{what}-reads"));
        let upstream = self.upstream(of_reads);
        self.report.at_most(&name, found, reads, upstream);
    }

    /// Seconds that must not be more.
    pub(crate) fn seconds(&mut self, what: &str, cost: &Cost, most: f64, upstream: &'static str) {
        let upstream = self.upstream(upstream);
        let name = self.name(what);
        self.report.seconds(&name, cost.seconds, most, upstream);
    }

    /// What the Go controller was measured to take, if this is as large as it was then.
    fn upstream(&self, measured: &'static str) -> &'static str {
        if self.cluster.scale.is_as_upstream {
            measured
        } else {
            "-"
        }
    }

    fn name(&self, what: &str) -> String {
        format!("{}{what}", self.prefix)
    }
}
