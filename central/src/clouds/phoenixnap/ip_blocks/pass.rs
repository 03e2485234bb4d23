//! One pass over a Service: planned, shown, and carried out by what is known then.

use std::sync::Arc;

use async_trait::async_trait;

use super::plan::Next;
use super::{Shared, notices};
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, PlanSummary, PreparedPlan, Progress, ReconcileError, WriteGuard,
};
use crate::engine::ip_allocation::invalid;
use crate::engine::outcome::planned;

/// A plan for a Service.
pub(super) struct Pass {
    shared: Arc<Shared>,
    request: LoadBalancerRequest,
    shown: PlanSummary,
    /// Whether the Service is to have no address (any more).
    removes: bool,
}

impl Pass {
    /// For a Service that is to have an address.
    pub(super) async fn ensure(
        shared: &Arc<Shared>,
        request: &LoadBalancerRequest,
    ) -> Result<Self, ReconcileError> {
        let faults = invalid(&request.service);
        if !faults.is_empty() {
            return Err(ReconcileError::Invalid(faults));
        }
        let mut blocks = shared.blocks().await;
        let found = match blocks.look(request).await {
            Ok(found) => found,
            Err(error) => {
                blocks.purchases.settle_unused(Some(&error)).await;
                return Err(error);
            }
        };
        let faults = blocks.misplaced(&request.service);
        if !faults.is_empty() {
            return Err(ReconcileError::Invalid(faults));
        }
        let notices = notices::of(&blocks, &request.service, &found);
        if let Next::Refuse(why) = found {
            return Err(ReconcileError::Refused(why).with(notices));
        }
        let shown = PlanSummary {
            steps: blocks.steps(&found).iter().map(planned).collect(),
            notices,
        };
        Ok(Self::of(shared, request, shown, false))
    }

    /// For one that is to have none.
    pub(super) async fn remove(
        shared: &Arc<Shared>,
        request: &LoadBalancerRequest,
    ) -> Result<Self, ReconcileError> {
        let steps = shared.blocks().await.removal(request).await?;
        let shown = PlanSummary {
            steps: steps.iter().map(planned).collect(),
            notices: Vec::new(),
        };
        Ok(Self::of(shared, request, shown, true))
    }

    fn of(
        shared: &Arc<Shared>,
        request: &LoadBalancerRequest,
        shown: PlanSummary,
        removes: bool,
    ) -> Self {
        Self {
            shared: shared.clone(),
            request: request.clone(),
            shown,
            removes,
        }
    }
}

#[async_trait]
impl PreparedPlan for Pass {
    fn summary(&self) -> &PlanSummary {
        &self.shown
    }

    async fn carry_out(
        self: Box<Self>,
        guard: &dyn WriteGuard,
    ) -> Result<Progress, ReconcileError> {
        let mut blocks = self.shared.blocks().await;
        let progress = match self.removes {
            true => blocks.remove(&self.request, guard).await,
            false => blocks.provide(&self.request, guard).await,
        };
        let error = progress.as_ref().err();
        blocks.purchases.settle_unused(error).await;
        progress
    }
}
