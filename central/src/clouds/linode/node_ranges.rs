//! Where pod CIDRs come from.

use std::net::Ipv6Addr;
use std::sync::Arc;

use async_trait::async_trait;
use ipnet::{Ipv4Net, Ipv6Net};
use mooring_common::provider_id::ProviderId;

use super::api::{Labelled, SUBNETS};
use super::{Linode, NAME, interfaces};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::pod_network::{NoRange, NodeRanges};

/// The length of IPv6 pod CIDRs that have a place of their own in the range of a Linode.
const IN_PLACE: u8 = 112;
/// That place: the range's first 64 bits, `:0:c::`.
const PLACE: u128 = 0xc_0000_0000;

/// The ranges of Linodes in VPCs.
pub(super) struct LinodeRanges(pub(super) Arc<Linode>);

impl LinodeRanges {
    /// The length of IPv6 pod CIDRs; `None`: there are none.
    fn ipv6_mask(&self) -> Option<u8> {
        self.0.settings.flags.ipv6_mask
    }
}

#[async_trait]
impl NodeRanges for LinodeRanges {
    fn provider(&self) -> &'static str {
        NAME
    }

    fn allocates_ipv6(&self) -> bool {
        self.ipv6_mask().is_some()
    }

    async fn ipv6_pod_cidr(&self, machine: &ProviderId) -> Result<Ipv6Net, NoRange> {
        let linode = machine.instance();
        let range = interfaces::ipv6_range(&self.0.client, linode).await?;
        let range = range.ok_or_else(|| {
            NoRange::Refused(format!(
                "Linode {linode} has no IPv6 range on an interface in a VPC; give it one, or set \
                 --disable-ipv6-node-cidr-allocation"
            ))
        })?;
        let mask = self.ipv6_mask().unwrap_or(IN_PLACE);
        pod_cidr(range, mask).ok_or_else(|| {
            NoRange::Refused(format!(
                "--node-cidr-mask-size-ipv6={mask}: a pod CIDR of this length is not within the IPv6 range \
                 {range} of Linode {linode}; write a number from {} to 128",
                range.prefix_len()
            ))
        })
    }

    async fn reserves_end_of(&self, cluster_cidr: Ipv4Net) -> Result<bool, CloudError> {
        let client = &self.0.client;
        let Some((vpc, subnet)) = self.0.vpcs.first_subnet(client).await? else {
            return Ok(false);
        };
        let request = SUBNETS.get(&[&vpc.to_string()], &subnet.to_string());
        let subnet: Labelled = client.fetch(&request).await?;
        let range = subnet.ipv4.as_deref().unwrap_or_default();
        let range: Ipv4Net = range.parse().map_err(|_| {
            let problem = format!("the subnet's IPv4 range {range:?} cannot be read");
            CloudError::new(NAME, ErrorKind::Malformed, problem)
        })?;
        Ok(range.broadcast() == cluster_cidr.broadcast())
    }
}

/// The pod CIDR in a range, where the Go controller puts it. `None`: it does not lie in there.
fn pod_cidr(range: Ipv6Net, mask: u8) -> Option<Ipv6Net> {
    let place = if mask == IN_PLACE { PLACE } else { 0 };
    let first = u128::from(range.network()) | place;
    let cidr = Ipv6Net::new(Ipv6Addr::from(first), mask).ok()?.trunc();
    range.contains(&cidr).then_some(cidr)
}

#[cfg(test)]
mod tests;
