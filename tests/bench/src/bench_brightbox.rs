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
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

pub use crate::bench::{Report, Row};

use crate::bench::cluster::{self, Cost, LIMIT, rate};
use crate::bench::{Kind, conclude, variable};
use crate::clouds::SimulatedCloud as _;
use mooring_cloud_sim::brightbox::Brightbox;
use mooring_test_support::wait::try_eventually;

type Cluster = cluster::Cluster<Brightbox, Scale>;

/// How many reads anything may take besides, however many Services there are: four listings, the servers, and
/// all of that once more for those who ask a second later.
const READS: usize = 10;
/// How many reads a Service may take until it is there or gone, and all of them together while that takes time.
const WAITING: [usize; 2] = [3, 80];
/// How late each answer is where that is measured.
const LATENCY: Duration = Duration::from_millis(150);
/// Group, its servers, policy, rule, Cloud IP, load balancer, and where the Cloud IP leads.
const TO_CREATE: usize = 7;
/// Load balancer, Cloud IP, policy, servers, group.
const TO_DELETE: usize = 5;
/// In the group, and behind the load balancer.
const TO_MOVE: usize = 2;

/// How large.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// How many Services, with two ports each.
    pub services: usize,
    /// How many Nodes.
    pub nodes: usize,
    /// Central's `--cloud-api-qps` and, four times that, `--cloud-api-burst`; `None`: as shipped.
    pub qps: Option<u32>,
    /// When all is compared anew, in seconds.
    pub resync: u32,
}

impl Scale {
    /// What `make bench-brightbox` does.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            services: 20,
            nodes: 50,
            qps: None,
            resync: 90,
        }
    }

    /// [`Self::full`], changed by `SERVICES`, `NODES` and `QPS`.
    fn from_environment() -> Result<Self> {
        let full = Self::full();
        let scale = Self {
            services: variable("SERVICES")?.unwrap_or(full.services),
            nodes: variable("NODES")?.unwrap_or(full.nodes),
            qps: variable("QPS")?,
            ..full
        };
        ensure!(
            scale.services > 0 && (2..30_000).contains(&scale.nodes),
            "SERVICES is {}, and NODES {}: give at least one Service and two Nodes",
            scale.services,
            scale.nodes
        );
        Ok(scale)
    }

    /// What the Go controller was measured to take, if this is as large as it was then.
    const fn upstream(&self, measured: &'static str) -> &'static str {
        let full = Self::full();
        if self.services == full.services && self.nodes == full.nodes {
            measured
        } else {
            "-"
        }
    }
}

/// `make bench-brightbox`. Fails if a count is not as wanted.
pub fn main() -> ExitCode {
    let ended = Scale::from_environment()
        .and_then(|scale| tokio::runtime::Runtime::new()?.block_on(run(&scale)));
    conclude("bench-brightbox", ended)
}

/// Runs all phases.
///
/// # Errors
/// If something could not be measured; what was measured and is not as wanted is in the report.
pub async fn run(scale: &Scale) -> Result<Report> {
    let mut report = Report::default();
    let flags = rate(scale.qps);
    let mut cluster = Cluster::build(*scale, Brightbox::open().await?, flags).await?;
    cluster.join(scale.nodes).await?;
    cluster.rests().await?;
    let mut phases = Phases {
        cluster: &mut cluster,
        report: &mut report,
    };
    phases.run().await?;
    cluster.shipped.assert_no_forbidden(&cluster.cp).await;
    Ok(report)
}

/// All that is done.
struct Phases<'a> {
    cluster: &'a mut Cluster,
    report: &'a mut Report,
}

impl Phases<'_> {
    async fn run(&mut self) -> Result<()> {
        let Scale { services, .. } = self.cluster.scale;
        let waiting = services * WAITING[0] + WAITING[1];
        let cost = self.cluster.create_all(services).await?;
        let writes = services * TO_CREATE;
        self.counts("create-all", &cost, writes, waiting, ["-", "-"]);
        let cost = self.cluster.touch_all(services).await?;
        self.counts("touch-all", &cost, 0, READS + services, ["-", "-"]);
        self.memory()?;
        self.one_moves().await?;
        self.slowly().await?;
        self.restart().await?;
        self.resync().await?;
        let cost = self.cluster.delete_all(services).await?;
        let writes = services * TO_DELETE;
        self.counts("delete-all", &cost, writes, waiting, ["120", "140"]);
        Ok(())
    }

    /// A Node joins, and leaves.
    async fn one_moves(&mut self) -> Result<()> {
        let writes = self.cluster.scale.services * TO_MOVE;
        let cost = self.joins().await?;
        self.counts("one-joins", &cost, writes, READS, ["41", "127"]);
        let start = Instant::now();
        self.cluster.leave().await?;
        let cost = self.followed(start, "one leaves").await?;
        self.counts("one-leaves", &cost, writes, READS, ["40", "120"]);
        Ok(())
    }

    async fn joins(&mut self) -> Result<Cost> {
        let start = Instant::now();
        self.cluster.join(1).await?;
        self.followed(start, "one joins").await
    }

    async fn followed(&self, start: Instant, what: &str) -> Result<Cost> {
        self.cluster.all_served().await?;
        self.cluster.settled(start, what).await
    }

    /// The same while each answer is late.
    async fn slowly(&mut self) -> Result<()> {
        self.cluster.sim.set_latency(LATENCY);
        let cost = self.joins().await?;
        self.cluster.sim.set_latency(Duration::ZERO);
        self.report
            .seconds("one-joins-150-ms-seconds", cost.seconds, 30.0, "-");
        let at_once = cost.at_once();
        let wanted = self.cluster.scale.services.min(2);
        self.report.add(Row {
            name: "one-joins-150-ms-writes-at-once".to_owned(),
            measured: at_once.to_string(),
            upstream: "1".to_owned(),
            target: format!(">= {wanted}"),
            met: at_once >= wanted,
            kind: Kind::Count,
        });
        self.cluster.leave().await?;
        self.followed(Instant::now(), "one leaves").await.map(drop)
    }

    /// Central starts anew.
    async fn restart(&mut self) -> Result<()> {
        let start = Instant::now();
        self.cluster.restart_central(&[]).await?;
        let cost = self.cluster.settled(start, "restarted").await?;
        let most = self.cluster.scale.services + READS;
        self.counts("restart", &cost, 0, most, ["20", "171"]);
        Ok(())
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
            !calls.to("/1.0/load_balancers").is_empty()
        });
        looks.await.map_err(anyhow::Error::msg)?;
        let cost = self.cluster.settled(start, "compared anew").await?;
        let most = scale.services + READS;
        self.counts("resync", &cost, 0, most, ["20", "120"]);
        self.cluster.restart_central(&[]).await?;
        self.cluster.rests().await
    }

    fn memory(&mut self) -> Result<()> {
        let pid = self.cluster.central.process.pid();
        let name = "central-resident-memory";
        self.report.memory(name, pid, 20.0, "64-77 MB")
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
        let name = format!("{what}-writes");
        self.report
            .count(&name, found, writes, scale.upstream(of_writes));
        let found = cost.reads.len();
        let name = format!("{what}-reads");
        self.report
            .at_most(&name, found, reads, scale.upstream(of_reads));
    }
}
