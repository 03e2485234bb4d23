//! The kinds of objects that can be written.

/// What an object is, apart from Linodes and VPCs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A NodeBalancer.
    NodeBalancer,
    /// One port of a NodeBalancer.
    Config,
    /// A backend of a config.
    Node,
    /// What a NodeBalancer has in a subnet of a VPC.
    NodeBalancerVpc,
    /// A Cloud Firewall.
    Firewall,
    /// What a firewall is attached to; its key is `firewall/device`.
    Device,
    /// A reserved IPv4 address; its key is the address.
    ReservedIp,
}

impl Kind {
    /// All of them, each after those that it refers to.
    pub const ALL: [Self; 7] = [
        Self::ReservedIp,
        Self::NodeBalancer,
        Self::NodeBalancerVpc,
        Self::Config,
        Self::Node,
        Self::Firewall,
        Self::Device,
    ];
}
