//! A load balancer as it is.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use mooring_common::engine::Impact;
use tokio::time::Instant;

use super::super::api::balancers::Balancer;
use super::super::api::floating_ips::FloatingIp;
use super::super::api::parts::ListedPart;
use super::model::{BalancerSpec, ListenerSpec, MemberSpec, MonitorSpec, PoolSpec, Spec};
use super::step::Step;
use crate::engine::listing::Listing;
use crate::engine::provider::{self, Listed as _};
use crate::engine::step::{Action, Part, PartStep, PoolRef};

/// A member.
pub(super) type Member = Part<MemberSpec>;
/// A health monitor.
pub(super) type Monitor = Part<MonitorSpec>;
/// A listener.
pub(super) type Listener = Part<ListenerSpec>;

/// A load balancer with all its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    /// The load balancer itself.
    pub(super) balancer: Balancer,
    /// Its pools, in the API's order.
    pub(super) pools: Vec<Pool>,
    /// Its listeners that belong to no pool.
    pub(super) loose_listeners: Vec<Listener>,
    /// Addresses of the floating IPs that lead to it, in canonical form.
    pub(super) floating_ips: BTreeSet<String>,
}

/// A pool with its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    /// The pool itself.
    pub(super) part: Part<PoolSpec>,
    /// Its members.
    pub(super) members: Vec<Member>,
    /// Its health monitors: one, or none.
    pub(super) monitors: Vec<Monitor>,
    /// Its listeners.
    pub(super) listeners: Vec<Listener>,
}

/// The parts of all load balancers as they were listed, but for members.
pub(super) struct Parts {
    pub(super) pools: Arc<Listing<ListedPart>>,
    pub(super) monitors: Arc<Listing<ListedPart>>,
    pub(super) listeners: Arc<Listing<ListedPart>>,
    pub(super) floating_ips: Arc<Listing<FloatingIp>>,
}

impl Parts {
    /// Nothing of them is older.
    pub(super) fn begun(&self) -> Instant {
        let parts = self.monitors.begun.min(self.listeners.begun);
        parts.min(self.pools.begun).min(self.floating_ips.begun)
    }

    /// The pools of a load balancer.
    pub(super) fn pools_of(&self, balancer: &str) -> impl Iterator<Item = &ListedPart> {
        let pools = self.pools.all.iter();
        pools.filter(move |pool| pool.load_balancer.as_deref() == Some(balancer))
    }
}

/// A part that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("the {kind} {uuid} of a load balancer of this cluster cannot be read: {why}")]
pub(super) struct UnreadablePart {
    kind: &'static str,
    uuid: String,
    why: serde_json::Error,
}

impl Observed {
    fn bare(balancer: Balancer) -> Self {
        Self {
            balancer,
            pools: Vec::new(),
            loose_listeners: Vec::new(),
            floating_ips: BTreeSet::new(),
        }
    }

    /// The load balancer with its parts; `members`: of each of its pools, by UUID.
    ///
    /// # Errors
    /// [`UnreadablePart`].
    pub(super) fn of(
        balancer: &Balancer,
        parts: &Parts,
        members: &HashMap<String, Vec<ListedPart>>,
    ) -> Result<Self, UnreadablePart> {
        let own: HashSet<&str> = parts
            .pools_of(&balancer.uuid)
            .map(|pool| &*pool.uuid)
            .collect();
        let mut observed = Self::bare(balancer.clone());
        for pool in parts.pools_of(&balancer.uuid) {
            let is_of_it = |part: &&ListedPart| part.pool.as_ref() == Some(&pool.uuid);
            let members = members.get(&pool.uuid).into_iter().flatten();
            observed.pools.push(Pool {
                part: read(pool)?,
                members: members.map(read).collect::<Result<_, _>>()?,
                monitors: read_all(parts.monitors.all.iter().filter(is_of_it))?,
                listeners: read_all(parts.listeners.all.iter().filter(is_of_it))?,
            });
        }
        let is_loose = |part: &&ListedPart| {
            let pool = part.pool.as_deref();
            part.load_balancer.as_ref() == Some(&balancer.uuid)
                && !pool.is_some_and(|pool| own.contains(pool))
        };
        observed.loose_listeners = read_all(parts.listeners.all.iter().filter(is_loose))?;
        let floating = parts.floating_ips.all.iter();
        let leading = floating.filter(|ip| ip.leads_to(&balancer.uuid));
        observed.floating_ips = leading.map(FloatingIp::address).collect();
        Ok(observed)
    }

    fn pool(&mut self, pool: &PoolRef, planned: &[String]) -> Option<&mut Pool> {
        let uuid = pool.id(planned)?;
        self.pools.iter_mut().find(|pool| pool.part.id == uuid)
    }

