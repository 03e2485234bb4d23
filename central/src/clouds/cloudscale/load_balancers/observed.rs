//! A load balancer as it is.

use std::collections::BTreeSet;

use super::model::{ListenerSpec, MemberSpec, MonitorSpec, PoolSpec, Tags};

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
