//! Where the nodes of a NodeBalancer can be.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde_json::Value;

use super::kind::Kind;
use super::state::State;
use super::strict::REGIONS;
use super::vpc_ranges;

/// Where the nodes of a NodeBalancer can be.
pub(super) struct Backends {
    /// The addresses of Linodes. `None`: it is not known in which region.
    linodes: Option<HashSet<IpAddr>>,
    subnets: Vec<(u64, IpNet)>,
}

impl Backends {
    /// The Linodes of a region, and these subnets of VPCs.
    pub(super) fn of(state: &State, region: &Value, subnets: Vec<(u64, IpNet)>) -> Self {
        let is_region = region
            .as_str()
            .is_some_and(|region| REGIONS.contains(&region));
        let instances = state.instances.iter().map(|row| row.value());
        let here = instances.filter(|instance| instance["region"] == *region);
        let linodes = here.flat_map(|instance| {
            let ipv4 = instance["ipv4"].as_array().into_iter().flatten();
            let addresses = ipv4.chain(std::iter::once(&instance["ipv6"]));
            addresses.filter_map(|address| {
                let address = address.as_str()?.split('/').next()?;
                address.parse().ok()
            })
        });
        Self {
            linodes: is_region.then(|| linodes.collect()),
            subnets,
        }
    }

    /// Those of a NodeBalancer that there is.
    pub(super) fn of_node_balancer(state: &State, balancer: u64) -> Self {
        let region = &state.rows(Kind::NodeBalancer).value(&balancer.to_string())["region"];
        let attached = state.referring(Kind::NodeBalancerVpc, "nodebalancer_id", balancer);
        let backends = attached.filter(|vpc| vpc["purpose"] == "backend");
        let subnets = backends.filter_map(|vpc| {
            let subnet = vpc["subnet_id"].as_u64()?;
            Some((subnet, vpc_ranges::subnet(state, subnet)?.cidr.into()))
        });
        Self::of(state, region, subnets.collect())
    }

    /// What is wrong with the address of a node, and which field says so.
    pub(super) fn address_error(
        &self,
        address: &str,
        subnet: Option<u64>,
    ) -> Option<(&str, String)> {
        let Ok(socket) = address.parse::<SocketAddr>() else {
            return Some(("address", "Must be in address:port format".to_owned()));
        };
        let address = socket.ip();
        if socket.port() == 0 {
            return Some(("address", "Port must be 1-65535".to_owned()));
        }
        if let Some(subnet) = subnet {
            let Some((_, cidr)) = self.subnets.iter().find(|(id, _)| *id == subnet) else {
                let reason = "The NodeBalancer is not attached to this subnet";
                return Some(("subnet_id", reason.to_owned()));
            };
            let outside = !cidr.contains(&address);
            return outside.then(|| ("address", format!("Must be in the subnet {cidr}")));
        }
        let reason = match address {
            IpAddr::V4(v4) if !is_private(v4.octets()) => {
                "Must be a private IPv4 address: 192.168.128.0/17"
            }
            _ if self
                .linodes
                .as_ref()
                .is_none_or(|all| all.contains(&address)) =>
            {
                return None;
            }
            IpAddr::V4(_) => "Must be a private IPv4 address of a Linode in the same region",
            IpAddr::V6(_) => "Must be the IPv6 address of a Linode in the same region",
        };
        Some(("address", reason.to_owned()))
    }
}

/// 192.168.128.0/17, in which all private addresses of Linodes are.
pub(super) const fn is_private([a, b, c, _]: [u8; 4]) -> bool {
    a == 192 && b == 168 && c >= 128
}
