//! A load balancer as it is.

use std::collections::BTreeSet;

use mooring_common::engine::Impact;
use mooring_common::names::cloudscale_tags as tags;

use super::super::api;
use super::model::{ListenerSpec, MemberSpec, MonitorSpec, PoolSpec, Tags, VipRequest};
use super::step::{PoolRef, Step};
use crate::engine::canonical::{canonical_address, canonical_uuid};
use crate::engine::provider::{self, Listed as _};

/// A load balancer with all its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    /// The load balancer itself.
    pub(super) balancer: Balancer,
    /// Its pools, in the API's order.
    pub(super) pools: Vec<Pool>,
    /// Its listeners that belong to no pool.
    pub(super) loose_listeners: Vec<Listener>,
    /// Networks of the floating IPs that lead to it, in canonical form.
    pub(super) floating_ips: BTreeSet<String>,
}

/// A load balancer without its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Balancer {
    /// Its UUID.
    pub(super) uuid: String,
    /// Its name; several may have the same.
    pub(super) name: String,
    /// Whether the cloud is at work on it and takes no other change (status `changing`).
    pub(super) is_changing: bool,
    /// Its zone's slug, if the cloud says it.
    pub(super) zone: Option<String>,
    /// Its flavor's slug, if the cloud says it.
    pub(super) flavor: Option<String>,
    /// Its virtual addresses, in the API's order.
    pub(super) vips: Vec<Vip>,
    /// Its tags.
    pub(super) tags: Tags,
}

impl Balancer {
    /// As a listing shows it.
    pub(super) fn of(listed: &api::balancers::Balancer) -> Self {
        let vips = listed.vip_addresses.iter().flatten();
        Self {
            uuid: listed.uuid.clone(),
            name: listed.name().to_owned(),
            is_changing: listed.is_changing(),
            zone: listed.zone.as_ref().map(|zone| zone.slug.clone()),
            flavor: listed.flavor.as_ref().map(|flavor| flavor.slug.clone()),
            vips: vips
                .map(|vip| Vip {
                    address: canonical_address(&vip.address),
                    subnet: vip
                        .subnet
                        .as_ref()
                        .map(|subnet| canonical_uuid(&subnet.uuid)),
                })
                .collect(),
            tags: listed.tags.clone().unwrap_or_default(),
        }
    }
}

/// A virtual address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Vip {
    /// The address.
    pub(super) address: String,
    /// The UUID of its subnet; `None` for a public one.
    pub(super) subnet: Option<String>,
}

/// A pool with its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    /// Its UUID.
    pub(super) uuid: String,
    /// The pool itself.
    pub(super) spec: PoolSpec,
    /// Its members.
    pub(super) members: Vec<Member>,
    /// Its health monitors: one, or none.
    pub(super) monitors: Vec<Monitor>,
    /// Its listeners.
    pub(super) listeners: Vec<Listener>,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Its UUID.
    pub(super) uuid: String,
    /// What it is.
    pub(super) spec: MemberSpec,
}

/// A health monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Monitor {
    /// Its UUID.
    pub(super) uuid: String,
    /// What it is.
    pub(super) spec: MonitorSpec,
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    /// Its UUID.
    pub(super) uuid: String,
    /// What it is.
    pub(super) spec: ListenerSpec,
}

impl Observed {
    /// What there is once a [`Step::CreateBalancer`] is taken: `uuid` is the new load balancer's.
    /// `None`: it is another step.
    pub(super) fn made(step: &Step, uuid: &str) -> Option<Self> {
        let Step::CreateBalancer {
            name,
            flavor,
            zone,
            vips,
            tags,
        } = step
        else {
            return None;
        };
        let vip = |request: &VipRequest| Vip {
            address: request.address.clone().unwrap_or_default(),
            subnet: request.subnet.clone(),
        };
        Some(Self {
            balancer: Balancer {
                uuid: uuid.to_owned(),
                name: name.clone(),
                is_changing: true,
                zone: zone.clone(),
                flavor: Some(flavor.clone()),
                vips: vips.iter().map(vip).collect(),
                tags: tags.clone(),
            },
            pools: Vec::new(),
            loose_listeners: Vec::new(),
            floating_ips: BTreeSet::new(),
        })
    }

    /// Takes up what a step has changed. `created`: the UUID of what it has made, if it makes
    /// something. `planned`: the UUIDs of the pools that the plan has made so far, for
    /// [`PoolRef::Planned`].
    ///
    /// Nothing is left to take up of the load balancer's own creation ([`Self::made`]) and deletion.
    pub(super) fn take_up(&mut self, step: &Step, created: &str, planned: &mut Vec<String>) {
        match step {
            Step::CreateBalancer { .. } | Step::DeleteBalancer { .. } => {}
            Step::RenameBalancer { name, .. } => self.balancer.name.clone_from(name),
            Step::TagBalancer { tags } => self.balancer.tags.clone_from(tags),
            Step::AssignFloatingIp { network } => {
                self.floating_ips.insert(network.clone());
            }
            Step::CreatePool(spec) => {
                planned.push(created.to_owned());
                self.pools.push(Pool {
                    uuid: created.to_owned(),
                    spec: spec.clone(),
                    members: Vec::new(),
                    monitors: Vec::new(),
                    listeners: Vec::new(),
                });
            }
            Step::DeletePool { uuid, .. } => self.pools.retain(|pool| pool.uuid != *uuid),
            Step::DeleteListener { uuid, .. } => {
                self.loose_listeners
                    .retain(|listener| listener.uuid != *uuid);
                for pool in &mut self.pools {
                    pool.listeners.retain(|listener| listener.uuid != *uuid);
                }
            }
            Step::PatchListener { uuid, change } => {
                let listeners = self.pools.iter_mut().flat_map(|pool| &mut pool.listeners);
                for listener in listeners.filter(|listener| listener.uuid == *uuid) {
                    change.take(&mut listener.spec);
                }
            }
            Step::RenamePool { pool, .. }
            | Step::CreateMember { pool, .. }
            | Step::SwitchMember { pool, .. }
            | Step::DeleteMember { pool, .. }
            | Step::CreateMonitor { pool, .. }
            | Step::DeleteMonitor { pool, .. }
            | Step::PatchMonitor { pool, .. }
            | Step::CreateListener { pool, .. } => {
                if let Some(pool) = self.pool(pool, planned) {
                    pool.take(step, created);
                }
            }
        }
    }

