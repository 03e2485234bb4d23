//! Nothing changes that load balancers would have to follow.

use std::time::Instant;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;

use super::cluster::{Cluster, LIMIT, PORTS};
use super::create::name;
use crate::bench::{Kind, Report, Row};
use mooring_test_support::wait::try_eventually;

/// One listing of each kind: servers, load balancers, pools, listeners, monitors, floating IPs.
const LISTINGS: usize = 6;
/// What central looks for at its start besides: orphaned load balancers, and servers once more.
const AT_START: usize = 2;

/// An annotation of each Service changes that nobody reads.
pub(super) async fn touch(cluster: &Cluster, report: &mut Report) -> Result<()> {
    let services = cluster.scale.services;
    let start = Instant::now();
    let names: Vec<String> = (0..services).map(name).collect();
    let touching = names
        .iter()
        .map(|name| cluster.annotate(name, "bench.example.com/touched", "once"));
    try_join_all(touching).await?;
    cluster.rests().await?;
    let cost = cluster.cost_since(start);
    cluster.tell(&format!("all touched: {}", cost.by_kind()));
    report.count("touch-all-writes", cost.writes.len(), 0, "0");
    let upstream = cluster.scale.upstream("1320", "-");
    let most = LISTINGS + services * PORTS;
    report.at_most("touch-all-reads", cost.reads.len(), most, upstream);
    Ok(())
}

/// Central ends and starts.
pub(super) async fn restart(cluster: &mut Cluster, report: &mut Report) -> Result<()> {
    let start = Instant::now();
    cluster.restart_central().await?;
    let ready = try_eventually(LIMIT, async || {
        cluster.central.endpoints.status("/readyz").await == Some(200)
    });
    ready
        .await
        .map_err(anyhow::Error::msg)
        .context("central is not ready")?;
    let asked = try_eventually(LIMIT, async || !cluster.sim.calls().since(start).is_empty());
    asked
        .await
        .map_err(anyhow::Error::msg)
        .context("central does not ask the cloud")?;
    cluster.rests().await?;
    let cost = cluster.cost_since(start);
    cluster.tell(&format!("restarted: {}", cost.by_kind()));
    let scale = cluster.scale;
    report.count("restart-writes", cost.writes.len(), 0, "0");
    let pools = scale.services * PORTS;
    let upstream = scale.upstream("1400", "1400");
    let wanted = LISTINGS + AT_START + pools;
    report.at_most("restart-reads", cost.reads.len(), wanted, upstream);
    report.add(Row {
        name: "restart-reads-by-kind".to_owned(),
        measured: cost.by_kind(),
        upstream: "-".to_owned(),
        target: format!("{LISTINGS} listings, {pools} of members, {AT_START} more"),
        met: cost.reads.len() <= wanted,
        kind: Kind::Count,
    });
    let first = cost.reads.first().map(|call| call.at);
    let last = cost.reads.last().map(|call| call.at);
    let took = last
        .zip(first)
        .map(|(last, first)| last.duration_since(first));
    let took = took.unwrap_or_default().as_secs_f64();
    report.seconds("restart-reading-seconds", took, 30.0, "-");
    Ok(())
}
