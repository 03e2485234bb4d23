//! Where pod CIDRs come from.

use std::sync::Arc;

use async_trait::async_trait;
use ipnet::{Ipv4Net, Ipv6Net};
use mooring_common::provider_id::ProviderId;

use super::api::{Labelled, SUBNETS};
use super::flags::{IPV4_MASK_FLAG, IPV6_MASK, IPV6_MASK_FLAG};
use super::{Linode, NAME, interfaces};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::pod_network::{Ipv6PodCidrs, NoRange, NodeIpam, NodeRanges};

/// The place that the Go controller gives pod CIDRs of the default length in the range of a Linode: its first 64
/// bits, `:0:c::`.
const PLACE: (u8, u128) = (IPV6_MASK, 0xc_0000_0000);

/// How pod CIDRs of Linodes are allocated.
pub(super) fn ipam(cloud: Arc<Linode>) -> NodeIpam {
    let flags = &cloud.settings.flags;
    NodeIpam {
        ipv4_mask: flags.ipv4_mask,
        ipv4_mask_flag: IPV4_MASK_FLAG,
        ipv6: flags.ipv6_mask.map(|mask| Ipv6PodCidrs {
            mask,
            mask_flag: IPV6_MASK_FLAG,
            offset: PLACE,
            machine: "Linode",
        }),
        ranges: Arc::new(LinodeRanges(cloud)),
    }
}

/// The ranges of Linodes in VPCs.
struct LinodeRanges(Arc<Linode>);

#[async_trait]
impl NodeRanges for LinodeRanges {
    fn provider(&self) -> &'static str {
        NAME
    }

    async fn ipv6_range(&self, machine: &ProviderId) -> Result<Ipv6Net, NoRange> {
        let linode = machine.instance();
        let range = interfaces::ipv6_range(&self.0.client, linode).await?;
        range.ok_or_else(|| {
            NoRange::Refused(format!(
                "Linode {linode} has no IPv6 range on an interface in a VPC; give it one, or set \
                 --disable-ipv6-node-cidr-allocation"
            ))
        })
    }

    async fn subnet(&self) -> Result<Option<Ipv4Net>, CloudError> {
        let Some((vpc, subnet)) = self.0.vpcs.first_subnet().await? else {
            return Ok(None);
        };
        let request = SUBNETS.get(&[&vpc.to_string()], &subnet.to_string());
        let subnet: Labelled = self.0.client.fetch(&request).await?;
        let range = subnet.ipv4.as_deref().unwrap_or_default();
        let range = range.parse().map_err(|_| {
            let problem = format!("the subnet's IPv4 range {range:?} cannot be read");
            CloudError::new(NAME, ErrorKind::Malformed, problem)
        })?;
        Ok(Some(range))
    }
}

#[cfg(test)]
mod tests;
