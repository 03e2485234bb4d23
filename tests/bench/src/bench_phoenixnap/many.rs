//! All Services are made at once; nothing happens; central starts anew; all go.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;

use super::Layout;
use super::cluster::Cluster;
use crate::bench::{Kind, Report, Row};

/// After how long it was counted how many blocks the Go controller had given back.
const COUNTED_AFTER: Duration = Duration::from_secs(65);

pub(super) async fn run(cluster: &mut Cluster, report: &mut Report) -> Result<()> {
    let all = cluster.scale.services;
    let names: Vec<String> = (1..=all).map(|n| format!("many-{n:03}")).collect();
    let blocks = cluster.layout.blocks(all);
    let served = match cluster.layout {
        Layout::Shared => all,
        Layout::Own => blocks,
    };
    created(cluster, report, &names, served, blocks).await?;
    at_rest(cluster, report).await?;
    touched(cluster, report, &names).await?;
    restarted(cluster, report).await?;
    deleted(cluster, report, &names, blocks).await
}

async fn created(
    cluster: &Cluster,
    report: &mut Report,
    names: &[String],
    served: usize,
    blocks: usize,
) -> Result<()> {
    let all = names.len();
    let bought_before = cluster.sim.purchases().len();
    let start = Instant::now();
    cluster.create(names).await?;
    cluster.served(served).await?;
    let took = start.elapsed();
    cluster.refused(all - served).await?;
    cluster.rests().await?;
    let cost = cluster.cost_since(start);
    let what = format!("{all}-created");
    // Nobody has measured the Go controller with so many: a network takes ten of its blocks.
    cluster.report(report, &what, &cost, (6 * blocks, 2 * blocks), "-");
    cluster.report_time(report, &what, took, 60.0, "-");
    let layout = cluster.layout.name();
    let bought = cluster.sim.purchases().len() - bought_before;
    let name = format!("{layout}-{all}-created-blocks-bought");
    report.count(&name, bought, blocks, "-");
    let name = format!("{layout}-{all}-created-have-an-address");
    report.count(&name, served, served, "10");
    Ok(())
}

async fn at_rest(cluster: &Cluster, report: &mut Report) -> Result<()> {
    let start = Instant::now();
    tokio::time::sleep(cluster.scale.steady).await;
    let cost = cluster.cost_since(start);
    let what = format!("at-rest-for-{}-s", cluster.scale.steady.as_secs());
    cluster.report(report, &what, &cost, (1, 0), "1/0");
    Ok(())
}

/// An annotation of each Service changes that nobody reads.
async fn touched(cluster: &Cluster, report: &mut Report, names: &[String]) -> Result<()> {
    let start = Instant::now();
    let key = "bench.example.com/touched";
    try_join_all(
        names
            .iter()
            .map(|name| cluster.annotate(name, key, Some("once"))),
    )
    .await?;
    cluster.all_looked_at().await?;
    cluster.rests().await?;
    let cost = cluster.cost_since(start);
    cluster.report(report, "all-touched", &cost, (4, 0), "50/0");
    Ok(())
}

async fn restarted(cluster: &mut Cluster, report: &mut Report) -> Result<()> {
    let start = Instant::now();
    cluster.restart_central().await?;
    cluster.rests().await?;
    let cost = cluster.cost_since(start);
    cluster.report(report, "restart", &cost, (6, 0), "50/0");
    Ok(())
}

async fn deleted(
    cluster: &Cluster,
    report: &mut Report,
    names: &[String],
    blocks: usize,
) -> Result<()> {
    let all = names.len();
    let start = Instant::now();
    cluster.delete(names).await?;
    cluster.left(0, 0).await?;
    cluster.rests().await?;
    let cost = cluster.cost_since(start);
    let what = format!("{all}-deleted");
    cluster.report(report, &what, &cost, (5 * blocks, 3 * blocks), "-");
    let what = format!("{all}-deleted-and-{blocks}-blocks-released");
    let took = cost.until_last_write;
    cluster.report_time(report, &what, took, 60.0, "about 60 s for each");
    let later = cluster.released_after(start, COUNTED_AFTER);
    report.add(Row {
        name: format!(
            "{}-{all}-deleted-blocks-left-after-{}-s",
            cluster.layout.name(),
            COUNTED_AFTER.as_secs()
        ),
        measured: format!("{later} of {blocks}"),
        upstream: cluster.scale.upstream("49 of 50").to_owned(),
        target: "0".to_owned(),
        met: later == 0,
        kind: Kind::Measure,
    });
    Ok(())
}
