//! One pass over a Service that is to have no load balancer any more.

use std::sync::Arc;

use mooring_common::engine::Outcome;
use mooring_common::names::reasons;

use super::gate::{Aim, PassGate};
use super::setback::{Attempt, Cause};
use super::status::release;
use super::{CloudServices, SOON};
use crate::clouds::load_balancers::Progress;
use crate::controllers::service::Failure;
use crate::service_view::ServiceView;

impl CloudServices {
    /// What it has in the cloud goes; then our finalizer does.
    pub(super) async fn remove(&self, service: Arc<ServiceView>) -> Outcome<Failure> {
        if let Err(outcome) = self.take_back(&service).await {
            return outcome;
        }
        let released = self.cluster.patch(&service.key, release(&service)).await;
        match released {
            Ok(_) | Err(Failure::Gone) => {
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

    /// Removes what it has in the cloud. What is not through says when to go on.
    pub(super) async fn take_back(
        &self,
        service: &Arc<ServiceView>,
    ) -> Result<(), Outcome<Failure>> {
        let mut attempt = Attempt::to_remove();
        match self.try_to_take_back(service, &mut attempt).await {
            Ok(None) => {
                self.memories.removed(service);
                self.look_at_refused();
                self.cloud.forget(&service.uid);
                Ok(())
            }
            Ok(Some(outcome)) => Err(outcome),
            Err(cause) => Err(self.set_back(service, cause, &attempt).await),
        }
    }

    async fn try_to_take_back(
        &self,
        service: &Arc<ServiceView>,
        attempt: &mut Attempt,
    ) -> Result<Option<Outcome<Failure>>, Cause> {
        let demand = self.demand(service);
        let prepared = self.cloud.prepare_removal(&demand).await?;
        let steps = prepared.shown().steps.clone();
        for step in &steps {
            tracing::info!(impact = %step.impact, "to do: {}", step.step);
        }
        if !steps.is_empty() && self.memories.removes(service) {
            let (about, reason) = (service.reference(), reasons::DELETING_LOAD_BALANCER);
            self.normal(&about, reason, "Deleting load balancer").await;
        }
        let gate = PassGate::new(self, service.clone(), Aim::Remove);
        let progress = prepared.carry_out(&gate).await;
        attempt.has_written = gate.has_written();
        match progress? {
            Progress::Removed => Ok(None),
            Progress::Wait { after, what } => {
                tracing::debug!(?after, "waiting for {what}");
                Ok(Some(Outcome::RetryAfter(after)))
            }
            Progress::Provided(_) => Ok(Some(Outcome::RetryAfter(SOON))),
        }
    }
}
