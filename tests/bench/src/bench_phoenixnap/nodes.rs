//! What Nodes cost: when they are new, and when none is Ready.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use mooring_common::names::taints;

use super::cluster::{Cluster, LIMIT, node};
use crate::bench::Report;
use mooring_cloud_sim::Calls;
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_support::wait::try_eventually;

/// Requests about servers.
fn reads_since(cluster: &Cluster, start: Instant) -> Calls {
    let calls = cluster.sim.calls().since(start);
    calls.filter(|call| call.path.starts_with("/bmc/"))
}

/// All Nodes register at once.
pub(super) async fn start(cluster: &Cluster, report: &mut Report) -> Result<()> {
    let start = Instant::now();
    let nodes = cluster.scale.nodes;
    let registering = (1..=nodes).map(async |n| {
        let node = NodeBuilder::new(&node(n)).tainted().ready();
        node.create(&cluster.admin).await
    });
    try_join_all(registering).await?;
    let api = Api::<Node>::all(cluster.admin.clone());
    let initialised = try_eventually(LIMIT, async || -> Result<()> {
        let listed = api.list(&ListParams::default()).await?;
        let left = listed.iter().filter(|node| is_tainted(node)).count();
        ensure!(left == 0, "{left} Nodes are not initialised");
        Ok(())
    });
    initialised.await.map_err(anyhow::Error::msg)?;
    let took = start.elapsed();
    let reads = reads_since(cluster, start).len();
    cluster.tell(&format!("{nodes} Nodes are initialised"));
    let upstream = cluster.scale.upstream("100");
    report.at_most(&format!("{nodes}-new-nodes-reads"), reads, 3, upstream);
    let name = format!("{nodes}-new-nodes-seconds");
    report.seconds(&name, took.as_secs_f64(), 10.0, "-");
    cluster.rests().await
}

fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let mut taints = taints.into_iter().flatten();
    taints.any(|taint| taint.key == taints::UNINITIALIZED)
}

/// All kubelets fall silent at once, and no server is gone.
pub(super) async fn unready(cluster: &Cluster, report: &mut Report) -> Result<()> {
    let start = Instant::now();
    let nodes = cluster.scale.nodes;
    let names: Vec<String> = (1..=nodes).map(node).collect();
    let silent = names
        .iter()
        .map(|name| NodeBuilder::set_condition(&cluster.admin, name, "Ready", "Unknown"));
    try_join_all(silent).await?;
    let noticed = try_eventually(LIMIT, async || !reads_since(cluster, start).is_empty());
    noticed
        .await
        .map_err(anyhow::Error::msg)
        .context("central does not ask after servers")?;
    let left = cluster.scale.steady.saturating_sub(start.elapsed());
    tokio::time::sleep(left).await;
    let reads = reads_since(cluster, start).len();
    let span = cluster.scale.steady.as_secs();
    cluster.tell(&format!("no Node was Ready for {span} s"));
    let upstream = cluster.scale.upstream("601");
    let name = format!("{nodes}-not-ready-nodes-reads-in-{span}-s");
    report.at_most(&name, reads, 2, upstream);
    let api = Api::<Node>::all(cluster.admin.clone());
    let there = api.list(&ListParams::default()).await?.items.len();
    report.count(&format!("{nodes}-not-ready-nodes-left"), there, nodes, "-");
    let back = names
        .iter()
        .map(|name| NodeBuilder::set_condition(&cluster.admin, name, "Ready", "True"));
    try_join_all(back).await?;
    Ok(())
}