    fn pool(&mut self, pool: &PoolRef, planned: &[String]) -> Option<&mut Pool> {
        let uuid = pool.uuid(planned)?;
        self.pools.iter_mut().find(|pool| pool.uuid == uuid)
    }
}

impl provider::Observed for Observed {
    type Listed = api::balancers::Balancer;
    type Step = Step;

    fn id(&self) -> &str {
        &self.balancer.uuid
    }

    fn name(&self) -> &str {
        &self.balancer.name
    }

    fn owner(&self) -> Option<&str> {
        let owner = self.balancer.tags.get(tags::SERVICE_UID);
        owner.map(String::as_str)
    }

    fn is_changing(&self) -> bool {
        self.balancer.is_changing
    }

    fn changes(&mut self) {
        self.balancer.is_changing = true;
    }

    fn refresh(&mut self, listed: &Self::Listed) {
        self.balancer = Balancer::of(listed);
    }

    fn is_unused(&self) -> bool {
        self.pools.is_empty() && self.loose_listeners.is_empty() && self.floating_ips.is_empty()
    }

    fn lacks_parts(&self) -> bool {
        let is_whole = |pool: &Pool| {
            let parts = [
                pool.members.is_empty(),
                pool.monitors.is_empty(),
                pool.listeners.is_empty(),
            ];
            parts == [false; 3]
        };
        self.pools.is_empty() || !self.pools.iter().all(is_whole)
    }

    fn targets(&self) -> Vec<(&str, u16)> {
        let members = self.pools.iter().flat_map(|pool| &pool.members);
        members.map(|member| member.spec.target()).collect()
    }

    fn cost(&self) -> usize {
        self.pools.len()
    }

    fn exclusives(&self) -> &BTreeSet<String> {
        &self.floating_ips
    }

    fn loses(&mut self, network: &str) {
        self.floating_ips.remove(network);
    }

    fn created(step: &Step, id: &str) -> Option<Self> {
        Self::made(step, id)
    }

    fn take(&mut self, step: &Step, made: &str, planned: &mut Vec<String>) {
        self.take_up(step, made, planned);
    }

    fn serves_after(&self, step: &Step, pools: &BTreeSet<String>) -> bool {
        let going = match step {
            Step::DeleteMember { uuid, .. } | Step::SwitchMember { uuid, .. } => Some(uuid),
            _ => None,
        };
        let is_served = |pool: &Pool| {
            let mut members = pool.members.iter();
            members.any(|member| member.spec.enabled && Some(&member.uuid) != going)
        };
        let mut pools = pools.iter();
        pools.all(|uuid| {
            self.pools
                .iter()
                .any(|pool| pool.uuid == *uuid && is_served(pool))
        })
    }

    fn emptying(&self, step: &Step) -> Vec<Step> {
        let Step::DeletePool { uuid, .. } = step else {
            return Vec::new();
        };
        let known = || PoolRef::Known(uuid.clone());
        let mut steps = Vec::new();
        for pool in self.pools.iter().filter(|pool| pool.uuid == *uuid) {
            steps.extend(pool.members.iter().map(|member| Step::DeleteMember {
                pool: known(),
                uuid: member.uuid.clone(),
                member: member.spec.clone(),
                impact: Impact::None,
            }));
            steps.extend(pool.monitors.iter().map(|monitor| Step::DeleteMonitor {
                pool: known(),
                uuid: monitor.uuid.clone(),
                kind: monitor.spec.kind.clone(),
            }));
        }
        steps
    }
}

impl Pool {
    /// Takes up a step that is about this pool's parts.
    fn take(&mut self, step: &Step, created: &str) {
        let uuid = created.to_owned();
        match step {
            Step::RenamePool { name, .. } => self.spec.name.clone_from(name),
            Step::CreateMember { member: spec, .. } => self.members.push(Member {
                uuid,
                spec: spec.clone(),
            }),
            Step::SwitchMember { uuid, enabled, .. } => {
                for member in self.members.iter_mut().filter(|m| m.uuid == *uuid) {
                    member.spec.enabled = *enabled;
                }
            }
            Step::DeleteMember { uuid, .. } => self.members.retain(|m| m.uuid != *uuid),
            Step::CreateMonitor { monitor: spec, .. } => self.monitors.push(Monitor {
                uuid,
                spec: spec.clone(),
            }),
            Step::DeleteMonitor { uuid, .. } => self.monitors.retain(|m| m.uuid != *uuid),
            Step::PatchMonitor { uuid, change, .. } => {
                for monitor in self.monitors.iter_mut().filter(|m| m.uuid == *uuid) {
                    change.take(&mut monitor.spec);
                }
            }
            Step::CreateListener { listener: spec, .. } => self.listeners.push(Listener {
                uuid,
                spec: spec.clone(),
            }),
            _ => {}
        }
    }
}
