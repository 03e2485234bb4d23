//! Takes a Service's load balancer away.
//!
//! That nothing is left is believed only if a complete listing that was begun afterwards does not
//! have it, and asking for it by its UUID finds nothing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::engine::Step as _;
use mooring_common::names::reasons;
use tokio::time::Instant;

use super::super::NAME;
use super::super::api::balancers::{self, Balancer};
use super::apply::is_refusal;
use super::observe::{Question, named};
use super::ownership::{Selection, given_away, is_of_another_cluster, kept};
use super::step::Step;
use super::{Shared, assembly, requests, turns_up};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::clouds::load_balancers::{
    Demand, Gate, Notice, PlannedStep, Prepared, Progress, Setback, Shown,
};

/// When to look again whether it is gone.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// A removal that is planned.
pub(super) struct Removal {
    shared: Arc<Shared>,
    question: Question,
    /// What goes, by UUID and name.
    targets: Vec<(String, String)>,
    shown: Shown,
}

impl Removal {
    /// Plans it.
    ///
    /// # Errors
    /// [`CloudError`] unless it is certain what there is.
    pub(super) async fn prepare(shared: Arc<Shared>, demand: &Demand) -> Result<Self, CloudError> {
        let question = Question::of(demand);
        let (targets, kept) = shared.removable(&question, demand).await?;
        let steps = targets.iter().map(|(uuid, name)| Step::DeleteBalancer {
            uuid: uuid.clone(),
            name: name.clone(),
        });
        let steps = steps.map(|step| PlannedStep {
            step: step.to_string(),
            impact: step.impact(),
        });
        let notices = kept.into_iter().map(|why| Notice {
            reason: reasons::LOAD_BALANCER_KEPT,
            note: format!("Nothing is deleted in cloudscale.ch: {why}."),
            by_provider: false,
        });
        let shown = Shown {
            steps: steps.collect(),
            notices: notices.collect(),
        };
        Ok(Self {
            shared,
            question,
            targets,
            shown,
        })
    }
}

/// Whose a load balancer is by the marks that it bears now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// The Service's.
    Own,
    /// Somebody else's, or nobody's.
    Anothers,
    /// It is not there any more.
    Gone,
}

impl Shared {
    /// What is provably a Service's own, by UUID and name, and why other things stay that might have
    /// been its: by a listing that is begun now, whatever is remembered.
    async fn removable(
        &self,
        question: &Question,
        demand: &Demand,
    ) -> Result<(Vec<(String, String)>, Vec<String>), CloudError> {
        let listing = self.listings.balancers(question.asked).await?;
        let cluster = question.cluster.as_deref();
        let (mut targets, stay) = match question.select(&listing) {
            Selection::Own { balancer, surplus } => {
                let all = [balancer].into_iter().chain(surplus);
                let (away, own): (Vec<_>, Vec<_>) =
                    all.partition(|balancer| is_of_another_cluster(balancer, cluster));
                let own = own.into_iter().map(named).collect();
                return Ok((own, away.into_iter().map(given_away).collect()));
            }
            Selection::Adopted(balancer) => return Ok((vec![named(balancer)], Vec::new())),
            Selection::Unproven(balancer) => {
                match self.is_proven(question, demand, balancer).await? {
                    true => return Ok((vec![named(balancer)], Vec::new())),
                    false => (Vec::new(), vec![kept(balancer)]),
                }
            }
            Selection::Refused(why) => (Vec::new(), vec![why]),
            Selection::Nothing => (Vec::new(), Vec::new()),
        };
        let noted = question.claim.uuid.clone();
        let uuids = noted
            .into_iter()
            .chain(self.memory.last_uuid(&question.uid));
        for uuid in uuids {
            let is_listed = listing.all.iter().any(|listed| listed.uuid == uuid);
            if is_listed || targets.iter().any(|(known, _)| *known == uuid) {
                continue;
            }
            match self.unlisted(&uuid).await? {
                Some(there) if question.claim.may_delete(&there, cluster) => {
                    targets.push(named(&there));
                }
                Some(_) => {
                    let what =
                        format!("the listing of load balancers lacks {uuid}, which is there");
                    return Err(CloudError::new(NAME, ErrorKind::Malformed, what));
                }
                None => {}
            }
        }
        Ok((targets, stay))
    }

    /// Whether one that an annotation names was the Service's, whose status has a host name instead of
    /// addresses: by where it leads.
    async fn is_proven(
        &self,
        question: &Question,
        demand: &Demand,
        balancer: &Balancer,
    ) -> Result<bool, CloudError> {
        if !question.claim.has_used_by_name(balancer) {
            return Ok(false);
        }
        let machines = self.machines.find(&demand.nodes).await.machines;
        let (observed, _) = self.observe(balancer, question.asked).await?;
        Ok(question.claim.is_led_to(&observed, &machines))
    }

