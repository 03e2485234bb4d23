//! Takes a Service's load balancer away.
//!
//! A pass asks for the deletion, and does not wait for it: a later one looks whether a complete listing that
//! was begun afterwards still has it, the same for all Services that wait. What the cloud was not asked to
//! delete is gone only if asking for it by its UUID finds nothing, too.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::engine::Step as _;
use mooring_common::names::reasons;

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
/// The same after its deletion was asked for.
const CONFIRM: Duration = Duration::from_secs(1);
/// For how long a deletion that the cloud has taken is not asked for again.
const DELETES: Duration = Duration::from_secs(60);

/// A load balancer that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    uuid: String,
    name: String,
    /// Whether the cloud is at work on it.
    is_changing: bool,
}

impl Target {
    fn of(listed: &Balancer) -> Self {
        let (uuid, name) = named(listed);
        let is_changing = assembly::balancer(listed).is_changing;
        Self {
            uuid,
            name,
            is_changing,
        }
    }
}

/// A removal that is planned.
pub(super) struct Removal {
    shared: Arc<Shared>,
    question: Question,
    /// What goes.
    targets: Vec<Target>,
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
        let steps = targets.iter().map(|target| Step::DeleteBalancer {
            uuid: target.uuid.clone(),
            name: target.name.clone(),
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
    /// What is provably a Service's own, and why other things stay that might have been its.
    async fn removable(
        &self,
        question: &Question,
        demand: &Demand,
    ) -> Result<(Vec<Target>, Vec<String>), CloudError> {
        let listing = self.candidates(question).await?;
        let cluster = question.cluster.as_deref();
        let (mut targets, stay): (Vec<Target>, _) = match question.select(&listing) {
            Selection::Own { balancer, surplus } => {
                let all = [balancer].into_iter().chain(surplus);
                let (away, own): (Vec<_>, Vec<_>) =
                    all.partition(|balancer| is_of_another_cluster(balancer, cluster));
                let own = own.into_iter().map(Target::of).collect();
                return Ok((own, away.into_iter().map(given_away).collect()));
            }
            Selection::Adopted(balancer) => return Ok((vec![Target::of(balancer)], Vec::new())),
            Selection::Unproven(balancer) => {
                match self.is_proven(question, demand, balancer).await? {
                    true => return Ok((vec![Target::of(balancer)], Vec::new())),
                    false => (Vec::new(), vec![kept(balancer)]),
                }
            }
            Selection::Refused(why) => (Vec::new(), vec![why]),
            Selection::Nothing => (Vec::new(), Vec::new()),
        };
        let mut is_missing = question.claim.is_published();
        for uuid in self.recorded(question) {
            let is_listed = listing.all.iter().any(|listed| listed.uuid == uuid);
            if is_listed || self.memory.has_deleted(&question.uid) {
                continue;
            }
            match self.unlisted(&uuid).await? {
                Some(there) if question.claim.may_delete(&there, cluster) => {
                    targets.push(Target::of(&there));
                }
                Some(_) => {
                    let what =
                        format!("the listing of load balancers lacks {uuid}, which is there");
                    return Err(CloudError::new(NAME, ErrorKind::Malformed, what));
                }
                None => is_missing = true,
            }
        }
        let is_nothing = targets.is_empty() && stay.is_empty();
        if is_nothing && is_missing && !self.memory.has_deleted(&question.uid) {
            self.check_credentials(demand, &listing).await?;
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
        if self.targets.is_empty() {
            if let Some(left) = self.shared.unsettled(&self.question) {
                return Ok(turns_up(left));
            }
            memory.removed(uid);
            return Ok(Progress::Removed);
        }
        let mut after = LOOK_AGAIN;
        for Target {
            uuid,
            name,
            is_changing,
        } in &self.targets
        {
            let deleted = memory.deleted(uid, uuid);
            if *is_changing && deleted.is_some_and(|at| at.elapsed() < DELETES) {
                continue;
            }
            match self.shared.marks(uuid, &self.question).await? {
                Marks::Own => memory.settled(uid),
                Marks::Gone => {
                    memory.deletes(uid, uuid);
                    memory.doubt(uid);
                    continue;
                }
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
            memory.deletes(uid, uuid);
            after = CONFIRM;
        }
        if after == LOOK_AGAIN {
            memory.doubt(uid);
        }
        Ok(Progress::Wait {
            after,
            what: "cloudscale.ch is deleting the load balancer".to_owned(),
        })
    }
}
