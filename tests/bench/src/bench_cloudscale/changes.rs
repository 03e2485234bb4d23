//! Each kind of change of one Service: what it costs, and for how long users are cut off.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;

use super::Cluster;
use super::kinds::{CHANGES, Change, NODES};
use crate::bench::cluster::{LIMIT, NUMBER_LABEL, ingress, service};
use crate::bench::{Kind, Report, Row};
use crate::clouds::cloudscale::balancer_name;
use mooring_cloud_sim::cloudscale::Outage;
use mooring_test_support::wait::try_eventually;

const SELECTOR: &str = "k8s.cloudscale.ch/loadbalancer-node-selector";
const NAME: &str = "changing";

pub(super) async fn run(cluster: &Cluster, report: &mut Report) -> Result<()> {
    let nodes: Vec<usize> = (1..=NODES).collect();
    let numbers: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    let selector = format!("{NUMBER_LABEL} in ({})", numbers.join(","));
    let changing = service(NAME).annotation(SELECTOR, &selector);
    let mut service = cluster.create(changing).await?;
    let is_served = try_eventually(LIMIT, async || -> Result<()> {
        let service = cluster.services().get(NAME).await?;
        ensure!(!ingress(&service).is_empty(), "it has no address");
        Ok(())
    });
    is_served
        .await
        .map_err(anyhow::Error::msg)
        .context("the Service that is to change")?;
    cluster.rests().await?;
    for change in &CHANGES {
        service = one(cluster, report, change, &nodes)
            .await
            .context(change.name)?;
    }
    let balancer = balancer_name(&service);
    cluster.services().delete(NAME, &Default::default()).await?;
    let gone = try_eventually(LIMIT, async || -> Result<()> {
        let left = cluster
            .sim
            .named(mooring_cloud_sim::cloudscale::Kind::LoadBalancer, &balancer);
        ensure!(left.is_empty(), "its load balancer is still there");
        let left = cluster.services().get_opt(NAME).await?;
        ensure!(left.is_none(), "the Service is still there");
        Ok(())
    });
    gone.await.map_err(anyhow::Error::msg).context("delete")
}

async fn one(
    cluster: &Cluster,
    report: &mut Report,
    change: &Change,
    nodes: &[usize],
) -> Result<Service> {
    let before = cluster.services().get(NAME).await?;
    let balancer = balancer_name(&before);
    let start = Instant::now();
    let service = cluster.patch(NAME, &(change.patch)(&before)).await?;
    let wanted = cluster.wanted(&service, nodes);
    let is_done = try_eventually(LIMIT, async || -> Result<()> {
        let found = cluster.sim.traffic(&balancer).now();
        ensure!(found == wanted, "{found:?} is served instead of {wanted:?}");
        ensure!(
            (change.is_done)(cluster, &balancer, &service),
            "not all is done"
        );
        Ok(())
    });
    is_done.await.map_err(anyhow::Error::msg)?;
    let cost = cluster
        .settled(start, &format!("change of {}", change.name))
        .await?;
    let outages = cluster.sim.outages(&balancer);
    let gaps: Vec<Outage> = outages
        .into_iter()
        .filter(|outage| outage.since >= start && outage.over)
        .collect();
    let longest = gaps
        .iter()
        .map(|gap| gap.lasted)
        .max()
        .unwrap_or(Duration::ZERO);
    let writes = gaps.iter().map(|gap| gap.writes).max().unwrap_or(0);
    let name = change.name;
    report.add(Row {
        name: format!("change-{name}-reads/writes"),
        measured: format!("{}/{}", cost.reads.len(), cost.writes.len()),
        upstream: change.upstream_calls.to_owned(),
        target: "no read".to_owned(),
        met: cost.reads.is_empty(),
        kind: Kind::Count,
    });
    report.add(Row {
        name: format!("change-{name}-without-listener-or-member"),
        measured: format!("{:.2} s, {writes} writes", longest.as_secs_f64()),
        upstream: change.upstream_outage.to_owned(),
        target: format!("<= {} writes", change.longest_gap),
        met: writes <= change.longest_gap,
        kind: Kind::Count,
    });
    report.seconds(&format!("change-{name}-seconds"), cost.seconds, 5.0, "-");
    Ok(service)
}
