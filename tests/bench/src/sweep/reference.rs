//! An operation that nothing disturbs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::case_cluster::{CaseCluster, WaitLimit};
use super::cluster::Cluster;
use super::disturbance::Disturbance;
use super::swept_cloud::SweptCloud;
use super::written::by_kind;
use mooring_cloud_sim::CloudState;
use mooring_test_support::wait::try_eventually;

/// How long an operation may take.
const LIMIT: Duration = Duration::from_secs(60);

/// How an operation ends, and what it takes.
pub(crate) struct Reference {
    /// How many calls.
    pub(super) calls: u64,
    /// How many of them are writes.
    pub(super) writes: u64,
    /// The writes of each kind, with those before it.
    pub(super) by_kind: BTreeMap<String, usize>,
    /// What there is in the end.
    pub(super) end: CloudState,
}

impl Reference {
    /// Does an operation undisturbed.
    ///
    /// # Errors
    /// If it does not work.
    pub(super) async fn take<C: SweptCloud>(
        cluster: &Arc<Cluster<C>>,
        operation: C::Operation,
    ) -> Result<Self> {
        let case = CaseCluster::start(cluster, WaitLimit::Usual).await?;
        let reference = Self::taken(&case, operation).await;
        if reference.is_err() {
            eprintln!("{}", case.traces());
        }
        case.tear_down().await;
        reference
    }

    async fn taken<C: SweptCloud>(case: &CaseCluster<C>, operation: C::Operation) -> Result<Self> {
        case.prepare(operation).await.context("preparing")?;
        let before = case.cloud.calls().len();
        C::begin(case, operation).await?;
        let settled = try_eventually(LIMIT, async || -> Result<()> {
            if let Some(missing) = C::missing(case, operation) {
                bail!("{missing}");
            }
            let wrong = case.wrong_services().await?;
            ensure!(wrong.is_empty(), "{}", wrong.join("; "));
            Ok(())
        });
        settled.await.map_err(|reason| anyhow!("{reason}"))?;
        let calls = case.cloud.calls();
        let since: Vec<_> = calls.iter().skip(before).collect();
        let writes = since.iter().filter(|call| call.is_write()).count();
        case.marker().await.context("the marker")?;
        let end = case.end();
        case.cloud
            .was_careful(operation, Disturbance::KillBefore, None)?;
        Ok(Self {
            calls: u64::try_from(since.len())?,
            writes: u64::try_from(writes)?,
            by_kind: by_kind(&case.cloud.calls(), |_| true),
            end,
        })
    }
}
