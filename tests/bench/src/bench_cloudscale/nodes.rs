//! Nodes come and go.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::Cluster;
use crate::bench::cluster::{LIMIT, PORTS, ingress, name};
use crate::bench::{Kind, Report, Row};
use mooring_test_support::wait::try_eventually;

/// How many reads a change of the Nodes may take, however many Services there are.
const READS: usize = 20;
/// How much later each answer comes while a Service changes in between.
const LATENCY: Duration = Duration::from_millis(100);
const CLIENT_TIMEOUT: &str = "k8s.cloudscale.ch/loadbalancer-timeout-client-data-ms";
const HOSTNAME: &str = "k8s.cloudscale.ch/loadbalancer-force-hostname";

/// One joins, five do, and one leaves.
pub(super) async fn joins_and_leaves(cluster: &mut Cluster, report: &mut Report) -> Result<()> {
    let scale = cluster.scale;
    let start = Instant::now();
    cluster.join(1).await?;
    let upstream = [
        scale.upstream("40", "40"),
        scale.upstream("2479", "2530"),
        scale.upstream("69 s", "190-211 s"),
    ];
    followed(cluster, report, "one-joins", start, 1, upstream).await?;

    let start = Instant::now();
    cluster.join(5).await?;
    let upstream = [
        scale.upstream("200", "-"),
        scale.upstream("2761", "-"),
        scale.upstream("78 s", "-"),
    ];
    followed(cluster, report, "five-join", start, 5, upstream).await?;

    let start = Instant::now();
    cluster.leave().await?;
    let upstream = [
        scale.upstream("40", "-"),
        scale.upstream("2320", "-"),
        scale.upstream("74 s", "-"),
    ];
    followed(cluster, report, "one-leaves", start, 1, upstream).await
}

async fn followed(
    cluster: &Cluster,
    report: &mut Report,
    what: &str,
    start: Instant,
    nodes: usize,
    [writes, reads, seconds]: [&str; 3],
) -> Result<()> {
    cluster.all_served().await.context(what.to_owned())?;
    let cost = cluster.settled(start, what).await?;
    let wanted = cluster.scale.services * PORTS * nodes;
    let (found_writes, found_reads) = (cost.writes.len(), cost.reads.len());
    report.count(&format!("{what}-writes"), found_writes, wanted, writes);
    report.at_most(&format!("{what}-reads"), found_reads, READS, reads);
    let limit = if cluster.scale.is_quick() {
        69.0
    } else {
        190.0
    };
    report.seconds(&format!("{what}-seconds"), cost.seconds, limit, seconds);
    Ok(())
}

/// Many Nodes join, one after the other.
pub(super) async fn crowd(cluster: &mut Cluster, report: &mut Report) -> Result<()> {
    const REASON: &str = "UpdatedLoadBalancer";
    let scale = cluster.scale;
    let before = cluster.events(REASON).await?;
    let count = u32::try_from(scale.crowd)?.max(1);
    let start = Instant::now();
    let mut due = tokio::time::interval(scale.crowd_within / count);
    for _ in 0..scale.crowd {
        due.tick().await;
        cluster.join(1).await?;
    }
    cluster.all_served().await?;
    let cost = cluster.settled(start, "a crowd joined").await?;
    let after = cluster.events(REASON).await?;
    let rounds = after
        .iter()
        .zip(&before)
        .map(|(after, before)| after - before);
    let most = rounds.max().unwrap_or(0);
    let (within, joined) = (scale.crowd_within.as_secs(), scale.crowd);
    report.add(Row {
        name: format!("T8-rounds-while-{joined}-nodes-join-within-{within}-s"),
        measured: format!("{most} per load balancer at most"),
        upstream: "-".to_owned(),
        target: "1 to 3".to_owned(),
        met: (1..=3).contains(&most),
        kind: Kind::Count,
    });
    let wanted = scale.services * PORTS * scale.crowd;
    report.count("T8-writes", cost.writes.len(), wanted, "-");
    report.at_most("T8-reads", cost.reads.len(), 3 * READS, "-");
    Ok(())
}

/// One Service changes while all load balancers follow the Nodes.
pub(super) async fn between(cluster: &mut Cluster, report: &mut Report) -> Result<()> {
    cluster.sim.set_latency(LATENCY.max(cluster.scale.latency));
    let start = Instant::now();
    cluster.join(5).await?;
    let follows = try_eventually(LIMIT, async || {
        !cluster.sim.calls().since(start).writes().is_empty()
    });
    follows
        .await
        .map_err(anyhow::Error::msg)
        .context("no load balancer follows the Nodes")?;
    let last = name(cluster.scale.services - 1);
    let changed = Instant::now();
    let annotations = json!({ CLIENT_TIMEOUT: "60000", HOSTNAME: "bench.example.com" });
    let patch = json!({ "metadata": { "annotations": annotations } });
    cluster.patch(&last, &patch).await?;
    let told = try_eventually(LIMIT, async || -> Result<()> {
        let service = cluster.services().get(&last).await?;
        let ingress = ingress(&service);
        let is_told = ingress
            .iter()
            .any(|entry| entry["hostname"] == "bench.example.com");
        ensure!(is_told, "{ingress:?}");
        Ok(())
    });
    told.await
        .map_err(anyhow::Error::msg)
        .context("the status of the Service that has changed")?;
    let took = changed.elapsed();
    let meanwhile = cluster.sim.calls().since(changed).writes();
    let of_change = |call: &mooring_cloud_sim::Call| {
        let body = call.body.as_ref();
        body.is_some_and(|body| body["timeout_client_data_ms"] == 60_000)
    };
    let own = meanwhile.filter(of_change);
    let in_cloud: Duration = own.iter().filter_map(|call| call.took).sum();
    cluster.all_served().await?;
    cluster.rests().await?;
    cluster.sim.set_latency(cluster.scale.latency);
    cluster.tell("a Service changed in between");
    let others = meanwhile.len() - own.len();
    report.add(Row {
        name: "T9-change-to-status-while-nodes-are-followed".to_owned(),
        measured: format!(
            "{:.1} s, {:.1} s of them in the cloud ({} writes, and {others} for others meanwhile)",
            took.as_secs_f64(),
            in_cloud.as_secs_f64(),
            own.len()
        ),
        upstream: "-".to_owned(),
        target: "time in the cloud and < 1 s".to_owned(),
        met: took.saturating_sub(in_cloud) < Duration::from_secs(1),
        kind: Kind::Measure,
    });
    Ok(())
}