    fn take_of_pools(&mut self, step: &PartStep<PoolSpec>, made: &str, planned: &mut Vec<String>) {
        match &step.action {
            Action::Create(spec) => {
                planned.push(made.to_owned());
                self.pools.push(Pool {
                    part: Part {
                        id: made.to_owned(),
                        spec: spec.clone(),
                    },
                    members: Vec::new(),
                    monitors: Vec::new(),
                    listeners: Vec::new(),
                });
            }
            Action::Change(_, change) => {
                if let Some(pool) = self.pool(&step.pool, planned) {
                    change.take(&mut pool.part.spec);
                }
            }
            Action::Delete(part, _) => self.pools.retain(|pool| pool.part.id != part.id),
        }
    }
}

fn read<T: Spec>(part: &ListedPart) -> Result<Part<T>, UnreadablePart> {
    let uuid = part.uuid.clone();
    match part.read() {
        Ok(spec) => Ok(Part { id: uuid, spec }),
        Err(why) => Err(UnreadablePart {
            kind: T::NAME,
            uuid,
            why,
        }),
    }
}

fn read_all<'a, T: Spec>(
    parts: impl Iterator<Item = &'a ListedPart>,
) -> Result<Vec<Part<T>>, UnreadablePart> {
    parts.map(read).collect()
}

impl provider::Observed for Observed {
    type Listed = Balancer;
    type Step = Step;
    type Member = MemberSpec;

    fn listed(&self) -> &Balancer {
        &self.balancer
    }

    fn listed_mut(&mut self) -> &mut Balancer {
        &mut self.balancer
    }

    fn members(&self) -> impl Iterator<Item = (&str, &Member)> {
        let pools = self.pools.iter();
        pools.flat_map(|pool| pool.members.iter().map(|member| (&*pool.part.id, member)))
    }

    fn is_unused(&self) -> bool {
        self.pools.is_empty() && self.loose_listeners.is_empty() && self.floating_ips.is_empty()
    }

    fn lacks_parts(&self) -> bool {
        let lacks = |pool: &Pool| {
            pool.members.is_empty() || pool.monitors.is_empty() || pool.listeners.is_empty()
        };
        self.pools.is_empty() || self.pools.iter().any(lacks)
    }

    fn cost(&self) -> usize {
        self.pools.len()
    }

    fn exclusives(&self) -> &BTreeSet<String> {
        &self.floating_ips
    }

    fn loses(&mut self, address: &str) {
        self.floating_ips.remove(address);
    }

    fn created(step: &Step, uuid: &str) -> Option<Self> {
        let Step::CreateBalancer(BalancerSpec {
            name,
            flavor,
            zone,
            tags,
            ..
        }) = step
        else {
            return None;
        };
        let mut balancer = Balancer {
            uuid: uuid.to_owned(),
            name: name.clone(),
            status: None,
            zone: zone.clone(),
            flavor: Some(flavor.clone()),
            vip_addresses: None,
            tags: tags.clone(),
            created_at: None,
        };
        balancer.changes();
        Some(Self::bare(balancer))
    }

    fn take(&mut self, step: &Step, made: &str, planned: &mut Vec<String>) {
        match step {
            Step::CreateBalancer(_) | Step::DeleteBalancer { .. } => {}
            Step::RenameBalancer { name, .. } => self.balancer.name.clone_from(name),
            Step::TagBalancer { tags } => self.balancer.tags.clone_from(tags),
            Step::AssignFloatingIp { address } => {
                self.floating_ips.insert(address.clone());
            }
            Step::Pool(step) => self.take_of_pools(step, made, planned),
            Step::Member(step) => {
                if let Some(pool) = self.pool(&step.pool, planned) {
                    step.take(&mut pool.members, made);
                }
            }
            Step::Monitor(step) => {
                if let Some(pool) = self.pool(&step.pool, planned) {
                    step.take(&mut pool.monitors, made);
                }
            }
            Step::Listener(step) => match self.pool(&step.pool, planned) {
                Some(pool) => step.take(&mut pool.listeners, made),
                None => step.take(&mut self.loose_listeners, made),
            },
        }
    }

    fn emptying(&self, step: &Step) -> Vec<Step> {
        let Step::Pool(step) = step else {
            return Vec::new();
        };
        let pool = self
            .pools
            .iter()
            .find(|pool| step.pool.id(&[]) == Some(&pool.part.id));
        let members = pool.iter().flat_map(|pool| &pool.members);
        let members = members.map(|part| PartStep::delete(&step.pool, part, Impact::None));
        let monitors = pool.iter().flat_map(|pool| &pool.monitors);
        let monitors = monitors.map(|part| PartStep::delete(&step.pool, part, Impact::None));
        members
            .map(Step::Member)
            .chain(monitors.map(Step::Monitor))
            .collect()
    }
}
