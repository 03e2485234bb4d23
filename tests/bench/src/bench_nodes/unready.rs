//! A tenth of the Nodes is not Ready all at once, as when a network is cut in two; then all are back.

use std::time::Instant;

use anyhow::{Context as _, Result};
use mooring_central::controllers::node_lifecycle::oldest_listing;

use super::cluster::{Cluster, about_one, most_within, refreshes};
use super::report::{Report, Row};
use crate::bench::Kind;

pub(super) async fn run(cluster: &mut Cluster, report: &mut Report) -> Result<()> {
    let ill = cluster.a_tenth();
    let (from, start) = (cluster.cp.now(), Instant::now());
    cluster.kubelets.fall_silent(&ill).await?;
    cluster.tell(&format!("{} Nodes are not Ready", ill.len()));
    tokio::time::sleep(cluster.scale.minute() * 3 / 2).await;
    cluster.kubelets.come_back(&ill).await?;
    cluster.central_rests().await?;
    cluster.tell("they are back");

    let calls = cluster.linode.calls().since(start);
    let refreshes = refreshes(&calls);
    // Otherwise central has not even noticed.
    refreshes.first().context("no machine was looked for")?;
    // A minute by default.
    let span = oldest_listing(cluster.scale.monitor_period) * 2;
    let most = most_within(&refreshes, span);
    let alone = about_one(&calls).len();
    let writes = cluster.writes_since(from).await?;
    report.add(Row {
        id: "T4",
        quantity: format!("{} Nodes not Ready at once", ill.len()),
        measured: format!(
            "{most} listings per minute of {} requests each, {alone} requests about one machine, {} \
             API server writes",
            calls.len().div_ceil(refreshes.len()),
            writes.len()
        ),
        target: "2 listings per minute, 0 requests about one machine".to_owned(),
        met: most <= 2 && alone == 0,
        kind: Kind::Count,
    });
    Ok(())
}
