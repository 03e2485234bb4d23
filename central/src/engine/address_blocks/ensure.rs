//! A Service that is to have an address: one step after the other, until it has it or the cloud needs time.

use std::time::Duration;

use async_trait::async_trait;

use super::listing::{list, look_elsewhere, seed};
use super::{AddressBlocks, Held, Next, Serve, Taken, check_credentials, notices};
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, LoadBalancerStatus, Notice, Progress, ReconcileError, WriteGuard,
};
use crate::engine::ip_allocation::{APART, Assignment, IpRequest, is_published, is_written};
use crate::engine::pooled::Ensure;
use crate::views::service_view::ServiceView;

/// More steps than a Service can need in one pass.
const MOST_STEPS: usize = 12;
/// How often is looked at what keeps blocks from being bought.
const HINDERED: Duration = Duration::from_secs(45);

/// What comes next with the steps of this cloud.
type NextOf<P> = Next<<P as AddressBlocks>::Step>;

#[async_trait]
impl<P: Serve> Ensure for P {
    async fn plan(
        &mut self,
        request: &LoadBalancerRequest,
    ) -> Result<(Vec<<P as AddressBlocks>::Step>, Vec<Notice>), ReconcileError> {
        let found = look(self, request).await?;
        let faults = self.faults(&request.service);
        if !faults.is_empty() {
            return Err(ReconcileError::Invalid(faults));
        }
        let notices = notices::of(self, &request.service, &found);
        match found {
            Next::Refuse(why) => Err(ReconcileError::Refused(why).with(notices)),
            Next::Take(step) => Ok((self.with_needs(step), notices)),
            _ => Ok((Vec::new(), notices)),
        }
    }

    async fn ensure(
        &mut self,
        request: &LoadBalancerRequest,
        guard: &dyn WriteGuard,
    ) -> Result<Progress, ReconcileError> {
        let uid = &request.service.uid;
        for _ in 0..MOST_STEPS {
            let step = match look(self, request).await? {
                Next::Take(step) => step,
                Next::Wait(what) => return Ok(Progress::wait(P::POLL, what)),
                Next::LookAgain(address) => {
                    self.state_mut().expires();
                    let what = format!("the IP block of {address} is not there, asking again");
                    return Ok(Progress::wait(APART, what));
                }
                Next::Refuse(why) => return Err(ReconcileError::Refused(why)),
                Next::Provide { block, address } | Next::ProvideUntagged { block, address } => {
                    tracing::debug!(block, %address, "it has its address");
                    self.state_mut().given.has(uid, address);
                    self.announce(guard).await?;
                    return Ok(Progress::Ensured(LoadBalancerStatus {
                        again: again(self, uid),
                        ..self.status(address)
                    }));
                }
                Next::LeaveAlone(_) => {
                    return Ok(Progress::Ensured(LoadBalancerStatus {
                        ingress: request.service.ingress.clone(),
                        again: again(self, uid),
                        ..LoadBalancerStatus::default()
                    }));
                }
            };
            // Nobody else is given what this step is for.
            if let Some(Assignment::Address { address, .. }) = share(self, request) {
                self.state_mut().given.gives(uid, address);
            }
            for step in self.with_needs(step) {
                match self.take(&step, guard).await? {
                    Taken::Done => tracing::info!("{step}"),
                    Taken::LookAgain => break,
                    Taken::Later(after, what) => return Ok(Progress::wait(after, what)),
                }
            }
        }
        let what = "the cloud does not come to rest".to_owned();
        Ok(Progress::wait(P::POLL, what))
    }
}

/// What comes next for a Service, by what is known, or by a new listing if there is something to do.
async fn look<P: Serve>(
    blocks: &mut P,
    request: &LoadBalancerRequest,
) -> Result<NextOf<P>, ReconcileError> {
    let found = find(blocks, request).await?;
    let is_refused = matches!(found, Next::Refuse(_));
    let wants_another = is_refused && share(blocks, request) == Some(Assignment::Nothing);
    let buyer = wants_another.then(|| blocks.buyer(&request.service.key));
    let hindered = buyer.filter(|buyer| is_hindered(blocks, buyer));
    let (state, uid) = (blocks.state_mut(), &request.service.uid);
    match hindered {
        Some(buyer) => {
            if state.hindered.insert(uid.clone(), buyer).is_none() {
                state.has_garbage.notify_one();
            }
        }
        None => {
            state.hindered.remove(uid);
        }
    }
    Ok(found)
}

async fn find<P: Serve>(
    blocks: &mut P,
    request: &LoadBalancerRequest,
) -> Result<NextOf<P>, ReconcileError> {
    seed(blocks).await?;
    blocks.prepare().await?;
    let state = blocks.state_mut();
    for service in request.others.iter().chain([&request.service]) {
        state.given.reads_record(service);
    }
    let steady = state.fresh_since;
    state.elsewhere.expires(steady);
    let nodes = request.nodes.iter().chain(&*request.other_nodes);
    state.elsewhere.sees_nodes(nodes);
    list(blocks, steady).await?;
    blocks.look_at_network(steady).await?;
    check_credentials(blocks, request, blocks.has_network()).await?;
    let service = &request.service;
    let mut found = next(blocks, request).await?;
    let touched = &mut blocks.state_mut().touched;
    touched.looks_at(service, says_all(service, &found));
    if is_steady(service, &found) && touched.is_touched(&service.uid) {
        found = look_at_touched(blocks, request).await?;
    }
    // What is bought is looked for once more when it has been claimed.
    let is_purchase = matches!(&found, Next::Take(step) if P::is_purchase(step));
    let is_to_be_claimed = is_purchase && !blocks.state().purchases.is_claimed();
    if is_steady(service, &found) || is_to_be_claimed || !blocks.look_again(&found).await? {
        return Ok(found);
    }
    next(blocks, request).await
}

