//! A Service that is to have an address: one step after the other, until it has it or the cloud needs time.

use std::net::Ipv4Addr;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::names::annotations;

use super::super::setting::Setting;
use super::POLL;
use super::allocate::allocate;
use super::apply::Taken;
use super::plan::{Next, next};
use super::state::{Blocks, FRESH, since};
use super::step::Step;
use super::{l2_network, notices, ownership};
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, LoadBalancerStatus, Notice, Progress, ReconcileError, WriteGuard,
};
use crate::engine::ip_allocation::{APART, Assignment, IpRequest, is_published, is_written};
use crate::engine::pooled::Ensure;
use crate::views::service_view::{Ingress, ServiceView};

/// More steps than a Service can need in one pass.
const MOST_STEPS: usize = 12;
/// How old the knowledge of a network is at most by which an address of it is given to a Service: a server
/// may have got the address.
const MEMBERS: Duration = Duration::from_secs(30);

#[async_trait]
impl Ensure for Blocks {
    async fn plan(
        &mut self,
        request: &LoadBalancerRequest,
    ) -> Result<(Vec<Step>, Vec<Notice>), ReconcileError> {
        let found = self.look(request).await?;
        let faults = self.misplaced(&request.service);
        if !faults.is_empty() {
            return Err(ReconcileError::Invalid(faults));
        }
        let notices = notices::of(self, &request.service, &found);
        match found {
            Next::Refuse(why) => Err(ReconcileError::Refused(why).with(notices)),
            _ => Ok((self.steps(&found), notices)),
        }
    }

    async fn ensure(
        &mut self,
        request: &LoadBalancerRequest,
        guard: &dyn WriteGuard,
    ) -> Result<Progress, ReconcileError> {
        let uid = &request.service.uid;
        for _ in 0..MOST_STEPS {
            let found = self.look(request).await?;
            match &found {
                Next::Take(_) => {}
                Next::Wait(what) => return Ok(Progress::wait(POLL, what.clone())),
                Next::LookAgain(address) => {
                    self.expires();
                    let what = format!("the IP block of {address} is not there, asking again");
                    return Ok(Progress::wait(APART, what));
                }
                Next::Refuse(why) => return Err(ReconcileError::Refused(why.clone())),
                Next::Provide { block, address } | Next::ProvideUntagged { block, address } => {
                    tracing::debug!(block, %address, "it has its address");
                    self.given.has(uid, *address);
                    self.write_l2_network(guard).await?;
                    return Ok(Progress::Ensured(LoadBalancerStatus {
                        again: self.again(uid),
                        ..self.provided(*address)
                    }));
                }
                Next::LeaveAlone(_) => {
                    return Ok(Progress::Ensured(LoadBalancerStatus {
                        ingress: request.service.ingress.clone(),
                        again: self.again(uid),
                        ..LoadBalancerStatus::default()
                    }));
                }
            }
            // Nobody else is given what this step is for.
            if let Some(address) = self.allocated(request) {
                self.given.gives(uid, address);
            }
            for step in self.steps(&found) {
                match self.take(&step, guard).await? {
                    Taken::Done => tracing::info!("{step}"),
                    Taken::LookAgain => break,
                    Taken::Later(after, what) => return Ok(Progress::wait(after, what)),
                }
            }
        }
        Ok(Progress::wait(
            POLL,
            "the cloud does not come to rest".to_owned(),
        ))
    }
}

impl Blocks {
    /// What comes next for a Service, by what is known, or by a new listing if there is something to
    /// do.
    async fn look(&mut self, request: &LoadBalancerRequest) -> Result<Next, ReconcileError> {
        self.seed().await?;
        self.look_at_location().await?;
        for service in request.others.iter().chain([&request.service]) {
            self.given.reads_record(service);
        }
        let steady = self.fresh_since;
        self.elsewhere.expires(steady);
        self.elsewhere.sees_nodes(&request.nodes);
        self.list(steady).await?;
        self.look_at_network(steady).await?;
        self.check_credentials(request, self.network.is_some())
            .await?;
        let mut found = self.next(request).await?;
        let says_all = says_all(&request.service, &found);
        self.touched.looks_at(&request.service, says_all);
        if is_steady(&request.service, &found) && self.touched.is_touched(&request.service.uid) {
            found = self.look_at_touched(request).await?;
        }
        // What is bought is looked for once more when it has been claimed.
        let is_steady = is_steady(&request.service, &found);
        let is_to_be_claimed =
            matches!(found, Next::Take(Step::Buy { .. })) && !self.purchases.is_claimed();
        if is_steady || is_to_be_claimed {
            return Ok(found);
        }
        let before = self.as_of;
        self.list(since(self.oldest(&found), steady)).await?;
        // A network that was at work may be so no more.
        self.list(since(self.oldest(&found), steady)).await?;
        let age = match &found {
            Next::Take(Step::Attach { network, .. }) => (!self.is_at_work(network)).then_some(POLL),
            Next::Take(Step::Buy { .. }) => Some(POLL),
            Next::Provide { .. } => Some(MEMBERS),
            _ => None,
        };
        if let Some(age) = age {
            self.look_at_network(since(age, steady)).await?;
        } else if self.as_of == before {
            return Ok(found);
        }
        self.next(request).await
    }

