//! Central ends and starts again while nothing changes.

use std::time::Instant;

use anyhow::{Context as _, Result};

use super::cluster::{Cluster, LIMIT, refreshes};
use super::report::{Report, Row};
use crate::bench::Kind;
use crate::bench::proc::memory_kib;
use mooring_test_support::wait::try_eventually;

pub(super) async fn run(cluster: &mut Cluster, report: &mut Report) -> Result<()> {
    let (from, before) = (cluster.cp.now(), Instant::now());
    let start = cluster.restart_central().await?;
    let ready = try_eventually(LIMIT, async || {
        cluster.central.endpoints.status("/readyz").await == Some(200)
    });
    ready
        .await
        .map_err(anyhow::Error::msg)
        .context("central is not ready")?;
    let ready_after = start.elapsed();
    let listed = try_eventually(LIMIT, async || {
        !refreshes(&cluster.linode.calls().since(start)).is_empty()
    });
    listed
        .await
        .map_err(anyhow::Error::msg)
        .context("central does not look at the cloud")?;
    cluster.central_rests().await?;
    cluster.tell("central has been restarted");

    let calls = cluster.linode.calls().since(before);
    let writes = cluster.writes_since(from).await?;
    let written = writes
        .first()
        .map_or(String::new(), |first| format!(", first {first}"));
    report.add(Row {
        id: "T10",
        quantity: "restart of central with nothing changed: writes".to_owned(),
        measured: format!(
            "{} to the cloud, {} to the API server{written}",
            calls.writes().len(),
            writes.len()
        ),
        target: "0 and 0".to_owned(),
        met: calls.writes().is_empty() && writes.is_empty(),
        kind: Kind::Count,
    });
    report.add(Row {
        id: "T10",
        quantity: "restart of central: ready after".to_owned(),
        measured: format!("{:.1} s", ready_after.as_secs_f64()),
        target: "< 30 s".to_owned(),
        met: ready_after.as_secs() < 30,
        kind: Kind::Measure,
    });
    let peak = memory_kib(cluster.central.process.pid(), "VmHWM")? as f64 / 1024.0;
    report.add(Row {
        id: "T11",
        quantity: "central: resident memory at most, at a start with all Nodes there".to_owned(),
        measured: format!("{peak:.0} MiB"),
        target: "< 250 MiB".to_owned(),
        met: peak < 250.0,
        kind: Kind::Measure,
    });
    Ok(())
}
