//! A first Service of the account, a further one, and both go.

use std::time::Instant;

use anyhow::Result;

use super::Layout;
use super::cluster::Cluster;
use crate::bench::Report;

pub(super) async fn run(cluster: &Cluster, report: &mut Report) -> Result<()> {
    // All names of tags are made; a block is bought, and assigned.
    let (tags, further, going) = match cluster.layout {
        Layout::Shared => (4, (1, 0), "one-of-two-deleted"),
        Layout::Own => (5, (3, 2), "deleted"),
    };
    comes(cluster, report, "first-service", 1, (5, tags + 2), "3/7").await?;
    comes(cluster, report, "further-service", 2, further, "3/2").await?;

    let start = Instant::now();
    cluster.delete(&[name(2)]).await?;
    cluster.left(1, 1).await?;
    let took = start.elapsed();
    cluster.rests().await?;
    let cost = cluster.cost_since(start);
    if cluster.layout == Layout::Shared {
        cluster.report(report, going, &cost, (1, 0), "4/3");
        cluster.report_time(report, going, took, 5.0, "-");
    } else {
        // Before each of the three writes the block is read: it may be somebody else's by now.
        cluster.report(report, going, &cost, (5, 3), "4/3");
        cluster.report_time(report, "deleted-and-block-released", took, 10.0, "56 s");
    }

    let start = Instant::now();
    cluster.delete(&[name(1)]).await?;
    cluster.left(0, 0).await?;
    let took = start.elapsed();
    cluster.rests().await?;
    let cost = cluster.cost_since(start);
    if cluster.layout == Layout::Shared {
        cluster.report(report, "last-deleted", &cost, (5, 3), "4/3");
        let what = "last-deleted-and-block-released";
        cluster.report_time(report, what, took, 10.0, "56 s");
    }
    Ok(())
}

/// The n-th Service comes.
async fn comes(
    cluster: &Cluster,
    report: &mut Report,
    what: &str,
    n: usize,
    most: (usize, usize),
    upstream: &'static str,
) -> Result<()> {
    let start = Instant::now();
    cluster.create(&[name(n)]).await?;
    cluster.served(n).await?;
    let took = start.elapsed();
    cluster.rests().await?;
    let cost = cluster.cost_since(start);
    cluster.report(report, what, &cost, most, upstream);
    cluster.report_time(report, what, took, 5.0, "-");
    Ok(())
}

fn name(n: usize) -> String {
    format!("few-{n}")
}
