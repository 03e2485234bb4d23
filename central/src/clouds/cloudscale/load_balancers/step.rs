//! What can be done to a load balancer: each step is one request.
//!
//! A step's impact is what those notice who use what is still wanted. A port that nobody asks for any
//! more, and clients that are to be kept out, are not disturbed by that: it is what was asked for.

use std::fmt;

use mooring_common::engine::{self, Impact};
use serde_json::json;

use super::super::api::balancers::{self, BALANCERS};
use super::super::api::floating_ips;
use super::model::{BalancerSpec, ListenerSpec, MemberSpec, MonitorSpec, PoolSpec, Spec, Tags};
use crate::cloud_api::{Request, body, with};
use crate::engine::change::Change;
use crate::engine::pool::Member as _;
use crate::engine::step::{self, Action, Effect, PartStep, PoolRef};

/// One request that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Makes the load balancer.
    CreateBalancer(BalancerSpec),
    /// Gives it another name.
    RenameBalancer { from: String, name: String },
    /// Gives it all these tags, instead of those that it has.
    TagBalancer { tags: Tags },
    /// Takes it away with all its parts.
    DeleteBalancer { uuid: String, name: String },
    /// About a pool. With it go its members and its monitor; no listener needs it then.
    Pool(PartStep<PoolSpec>),
    /// About a member.
    Member(PartStep<MemberSpec>),
    /// About a health monitor. While a pool has none, all its members count as healthy.
    Monitor(PartStep<MonitorSpec>),
    /// About a listener.
    Listener(PartStep<ListenerSpec>),
    /// Lets a floating IP lead to it.
    AssignFloatingIp { address: String },
}

impl Step {
    /// The request about the load balancer with this UUID (nobody has one yet when it is created).
    /// `planned`: the pools that were made in this plan. None: it needs a pool that was not made.
    pub(super) fn request(&self, balancer: &str, planned: &[String]) -> Option<Request> {
        Some(match self {
            Self::CreateBalancer(spec) => BALANCERS.create(&[], body(spec)),
            Self::RenameBalancer { name, .. } => {
                BALANCERS.change(&[], balancer, json!({"name": name}))
            }
            Self::TagBalancer { tags } => balancers::tag(balancer, json!({"tags": tags})),
            Self::DeleteBalancer { uuid, .. } => BALANCERS.delete(&[], uuid),
            Self::Pool(step) => of_part(step, balancer, planned)?,
            Self::Member(step) => of_part(step, balancer, planned)?,
            Self::Monitor(step) => of_part(step, balancer, planned)?,
            Self::Listener(step) => of_part(step, balancer, planned)?,
            Self::AssignFloatingIp { address } => floating_ips::assign(address, balancer),
        })
    }
}

/// Whether a member is to get no new connections.
fn switches_off(change: &Change) -> bool {
    *change == MemberSpec::switch(false)
}

fn of_part<T: Spec>(step: &PartStep<T>, balancer: &str, planned: &[String]) -> Option<Request> {
    let pool = match &step.pool {
        PoolRef::None => "",
        pool => pool.id(planned)?,
    };
    let owner = if pool.is_empty() { balancer } else { pool };
    // Only the paths of members name the pool.
    Some(step.request(T::KIND, &[pool], |spec| {
        let owner = T::OWNER.map(|field| json!({ field: owner }));
        with(body(spec), owner.unwrap_or_else(|| json!({})))
    }))
}

impl engine::Step for Step {
    fn impact(&self) -> Impact {
        match self {
            Self::DeleteBalancer { .. } => Impact::Major,
            // Whatever it leads to now loses it.
            Self::AssignFloatingIp { .. } => Impact::Brief,
            Self::Member(step) => step.impact(),
            Self::Listener(step) => step.impact(),
            _ => Impact::None,
        }
    }
}

