//! One pass over a Service that is to have an address.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::names::annotations;
use tokio::time::Instant;

use super::super::setting::Mode;
use super::allocate::allocate;
use super::apply::Taken;
use super::ip_request::IpRequest;
use super::plan::{Next, next};
use super::state::{APART, Absence, FRESH, POLL, State};
use super::step::Step;
use super::{Shared, notices, observe, ownership, planned, segment};
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, LoadBalancerStatus, PlanSummary, PreparedPlan, Progress, ReconcileError,
    WriteGuard,
};
use crate::views::service_view::{Ingress, ServiceView};

/// More steps than a Service can need in one pass.
const MOST_STEPS: usize = 12;

/// A plan for a Service that is to have an address.
pub(super) struct EnsurePlan {
    shared: Arc<Shared>,
    request: LoadBalancerRequest,
    shown: PlanSummary,
}

impl EnsurePlan {
    pub(super) async fn prepare(
        shared: Arc<Shared>,
        request: &LoadBalancerRequest,
    ) -> Result<Self, ReconcileError> {
        let faults = observe::invalid(&request.service);
        if !faults.is_empty() {
            return Err(ReconcileError::Invalid(faults));
        }
        let mut state = shared.state().await;
        let looked = match shared.look(&mut state, request).await {
            Ok(looked) => looked,
            Err(error) => {
                shared.settle_unused(&mut state, Some(&error)).await;
                return Err(error);
            }
        };
        let faults = shared.misplaced(&state, &request.service);
        if !faults.is_empty() {
            return Err(ReconcileError::Invalid(faults));
        }
        let shown = PlanSummary {
            steps: shared.steps(&state, &looked).iter().map(planned).collect(),
            notices: notices::of(&shared.settings, &state, &request.service, &looked),
        };
        if let Next::Refuse(why) = looked {
            let why = ReconcileError::Refused(why);
            return Err(notices::with(why, shown.notices));
        }
        drop(state);
        Ok(Self {
            request: request.clone(),
            shared,
            shown,
        })
    }
}

#[async_trait]
impl PreparedPlan for EnsurePlan {
    fn summary(&self) -> &PlanSummary {
        &self.shown
    }

    async fn carry_out(
        self: Box<Self>,
        guard: &dyn WriteGuard,
    ) -> Result<Progress, ReconcileError> {
        let shared = &self.shared;
        let mut state = shared.state().await;
        let progress = shared.provide(&mut state, &self.request, guard).await;
        let error = progress.as_ref().err();
        shared.settle_unused(&mut state, error).await;
        progress
    }
}

impl Shared {
    /// What comes next for a Service, by what is known, or by a new listing if there is something to
    /// do.
    async fn look(
        &self,
        state: &mut State,
        request: &LoadBalancerRequest,
    ) -> Result<Next, ReconcileError> {
        self.seed(state).await?;
        self.look_at_location(state).await?;
        for service in request.others.iter().chain([&request.service]) {
            let recorded = observe::ip_request(service, state).recorded;
            state.recorded(&service.uid, recorded);
        }
        let steady = state.fresh_since;
        self.list(state, steady).await?;
        self.look_at_network(state, steady).await?;
        self.check_credentials(state, request, state.network.is_some())
            .await?;
        let mut found = self.next(state, request);
        let is_written = is_written(&request.service, &found);
        state.seen.looks_at(&request.service, is_written);
        if is_steady(&request.service, &found) && state.seen.is_touched(&request.service.uid) {
            found = self.look_at_touched(state, request).await?;
        }
        // What is bought is looked for once more when it has been claimed.
        let is_claimed = state.claim.is_some();
        let is_steady = is_steady(&request.service, &found);
        if is_steady || matches!(found, Next::Take(Step::Buy { .. })) && !is_claimed {
            return Ok(found);
        }
        let since = |age| since(age, steady);
        let as_of = |state: &State| state.blocks.as_ref().map(|(_, begun)| *begun);
        let before = as_of(state);
        self.list(state, since(oldest(state, &found))).await?;
        // A network that was at work may be so no more.
        self.list(state, since(oldest(state, &found))).await?;
        let needs_room = match &found {
            Next::Take(Step::Attach { network, .. }) => !state.is_at_work(network),
            Next::Take(Step::Buy { .. }) => true,
            _ => false,
        };
        if needs_room {
            self.look_at_network(state, since(POLL)).await?;
        } else if as_of(state) == before {
            return Ok(found);
        }
        Ok(self.next(state, request))
    }

