//! What it costs to keep connections with the node that they began at, and that none breaks.
//!
//! ```text
//!   FailoverCluster with spec.keepConnections
//!     ├─► Load: one connection, before its address moves, after that, and a new one beside it
//!     ├─► moves: 1,000 connections at 20 messages a second, to another node and back, and a rolling update
//!     ├─► evening out: as many to ten Services, of which half or more go to other nodes
//!     └─► Flows: 100,000 entries of conntrack are read, and written into the table
//! ```
//!
//! All nodes are namespaces of one machine: a segment that is passed on costs one more hop between two
//! pairs of virtual interfaces, and all of it is done by the processors that the client and the server
//! use as well. So the processor time says more than the throughput.

mod flows;
mod load;
mod report;

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

pub use flows::Flows;
pub use load::Load;
pub use report::Report;

use crate::bench::{in_netlab, number};
use mooring_test_netlab::failover::{FailoverCluster, Layout, Seen};
use mooring_test_support::wait::try_eventually;

/// How long anything may take to come to be.
const LIMIT: Duration = Duration::from_secs(40);

/// How many Services there are beside the one whose address moves. All have connections while they are evened out.
const MORE_SERVICES: u8 = 9;

/// How long all must be well between two moves.
const WELL: Duration = Duration::from_millis(500);

/// What is done.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// How many connections talk while addresses move.
    pub connections: usize,
    /// How many entries of conntrack are read and written.
    pub flows: usize,
    /// For how long each load is measured.
    pub span: Duration,
}

impl Scale {
    /// What `make bench-connections` does.
    #[must_use]
    pub fn full() -> Self {
        Self {
            connections: 1_000,
            flows: 100_000,
            span: Duration::from_secs(5),
        }
    }

    /// [`Self::full`], changed by `CONNECTIONS`, `FLOWS` and `SECONDS_EACH`.
    fn from_environment() -> Result<Self> {
        let full = Self::full();
        Ok(Self {
            connections: number("CONNECTIONS", full.connections)?,
            flows: number("FLOWS", full.flows)?,
            span: Duration::from_secs(number("SECONDS_EACH", full.span.as_secs())?),
        })
    }
}

/// `make bench-connections`. Fails if a connection breaks.
pub fn main() -> ExitCode {
    in_netlab("bench-connections", async || {
        run(&Scale::from_environment()?).await
    })
}

/// Measures all. In a netlab.
///
/// # Errors
/// If something could not be measured.
pub async fn run(scale: &Scale) -> Result<Report> {
    let layout = Layout {
        release: true,
        connections: scale.connections,
        more_services: MORE_SERVICES,
        keep_connections: Some("15m"),
        ..Layout::of(3)
    };
    let mut cluster = FailoverCluster::build(layout).await?;
    let flows = flows::measure(&cluster.asker, scale.flows)?;
    let loads = measure_loads(&mut cluster, scale.span).await?;
    cluster.restore().await?;
    let seen = move_and_update(&mut cluster).await?;
    let all = FailoverCluster::FIRST..=FailoverCluster::FIRST + MORE_SERVICES;
    let evened_out = cluster.suffer_even_out(all, scale.connections).await?;
    Ok(Report {
        loads,
        seen,
        evened_out,
        flows,
    })
}

async fn measure_loads(cluster: &mut FailoverCluster, span: Duration) -> Result<Vec<Load>> {
    let mut loads = Vec::new();
    let mut streams = Vec::new();
    for address in cluster.addresses() {
        let to = SocketAddr::new(address, FailoverCluster::PORT);
        let stream = cluster.tcp.connect(to, LIMIT)?;
        loads.push(load::measure(
            &stream,
            family(address),
            "before the move",
            span,
        )?);
        streams.push((address, stream));
    }
    let first = cluster.speaker().await?;
    cluster.exclude(&first).await?;
    let speaker = try_eventually(LIMIT, async || {
        let speaker = cluster.speaker().await?;
        ensure!(speaker != first, "{first} goes on to speak");
        Ok(speaker)
    })
    .await
    .map_err(anyhow::Error::msg)?;
    for (address, stream) in &streams {
        loads.push(load::measure(stream, family(*address), "passed on", span)?);
        ensure!(
            passed_on(cluster, &speaker)? > 0,
            "{speaker} has passed nothing on: this measures something else"
        );
        let to = SocketAddr::new(*address, FailoverCluster::PORT);
        let beside = cluster.tcp.connect(to, LIMIT)?;
        loads.push(load::measure(
            &beside,
            family(*address),
            "a new one beside it",
            span,
        )?);
    }
    Ok(loads)
}

const fn family(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    }
}

/// How many segments a node's kernel has passed on.
fn passed_on(cluster: &FailoverCluster, node: &str) -> Result<u64> {
    let host = cluster.netlab.node(node);
    let chain = host.run(&["nft", "list", "chain", "netdev", "mooring", "f_0"])?;
    let mut words = chain
        .split_whitespace()
        .skip_while(|word| *word != "packets");
    let packets = words.nth(1).context("the rule has no counter")?;
    Ok(packets.parse()?)
}

/// The address goes to another node and back; then all daemons are restarted, one after the other.
async fn move_and_update(cluster: &mut FailoverCluster) -> Result<Seen> {
    let (mut watch, first) = cluster.watch_speaker().await?;
    watch.begin();
    let second = cluster.move_away(&watch, &first).await?;
    watch.is_well(WELL, LIMIT).await?;
    // There is only one way from there.
    let third = cluster
        .members()
        .find(|name| *name != first && *name != second);
    cluster
        .exclude(third.context("there are three nodes")?)
        .await?;
    cluster.include(&first).await?;
    cluster.move_away(&watch, &second).await?;
    watch.is_well(WELL, LIMIT).await?;
    cluster.include_all().await?;
    let names: Vec<String> = cluster.daemons.keys().cloned().collect();
    for name in names {
        cluster.terminate(&name).await?;
        cluster.start_daemon(&name)?;
        cluster.members_take_part().await?;
        watch.is_well(WELL, LIMIT).await?;
    }
    let done = watch.began().elapsed();
    watch.settle(done + Duration::from_secs(3), LIMIT).await;
    Ok(watch.end(cluster))
}
