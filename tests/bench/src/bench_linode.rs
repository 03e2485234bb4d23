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
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

pub use crate::bench::{Report, Row};

use crate::bench::cluster::{self, Cost, LIMIT, PORTS, rate};
use crate::bench::{Kind, conclude, variable};
use crate::clouds::SimulatedCloud as _;
use mooring_cloud_sim::linode::Linode;
use mooring_test_support::wait::try_eventually;

type Cluster = cluster::Cluster<Linode, Scale>;

/// How many reads anything may take besides, however many Services there are.
const READS: usize = 10;
/// How late each answer is where that is measured.
const LATENCY: Duration = Duration::from_millis(150);

/// How large.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// How many Services, with two ports each.
    pub services: usize,
    /// How many Nodes there are at first, and later.
    pub nodes: [usize; 2],
    /// Central's `--cloud-api-qps` and, four times that, `--cloud-api-burst`; `None`: as shipped.
    pub qps: Option<u32>,
    /// When all is compared anew, in seconds.
    pub resync: u32,
}

impl Scale {
    /// What `make bench-linode` does.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            services: 50,
            nodes: [20, 50],
            qps: None,
            resync: 90,
        }
    }

    /// [`Self::full`], changed by `SERVICES`, `NODES` and `QPS`.
    fn from_environment() -> Result<Self> {
        let full = Self::full();
        let nodes = variable("NODES")?.map_or(full.nodes, |nodes: usize| [nodes, nodes]);
        let services = variable("SERVICES")?.unwrap_or(full.services);
        let qps = variable("QPS")?;
        ensure!(
            services > 0 && (2..30_000).contains(&nodes[0]),
            "SERVICES is {services}, and NODES {}: give at least one Service and two Nodes",
            nodes[0]
        );
        Ok(Self {
            services,
            nodes,
            qps,
            ..full
        })
    }

    /// What the Go controller was measured to take, if this is as large as it was then. It took the same with 20
    /// and with 50 Nodes.
    const fn upstream(&self, measured: &'static str) -> &'static str {
        let full = Self::full();
        if self.services == full.services && self.nodes[1] == full.nodes[1] {
            measured
        } else {
            "-"
        }
    }

    /// How many parts are to be looked at for all Services: configs of each, and nodes of each config.
    const fn parts(&self) -> usize {
        self.services * (1 + PORTS)
    }
}

/// `make bench-linode`. Fails if a count is not as wanted.
pub fn main() -> ExitCode {
    let ended = Scale::from_environment()
        .and_then(|scale| tokio::runtime::Runtime::new()?.block_on(run(&scale)));
    conclude("bench-linode", ended)
}

/// Runs all phases, before few Nodes and before many.
///
/// # Errors
/// If something could not be measured; what was measured and is not as wanted is in the report.
pub async fn run(scale: &Scale) -> Result<Report> {
    let mut report = Report::default();
    let flags = rate(scale.qps).into_iter();
    let flags = flags.chain(["--nodebalancer-drain-period=0".to_owned()]);
    let mut cluster = Cluster::build(*scale, Linode::open().await?, flags.collect()).await?;
    for nodes in scale.nodes {
        cluster.join(nodes - cluster.nodes()).await?;
        cluster.rests().await?;
        let what = format!("{nodes}-nodes");
        cluster.tell(&what);
        let mut phases = Phases {
            cluster: &mut cluster,
            report: &mut report,
            nodes,
        };
        phases.run().await.context(what)?;
    }
    let writes = cluster.sim.writes();
    let most = writes.values().map(|writes| writes.most_at_once).max();
    let most = usize::try_from(most.unwrap_or(0))?;
    report.at_most("writes-at-once-on-a-nodebalancer", most, 1, "-");
    cluster.shipped.assert_no_forbidden(&cluster.cp).await;
    Ok(report)
}

/// All that is done before so many Nodes.
struct Phases<'a> {
    cluster: &'a mut Cluster,
    report: &'a mut Report,
    nodes: usize,
}

