//! Where pod CIDRs come from.

use std::net::Ipv6Addr;
use std::sync::Arc;

use async_trait::async_trait;
use ipnet::{Ipv4Net, Ipv6Net};
use mooring_common::provider_id::ProviderId;
use serde::Deserialize;

use super::api::{self, Instance, Subnet};
use super::interfaces::VpcIpv6;
use super::{Linode, NAME};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::pod_network::{NoRange, NodeRanges};

/// The length of IPv6 pod CIDRs that have a place of their own in the range of a Linode.
const IN_PLACE: u8 = 112;
/// That place: the range's first 64 bits, `:0:c::`.
const PLACE: u128 = 0xc_0000_0000;

/// The ranges of Linodes in VPCs.
pub(super) struct LinodeRanges {
    pub(super) linode: Arc<Linode>,
    /// The length of IPv6 pod CIDRs; `None`: there are none.
    pub(super) ipv6_mask: Option<u8>,
}

#[derive(Debug, Deserialize)]
struct Config {
    #[serde(default)]
    interfaces: Vec<ConfigInterface>,
}

#[derive(Debug, Deserialize)]
struct ConfigInterface {
    purpose: String,
    active: Option<bool>,
    ipv6: Option<VpcIpv6>,
}

/// The documentation names the list otherwise than Linode's own client.
#[derive(Debug, Deserialize)]
struct Interfaces {
    #[serde(alias = "data")]
    interfaces: Vec<LinodeInterface>,
}

#[derive(Debug, Deserialize)]
struct LinodeInterface {
    vpc: Option<VpcPart>,
}

#[derive(Debug, Deserialize)]
struct VpcPart {
    ipv6: Option<VpcIpv6>,
}

impl LinodeRanges {
    /// The range that the Linode has in a VPC, in whichever generation of interfaces.
    async fn ipv6_range(&self, linode: &str) -> Result<Option<Ipv6Net>, CloudError> {
        let client = &self.linode.client;
        let instance: Instance = client.fetch(&api::instance(linode)).await?;
        if instance.interface_generation.as_deref() == Some("linode") {
            let all: Interfaces = client.fetch(&api::interfaces(linode)).await?;
            let of_vpcs = all.interfaces.into_iter().filter_map(|one| one.vpc?.ipv6);
            return Ok(of_vpcs.filter_map(|ipv6| ipv6.first()).next());
        }
        let configs: Vec<Config> = client.all_pages(&api::configs(linode)).await?;
        let mut all: Vec<ConfigInterface> =
            configs.into_iter().flat_map(|c| c.interfaces).collect();
        // That of the profile that the Linode runs with comes first.
        all.sort_by_key(|interface| interface.active != Some(true));
        let of_vpcs = all
            .into_iter()
            .filter(|interface| interface.purpose == "vpc");
        Ok(of_vpcs.filter_map(|one| one.ipv6?.first()).next())
    }
}

#[async_trait]
impl NodeRanges for LinodeRanges {
    fn provider(&self) -> &'static str {
        NAME
    }

    fn allocates_ipv6(&self) -> bool {
        self.ipv6_mask.is_some()
    }

    async fn ipv6_pod_cidr(&self, machine: &ProviderId) -> Result<Ipv6Net, NoRange> {
        let linode = machine.instance();
        let range = self.ipv6_range(linode).await?.ok_or_else(|| {
            NoRange::Refused(format!(
                "Linode {linode} has no IPv6 range on an interface in a VPC; give it one, or set \
                 --disable-ipv6-node-cidr-allocation"
            ))
        })?;
        let mask = self.ipv6_mask.unwrap_or(IN_PLACE);
        pod_cidr(range, mask).ok_or_else(|| {
            NoRange::Refused(format!(
                "--node-cidr-mask-size-ipv6={mask}: a pod CIDR of this length is not within the IPv6 range \
                 {range} of Linode {linode}; write a number from {} to 128",
                range.prefix_len()
            ))
        })
    }

    async fn reserves_end_of(&self, cluster_cidr: Ipv4Net) -> Result<bool, CloudError> {
        let client = &self.linode.client;
        let Some((vpc, subnet)) = self.linode.vpcs.first_subnet(client).await? else {
            return Ok(false);
        };
        let request = api::subnet(vpc, subnet);
        let subnet: Subnet = client.fetch(&request).await?;
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
