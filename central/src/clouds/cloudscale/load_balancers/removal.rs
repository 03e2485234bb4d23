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
use super::ownership::{Selection, not_by_name};
use super::step::Step;
use super::{Shared, assembly, requests};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::clouds::load_balancers::{
    Demand, Gate, Notice, PlannedStep, Prepared, Progress, Setback, Shown,
};

/// When to look again whether it is gone.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

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
        let (targets, kept) = shared.removable(&question).await?;
        let steps = targets.iter().map(|(uuid, name)| Step::DeleteBalancer {
            uuid: uuid.clone(),
            name: name.clone(),
        });
        let steps = steps.map(|step| PlannedStep {
            step: step.to_string(),
            impact: step.impact(),
        });
        let notices = kept.map(|why| Notice {
            reason: reasons::LOAD_BALANCER_KEPT,
            note: format!("Nothing is deleted in cloudscale.ch: {why}."),
            by_provider: false,
        });
        let shown = Shown {
            steps: steps.collect(),
            notices: notices.into_iter().collect(),
        };
        Ok(Self {
            shared,
            question,
            targets,
            shown,
        })
    }
}

impl Shared {
    /// What is provably a Service's own, and why nothing is if something might have been.
    async fn removable(
        &self,
        question: &Question,
    ) -> Result<(Vec<(String, String)>, Option<String>), CloudError> {
        if let Some(known) = self.remembered(&question.uid, |_| false).await? {
            let balancer = known.observed.balancer;
            let mut targets = vec![(balancer.uuid, balancer.name)];
            targets.extend(known.surplus);
            return Ok((targets, None));
        }
        let listing = self.candidates(question).await?;
        let targets = match question.select(&listing) {
            Selection::Own { balancer, surplus } => {
                let all = [balancer].into_iter().chain(surplus);
                return Ok((all.map(named).collect(), None));
            }
            Selection::Adopted(balancer) if question.claim.has_used(balancer) => {
                return Ok((vec![named(balancer)], None));
            }
            Selection::Adopted(balancer) | Selection::ByName(balancer) => {
                (Vec::new(), Some(not_by_name(balancer)))
            }
            Selection::Refused(why) => (Vec::new(), Some(why)),
            Selection::Nothing => (Vec::new(), None),
        };
        let noted = question.claim.uuid.clone();
        let uuids = noted
            .into_iter()
            .chain(self.memory.last_uuid(&question.uid));
        for uuid in uuids {
            let is_listed = listing.all.iter().any(|listed| listed.uuid == uuid);
            if !is_listed && self.exists(&uuid).await? {
                let what = format!("the listing of load balancers lacks {uuid}, which is there");
                return Err(CloudError::new(NAME, ErrorKind::Malformed, what));
            }
        }
        Ok(targets)
    }

    async fn exists(&self, uuid: &str) -> Result<bool, CloudError> {
        if uuid::Uuid::try_parse(uuid).is_err() {
            return Ok(false);
        }
        match self.status(uuid).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
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
            if self.exists(uuid).await? {
                return Ok(false);
            }
        }
        let listing = self.listings.balancers(Instant::now()).await?;
        let is_target = |listed: &Balancer| targets.iter().any(|(uuid, _)| *uuid == listed.uuid);
        let is_own = matches!(question.select(&listing), Selection::Own { .. });
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
            // Whatever becomes of it, it is looked for anew.
            let _write = memory.begin_write(uid);
            if !self.shared.delete(uuid, gate).await? {
                return Ok(Progress::Wait {
                    after: LOOK_AGAIN,
                    what: format!("cloudscale.ch is at work on the load balancer {name}"),
                });
            }
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
