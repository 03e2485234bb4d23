//! One pass over a Service that is to have an address.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::names::annotations;
use tokio::time::Instant;

use super::super::setting::Mode;
use super::allot::allot;
use super::apply::Taken;
use super::claimant::Claimant;
use super::memory::{APART, Absence, FRESH, Memory, POLL};
use super::plan::{Next, next};
use super::step::Step;
use super::{Shared, notices, observe, ownership, planned, segment};
use crate::clouds::load_balancers::{Demand, Gate, Prepared, Progress, Provided, Setback, Shown};
use crate::service_view::{Ingress, ServiceView};

/// More steps than a Service can need in one pass.
const MOST_STEPS: usize = 12;

/// A plan for a Service that is to have an address.
pub(super) struct Ensurance {
    shared: Arc<Shared>,
    demand: Demand,
    shown: Shown,
}

impl Ensurance {
    pub(super) async fn prepare(shared: Arc<Shared>, demand: &Demand) -> Result<Self, Setback> {
        let faults = observe::invalid(&demand.service);
        if !faults.is_empty() {
            return Err(Setback::Invalid(faults));
        }
        let mut memory = shared.memory().await;
        let looked = match shared.look(&mut memory, demand).await {
            Ok(looked) => looked,
            Err(setback) => {
                shared.settle_unused(&mut memory, Some(&setback)).await;
                return Err(setback);
            }
        };
        let faults = shared.misplaced(&memory, &demand.service);
        if !faults.is_empty() {
            return Err(Setback::Invalid(faults));
        }
        let shown = Shown {
            steps: shared.steps(&memory, &looked).iter().map(planned).collect(),
            notices: notices::of(&shared.settings, &memory, &demand.service, &looked),
        };
        if let Next::Refuse(why) = looked {
            let why = Setback::Refused(why);
            return Err(notices::with(why, shown.notices));
        }
        drop(memory);
        Ok(Self {
            demand: demand.clone(),
            shared,
            shown,
        })
    }
}

#[async_trait]
impl Prepared for Ensurance {
    fn shown(&self) -> &Shown {
        &self.shown
    }

    async fn carry_out(self: Box<Self>, gate: &dyn Gate) -> Result<Progress, Setback> {
        let shared = &self.shared;
        let mut memory = shared.memory().await;
        let progress = shared.provide(&mut memory, &self.demand, gate).await;
        let setback = progress.as_ref().err();
        shared.settle_unused(&mut memory, setback).await;
        progress
    }
}

impl Shared {
    /// What comes next for a Service, by what is known, or by a new listing if there is something to
    /// do.
    async fn look(&self, memory: &mut Memory, demand: &Demand) -> Result<Next, Setback> {
        self.seed(memory).await?;
        self.look_at_location(memory).await?;
        for service in demand.others.iter().chain([&demand.service]) {
            let recorded = observe::claimant(service, memory).recorded;
            memory.recorded(&service.uid, recorded);
        }
        let steady = memory.fresh_since;
        self.list(memory, steady).await?;
        self.look_at_network(memory, steady).await?;
        let mut found = self.next(memory, demand);
        let is_written = is_written(&demand.service, &found);
        memory.seen.looks_at(&demand.service, is_written);
        if is_steady(&demand.service, &found) && memory.seen.is_touched(&demand.service.uid) {
            found = self.look_at_touched(memory, demand).await?;
        }
        // What is bought is looked for once more when it has been claimed.
        let is_claimed = memory.claim.is_some();
        let is_steady = is_steady(&demand.service, &found);
        if is_steady || matches!(found, Next::Take(Step::Buy { .. })) && !is_claimed {
            return Ok(found);
        }
        let since = |age| since(age, steady);
        let as_of = |memory: &Memory| memory.blocks.as_ref().map(|(_, begun)| *begun);
        let before = as_of(memory);
        self.list(memory, since(oldest(memory, &found))).await?;
        // A network that was at work may be so no more.
        self.list(memory, since(oldest(memory, &found))).await?;
        let needs_room = match &found {
            Next::Take(Step::Attach { network, .. }) => !memory.is_at_work(network),
            Next::Take(Step::Buy { .. }) => true,
            _ => false,
        };
        if needs_room {
            self.look_at_network(memory, since(POLL)).await?;
        } else if as_of(memory) == before {
            return Ok(found);
        }
        Ok(self.next(memory, demand))
    }

    /// All seems as wanted, and somebody has touched the Service: the cloud is asked whether it is so. If
    /// it was asked just before, it is asked again a little later ([`Provided::again`]).
    async fn look_at_touched(&self, memory: &mut Memory, demand: &Demand) -> Result<Next, Setback> {
        let recent = since(POLL, memory.fresh_since);
        self.list(memory, recent).await?;
        let found = self.next(memory, demand);
        if matches!(found, Next::Provide { .. } | Next::LeaveAlone(_)) {
            return Ok(found);
        }
        self.look_at_network(memory, recent).await?;
        Ok(self.next(memory, demand))
    }

    /// What the controller before us has given out is known from the API server itself: a cache may
    /// lag.
    pub(super) async fn seed(&self, memory: &mut Memory) -> Result<(), Setback> {
        if memory.is_seeded {
            return Ok(());
        }
        for service in self.cluster.services().await? {
            let claimant = observe::claimant(&service, memory);
            let is_held = service.is_load_balancer && claimant.recorded == claimant.published;
            if let Some(address) = claimant.recorded.filter(|_| is_held) {
                memory.had.insert(service.uid.clone(), address);
                memory.given.insert(service.uid, address);
            }
        }
        memory.is_seeded = true;
        Ok(())
    }

