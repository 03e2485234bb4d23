//! Nodes register, and describe themselves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use mooring_common::names::{labels, taints};

use super::console::{Console, Step, short};
use super::scenario::{Cast, MOORING, NODES};
use mooring_test_cluster::cluster::{addresses, has_taint, label, provider_id};
use mooring_test_netlab::netlab_cluster::NetlabCluster;

/// Nodes register, and their daemons describe them.
pub(super) async fn initialise(console: &Console, cast: &mut Cast) -> Result<()> {
    console.chapter("Nodes describe themselves");
    let cluster = &cast.cluster;
    let start = Instant::now();
    cast.kubelets = cluster.register().await?;
    console.event(&format!(
        "{} have registered: tainted uninitialized, without addresses",
        NODES.join(", ")
    ));
    cast.daemons = cluster.start_daemons(&[]).await?;
    cast.daemons
        .values()
        .for_each(|daemon| console.heed(daemon));
    await_initialised(console, cluster, &NODES, start).await
}

/// Waits until these Nodes, which were there from `start` on, have lost their taint.
pub(super) async fn await_initialised(
    console: &Console,
    cluster: &NetlabCluster,
    names: &[&str],
    start: Instant,
) -> Result<()> {
    let step = Step::new("all Nodes initialised", 60, MOORING);
    let nodes = Api::<Node>::all(cluster.admin.clone());
    console
        .run(step, async {
            let mut told = BTreeMap::new();
            step.until(async || {
                for node in nodes.list(&ListParams::default()).await? {
                    let name = node.metadata.name.clone().unwrap_or_default();
                    if !has_taint(&node, taints::UNINITIALIZED) && !told.contains_key(&name) {
                        console.event(&describe(&node, start.elapsed()));
                        told.insert(name, start.elapsed());
                    }
                }
                ensure!(
                    told.len() == names.len(),
                    "initialised so far: {:?}",
                    told.keys()
                );
                Ok(())
            })
            .await?;
            let each: Vec<String> = told
                .iter()
                .map(|(name, took)| format!("{name} after {}", short(*took)))
                .collect();
            Ok(((), each.join(", ")))
        })
        .await
}

fn describe(node: &Node, took: Duration) -> String {
    let addresses: Vec<String> = addresses(node)
        .iter()
        .filter_map(|address| address.strip_prefix("InternalIP ").map(str::to_owned))
        .collect();
    format!(
        "{} untainted after {}: {}, {} in {}",
        node.metadata.name.as_deref().unwrap_or_default(),
        short(took),
        addresses.join(", "),
        provider_id(node).unwrap_or("no provider ID"),
        label(node, labels::ZONE)
            .or_else(|| label(node, labels::REGION))
            .unwrap_or("no zone"),
    )
}