    /// All seems as wanted, and somebody has touched the Service: the cloud is asked whether it is so. If
    /// it was asked just before, it is asked again a little later ([`LoadBalancerStatus::again`]).
    async fn look_at_touched(
        &self,
        state: &mut State,
        request: &LoadBalancerRequest,
    ) -> Result<Next, ReconcileError> {
        let recent = since(POLL, state.fresh_since);
        self.list(state, recent).await?;
        let found = self.next(state, request);
        if matches!(found, Next::Provide { .. } | Next::LeaveAlone(_)) {
            return Ok(found);
        }
        self.look_at_network(state, recent).await?;
        Ok(self.next(state, request))
    }

    /// What the controller before us has given out is known from the API server itself: a cache may
    /// lag.
    pub(super) async fn seed(&self, state: &mut State) -> Result<(), ReconcileError> {
        if state.is_seeded {
            return Ok(());
        }
        for service in self.cluster.services().await? {
            let ip_request = observe::ip_request(&service, state);
            let is_held = service.is_load_balancer && ip_request.recorded == ip_request.published;
            if let Some(address) = ip_request.recorded.filter(|_| is_held) {
                state.had.insert(service.uid.clone(), address);
                state.given.insert(service.uid, address);
            }
        }
        state.is_seeded = true;
        Ok(())
    }

    fn ip_requests(state: &State, request: &LoadBalancerRequest) -> Vec<IpRequest> {
        let others = request.others.iter();
        let others = others.map(|service| observe::ip_request(service, state));
        let own = IpRequest {
            may_take_over: request.may_take_over,
            ..observe::ip_request(&request.service, state)
        };
        others.chain([own]).collect()
    }

    fn next(&self, state: &mut State, request: &LoadBalancerRequest) -> Next {
        let key = &request.service.key;
        let uid = &request.service.uid;
        let ip_requests = Self::ip_requests(state, request);
        let observed = self.observed(state, &ip_requests);
        let Some(ip_request) = ip_requests.iter().find(|ip_request| ip_request.key == *key) else {
            return Next::Refuse("it is not among the Services that want an address".to_owned());
        };
        let found = next(&observed, ip_request, &allocate(&observed));
        match &found {
            Next::LookAgain(address) if state.misses(*address) == Absence::Certain => {
                state.lost.insert(uid.clone());
                state.given.remove(uid);
                let ip_requests = Self::ip_requests(state, request);
                let observed = self.observed(state, &ip_requests);
                let lost = ip_requests.iter().find(|ip_request| ip_request.key == *key);
                return match lost {
                    Some(ip_request) => next(&observed, ip_request, &allocate(&observed)),
                    None => found,
                };
            }
            Next::LeaveAlone(_) => {
                state.given.remove(uid);
            }
            _ => {}
        }
        found
    }

    /// All that is to be done, as far as can be told beforehand.
    fn steps(&self, state: &State, found: &Next) -> Vec<Step> {
        let Next::Take(step) = found else {
            return Vec::new();
        };
        let mut steps = Vec::new();
        let names = ownership::names(self.settings.sharing);
        if matches!(step, Step::Buy { .. }) && !state.knows_tags(names) {
            steps.push(Step::EnsureTags(names));
        }
        steps.push(step.clone());
        steps
    }

