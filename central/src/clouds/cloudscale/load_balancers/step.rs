//! What can be done to a load balancer: each step is one request.

use mooring_common::engine::Impact;

use super::model::{ListenerSpec, MemberSpec, MonitorSpec, PoolSpec, Tags, VipRequest};

/// A pool that a step is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PoolRef {
    /// One that is there, by its UUID.
    Known(String),
    /// The one that the n-th [`Step::CreatePool`] of this plan makes, counted from 0.
    Planned(usize),
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
        change: MonitorChange,
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
    PatchListener {
        uuid: String,
        change: ListenerChange,
    },
    /// Lets a floating IP lead to it, by its network.
    AssignFloatingIp { network: String },
}

/// One thing about a health monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MonitorChange {
    DelayS(u32),
    TimeoutS(u32),
    UpThreshold(u32),
    DownThreshold(u32),
    /// How it speaks HTTP: only what has changed is sent, one field a request.
    HttpHost(Option<String>),
    HttpPath(String),
    HttpMethod(String),
    HttpExpectedCodes(Vec<String>),
}

/// One thing about a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListenerChange {
    Name(String),
    AllowedCidrs(Vec<String>),
    ClientDataMs(u32),
    MemberConnectMs(u32),
    MemberDataMs(u32),
}
