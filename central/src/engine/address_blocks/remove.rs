//! A Service that is to have no address any more.

use async_trait::async_trait;
use ipnet::Ipv4Net;

use super::listing::list;
use super::{AddressBlocks, Held, Serve, Taken, check_credentials};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, Progress, ReconcileError, WriteGuard,
};
use crate::engine::ip_allocation::{BlockHolder, IpRequest};
use crate::engine::pooled::{Pool as _, Remove};

#[async_trait]
impl<P: Serve> Remove for P {
    /// What is to be marked, by a listing of this moment; shared blocks only if the API server itself
    /// has no Service that needs them.
    async fn plan_removal(
        &mut self,
        request: &LoadBalancerRequest,
    ) -> Result<Vec<<P as AddressBlocks>::Step>, ReconcileError> {
        let recent = self.state().recent(P::POLL);
        list(self, recent).await?;
        // A network that cannot be looked at keeps no Service from going: its blocks are marked all the
        // same.
        let since = match self.state().blocks.is_empty() {
            true => recent,
            false => self.state().fresh_since,
        };
        let is_listed = self.look_at_network(since).await.is_ok();
        let has_network = is_listed && self.has_network();
        check_credentials(self, request, has_network).await?;
        let state = self.state();
        let going = state.given.request(&request.service);
        let is_known = state.blocks.iter().any(|block| going.has_of(block.cidr()));
        if let Some(why) = state.unread.why().filter(|_| !is_known) {
            let what = format!("it is not known whether the Service has an IP block: {why}");
            let name = <P as AddressBlocks>::NAME;
            return Err(CloudError::new(name, ErrorKind::Malformed, what).into());
        }
        let cached = request.others.iter();
        let mut others: Vec<IpRequest> = cached.map(|other| state.given.request(other)).collect();
        let steps = self.removal(&others, &going);
        let marked = state.blocks.iter().filter(|block| {
            block.holder() == BlockHolder::Shared && steps.contains(&P::mark(block))
        });
        let shared: Vec<Ipv4Net> = marked.map(Held::cidr).collect();
        if shared.is_empty() {
            return Ok(steps);
        }
        // The cache may not have one yet that has been given an address.
        for service in state.cluster.services().await? {
            let ip_request = state.given.request(&service);
            let is_known = ip_request.uid == going.uid
                || others.iter().any(|other| other.uid == ip_request.uid);
            let wants = service.is_load_balancer && !service.deleting;
            let holds = shared.iter().any(|cidr| ip_request.has_of(*cidr));
            if wants && holds && !is_known {
                others.push(ip_request);
            }
        }
        Ok(self.removal(&others, &going))
    }

    async fn remove(
        &mut self,
        request: &LoadBalancerRequest,
        guard: &dyn WriteGuard,
    ) -> Result<Progress, ReconcileError> {
        for step in self.plan_removal(request).await? {
            match self.take(&step, guard).await? {
                Taken::Done => tracing::info!("{step}"),
                Taken::LookAgain => {
                    return Ok(Progress::wait(P::POLL, "looking again".to_owned()));
                }
                Taken::Later(after, what) => return Ok(Progress::wait(after, what)),
            }
        }
        self.state().has_garbage.notify_one();
        self.forget(&request.service.uid);
        Ok(Progress::Removed)
    }
}
