//! A Service that is to have no address any more.

use async_trait::async_trait;
use ipnet::Ipv4Net;

use super::POLL;
use super::apply::Taken;
use super::ownership::Owner;
use super::plan::{mark, removal};
use super::state::Blocks;
use super::step::Step;
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, Progress, ReconcileError, WriteGuard,
};
use crate::engine::ip_allocation::IpRequest;
use crate::engine::pooled::{Pool as _, Remove};

#[async_trait]
impl Remove for Blocks {
    /// What is to be marked, by a listing of this moment; shared blocks only if the API server itself
    /// has no Service that needs them.
    async fn plan_removal(
        &mut self,
        request: &LoadBalancerRequest,
    ) -> Result<Vec<Step>, ReconcileError> {
        let recent = self.recent();
        self.list(recent).await?;
        // A network that cannot be looked at keeps no Service from going: its blocks are marked all the
        // same.
        let since = match self.blocks.is_empty() {
            true => recent,
            false => self.fresh_since,
        };
        let is_listed = self.look_at_network(since).await.is_ok();
        let has_network = is_listed && self.network.is_some();
        self.check_credentials(request, has_network).await?;
        let going = self.given.request(&request.service);
        let cached = request.others.iter();
        let mut others: Vec<IpRequest> = cached.map(|other| self.given.request(other)).collect();
        let steps = removal(&self.observed(&others), &going);
        let marked = self.blocks.iter().filter(|owned| {
            matches!(owned.owner, Owner::Pool(_)) && steps.contains(&mark(&owned.block))
        });
        let shared: Vec<Ipv4Net> = marked.map(|owned| owned.block.cidr).collect();
        if shared.is_empty() {
            return Ok(steps);
        }
        // The cache may not have one yet that has been given an address.
        for service in self.cluster.services().await? {
            let ip_request = self.given.request(&service);
            let is_known = ip_request.uid == going.uid
                || others.iter().any(|other| other.uid == ip_request.uid);
            let wants = service.is_load_balancer && !service.deleting;
            let holds = shared.iter().any(|cidr| ip_request.has_of(*cidr));
            if wants && holds && !is_known {
                others.push(ip_request);
            }
        }
        Ok(removal(&self.observed(&others), &going))
    }

    async fn remove(
        &mut self,
        request: &LoadBalancerRequest,
        guard: &dyn WriteGuard,
    ) -> Result<Progress, ReconcileError> {
        for step in self.plan_removal(request).await? {
            match self.take(&step, guard).await? {
                Taken::Done => tracing::info!("{step}"),
                Taken::LookAgain => return Ok(Progress::wait(POLL, "looking again".to_owned())),
                Taken::Later(after, what) => return Ok(Progress::wait(after, what)),
            }
        }
        self.has_garbage.notify_one();
        self.forget(&request.service.uid);
        Ok(Progress::Removed)
    }
}
