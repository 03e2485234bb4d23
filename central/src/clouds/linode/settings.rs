//! What the command line and the environment say of NodeBalancers.

use std::time::Duration;

use ipnet::IpNet;

/// It.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancerSettings {
    /// Where they are made.
    pub region: String,
    /// The first tag of each, if there is one.
    pub cluster_name: Option<String>,
    /// The tags that follow.
    pub tags: Vec<String>,
    /// How their names begin.
    pub prefix: String,
    /// The type of those whose Service names none.
    pub default_type: String,
    /// The VPCs by which Nodes are reached, by label; the first one is the default.
    pub vpc_names: Vec<String>,
    /// Their subnets; the first one is the default.
    pub subnet_names: Vec<String>,
    /// The block that they take their addresses in the VPC from.
    pub backend_ipv4_subnet: Option<IpNet>,
    /// The subnet of these addresses, by number.
    pub backend_ipv4_subnet_id: Option<u64>,
    /// The same by label, in the first VPC.
    pub backend_ipv4_subnet_name: Option<String>,
    /// Whether Nodes are reached outside of VPCs all the same.
    pub disables_vpc_backends: bool,
    /// Whether the status has IPv6 addresses.
    pub ipv6_ingress: bool,
    /// Whether Nodes are reached by IPv6.
    pub ipv6_backends: bool,
    /// Whether the status has the host name alone.
    pub hostname_only: bool,
    /// For how long a node that leaves is kept without new connections.
    pub drain_period: Duration,
}