    /// All seems as wanted, and somebody has touched the Service: the cloud is asked whether it is so. If
    /// it was asked just before, it is asked again a little later ([`LoadBalancerStatus::again`]).
    async fn look_at_touched(
        &mut self,
        request: &LoadBalancerRequest,
    ) -> Result<Next, ReconcileError> {
        let recent = self.recent();
        self.list(recent).await?;
        let found = self.next(request).await?;
        if matches!(found, Next::Provide { .. } | Next::LeaveAlone(_)) {
            return Ok(found);
        }
        self.look_at_network(recent).await?;
        self.next(request).await
    }

    /// How old the listing may be at most by which this is done.
    fn oldest(&self, found: &Next) -> Duration {
        match found {
            Next::Take(Step::Attach { block, .. }) if self.has_just_bought(block) => POLL,
            Next::Take(Step::Attach { network, .. } | Step::Detach { network, .. })
                if !self.is_at_work(network) =>
            {
                FRESH
            }
            _ => POLL,
        }
    }

    fn ip_requests(&self, request: &LoadBalancerRequest) -> Vec<IpRequest> {
        let others = request.others.iter();
        let others = others.map(|service| self.given.request(service));
        let own = IpRequest {
            may_take_over: request.may_take_over,
            ..self.given.request(&request.service)
        };
        others.chain([own]).collect()
    }

    async fn next(&mut self, request: &LoadBalancerRequest) -> Result<Next, ReconcileError> {
        let found = self.planned(request);
        let uid = &request.service.uid;
        match (&found, self.as_of) {
            (Next::LookAgain(address), Some(begun)) if self.given.is_gone(*address, begun) => {
                if self.network.is_none() {
                    self.look_elsewhere(begun).await?;
                }
                if self.elsewhere.block_of(*address).is_none() {
                    self.given.loses(uid);
                }
                return Ok(self.planned(request));
            }
            (Next::LeaveAlone(_), _) => self.given.takes_back(uid),
            _ => {}
        }
        Ok(found)
    }

    fn planned(&self, request: &LoadBalancerRequest) -> Next {
        let ip_requests = self.ip_requests(request);
        let observed = self.observed(&ip_requests);
        match ip_requests.last() {
            Some(own) => next(&observed, own, &allocate(&observed)),
            None => Next::Refuse("it is not among the Services that want an address".to_owned()),
        }
    }

    /// All that is to be done, as far as can be told beforehand.
    fn steps(&self, found: &Next) -> Vec<Step> {
        let Next::Take(step) = found else {
            return Vec::new();
        };
        let names = ownership::names(self.settings.flags.shares_blocks);
        let needs_tags = matches!(step, Step::Buy { .. }) && !self.knows_tags(names);
        let tags = needs_tags.then_some(Step::EnsureTags(names));
        tags.into_iter().chain([step.clone()]).collect()
    }

    /// The address that a Service is about to have.
    fn allocated(&self, request: &LoadBalancerRequest) -> Option<Ipv4Addr> {
        let ip_requests = self.ip_requests(request);
        let mut allocation = allocate(&self.observed(&ip_requests));
        match allocation.shares.remove(&request.service.key) {
            Some(Assignment::Address { address, .. }) => Some(address),
            _ => None,
        }
    }

    /// When to look again although all is as wanted, by a listing that is a little too old.
    fn again(&self, uid: &str) -> Option<Duration> {
        self.touched.is_touched(uid).then_some(POLL)
    }

    /// What the Service then says.
    fn provided(&self, address: Ipv4Addr) -> LoadBalancerStatus {
        let text = address.to_string();
        let setting = &self.settings.setting;
        let mut annotations = vec![(annotations::ALLOCATED_ADDRESSES, text.clone())];
        if let Some((network, _)) = &self.network {
            annotations.push((annotations::PUBLIC_NETWORK, network.id.clone()));
            if matches!(setting, Setting::L2(_)) {
                let name = l2_network::name(&network.id);
                annotations.push((annotations::ALLOCATED_NETWORK, name));
            }
        }
        LoadBalancerStatus {
            // Whoever speaks BGP goes by the status.
            load_balancer_ip: matches!(setting, Setting::KubeVip(_)).then(|| text.clone()),
            ingress: vec![Ingress::vip(text)],
            annotations,
            ..LoadBalancerStatus::default()
        }
    }
}

/// Whether there is nothing to do, and nothing to write.
fn is_steady(service: &ServiceView, found: &Next) -> bool {
    match found {
        Next::Provide { address, .. } => is_published(service, *address),
        Next::ProvideUntagged { .. } | Next::LeaveAlone(_) => true,
        _ => false,
    }
}

/// Whether the Service says all that it is to say.
fn says_all(service: &ServiceView, found: &Next) -> bool {
    match found {
        Next::Provide { address, .. } | Next::ProvideUntagged { address, .. } => {
            is_written(service, *address)
        }
        found => matches!(found, Next::LeaveAlone(_)),
    }
}
