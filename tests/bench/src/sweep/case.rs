//! One operation with one thing going wrong at one call.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};

use super::case_cluster::{CaseCluster, WaitLimit};
use super::cluster::Cluster;
use super::disturbance::{Armed, Disturbance};
use super::operation::Operation;
use super::reference::Reference;
use super::verdict::{Failure, Verdict};
use mooring_test_support::wait::try_eventually;

/// How long a case may take to settle. After one failure the next attempt comes within seconds; a
/// late write is seen when all is compared anew.
const LIMIT: Duration = Duration::from_secs(90);

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// What a user does.
    pub operation: Operation,
    /// What goes wrong.
    pub disturbance: Disturbance,
    /// At which call of those that it is about, counted from 1.
    pub call: u64,
}

impl Case {
    /// Does it, and says whether all ended well.
    pub(super) async fn run(self, cluster: &Arc<Cluster>, reference: &Reference) -> Verdict {
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

    async fn disturbed(
        self,
        case: &CaseCluster,
        reference: &Reference,
        has_struck: &mut bool,
    ) -> Result<()> {
        let prepared = self.operation.prepare(case).await;
        prepared.context("what was there before")?;
        let armed = self.disturbance.arm(case, self.call);
        self.operation.begin(case).await?;
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
        case.was_careful(self.operation, self.disturbance)
    }

    async fn is_settled(
        self,
        case: &CaseCluster,
        armed: &Armed,
        reference: &Reference,
    ) -> Result<()> {
        let is_late = armed.has_struck() && !armed.is_done();
        ensure!(!is_late, "the late call has not been done");
        let wrong = case.wrong(reference).await?;
        ensure!(wrong.is_empty(), "{}", wrong.join("; "));
        Ok(())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.operation, self.disturbance, self.call)
    }
}

impl FromStr for Case {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let [operation, disturbance, call] = parts.as_slice() else {
            return Err(anyhow!("{text:?} is no case; write it like create/500/7"));
        };
        Ok(Self {
            operation: operation.parse()?,
            disturbance: disturbance.parse()?,
            call: call.parse().context("the number of the call")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_written_as_it_is_read() {
        for operation in Operation::ALL {
            for disturbance in Disturbance::ALL {
                let case = Case {
                    operation,
                    disturbance,
                    call: 7,
                };
                assert_eq!(case.to_string().parse::<Case>().unwrap(), case);
            }
        }
        for wrong in [
            "",
            "create/500",
            "create/501/1",
            "make/500/1",
            "create/500/x",
        ] {
            assert!(wrong.parse::<Case>().is_err(), "{wrong}");
        }
    }
}
