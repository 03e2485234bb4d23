//! All Services are made at once.

use anyhow::Result;

use super::Cluster;
use crate::bench::Report;
use crate::bench::cluster::PORTS;

/// Reads that do not depend on how many Services there are: listings while load balancers are being
/// made, and what was there before.
const WHILE_MADE: usize = 40;

pub(super) async fn run(cluster: &Cluster, report: &mut Report) -> Result<()> {
    let scale = cluster.scale;
    let cost = cluster.create_all(scale.services).await?;

    // The load balancer; of each port pool, monitor and listener; its members.
    let each = 1 + PORTS * (3 + scale.nodes);
    let (writes, reads) = (cost.writes.len(), cost.reads.len());
    let wanted = scale.services * each;
    report.count(
        "create-all-writes",
        writes,
        wanted,
        scale.upstream("2140", "-"),
    );
    let most = WHILE_MADE + 2 * scale.services;
    report.at_most("create-all-reads", reads, most, scale.upstream("5860", "-"));
    let upstream = scale.upstream("229 s", "-");
    report.seconds("create-all-seconds", cost.seconds, 229.0, upstream);
    Ok(())
}
