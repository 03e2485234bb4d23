//! What central asks of a cloud for the Pods of Nodes: ranges of addresses, and routes to them.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

use async_trait::async_trait;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use mooring_common::provider_id::ProviderId;
use tokio::time::Instant;

use crate::cloud_api::CloudError;
use crate::election::NotLeading;

/// What a cloud has for the Pods of Nodes, as far as its flags ask for it.
#[derive(Clone, Default)]
pub struct PodNetwork {
    /// Routes to Pods.
    pub routes: Option<Arc<dyn Routes>>,
    /// How pod CIDRs are allocated.
    pub node_ipam: Option<NodeIpam>,
}

/// The Pods with addresses in a range are behind this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// The machine.
    pub machine: ProviderId,
    /// The range.
    pub destination: IpNet,
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.destination, self.machine)
    }
}

/// All routes at one time: of each machine that can have any, the ranges that lead to it.
pub type RouteTable = BTreeMap<ProviderId, Vec<IpNet>>;

/// What a listing says.
#[derive(Clone, Debug)]
pub struct RouteListing {
    /// When it was begun: what was written since does not show.
    pub begun: Instant,
    /// The routes.
    pub table: RouteTable,
}

/// Why there can be no route, as things are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unroutable {
    /// The machine has nothing that a range could be put on.
    NoInterface,
    /// The cloud makes no routes of this family, and the range does not lie on the machine already.
    Family,
}

/// Why a route was not written.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// The cloud did not do it.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// This process must not.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
}

/// Asked directly before a request that changes something.
pub type MayWrite<'a> = &'a (dyn Fn() -> Result<(), NotLeading> + Send + Sync);

/// The routes of a cloud to the Pods of its machines.
#[async_trait]
pub trait Routes: Send + Sync {
    /// The provider's name, which is the scheme of its machines' IDs.
    fn provider(&self) -> &'static str;

    /// All routes, from a listing that was begun at `since` or later. `None`: from one as old as the cloud's
    /// configuration permits.
    ///
    /// # Errors
    /// [`CloudError`] unless the listing is complete.
    async fn list(&self, since: Option<Instant>) -> Result<RouteListing, CloudError>;

    /// Whether ranges of the family of this one can be written.
    fn can_write(&self, destination: &IpNet) -> bool;

    /// What to tell of a route that there cannot be, with what to do about it.
    fn explain(&self, route: &Route, why: Unroutable) -> String;

    /// Makes a route; one that is there already is left as it is. Nothing else is written on the machine
    /// meanwhile.
    ///
    /// # Errors
    /// [`RouteError`]
    async fn create(&self, route: &Route, may_write: MayWrite<'_>) -> Result<(), RouteError>;

    /// Deletes a route; one that is gone already is left at that. Nothing else is written on the machine
    /// meanwhile.
    ///
    /// # Errors
    /// [`RouteError`]
    async fn delete(&self, route: &Route, may_write: MayWrite<'_>) -> Result<(), RouteError>;
}

/// How pod CIDRs are allocated.
#[derive(Clone)]
pub struct NodeIpam {
    /// The length of IPv4 pod CIDRs.
    pub ipv4_mask: u8,
    /// The flag that sets it, for messages.
    pub ipv4_mask_flag: &'static str,
    /// How IPv6 pod CIDRs lie in the ranges of machines. `None`: Nodes get none.
    pub ipv6: Option<Ipv6PodCidrs>,
    /// Where these ranges come from, and what the cloud keeps for itself.
    pub ranges: Arc<dyn NodeRanges>,
}

impl NodeIpam {
    /// The IPv6 pod CIDR of a machine. `Ok(None)`: Nodes get none.
    ///
    /// # Errors
    /// [`NoRange`]
    pub async fn ipv6_pod_cidr(&self, machine: &ProviderId) -> Result<Option<Ipv6Net>, NoRange> {
        let Some(ipv6) = &self.ipv6 else {
            return Ok(None);
        };
        let range = self.ranges.ipv6_range(machine).await?;
        let cidr = ipv6.within(range).ok_or_else(|| {
            NoRange::Refused(format!(
                "--{}={}: a pod CIDR of this length is not within the IPv6 range {range} of {} {}; write a \
                 number from {} to 128",
                ipv6.mask_flag,
                ipv6.mask,
                ipv6.machine,
                machine.instance(),
                range.prefix_len()
            ))
        })?;
        Ok(Some(cidr))
    }
}

/// How IPv6 pod CIDRs lie in the ranges of machines: at their beginning, but for those of one length.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6PodCidrs {
    /// Their length.
    pub mask: u8,
    /// The flag that sets it, for messages.
    pub mask_flag: &'static str,
    /// A length, and the bits that pod CIDRs of it have in addition to those of the range.
    pub offset: (u8, u128),
    /// What messages call a machine.
    pub machine: &'static str,
}

impl Ipv6PodCidrs {
    /// The pod CIDR in a range. `None`: it does not lie in there.
    fn within(&self, range: Ipv6Net) -> Option<Ipv6Net> {
        let (mask, offset) = self.offset;
        let offset = if self.mask == mask { offset } else { 0 };
        let first = Ipv6Addr::from(u128::from(range.network()) | offset);
        let cidr = Ipv6Net::new(first, self.mask).ok()?.trunc();
        range.contains(&cidr).then_some(cidr)
    }
}

/// What a cloud says of ranges for Pods.
#[async_trait]
pub trait NodeRanges: Send + Sync {
    /// The provider's name, which is the scheme of its machines' IDs.
    fn provider(&self) -> &'static str;

    /// The IPv6 range of a machine, which its pod CIDR is to lie in.
    ///
    /// # Errors
    /// [`NoRange`]
    async fn ipv6_range(&self, machine: &ProviderId) -> Result<Ipv6Net, NoRange>;

    /// The IPv4 subnet of the machines, of which the cloud needs the last addresses for itself. `None`: it needs
    /// none of any.
    ///
    /// # Errors
    /// [`CloudError`] if it cannot be asked.
    async fn subnet(&self) -> Result<Option<Ipv4Net>, CloudError>;
}

/// Why a machine has no range.
#[derive(Debug, thiserror::Error)]
pub enum NoRange {
    /// The cloud could not be asked.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// It has none; the text says what to do.
    #[error("{0}")]
    Refused(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_cidrs_of_one_length_have_a_place_of_their_own() {
        for (range, mask, expected) in [
            ("2300:5800:2:1::/64", 112, Some("2300:5800:2:1:0:c::/112")),
            ("2300:5800:2:1::/64", 80, Some("2300:5800:2:1::/80")),
            ("2300:5800:2:1::/64", 64, Some("2300:5800:2:1::/64")),
            ("2300:5800:2:1::/64", 56, None),
            ("2300:5800:2:1::/112", 112, None),
            (
                "2300:5800:2:1:0:c::/112",
                112,
                Some("2300:5800:2:1:0:c::/112"),
            ),
        ] {
            let ipv6 = Ipv6PodCidrs {
                mask,
                mask_flag: "mask",
                offset: (112, 0xc_0000_0000),
                machine: "machine",
            };
            let cidr = ipv6.within(range.parse().unwrap());
            let cidr = cidr.map(|cidr| cidr.to_string());
            assert_eq!(cidr.as_deref(), expected, "{range} /{mask}");
        }
    }
}