    async fn provide(
        &self,
        state: &mut State,
        request: &LoadBalancerRequest,
        guard: &dyn WriteGuard,
    ) -> Result<Progress, ReconcileError> {
        for _ in 0..MOST_STEPS {
            let step = match self.look(state, request).await? {
                Next::Take(step) => step,
                Next::Wait(what) => return Ok((POLL, what).into()),
                Next::LookAgain(address) => {
                    let what = format!("the IP block of {address} is not there, asking again");
                    state.expires();
                    return Ok((APART, what).into());
                }
                Next::Refuse(why) => return Err(ReconcileError::Refused(why)),
                Next::Provide { block, address } | Next::ProvideUntagged { block, address } => {
                    tracing::debug!(block, %address, "it has its address");
                    state.given.insert(request.service.uid.clone(), address);
                    state.had.insert(request.service.uid.clone(), address);
                    state.lost.remove(&request.service.uid);
                    self.write_segment(state, guard).await?;
                    return Ok(Progress::Ensured(LoadBalancerStatus {
                        again: again(state, request),
                        ..self.provided(state, address)
                    }));
                }
                Next::LeaveAlone(_) => {
                    return Ok(Progress::Ensured(LoadBalancerStatus {
                        ingress: request.service.ingress.clone(),
                        again: again(state, request),
                        ..LoadBalancerStatus::default()
                    }));
                }
            };
            // Nobody else is given what this step is for.
            if let Some(address) = self.allocated(state, request) {
                state.given.insert(request.service.uid.clone(), address);
            }
            for step in self.steps(state, &Next::Take(step)) {
                match self.take(state, &step, guard).await? {
                    Taken::Done => tracing::info!("{step}"),
                    Taken::LookAgain => break,
                    Taken::Later(after, what) => return Ok((after, what).into()),
                }
            }
        }
        Ok((POLL, "the cloud does not come to rest".to_owned()).into())
    }

    /// The address that a Service is about to have.
    fn allocated(&self, state: &State, request: &LoadBalancerRequest) -> Option<Ipv4Addr> {
        let ip_requests = Self::ip_requests(state, request);
        let allocation = allocate(&self.observed(state, &ip_requests));
        match allocation.shares.get(&request.service.key) {
            Some(super::allocate::Assignment::Address { address, .. }) => Some(*address),
            _ => None,
        }
    }

    /// What the Service then says.
    fn provided(&self, state: &State, address: Ipv4Addr) -> LoadBalancerStatus {
        let text = address.to_string();
        let mut annotations = vec![(annotations::ALLOCATED_ADDRESSES, text.clone())];
        if let Some((network, _)) = &state.network {
            annotations.push((annotations::PUBLIC_NETWORK, network.id.clone()));
            if self.settings.setting.mode() == Mode::L2 {
                annotations.push((annotations::ALLOCATED_NETWORK, segment::name(&network.id)));
            }
        }
        // Whoever speaks BGP goes by the status.
        let load_balancer_ip = match self.settings.setting.mode() {
            Mode::KubeVip => Some(text.clone()),
            Mode::L2 | Mode::Bgp => None,
        };
        LoadBalancerStatus {
            ingress: vec![Ingress {
                ip: Some(text),
                hostname: None,
                ip_mode: Some("VIP".to_owned()),
            }],
            annotations,
            load_balancer_ip,
            again: None,
            notices: Vec::new(),
        }
    }
}

/// How old the listing may be at most by which this is done.
fn oldest(state: &State, found: &Next) -> Duration {
    match found {
        Next::Take(Step::Attach { block, .. }) if state.has_just_bought(block) => POLL,
        Next::Take(Step::Attach { network, .. } | Step::Detach { network, .. })
            if !state.is_at_work(network) =>
        {
            FRESH
        }
        _ => POLL,
    }
}

/// When to look again although all is as wanted, by a listing that is a little too old.
fn again(state: &State, request: &LoadBalancerRequest) -> Option<Duration> {
    let is_touched = state.seen.is_touched(&request.service.uid);
    is_touched.then_some(POLL)
}

/// So long ago, and not before that.
fn since(age: Duration, least: Instant) -> Instant {
    Instant::now().checked_sub(age).unwrap_or(least).max(least)
}

/// Whether there is nothing to do, and nothing to write.
fn is_steady(service: &ServiceView, found: &Next) -> bool {
    match found {
        Next::Provide { address, .. } => is_published(service, *address),
        Next::ProvideUntagged { .. } | Next::LeaveAlone(_) => true,
        _ => false,
    }
}

/// Whether the Service says all that it is to say: its status and our record are written together.
fn is_written(service: &ServiceView, found: &Next) -> bool {
    let address = match found {
        Next::Provide { address, .. } | Next::ProvideUntagged { address, .. } => *address,
        Next::LeaveAlone(_) => return true,
        _ => return false,
    };
    is_published(service, address)
        && service.allocated_addresses.as_deref() == Some(&*address.to_string())
}

/// Whether the Service says already that it has this address.
fn is_published(service: &ServiceView, address: Ipv4Addr) -> bool {
    let text = address.to_string();
    let mut published = service.ingress.iter();
    published.any(|entry| entry.ip.as_ref() == Some(&text))
}
