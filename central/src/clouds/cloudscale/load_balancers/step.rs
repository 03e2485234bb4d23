//! What can be done to a load balancer: each step is one request.
//!
//! A step's impact is what those notice who use what is still wanted. A port that nobody asks for any
//! more, and clients that are to be kept out, are not disturbed by that: it is what was asked for.

use std::fmt;

use mooring_common::engine::{self, Impact};

use crate::engine::provider::{self, Effect};

use super::change::Change;
use super::model::{ListenerSpec, MemberSpec, MonitorSpec, PoolSpec, Tags, VipRequest};

/// A pool that a step is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PoolRef {
    /// One that is there, by its UUID.
    Known(String),
    /// The one that the n-th [`Step::CreatePool`] of this plan makes, counted from 0.
    Planned(usize),
}

impl PoolRef {
    /// Its UUID, where `planned` are those of the pools that the plan has made so far.
    pub(super) fn uuid<'a>(&'a self, planned: &'a [String]) -> Option<&'a str> {
        match self {
            Self::Known(uuid) => Some(uuid),
            Self::Planned(index) => planned.get(*index).map(String::as_str),
        }
    }
}

/// One request that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Makes the load balancer.
    CreateBalancer {
        name: String,
        flavor: String,
        zone: Option<String>,
        vips: Vec<VipRequest>,
        tags: Tags,
    },
    /// Gives it another name.
    RenameBalancer { from: String, name: String },
    /// Gives it all these tags, instead of those that it has.
    TagBalancer { tags: Tags },
    /// Takes it away with all its parts.
    DeleteBalancer { uuid: String, name: String },
    /// Makes a pool.
    CreatePool(PoolSpec),
    /// Gives a pool another name.
    RenamePool {
        pool: PoolRef,
        from: String,
        name: String,
    },
    /// Takes a pool away, with its members and its monitor; no listener needs it any more.
    DeletePool { uuid: String, name: String },
    /// Puts a member into a pool.
    CreateMember { pool: PoolRef, member: MemberSpec },
    /// Lets a member get new connections, or none.
    SwitchMember {
        pool: PoolRef,
        uuid: String,
        /// Its name.
        member: String,
        enabled: bool,
    },
    /// Takes a member out of a pool. `impact`: what users notice until the next step is done.
    DeleteMember {
        pool: PoolRef,
        uuid: String,
        member: MemberSpec,
        impact: Impact,
    },
    /// Gives a pool its health monitor.
    CreateMonitor { pool: PoolRef, monitor: MonitorSpec },
    /// Takes a health monitor away; all members count as healthy then.
    DeleteMonitor {
        pool: PoolRef,
        uuid: String,
        kind: String,
    },
    /// Changes one thing about a health monitor.
    PatchMonitor {
        pool: PoolRef,
        uuid: String,
        change: Change,
    },
    /// Puts up a listener before a pool.
    CreateListener {
        pool: PoolRef,
        listener: ListenerSpec,
    },
    /// Takes a listener away. `impact`: what users notice until the next step is done.
    DeleteListener {
        uuid: String,
        listener: ListenerSpec,
        impact: Impact,
    },
    /// Changes one thing about a listener.
    PatchListener { uuid: String, change: Change },
    /// Lets a floating IP lead to it, by its network.
    AssignFloatingIp { network: String },
}

impl engine::Step for Step {
    fn impact(&self) -> Impact {
        match self {
            Self::DeleteBalancer { .. } => Impact::Major,
            Self::DeleteMember { impact, .. } | Self::DeleteListener { impact, .. } => *impact,
            // Whatever it leads to now loses it.
            Self::AssignFloatingIp { .. } => Impact::Brief,
            _ => Impact::None,
        }
    }
}

impl provider::Step for Step {
    fn effect(&self, planned: &[String]) -> Effect {
        match self {
            Self::CreateBalancer { .. } => Effect::CreateBalancer,
            Self::DeleteBalancer { uuid, name } => {
                Effect::DeleteBalancer(uuid.clone(), name.clone())
            }
            Self::CreateMember { pool, member } => {
                let pool = pool.uuid(planned).map(ToOwned::to_owned);
                Effect::CreateMember(pool, member.name.clone())
            }
            Self::CreatePool(_) | Self::CreateMonitor { .. } | Self::CreateListener { .. } => {
                Effect::Create
            }
            Self::RenameBalancer { .. }
            | Self::TagBalancer { .. }
            | Self::RenamePool { .. }
            | Self::PatchMonitor { .. }
            | Self::PatchListener { .. }
            | Self::SwitchMember { enabled: true, .. } => Effect::Change,
            Self::SwitchMember { enabled: false, .. } => Effect::Withdraw,
            Self::DeletePool { .. } => Effect::DeletePool,
            Self::DeleteMember { .. }
            | Self::DeleteMonitor { .. }
            | Self::DeleteListener { .. } => Effect::Delete,
            Self::AssignFloatingIp { network } => Effect::Assign(network.clone()),
        }
    }

    fn puts_back(&self, before: &Self) -> bool {
        matches!(
            (before, self),
            (Self::DeleteListener { .. }, Self::CreateListener { .. })
                | (Self::DeleteMember { .. }, Self::CreateMember { .. })
        )
    }

    fn delete_balancer(id: &str, name: &str) -> Self {
        Self::DeleteBalancer {
            uuid: id.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for PoolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(uuid) => write!(f, "pool {uuid}"),
            Self::Planned(index) => write!(f, "new pool {}", index + 1),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateBalancer {
                name, flavor, zone, ..
            } => {
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
            Self::CreatePool(spec) => write!(
                f,
                "create pool {} ({}, {})",
                spec.name, spec.algorithm, spec.protocol
            ),
            Self::RenamePool { pool, from, name } => {
                write!(f, "rename {pool} from {from} to {name}")
            }
            Self::DeletePool { uuid, name } => write!(f, "delete pool {name} ({uuid})"),
            Self::CreateMember { pool, member } => {
                let how = if member.enabled { "" } else { ", disabled" };
                write!(f, "add member {} to {pool}{how}", member.name)
            }
            Self::SwitchMember {
                pool,
                uuid,
                member,
                enabled,
            } => {
                let verb = if *enabled { "enable" } else { "disable" };
                write!(f, "{verb} member {member} ({uuid}) of {pool}")
            }
            Self::DeleteMember {
                pool, uuid, member, ..
            } => write!(f, "take member {} ({uuid}) out of {pool}", member.name),
            Self::CreateMonitor { pool, monitor } => {
                write!(f, "create health monitor {} for {pool}", monitor.kind)
            }
            Self::DeleteMonitor { pool, uuid, kind } => {
                write!(f, "delete health monitor {kind} ({uuid}) of {pool}")
            }
            Self::PatchMonitor { pool, uuid, change } => {
                write!(f, "set {change} of health monitor {uuid} of {pool}")
            }
            Self::CreateListener { pool, listener } => {
                write!(f, "create listener {} for {pool}", listener.name)
            }
            Self::DeleteListener { uuid, listener, .. } => {
                write!(f, "delete listener {} ({uuid})", listener.name)
            }
            Self::PatchListener { uuid, change } => write!(f, "set {change} of listener {uuid}"),
            Self::AssignFloatingIp { network } => write!(f, "assign floating IP {network}"),
        }
    }
}
