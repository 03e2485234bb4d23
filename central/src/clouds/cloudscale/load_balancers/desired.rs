//! The load balancer that a Service is to have.

use std::collections::BTreeSet;

use super::model::{ListenerSpec, MemberSpec, MonitorSpec, PoolSpec, Tags, VipRequest};

/// A load balancer as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Desired {
    /// Its name.
    pub(super) name: String,
    /// Its flavor; cannot be changed.
    pub(super) flavor: String,
    /// Its zone, if the Service names one; cannot be changed.
    pub(super) zone: Option<String>,
    /// The zone of all its Nodes, for a new one where the Service names none. `None`: there is no
    /// Node, or they stand in several.
    pub(super) zone_of_nodes: Option<String>,
    /// The virtual addresses that are asked for; none: any public ones. Cannot be changed.
    pub(super) vips: Vec<VipRequest>,
    /// The marks of cluster and Service.
    pub(super) tags: Tags,
    /// One for each port, in order.
    pub(super) pools: Vec<DesiredPool>,
    /// Whether all members are known. If not, some are missing here that may be right, and none is
    /// taken away.
    pub(super) members_are_complete: bool,
    /// Networks of floating IPs that are to lead to it, in canonical form.
    pub(super) floating_ips: BTreeSet<String>,
}

/// A pool as it is wanted, with its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DesiredPool {
    /// The pool itself.
    pub(super) spec: PoolSpec,
    /// Its members, without repetition.
    pub(super) members: Vec<MemberSpec>,
    /// Its health monitor.
    pub(super) monitor: MonitorSpec,
    /// Its listener.
    pub(super) listener: ListenerSpec,
}
