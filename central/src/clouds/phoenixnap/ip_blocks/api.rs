//! The cloud, as its API has it.

use std::collections::BTreeSet;

use async_trait::async_trait;
use ipnet::Ipv4Net;

use super::super::api::bgp::{DEFAULT_ASN, PeerGroup};
use super::super::api::ip_blocks::{IpBlock, NewIpBlock};
use super::super::api::public_networks::PublicNetwork;
use super::super::api::{Api, Tag};
use super::super::model::{Block, BlockStatus, Network, no_addresses};
use super::super::{NAME, may_not_exist};
use super::bgp::Peers;
use super::cloud::{BlockCloud, Order};
use crate::cloud_api::{CloudError, ErrorKind};

/// A block whose addresses cannot be read is an error, and not left out: it would be bought again.
fn block(block: IpBlock) -> Result<Block, CloudError> {
    let status = block.status();
    let holder = block.holder();
    let cidr = block.cidr.as_deref().map(str::parse::<Ipv4Net>);
    let cidr = match cidr {
        Some(Ok(cidr)) => cidr,
        None if status == BlockStatus::Creating => no_addresses(),
        _ => {
            let problem = format!(
                "the IP block {} has the addresses {}, which cannot be read",
                block.id,
                block.cidr.as_deref().unwrap_or("(none)")
            );
            return Err(CloudError::new(NAME, ErrorKind::Malformed, problem));
        }
    };
    Ok(Block {
        status,
        holder,
        cidr,
        location: block.location.unwrap_or_default(),
        tags: block.tags.unwrap_or_default(),
        created: block.created_on.and_then(|text| text.parse().ok()),
        id: block.id,
    })
}

fn is_v4(block: &IpBlock) -> bool {
    let version = block.ip_version.as_deref().unwrap_or("V4");
    !version.eq_ignore_ascii_case("V6")
}

/// Blocks whose addresses cannot be read are of no other use than to be counted; those of IPv6 are not.
fn network(network: &PublicNetwork) -> Result<Network, CloudError> {
    let missing = |what: &str| {
        let problem = format!("the public network {} comes without {what}", network.id);
        CloudError::new(NAME, ErrorKind::Malformed, problem)
    };
    let location = network
        .location
        .clone()
        .ok_or_else(|| missing("location"))?;
    let listed = network
        .ip_blocks
        .as_ref()
        .ok_or_else(|| missing("IP blocks"))?;
    let blocks = listed.iter().filter_map(|block| {
        let text = block.cidr.as_deref().unwrap_or_default();
        let cidr = text.parse().unwrap_or_else(|_| no_addresses());
        (!text.contains(':')).then(|| (block.id.clone(), cidr))
    });
    let servers = network.memberships.as_ref().map(|members| {
        let is_server = |kind: &Option<String>| {
            let kind = kind.as_deref().unwrap_or("server");
            kind.eq_ignore_ascii_case("server")
        };
        let servers = members
            .iter()
            .filter(|member| is_server(&member.resource_type));
        servers.map(|member| member.resource_id.clone()).collect()
    });
    Ok(Network {
        blocks: blocks.collect(),
        location,
        servers,
        vlan: network.vlan_id,
        id: network.id.clone(),
    })
}

fn peers(group: &PeerGroup) -> Peers {
    let routers = group.peering_loopbacks_v4.iter().flatten();
    Peers {
        asn: group.asn().unwrap_or(DEFAULT_ASN),
        routers: routers.filter_map(|text| text.parse().ok()).collect(),
        is_multi_hop: group.e_bgp_multi_hop.is_none_or(|hops| hops > 1),
        is_ready: group.is_ready(),
        location: group.location.clone(),
    }
}

#[async_trait]
impl BlockCloud for Api {
    async fn blocks(&self, tags: &[Tag]) -> Result<Vec<Block>, CloudError> {
        let listed = self.ip_blocks(tags).await?;
        listed.into_iter().filter(is_v4).map(block).collect()
    }

    async fn block(&self, id: &str) -> Result<Block, CloudError> {
        block(self.ip_block(id).await?)
    }

    async fn network(&self, id: &str) -> Result<Network, CloudError> {
        network(&self.public_network(id).await?)
    }

    async fn tag_names(&self) -> Result<BTreeSet<String>, CloudError> {
        Self::tag_names(self).await
    }

    async fn create_tag(&self, name: &str) -> Result<(), CloudError> {
        Self::create_tag(self, name, "IP blocks of Kubernetes clusters").await
    }

    async fn buy(&self, order: &Order) -> Result<Block, CloudError> {
        let wanted = NewIpBlock {
            location: order.location.clone(),
            cidr_block_size: format!("/{}", order.prefix),
            description: None,
            tags: order.tags.clone(),
        };
        block(self.buy_ip_block(&wanted).await?)
    }

    async fn attach(&self, network: &str, block: &str) -> Result<(), CloudError> {
        self.attach_ip_block(network, block).await
    }

    async fn detach(&self, network: &str, block: &str) -> Result<(), CloudError> {
        self.detach_ip_block(network, block).await
    }

    async fn set_tags(&self, block: &str, tags: &[Tag]) -> Result<(), CloudError> {
        self.tag_ip_block(block, tags).await.map(|_| ())
    }

    async fn add_server(&self, network: &str, server: &str) -> Result<(), CloudError> {
        self.attach_server(server, network).await
    }

    async fn peers(
        &self,
        group: Option<&str>,
        location: &str,
    ) -> Result<Option<Peers>, CloudError> {
        let group = match group {
            Some(id) => match self.peer_group(id).await {
                Ok(group) => Some(group),
                Err(error) if may_not_exist(&error) => None,
                Err(error) => return Err(error),
            },
            None => self.peer_groups(location).await?.into_iter().next(),
        };
        Ok(group.as_ref().map(peers))
    }

    async fn release(&self, block: &str) -> Result<(), CloudError> {
        self.release_ip_block(block).await
    }
}
