//! Five Services at once, on a network that takes one change after the other.

use std::time::Instant;

use anyhow::Result;

use super::cluster::Cluster;
use crate::bench::Report;

const SERVICES: usize = 5;

pub(super) async fn run(cluster: &Cluster, report: &mut Report) -> Result<()> {
    let scale = cluster.scale;
    let blocks = cluster.layout.blocks(SERVICES);
    let changes = u32::try_from(blocks)?;
    // Somebody who waits for less than that has not waited.
    let busy = scale.busy.max(scale.change_time) * changes;
    cluster.takes(scale.busy.max(scale.change_time));
    let names: Vec<String> = (1..=SERVICES).map(|n| format!("five-{n}")).collect();

    let start = Instant::now();
    cluster.create(&names).await?;
    cluster.served(SERVICES).await?;
    let took = start.elapsed();
    cluster.rests().await?;
    let cost = cluster.cost_since(start);
    let what = "five-on-a-busy-network";
    // Each block is bought and assigned; and what comes too early is refused.
    cluster.report(report, what, &cost, (27, 25), "27/25");
    let most = busy.as_secs_f64() * 1.5 + 5.0;
    cluster.report_time(report, what, took, most, "75 s");

    let start = Instant::now();
    cluster.delete(&names).await?;
    cluster.left(0, 0).await?;
    let took = start.elapsed();
    cluster.rests().await?;
    let cost = cluster.cost_since(start);
    let what = "five-deleted-on-a-busy-network";
    // Each block is marked, taken off and given back, and looked at right before each of the three.
    let each = 3 * blocks;
    cluster.report(report, what, &cost, (20 + each, each), "-");
    cluster.report_time(report, what, took, most, "-");
    cluster.takes(scale.change_time);
    Ok(())
}
