//! The kinds of objects that there are.

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The account.
    Account,
    /// A server.
    Server,
    /// A group of servers.
    ServerGroup,
    /// A firewall policy.
    FirewallPolicy,
    /// A rule of a firewall policy.
    FirewallRule,
    /// A load balancer.
    LoadBalancer,
    /// A Cloud IP.
    CloudIp,
}

impl Kind {
    /// All of them, each after those that it refers to.
    pub const ALL: [Self; 7] = [
        Self::Account,
        Self::Server,
        Self::ServerGroup,
        Self::FirewallPolicy,
        Self::FirewallRule,
        Self::LoadBalancer,
        Self::CloudIp,
    ];

    /// Its key in a state file, and its place below `/1.0/`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Account => "accounts",
            Self::Server => "servers",
            Self::ServerGroup => "server_groups",
            Self::FirewallPolicy => "firewall_policies",
            Self::FirewallRule => "firewall_rules",
            Self::LoadBalancer => "load_balancers",
            Self::CloudIp => "cloud_ips",
        }
    }

    /// What the API calls it in `resource_type`.
    pub(super) const fn resource_type(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Server => "server",
            Self::ServerGroup => "server_group",
            Self::FirewallPolicy => "firewall_policy",
            Self::FirewallRule => "firewall_rule",
            Self::LoadBalancer => "load_balancer",
            Self::CloudIp => "cloud_ip",
        }
    }

    /// How its identifiers begin.
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Self::Account => "acc",
            Self::Server => "srv",
            Self::ServerGroup => "grp",
            Self::FirewallPolicy => "fwp",
            Self::FirewallRule => "fwr",
            Self::LoadBalancer => "lba",
            Self::CloudIp => "cip",
        }
    }
}
