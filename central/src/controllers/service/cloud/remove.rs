//! One pass over a Service that is to have no load balancer any more.

use std::sync::Arc;

use mooring_common::engine::Outcome;
use mooring_common::names::{annotations, reasons};
use tokio::time::Instant;

use super::guard::{Aim, PassGuard};
use super::interruption::{Attempt, Cause};
use super::status::{address, release, strip};
use super::{CloudServices, SOON};
use crate::cloud_provider::load_balancers::{OwnedFields, PreparedPlan, Progress};
use crate::controllers::service::Failure;
use crate::views::service_view::ServiceView;

/// What has become of what a Service had in the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removed {
    /// Nothing is left.
    Gone,
    /// Something is there that may have been its, and is not provably so; it was told of.
    Kept,
}

/// A removal that is planned.
pub(super) struct PreparedRemoval {
    plan: Box<dyn PreparedPlan>,
    begun: Instant,
}

/// How far a removal has come.
pub(super) enum Attempted {
    /// To its end.
    Over(Removed),
    /// It goes on.
    Goes(Outcome<Failure>),
}

impl CloudServices {
    /// What it has in the cloud goes; then our finalizer does.
    pub(super) async fn remove(&self, service: Arc<ServiceView>) -> Outcome<Failure> {
        let prepared = self.prepare_removal(&service).await;
        let is_kept = match self.take_back(&service, prepared).await {
            Ok(removed) => removed == Removed::Kept,
            Err(outcome) => return outcome,
        };
        let released = self.release(&service).await;
        match released {
            Ok(()) | Err(Failure::Gone) if is_kept => Outcome::Done,
            Ok(()) | Err(Failure::Gone) => {
                let (about, reason) = (service.reference(), reasons::DELETED_LOAD_BALANCER);
                self.normal(&about, reason, "Deleted load balancer").await;
                Outcome::Done
            }
            Err(error) => {
                let attempt = Attempt::to_remove();
                self.set_back(&service, error.into(), &attempt).await
            }
        }
    }

    /// What it says of its load balancer goes last, and our finalizer with it.
    async fn release(&self, service: &Arc<ServiceView>) -> Result<(), Failure> {
        let owned_fields = self.cloud.owned_fields(service);
        let service = self.without_address(service, &owned_fields).await?;
        let operations = release(&service, self.provider(), &owned_fields.annotations);
        self.cluster.patch(&service.key, operations).await?;
        Ok(())
    }

    /// What it says of its load balancer goes, and another gives it one. When to go on, if anything went.
    pub(super) async fn strip(&self, service: &Arc<ServiceView>) -> Option<Outcome<Failure>> {
        let mut owned_fields = self.cloud.owned_fields(service);
        let asked = service.names_asked(self.provider());
        let asked = asked.then_some(annotations::CREATION_ASKED);
        owned_fields.annotations.extend(asked);
        if owned_fields == OwnedFields::default() {
            return None;
        }
        let stripped = async {
            let service = self.without_address(service, &owned_fields).await?;
            let operations = strip(&service, &owned_fields.annotations);
            self.cluster.patch(&service.key, operations).await
        };
        match stripped.await {
            Ok(_) | Err(Failure::Gone) => Some(Outcome::RetryAfter(SOON)),
            Err(error) => {
                let attempt = Attempt::to_remove();
                Some(self.set_back(service, error.into(), &attempt).await)
            }
        }
    }

    async fn without_address(
        &self,
        service: &Arc<ServiceView>,
        owned_fields: &OwnedFields,
    ) -> Result<Arc<ServiceView>, Failure> {
        if !owned_fields.load_balancer_ip {
            return Ok(service.clone());
        }
        let operations = address(service, None);
        let patched = self.cluster.patch_itself(&service.key, operations).await?;
        Ok(Arc::new(patched))
    }

    /// Removes what it has in the cloud, as planned. What is not through says when to go on.
    pub(super) async fn take_back(
        &self,
        service: &Arc<ServiceView>,
        prepared: Result<PreparedRemoval, Cause>,
    ) -> Result<Removed, Outcome<Failure>> {
        let mut attempt = Attempt::to_remove();
        let attempted = match prepared {
            Ok(prepared) => {
                self.carry_out_removal(service, prepared, &mut attempt)
                    .await
            }
            Err(cause) => Err(cause),
        };
        match attempted {
            Ok(Attempted::Over(removed)) => {
                self.taken_back(service);
                Ok(removed)
            }
            Ok(Attempted::Goes(outcome)) => Err(outcome),
            Err(cause) => Err(self.set_back(service, cause, &attempt).await),
        }
    }

    /// Nothing here is the Service's any more.
    pub(super) fn taken_back(&self, service: &ServiceView) {
        self.service_states.removed(service);
        self.look_at_refused();
        self.cloud.forget(&service.uid);
    }

    /// Reads what there is, and plans how it goes. It may be given up at any time.
    pub(super) async fn prepare_removal(
        &self,
        service: &Arc<ServiceView>,
    ) -> Result<PreparedRemoval, Cause> {
        let begun = Instant::now();
        let request = self.request(service);
        let prepared = self.cloud.prepare_removal(&request);
        let plan = self.before_ending(prepared).await??;
        Ok(PreparedRemoval { plan, begun })
    }

    /// Does what is planned.
    pub(super) async fn carry_out_removal(
        &self,
        service: &Arc<ServiceView>,
        prepared: PreparedRemoval,
        attempt: &mut Attempt,
    ) -> Result<Attempted, Cause> {
        let PreparedRemoval {
            plan: prepared,
            begun,
        } = prepared;
        let shown = prepared.summary().clone();
        self.tell_notices(service, &shown.notices).await;
        for step in &shown.steps {
            tracing::info!(impact = %step.impact, "to do: {}", step.step);
        }
        if !shown.steps.is_empty() && self.service_states.removes(service) {
            let (about, reason) = (service.reference(), reasons::DELETING_LOAD_BALANCER);
            self.normal(&about, reason, "Deleting load balancer").await;
        }
        let guard = PassGuard::new(self, service.clone(), Aim::Remove, begun);
        let progress = prepared.carry_out(&guard).await;
        attempt.has_written = guard.has_written();
        match progress? {
            Progress::Removed if shown.notices.is_empty() => Ok(Attempted::Over(Removed::Gone)),
            Progress::Removed => Ok(Attempted::Over(Removed::Kept)),
            Progress::Wait { after, what } => {
                tracing::debug!(after_s = after.as_secs_f64(), what, "the cloud needs time");
                Ok(Attempted::Goes(Outcome::RetryAfter(after)))
            }
            Progress::Ensured(_) => Ok(Attempted::Goes(Outcome::RetryAfter(SOON))),
        }
    }
}
