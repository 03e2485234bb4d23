//! Where addresses come from.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;
use mooring_common::address_range::AddressRange;
use mooring_common::l2_network::Segment;

/// Where addresses come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The L2Network's name, or what a pool without one is called.
    pub name: String,
    /// Its addresses.
    pub ranges: Vec<AddressRange>,
    /// Those that no Service can have: routers, and the first and last address of an IPv4 subnet.
    pub unusable: HashSet<IpAddr>,
}

impl Pool {
    /// The addresses of an L2Network.
    #[must_use]
    pub fn of(segment: &Segment) -> Self {
        let mut unusable = HashSet::new();
        for (subnet, gateway) in &segment.subnets {
            unusable.extend(gateway);
            match subnet {
                IpNet::V4(v4) if v4.prefix_len() < 31 => {
                    unusable.insert(v4.network().into());
                    unusable.insert(v4.broadcast().into());
                }
                IpNet::V4(_) => {}
                IpNet::V6(v6) => {
                    unusable.insert(v6.network().into());
                }
            }
        }
        Self {
            name: segment.name.clone(),
            ranges: segment.ranges.clone(),
            unusable,
        }
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address)) && !self.unusable.contains(&address)
    }

    pub(super) fn has_all(&self, addresses: &[IpAddr]) -> bool {
        addresses.iter().all(|address| self.contains(*address))
    }
}