impl Phases<'_> {
    async fn run(&mut self) -> Result<()> {
        let scale = self.cluster.scale;
        let Scale { services, .. } = scale;
        let parts = scale.parts();
        let cost = self.cluster.create_all(services).await?;
        self.counts("create-all", &cost, services, parts + READS, ["-", "-"]);
        let cost = self.cluster.touch_all(services).await?;
        self.counts("touch-all", &cost, 0, READS, ["100", "250"]);
        self.memory()?;
        self.one_moves().await?;
        self.slowly().await?;
        self.restart().await?;
        self.resync().await?;
        let cost = self.cluster.delete_all(services).await?;
        // Each is looked at just before.
        let most = services + READS;
        self.counts("delete-all", &cost, services, most, ["50", "150"]);
        Ok(())
    }

    /// A Node joins, and leaves.
    async fn one_moves(&mut self) -> Result<()> {
        let each = self.cluster.scale.services * PORTS;
        let cost = self.joins().await?;
        self.counts("one-joins", &cost, each, READS, ["100", "256"]);
        self.seconds("one-joins-seconds", &cost, 19.0, "19 s");
        let start = Instant::now();
        self.cluster.leave().await?;
        let cost = self.followed(start, "one leaves").await?;
        self.counts("one-leaves", &cost, each, READS, ["100", "250"]);
        Ok(())
    }

    async fn joins(&mut self) -> Result<Cost> {
        let start = Instant::now();
        self.cluster.join(1).await?;
        self.followed(start, "one joins").await
    }

    async fn followed(&self, start: Instant, what: &str) -> Result<Cost> {
        self.cluster.all_served().await.context(what.to_owned())?;
        self.cluster.settled(start, what).await
    }

    /// The same while each answer is late.
    async fn slowly(&mut self) -> Result<()> {
        self.cluster.sim.set_latency(LATENCY);
        let cost = self.joins().await?;
        self.cluster.sim.set_latency(Duration::ZERO);
        self.seconds("one-joins-150-ms-seconds", &cost, 64.0, "64 s");
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
        self.cluster.leave().await?;
        self.followed(Instant::now(), "one leaves").await.map(drop)
    }

    /// Central starts anew; then a Node joins, for which each load balancer has to be looked at.
    async fn restart(&mut self) -> Result<()> {
        let start = Instant::now();
        self.cluster.restart_central(&[]).await?;
        let cost = self.cluster.settled(start, "restarted").await?;
        self.counts("restart", &cost, 0, READS, ["100", "251"]);
        let scale = self.cluster.scale;
        let cost = self.joins().await?;
        let each = scale.services * PORTS;
        let most = scale.parts() + READS;
        self.counts("one-joins-after-restart", &cost, each, most, ["100", "256"]);
        self.cluster.leave().await?;
        self.followed(Instant::now(), "one leaves").await.map(drop)
    }

    /// Central looks at everything.
    async fn resync(&mut self) -> Result<()> {
        let scale = self.cluster.scale;
        let flag = format!("--load-balancer-resync-period={}s", scale.resync);
        self.cluster.restart_central(&[&flag]).await?;
        self.cluster.rests().await?;
        let start = Instant::now();
        let looks = try_eventually(LIMIT, async || {
            let calls = self.cluster.sim.calls().since(start);
            !calls.to("/v4/nodebalancers/*/configs").is_empty()
        });
        looks.await.map_err(anyhow::Error::msg)?;
        let cost = self.cluster.settled(start, "compared anew").await?;
        self.counts("resync", &cost, 0, scale.parts() + READS, ["100", "250"]);
        self.cluster.restart_central(&[]).await?;
        self.cluster.rests().await
    }

    fn memory(&mut self) -> Result<()> {
        let pid = self.cluster.central.process.pid();
        let name = self.name("central-resident-memory");
        self.report.memory(&name, pid, 20.0, "65-74 MB")
    }

    /// Writes that must be these, and reads that must not be more.
    fn counts(
        &mut self,
        what: &str,
        cost: &Cost,
        writes: usize,
        reads: usize,
        [of_writes, of_reads]: [&'static str; 2],
    ) {
        let scale = self.cluster.scale;
        let found = cost.writes.len();
        let name = self.name(&format!("{what}-writes"));
        self.report
            .count(&name, found, writes, scale.upstream(of_writes));
        let found = cost.reads.len();
        let name = self.name(&format!("{what}-reads"));
        self.report
            .at_most(&name, found, reads, scale.upstream(of_reads));
    }

    fn seconds(&mut self, what: &str, cost: &Cost, most: f64, upstream: &'static str) {
        let upstream = self.cluster.scale.upstream(upstream);
        let name = self.name(what);
        self.report.seconds(&name, cost.seconds, most, upstream);
    }

    fn name(&self, what: &str) -> String {
        format!("{}-nodes-{what}", self.nodes)
    }
}