impl step::Step for Step {
    fn effect(&self, planned: &[String]) -> Effect {
        match self {
            Self::CreateBalancer(_) => Effect::CreateBalancer,
            Self::RenameBalancer { .. } | Self::TagBalancer { .. } => Effect::Change,
            Self::DeleteBalancer { uuid, name } => {
                Effect::DeleteBalancer(uuid.clone(), name.clone())
            }
            Self::Pool(step) => match step.effect() {
                Effect::Delete => Effect::DeletePool,
                effect => effect,
            },
            Self::Member(step) => step.member_effect(planned),
            Self::Monitor(step) => step.effect(),
            Self::Listener(step) => step.effect(),
            Self::AssignFloatingIp { address } => Effect::Assign(address.clone()),
        }
    }

    fn puts_back(&self, before: &Self) -> bool {
        match (before, self) {
            (Self::Member(before), Self::Member(step)) => step.puts_back(before),
            (Self::Listener(before), Self::Listener(step)) => step.puts_back(before),
            _ => false,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateBalancer(BalancerSpec {
                name, flavor, zone, ..
            }) => {
                write!(f, "create load balancer {name} of flavor {flavor}")?;
                match zone {
                    Some(zone) => write!(f, " in zone {zone}"),
                    None => Ok(()),
                }
            }
            Self::RenameBalancer { from, name } => {
                write!(f, "rename load balancer {from} to {name}")
            }
            Self::TagBalancer { tags } => {
                let tags: Vec<_> = tags.iter().map(|(k, v)| format!("{k}={v}")).collect();
                write!(f, "tag load balancer with {}", tags.join(", "))
            }
            Self::DeleteBalancer { uuid, name } => {
                write!(f, "delete load balancer {name} ({uuid}) with all its parts")
            }
            Self::Pool(step) => pool(step, f),
            Self::Member(step) => member(step, f),
            Self::Monitor(step) => monitor(step, f),
            Self::Listener(step) => listener(step, f),
            Self::AssignFloatingIp { address } => write!(f, "assign floating IP {address}"),
        }
    }
}

fn pool(step: &PartStep<PoolSpec>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match &step.action {
        Action::Create(spec) => write!(
            f,
            "create pool {} ({}, {})",
            spec.name, spec.algorithm, spec.protocol
        ),
        Action::Change(part, change) => {
            write!(
                f,
                "rename {} from {} to {}",
                step.pool,
                part.spec.name,
                change.text()
            )
        }
        Action::Delete(part, _) => write!(f, "delete pool {} ({})", part.spec.name, part.id),
    }
}

fn member(step: &PartStep<MemberSpec>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let pool = &step.pool;
    match &step.action {
        Action::Create(spec) => {
            let how = if spec.enabled { "" } else { ", disabled" };
            write!(f, "add member {} to {pool}{how}", spec.name)
        }
        Action::Change(part, change) => {
            let verb = if switches_off(change) {
                "disable"
            } else {
                "enable"
            };
            write!(
                f,
                "{verb} member {} ({}) of {pool}",
                part.spec.name, part.id
            )
        }
        Action::Delete(part, _) => {
            write!(
                f,
                "take member {} ({}) out of {pool}",
                part.spec.name, part.id
            )
        }
    }
}

fn monitor(step: &PartStep<MonitorSpec>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let pool = &step.pool;
    match &step.action {
        Action::Create(spec) => write!(f, "create health monitor {} for {pool}", spec.kind),
        Action::Change(part, change) => {
            write!(f, "set {change} of health monitor {} of {pool}", part.id)
        }
        Action::Delete(part, _) => {
            write!(
                f,
                "delete health monitor {} ({}) of {pool}",
                part.spec.kind, part.id
            )
        }
    }
}

fn listener(step: &PartStep<ListenerSpec>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match &step.action {
        Action::Create(spec) => write!(f, "create listener {} for {}", spec.name, step.pool),
        Action::Change(part, change) => write!(f, "set {change} of listener {}", part.id),
        Action::Delete(part, _) => write!(f, "delete listener {} ({})", part.spec.name, part.id),
    }
}