/// All seems as wanted, and somebody has touched the Service: the cloud is asked whether it is so. If it was asked
/// just before, it is asked again a little later ([`LoadBalancerStatus::again`]).
async fn look_at_touched<P: Serve>(
    blocks: &mut P,
    request: &LoadBalancerRequest,
) -> Result<NextOf<P>, ReconcileError> {
    let recent = blocks.state().recent(P::POLL);
    list(blocks, recent).await?;
    let found = next(blocks, request).await?;
    if matches!(found, Next::Provide { .. } | Next::LeaveAlone(_)) {
        return Ok(found);
    }
    blocks.look_at_network(recent).await?;
    next(blocks, request).await
}

async fn next<P: Serve>(
    blocks: &mut P,
    request: &LoadBalancerRequest,
) -> Result<NextOf<P>, ReconcileError> {
    let found = planned(blocks, request);
    let uid = &request.service.uid;
    let is_whole = blocks.state().unread.is_empty() && blocks.is_network_whole();
    match (&found, blocks.state().as_of) {
        (Next::LookAgain(address), Some(begun))
            if is_whole && blocks.state_mut().given.is_gone(*address, begun) =>
        {
            if !blocks.has_network() {
                look_elsewhere(blocks, begun).await?;
            }
            let state = blocks.state_mut();
            if state.elsewhere.lacks(*address) {
                state.given.loses(uid);
            }
            return Ok(planned(blocks, request));
        }
        (Next::LeaveAlone(_), _) => blocks.state_mut().given.takes_back(uid),
        _ => {}
    }
    Ok(found)
}

fn planned<P: Serve>(blocks: &P, request: &LoadBalancerRequest) -> NextOf<P> {
    let (others, own) = ip_requests(blocks, request);
    let found = blocks.next(&others, &own);
    match (&found, blocks.state().unread.why()) {
        (Next::Take(step), Some(why)) if P::is_purchase(step) => Next::Refuse(format!(
            "no IP block is bought while one cannot be read that may be this cluster's: {why}; ask the support \
             of the cloud about it"
        )),
        _ => found,
    }
}

/// All that are to have an address, this Service among them, and its own once more.
fn ip_requests<P: Serve>(blocks: &P, request: &LoadBalancerRequest) -> (Vec<IpRequest>, IpRequest) {
    let given = &blocks.state().given;
    let others = request.others.iter();
    let others = others.map(|service| given.request(service));
    let own = IpRequest {
        may_take_over: request.may_take_over,
        ..given.request(&request.service)
    };
    (others.chain([own.clone()]).collect(), own)
}

/// What a Service is about to have.
fn share<P: Serve>(blocks: &P, request: &LoadBalancerRequest) -> Option<Assignment> {
    let (all, own) = ip_requests(blocks, request);
    blocks.allocate(&all).shares.remove(&own.key)
}

/// When to look again although all is as wanted, by a listing that is a little too old.
fn again<P: Serve>(blocks: &P, uid: &str) -> Option<Duration> {
    blocks.state().touched.is_touched(uid).then_some(P::POLL)
}

/// Whether there is nothing to do, and nothing to write.
fn is_steady<S>(service: &ServiceView, found: &Next<S>) -> bool {
    match found {
        Next::Provide { address, .. } => is_published(service, *address),
        Next::ProvideUntagged { .. } | Next::LeaveAlone(_) => true,
        _ => false,
    }
}

/// Whether the Service says all that it is to say.
fn says_all<S>(service: &ServiceView, found: &Next<S>) -> bool {
    match found {
        Next::Provide { address, .. } | Next::ProvideUntagged { address, .. } => {
            is_written(service, *address)
        }
        found => matches!(found, Next::LeaveAlone(_)),
    }
}

fn is_hindered<P: Serve>(blocks: &P, buyer: &<P::Block as Held>::Owner) -> bool {
    !blocks.state().unread.is_empty() || blocks.hinders(buyer)
}

/// Services for which no block was bought, since another one was of no use, are to be looked at again when that is
/// over: by the last listing, this is noted. When to look again; `None`: nobody is kept from anything.
pub fn look_at_hindered<P: Serve>(blocks: &mut P) -> Option<Duration> {
    let mut hindered = std::mem::take(&mut blocks.state_mut().hindered);
    let before = hindered.len();
    hindered.retain(|_, buyer| is_hindered(&*blocks, buyer));
    let state = blocks.state_mut();
    state.is_freed |= hindered.len() < before;
    state.hindered = hindered;
    (!state.hindered.is_empty()).then_some(HINDERED)
}
