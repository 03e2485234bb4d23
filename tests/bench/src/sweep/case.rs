//! One operation with one thing going wrong at one call.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};

use super::case_cluster::{CaseCluster, WaitLimit};
use super::cluster::Cluster;
use super::disturbance::{Armed, Disturbance};
use super::reference::Reference;
use super::swept_cloud::{Operation, SweptCloud};
use super::verdict::{Failure, Verdict};
use mooring_test_support::wait::try_eventually;

/// How long a case may take to settle. After one failure the next attempt comes within seconds; a
/// late write is seen when all is compared anew.
const LIMIT: Duration = Duration::from_secs(90);

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case<O> {
    /// What a user does.
    pub operation: O,
    /// What goes wrong.
    pub disturbance: Disturbance,
    /// At which call of those that it is about, counted from 1.
    pub call: u64,
}

impl<O: Operation> Case<O> {
    /// The case that is written like `create/500/7`.
    ///
    /// # Errors
    /// If it is not.
    pub fn parse(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let [operation, disturbance, call] = parts.as_slice() else {
            return Err(anyhow!("{text:?} is no case; write it like create/500/7"));
        };
        Ok(Self {
            operation: O::named(operation)?,
            disturbance: disturbance.parse()?,
            call: call.parse().context("the number of the call")?,
        })
    }

    /// Does it, and says whether all ended well.
    pub(super) async fn run<C: SweptCloud<Operation = O>>(
        self,
        cluster: &Arc<Cluster<C>>,
        reference: &Reference,
    ) -> Verdict<O> {
        let began = Instant::now();
        let mut has_struck = false;
        let failure = match CaseCluster::start(cluster, self.patience()).await {
            Err(error) => Some(Failure::without_stage(&error)),
            Ok(case) => {
                let outcome = self.disturbed(&case, reference, &mut has_struck).await;
                let failure = outcome.err().map(|error| Failure::on(&case, &error));
                case.tear_down().await;
                failure
            }
        };
        Verdict {
            case: self,
            has_struck,
            took: began.elapsed(),
            failure,
        }
    }

    const fn patience(self) -> WaitLimit {
        if self.disturbance.is_late() {
            WaitLimit::ShortAndCurious
        } else if self.disturbance.needs_patience() {
            WaitLimit::Short
        } else {
            WaitLimit::Usual
        }
    }

    async fn disturbed<C: SweptCloud<Operation = O>>(
        self,
        case: &CaseCluster<C>,
        reference: &Reference,
        has_struck: &mut bool,
    ) -> Result<()> {
        let prepared = case.prepare(self.operation).await;
        prepared.context("what was there before")?;
        let armed = self.disturbance.arm(case, self.call);
        C::begin(case, self.operation).await?;
        if self.disturbance.kills() {
            case.killed_or(&armed, reference).await?;
        }
        let settled = try_eventually(LIMIT, async || {
            *has_struck = armed.has_struck();
            self.is_settled(case, &armed, reference).await
        });
        settled.await.map_err(|reason| anyhow!("{reason}"))?;
        armed.lift();
        case.marker().await.context("the marker")?;
        let wrong = case.wrong(reference).await?;
        ensure!(wrong.is_empty(), "after the marker: {}", wrong.join("; "));
        case.cloud
            .was_careful(self.operation, self.disturbance, Some(reference))
    }

    async fn is_settled<C: SweptCloud<Operation = O>>(
        self,
        case: &CaseCluster<C>,
        armed: &Armed,
        reference: &Reference,
    ) -> Result<()> {
        if armed.has_struck() {
            let done = armed.calls_when_done(|| case.cloud.calls().len());
            let done = done.context("the late call has not been done")?;
            // What central did not learn the end of is tried again, even where that was not needed.
            let has_compared = !self.disturbance.is_late() || case.has_read_since(done);
            ensure!(has_compared, "central has not compared since the late call");
        }
        let wrong = case.wrong(reference).await?;
        ensure!(wrong.is_empty(), "{}", wrong.join("; "));
        Ok(())
    }
}

impl<O: Operation> fmt::Display for Case<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = self.operation.name();
        write!(f, "{operation}/{}/{}", self.disturbance, self.call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::cloudscale::Operation as OfCloudscale;
    use crate::sweep::linode::Operation as OfLinode;

    #[test]
    fn every_case_is_written_as_it_is_read() {
        all_are_read::<OfCloudscale>();
        all_are_read::<OfLinode>();
    }

    fn all_are_read<O: Operation>() {
        for &operation in O::ALL {
            for disturbance in Disturbance::ALL {
                let case = Case {
                    operation,
                    disturbance,
                    call: 7,
                };
                assert_eq!(Case::parse(&case.to_string()).unwrap(), case);
            }
        }
        for wrong in [
            "",
            "create/500",
            "create/501/1",
            "make/500/1",
            "create/500/x",
        ] {
            assert!(Case::<O>::parse(wrong).is_err(), "{wrong}");
        }
    }
}
