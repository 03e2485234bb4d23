//! One pass over a Service that is to have no address any more.

use std::sync::Arc;

use async_trait::async_trait;
use ipnet::Ipv4Net;
use mooring_common::names::annotations;
use tokio::time::Instant;

use super::apply::Taken;
use super::ip_request::IpRequest;
use super::ownership::Owner;
use super::plan::removal;
use super::state::{POLL, State};
use super::step::Step;
use super::{Shared, observe, planned};
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, OwnedFields, PlanSummary, PreparedPlan, Progress, ReconcileError,
    WriteGuard,
};
use crate::views::service_view::ServiceView;

/// A plan for a Service that goes.
pub(super) struct Removal {
    shared: Arc<Shared>,
    request: LoadBalancerRequest,
    shown: PlanSummary,
}

impl Removal {
    pub(super) async fn prepare(
        shared: Arc<Shared>,
        request: &LoadBalancerRequest,
    ) -> Result<Self, ReconcileError> {
        let mut state = shared.state().await;
        let steps = shared.removal(&mut state, request).await?;
        drop(state);
        Ok(Self {
            shared,
            request: request.clone(),
            shown: PlanSummary {
                steps: steps.iter().map(planned).collect(),
                notices: Vec::new(),
            },
        })
    }
}

#[async_trait]
impl PreparedPlan for Removal {
    fn summary(&self) -> &PlanSummary {
        &self.shown
    }

    async fn carry_out(
        self: Box<Self>,
        guard: &dyn WriteGuard,
    ) -> Result<Progress, ReconcileError> {
        let shared = &self.shared;
        let mut state = shared.state().await;
        let steps = shared.removal(&mut state, &self.request).await?;
        for step in steps {
            match shared.take(&mut state, &step, guard).await? {
                Taken::Done => tracing::info!("{step}"),
                Taken::LookAgain => return Ok((POLL, "looking again".to_owned()).into()),
                Taken::Later(after, what) => return Ok((after, what).into()),
            }
        }
        shared.untended.notify_one();
        state.forget(&self.request.service.uid);
        shared.settle_unused(&mut state, None).await;
        Ok(Progress::Removed)
    }
}

impl Shared {
    /// What is to be marked, by a listing of this moment; shared blocks only if the API server itself
    /// has no Service that needs them.
    async fn removal(
        &self,
        state: &mut State,
        request: &LoadBalancerRequest,
    ) -> Result<Vec<Step>, ReconcileError> {
        let steady = state.fresh_since;
        let recent = Instant::now()
            .checked_sub(POLL)
            .unwrap_or(steady)
            .max(steady);
        self.list(state, recent).await?;
        // A network that cannot be looked at keeps no Service from going: its blocks are marked all the
        // same.
        let since = if state.has_blocks() { steady } else { recent };
        let is_listed = self.look_at_network(state, since).await.is_ok();
        let has_network = is_listed && state.network.is_some();
        self.check_credentials(state, request, has_network).await?;
        let going = observe::ip_request(&request.service, state);
        let cached = request.others.iter();
        let mut others: Vec<IpRequest> = cached
            .map(|other| observe::ip_request(other, state))
            .collect();
        let steps = removal(&self.observed(state, &others), &going);
        let shared: Vec<Ipv4Net> = steps
            .iter()
            .filter_map(|step| self.shared_block(state, step))
            .collect();
        if shared.is_empty() {
            return Ok(steps);
        }
        // The cache may not have one yet that has been given an address.
        for service in self.cluster.services().await? {
            let ip_request = observe::ip_request(&service, state);
            let is_known = ip_request.uid == going.uid
                || others.iter().any(|other| other.uid == ip_request.uid);
            let has = [ip_request.given, ip_request.recorded, ip_request.published];
            let mut has = has.into_iter().flatten();
            let wants = service.is_load_balancer && !service.deleting;
            let holds = has.any(|address| shared.iter().any(|cidr| cidr.contains(&address)));
            if wants && holds && !is_known {
                others.push(ip_request);
            }
        }
        Ok(removal(&self.observed(state, &others), &going))
    }

    /// The block that a step marks, if it is a shared one.
    fn shared_block(&self, state: &State, step: &Step) -> Option<Ipv4Net> {
        let Step::Mark { block, cidr, .. } = step else {
            return None;
        };
        let owned = self.observed(state, &[]).block(block)?.owner.clone();
        matches!(owned, Owner::Pool(_)).then_some(*cidr)
    }
}

/// What of a Service's own fields goes with its address.
pub(super) fn owned_fields(service: &ServiceView) -> OwnedFields {
    let ours = [
        (
            annotations::ALLOCATED_ADDRESSES,
            &service.allocated_addresses,
        ),
        (annotations::ALLOCATED_NETWORK, &service.allocated_network),
        (annotations::PUBLIC_NETWORK, &service.public_network),
    ];
    let there = ours.into_iter().filter(|(_, value)| value.is_some());
    let is_ours = service.load_balancer_ip.is_some()
        && service.load_balancer_ip == service.allocated_addresses;
    OwnedFields {
        annotations: there.map(|(key, _)| key).collect(),
        load_balancer_ip: is_ours && !service.deleting,
    }
}
