//! What users notice of each kind of failure, again and again, beside what they notice with others.
//!
//! ```text
//!  FailoverCluster (three nodes, three clients, every frame captured),
//!  ControlPlaneNodes (three nodes, two clients, no cluster)
//!     └─► a fault, at a random moment ─► Seen ─► restore ─► … ─► Table, failover.csv, failover.svg
//! ```
//!
//! The rows, bounds and peers' figures are those of the layer-2 specification, section 0.1. Each
//! repetition is a line in `failover.csv`; the picture is drawn from these lines and nothing else. A
//! repetition in which the rig itself stalled for more than 30 ms is not counted, unless it shows two
//! speakers, which counts always.

mod at_rest;
mod control_plane;
mod large;
mod picture;
mod rows;
mod table;

use std::fs;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

pub use at_rest::AtRest;
pub use large::Large;
pub use rows::{ClusterFault, ControlPlaneFault, Fault, Metric, Peer, ROWS, Row, Way};
pub use table::{Quantiles, Table};

use crate::bench::{in_netlab, number};
use mooring_test_netlab::failover::faults::until;
use mooring_test_netlab::failover::{FailoverCluster, Layout, Seen};
use mooring_test_netlab::netlab;

/// How often a repetition that does not count may be repeated, for each that is wanted.
const MORE: usize = 2;
/// More daemons than that leave one another no processor: each hears all others ten times a second.
const DAEMONS_PER_CORE: usize = 25;
/// What is to be measured where there are cores enough.
const MOST_DAEMONS: usize = 100;

/// What is done.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Repetitions of faults that last under 10 s.
    pub short: usize,
    /// Repetitions of the others.
    pub long: usize,
    /// For how long the API server is dead.
    pub api_outage: Duration,
    /// For how long the cost at rest is measured; zero: not at all.
    pub rest: Duration,
    /// On how many nodes the cost of a large segment is measured, with ten addresses for each; zero:
    /// not at all.
    pub nodes: usize,
    /// Only rows with this in their names, if it is not empty.
    pub only: String,
    /// Chooses the moments of the faults.
    pub seed: u64,
    /// Whether to say how far it is.
    pub tells: bool,
}

impl Scale {
    /// What `make bench-failover` does.
    pub fn full() -> Self {
        Self {
            short: 30,
            long: 5,
            api_outage: Duration::from_secs(60),
            rest: Duration::from_secs(60),
            nodes: cores().saturating_mul(DAEMONS_PER_CORE).min(MOST_DAEMONS),
            only: String::new(),
            seed: 1,
            tells: true,
        }
    }

    /// [`Self::full`], changed by `REPETITIONS`, `NODES`, `ONLY` and `SEED`.
    fn from_environment() -> Result<Self> {
        let full = Self::full();
        let short = number("REPETITIONS", full.short)?;
        Ok(Self {
            short,
            long: full.long.min(short),
            nodes: number("NODES", full.nodes)?,
            only: std::env::var("ONLY").unwrap_or_default(),
            seed: number("SEED", full.seed)?,
            ..full
        })
    }

    fn repetitions(&self, row: &Row) -> usize {
        if row.is_long { self.long } else { self.short }
    }

    /// Says what was measured of a row.
    fn tell(&self, row: &'static Row, table: &Table, start: Instant) {
        if self.tells {
            println!(
                "{}: {} in {:.0} s",
                row.name,
                table.summary(row),
                start.elapsed().as_secs_f64()
            );
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Numbers that look random and follow from a seed.
struct Moments(u64);

impl Moments {
    /// A span under 100 ms: any moment between two heartbeats.
    fn next(&mut self) -> Duration {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros((self.0 >> 33) % 100_000)
    }
}

/// `make bench-failover`. Fails if a row is not as wanted.
pub fn main() -> ExitCode {
    in_netlab("bench-failover", async || {
        let scale = Scale::from_environment()?;
        let mut table = run(&scale).await?;
        keep(&scale, &mut table)?;
        Ok(table)
    })
}

/// Writes the measured data and the picture. Rows that were not measured this time stay as they were.
fn keep(scale: &Scale, table: &mut Table) -> Result<()> {
    if scale.short < Scale::full().short {
        println!("so few repetitions: docs/explanation/failover.svg stays as it is");
        return Ok(());
    }
    let folder = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/explanation"
    ));
    let data = folder.join("failover.csv");
    if data.exists() {
        table.keep_others(&fs::read_to_string(&data)?)?;
    }
    fs::write(data, table.to_csv())?;
    fs::write(folder.join("failover.svg"), picture::draw(table))?;
    Ok(())
}

/// Measures all rows. In a netlab.
///
/// # Errors
/// If something could not be measured; what was measured and is not as wanted is in the table.
pub async fn run(scale: &Scale) -> Result<Table> {
    let mut table = Table::default();
    let mut moments = Moments(scale.seed);
    let rows = ROWS.iter();
    let rows: Vec<&Row> = rows
        .filter(|row| row.name.contains(&scale.only) && scale.repetitions(row) > 0)
        .collect();
    for way in [Way::OneNetwork, Way::TwoNetworks] {
        let faults = rows.iter().filter_map(|row| match row.fault {
            Fault::Cluster(of, fault) if of == way => Some((*row, fault)),
            _ => None,
        });
        let faults: Vec<_> = faults.collect();
        if faults.is_empty() {
            continue;
        }
        let layout = Layout {
            second_network: way == Way::TwoNetworks,
            release: true,
            ..Layout::of(3)
        };
        let mut cluster = FailoverCluster::build(layout).await?;
        for (row, fault) in faults {
            measure(&mut cluster, row, fault, scale, &mut moments, &mut table).await?;
        }
        drop(cluster);
        netlab::clear_netlab()?;
    }
    control_plane::measure(&rows, scale, &mut moments, &mut table).await?;
    netlab::clear_netlab()?;
    if !scale.rest.is_zero() && "at rest".contains(&scale.only) {
        table.at_rest = Some(at_rest::measure(scale.rest).await?);
        netlab::clear_netlab()?;
    }
    if scale.nodes > 0 && "many nodes".contains(&scale.only) {
        let services = scale.nodes * 5;
        table.large = Some(large::measure(scale.nodes, services, scale.rest).await?);
        netlab::clear_netlab()?;
    }
    Ok(table)
}

async fn measure(
    cluster: &mut FailoverCluster,
    row: &'static Row,
    fault: ClusterFault,
    scale: &Scale,
    moments: &mut Moments,
    table: &mut Table,
) -> Result<()> {
    let wanted = scale.repetitions(row);
    let start = Instant::now();
    let (mut counted, mut tried) = (0, 0);
    while counted < wanted {
        tried += 1;
        ensure!(
            tried <= wanted * (1 + MORE),
            "the machine is too busy to measure {}: {counted} of {wanted} count",
            row.name
        );
        until(Instant::now() + moments.next()).await;
        let seen: Seen = fault(cluster, scale.api_outage).await?;
        if row.leaves_damage {
            // The next row goes on from here.
            let healed = cluster.suffer_plug().await?;
            table.add_heal(healed);
        }
        if seen.counts() || !seen.two.is_zero() {
            counted += 1;
            table.add(row, seen);
        }
        cluster.restore().await?;
    }
    scale.tell(row, table, start);
    Ok(())
}
