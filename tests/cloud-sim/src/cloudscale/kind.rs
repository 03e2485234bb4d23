//! The kinds of objects that there are.

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A server.
    Server,
    /// A load balancer.
    LoadBalancer,
    /// A pool of a load balancer.
    Pool,
    /// A member of a pool.
    Member,
    /// A listener of a load balancer.
    Listener,
    /// The health monitor of a pool.
    HealthMonitor,
    /// A floating IP.
    FloatingIp,
}

impl Kind {
    /// All of them, each after those that it refers to.
    pub const ALL: [Self; 7] = [
        Self::Server,
        Self::LoadBalancer,
        Self::Pool,
        Self::Member,
        Self::Listener,
        Self::HealthMonitor,
        Self::FloatingIp,
    ];

    /// Its key in a state file.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Server => "servers",
            Self::LoadBalancer => "load_balancers",
            Self::Pool => "pools",
            Self::Member => "members",
            Self::Listener => "listeners",
            Self::HealthMonitor => "health_monitors",
            Self::FloatingIp => "floating_ips",
        }
    }

    /// The path of the listing; members have one per pool.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Server => "/v1/servers",
            Self::LoadBalancer => "/v1/load-balancers",
            Self::Pool => "/v1/load-balancers/pools",
            Self::Member => "/v1/load-balancers/pools/*/members",
            Self::Listener => "/v1/load-balancers/listeners",
            Self::HealthMonitor => "/v1/load-balancers/health-monitors",
            Self::FloatingIp => "/v1/floating-ips",
        }
    }

    /// Whether it is part of a load balancer.
    pub(super) const fn is_part(self) -> bool {
        matches!(
            self,
            Self::Pool | Self::Member | Self::Listener | Self::HealthMonitor
        )
    }
}