    /// Whose a load balancer is, read now.
    ///
    /// # Errors
    /// [`CloudError`] unless the cloud says it.
    pub(super) async fn marks(&self, uuid: &str, question: &Question) -> Result<Marks, CloudError> {
        let cluster = question.cluster.as_deref();
        match self.status(uuid).await {
            Ok(listed) if listed.uuid == uuid && question.claim.may_delete(&listed, cluster) => {
                Ok(Marks::Own)
            }
            Ok(_) => Ok(Marks::Anothers),
            Err(error) if error.is_not_found() => Ok(Marks::Gone),
            Err(error) => Err(error),
        }
    }

    /// One that a listing lacks, asked for by its UUID.
    ///
    /// # Errors
    /// [`CloudError`] unless the cloud says whether it is there.
    pub(super) async fn unlisted(&self, uuid: &str) -> Result<Option<Balancer>, CloudError> {
        if uuid::Uuid::try_parse(uuid).is_err() {
            return Ok(None);
        }
        match self.status(uuid).await {
            Ok(there) => Ok(Some(there).filter(|there| there.uuid == uuid)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn status(&self, uuid: &str) -> Result<Balancer, CloudError> {
        self.cloud.client.fetch(&balancers::one(uuid)).await
    }

    /// Deletes one. Whether the cloud has taken it; if not, it is at work on it.
    pub(super) async fn delete(&self, uuid: &str, gate: &dyn Gate) -> Result<bool, Setback> {
        gate.before_write()?;
        match self
            .cloud
            .client
            .call(&requests::delete_balancer(uuid))
            .await
        {
            Ok(()) => {
                gate.written();
                tracing::info!(uuid, "deleted a load balancer");
                Ok(true)
            }
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) if is_refusal(&error) => match self.status(uuid).await {
                Ok(listed) if assembly::balancer(&listed).is_changing => Ok(false),
                Err(gone) if gone.is_not_found() => Ok(true),
                _ => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Whether none of these is there any more, and nothing else of the Service.
    async fn are_gone(
        &self,
        question: &Question,
        targets: &[(String, String)],
    ) -> Result<bool, CloudError> {
        for (uuid, _) in targets {
            if self.unlisted(uuid).await?.is_some() {
                return Ok(false);
            }
        }
        let listing = self.listings.balancers(Instant::now()).await?;
        let is_target = |listed: &Balancer| targets.iter().any(|(uuid, _)| *uuid == listed.uuid);
        let cluster = question.cluster.as_deref();
        let is_own = match question.select(&listing) {
            Selection::Own { balancer, surplus } => {
                let mut all = [balancer].into_iter().chain(surplus);
                all.any(|balancer| !is_of_another_cluster(balancer, cluster))
            }
            _ => false,
        };
        Ok(!is_own && !listing.all.iter().any(is_target))
    }
}

#[async_trait]
impl Prepared for Removal {
    fn shown(&self) -> &Shown {
        &self.shown
    }

    async fn carry_out(self: Box<Self>, gate: &dyn Gate) -> Result<Progress, Setback> {
        let uid = &self.question.uid;
        let _turn = self.shared.memory.turn(uid).lock_owned().await;
        let memory = &self.shared.memory;
        for (uuid, name) in &self.targets {
            match self.shared.marks(uuid, &self.question).await? {
                Marks::Own => memory.settled(uid),
                Marks::Gone => continue,
                Marks::Anothers => {
                    memory.doubt(uid);
                    return Ok(Progress::Wait {
                        after: LOOK_AGAIN,
                        what: format!("the load balancer {name} is another's by now"),
                    });
                }
            }
            // Whatever becomes of it, it is looked for anew.
            let _write = memory.begin_write(uid);
            if !self.shared.delete(uuid, gate).await? {
                return Ok(Progress::Wait {
                    after: LOOK_AGAIN,
                    what: format!("cloudscale.ch is at work on the load balancer {name}"),
                });
            }
        }
        if self.targets.is_empty()
            && let Some(left) = self.shared.unsettled(&self.question)
        {
            return Ok(turns_up(left));
        }
        let is_over =
            self.targets.is_empty() || self.shared.are_gone(&self.question, &self.targets).await?;
        if is_over {
            memory.removed(uid);
            return Ok(Progress::Removed);
        }
        Ok(Progress::Wait {
            after: LOOK_AGAIN,
            what: "cloudscale.ch is deleting the load balancer".to_owned(),
        })
    }
}
