//! Nothing changes that load balancers would have to follow.

use std::time::Instant;

use anyhow::Result;

use super::Cluster;
use crate::bench::cluster::PORTS;
use crate::bench::{Kind, Report, Row};

/// One listing of each kind: servers, load balancers, pools, listeners, monitors, floating IPs.
const LISTINGS: usize = 6;
/// What central looks for at its start besides: orphaned load balancers, and servers once more.
const AT_START: usize = 2;

/// An annotation of each Service changes that nobody reads.
pub(super) async fn touch(cluster: &Cluster, report: &mut Report) -> Result<()> {
    let services = cluster.scale.services;
    let cost = cluster.touch_all(services).await?;
    report.count("touch-all-writes", cost.writes.len(), 0, "0");
    let upstream = cluster.scale.upstream("1320", "-");
    let most = LISTINGS + services * PORTS;
    report.at_most("touch-all-reads", cost.reads.len(), most, upstream);
    Ok(())
}

/// Central ends and starts.
pub(super) async fn restart(cluster: &mut Cluster, report: &mut Report) -> Result<()> {
    let start = Instant::now();
    cluster.restart_central(&[]).await?;
    let cost = cluster.settled(start, "restarted").await?;
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