    fn claimants(memory: &Memory, demand: &Demand) -> Vec<Claimant> {
        let others = demand.others.iter();
        let others = others.map(|service| observe::claimant(service, memory));
        let own = Claimant {
            may_take_over: demand.may_take_over,
            ..observe::claimant(&demand.service, memory)
        };
        others.chain([own]).collect()
    }

    fn next(&self, memory: &mut Memory, demand: &Demand) -> Next {
        let key = &demand.service.key;
        let uid = &demand.service.uid;
        let claimants = Self::claimants(memory, demand);
        let world = self.world(memory, &claimants);
        let Some(claimant) = claimants.iter().find(|claimant| claimant.key == *key) else {
            return Next::Refuse("it is not among the Services that want an address".to_owned());
        };
        let found = next(&world, claimant, &allot(&world));
        match &found {
            Next::LookAgain(address) if memory.misses(*address) == Absence::Certain => {
                memory.lost.insert(uid.clone());
                memory.given.remove(uid);
                let claimants = Self::claimants(memory, demand);
                let world = self.world(memory, &claimants);
                let lost = claimants.iter().find(|claimant| claimant.key == *key);
                return match lost {
                    Some(claimant) => next(&world, claimant, &allot(&world)),
                    None => found,
                };
            }
            Next::LeaveAlone(_) => {
                memory.given.remove(uid);
            }
            _ => {}
        }
        found
    }

    /// All that is to be done, as far as can be told beforehand.
    fn steps(&self, memory: &Memory, found: &Next) -> Vec<Step> {
        let Next::Take(step) = found else {
            return Vec::new();
        };
        let mut steps = Vec::new();
        let names = ownership::names(self.settings.sharing);
        if matches!(step, Step::Buy { .. }) && !memory.knows_tags(names) {
            steps.push(Step::EnsureTags(names));
        }
        steps.push(step.clone());
        steps
    }

    async fn provide(
        &self,
        memory: &mut Memory,
        demand: &Demand,
        gate: &dyn Gate,
    ) -> Result<Progress, Setback> {
        for _ in 0..MOST_STEPS {
            let step = match self.look(memory, demand).await? {
                Next::Take(step) => step,
                Next::Wait(what) => return Ok((POLL, what).into()),
                Next::LookAgain(address) => {
                    let what = format!("the IP block of {address} is not there, asking again");
                    memory.expires();
                    return Ok((APART, what).into());
                }
                Next::Refuse(why) => return Err(Setback::Refused(why)),
                Next::Provide { block, address } | Next::ProvideUntagged { block, address } => {
                    tracing::debug!(block, %address, "it has its address");
                    memory.given.insert(demand.service.uid.clone(), address);
                    memory.had.insert(demand.service.uid.clone(), address);
                    memory.lost.remove(&demand.service.uid);
                    self.write_segment(memory, gate).await?;
                    return Ok(Progress::Provided(Provided {
                        again: again(memory, demand),
                        ..self.provided(memory, address)
                    }));
                }
                Next::LeaveAlone(_) => {
                    return Ok(Progress::Provided(Provided {
                        ingress: demand.service.ingress.clone(),
                        again: again(memory, demand),
                        ..Provided::default()
                    }));
                }
            };
            // Nobody else is given what this step is for.
            if let Some(address) = self.allotted(memory, demand) {
                memory.given.insert(demand.service.uid.clone(), address);
            }
            for step in self.steps(memory, &Next::Take(step)) {
                match self.take(memory, &step, gate).await? {
                    Taken::Done => tracing::info!("{step}"),
                    Taken::LookAgain => break,
                    Taken::Later(after, what) => return Ok((after, what).into()),
                }
            }
        }
        Ok((POLL, "the cloud does not come to rest".to_owned()).into())
    }

    /// The address that a Service is about to have.
    fn allotted(&self, memory: &Memory, demand: &Demand) -> Option<Ipv4Addr> {
        let claimants = Self::claimants(memory, demand);
        let allotment = allot(&self.world(memory, &claimants));
        match allotment.shares.get(&demand.service.key) {
            Some(super::allot::Share::Address { address, .. }) => Some(*address),
            _ => None,
        }
    }

    /// What the Service then says.
    fn provided(&self, memory: &Memory, address: Ipv4Addr) -> Provided {
        let text = address.to_string();
        let mut annotations = vec![(annotations::ALLOCATED_ADDRESSES, text.clone())];
        if let Some((network, _)) = &memory.network {
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
        Provided {
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
fn oldest(memory: &Memory, found: &Next) -> Duration {
    match found {
        Next::Take(Step::Attach { block, .. }) if memory.has_just_bought(block) => POLL,
        Next::Take(Step::Attach { network, .. } | Step::Detach { network, .. })
            if !memory.is_at_work(network) =>
        {
            FRESH
        }
        _ => POLL,
    }
}

/// When to look again although all is as wanted, by a listing that is a little too old.
fn again(memory: &Memory, demand: &Demand) -> Option<Duration> {
    let is_touched = memory.seen.is_touched(&demand.service.uid);
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
