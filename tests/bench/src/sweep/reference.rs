//! An operation that nothing disturbs.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::case_cluster::{CaseCluster, WaitLimit};
use super::cluster::Cluster;
use super::disturbance::Disturbance;
use super::operation::Operation;
use mooring_cloud_sim::cloudscale::CloudState;
use mooring_test_support::wait::try_eventually;

/// How long an operation may take.
const LIMIT: Duration = Duration::from_secs(60);

/// How an operation ends, and what it takes.
pub struct Reference {
    /// How many calls.
    pub(super) calls: u64,
    /// How many of them are writes.
    pub(super) writes: u64,
    /// What there is in the end.
    pub(super) end: CloudState,
}

impl Reference {
    /// Does an operation undisturbed.
    ///
    /// # Errors
    /// If it does not work.
    pub(super) async fn take(cluster: &Arc<Cluster>, operation: Operation) -> Result<Self> {
        let case = CaseCluster::start(cluster, WaitLimit::Usual).await?;
        let reference = Self::taken(&case, operation).await;
        if reference.is_err() {
            eprintln!("{}", case.traces());
        }
        case.tear_down().await;
        reference
    }

    async fn taken(case: &CaseCluster, operation: Operation) -> Result<Self> {
        operation.prepare(case).await.context("preparing")?;
        let before = case.sim.calls().len();
        operation.begin(case).await?;
        let settled = try_eventually(LIMIT, async || -> Result<()> {
            if let Some(missing) = operation.missing(case) {
                bail!("{missing}");
            }
            let wrong = case.wrong_services().await?;
            ensure!(wrong.is_empty(), "{}", wrong.join("; "));
            Ok(())
        });
        settled.await.map_err(|reason| anyhow!("{reason}"))?;
        let calls = case.sim.calls();
        let since: Vec<_> = calls.iter().skip(before).collect();
        let writes = since.iter().filter(|call| call.is_write()).count();
        case.marker().await.context("the marker")?;
        let end = case.end();
        case.was_careful(operation, Disturbance::KillBefore)?;
        Ok(Self {
            calls: u64::try_from(since.len())?,
            writes: u64::try_from(writes)?,
            end,
        })
    }
}
