//! What of the API is asked for IP blocks, the networks that they are on, and the tags that they bear.

use std::collections::BTreeSet;

use async_trait::async_trait;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::bgp::{PeerGroup, Peers};
use super::ip_blocks::{Block, IpBlock};
use super::public_networks::{Network, PublicNetwork};
use super::{Api, Tag, malformed, may_not_exist};
use crate::cloud_api::{CloudError, Entries, Request};
use crate::resource_kinds;

resource_kinds! {
    BLOCKS: "ip_block", "ip_blocks", "ips/v1/ip-blocks";
    GROUPS: "bgp_peer_group", "bgp_peer_groups", "networks/v1/bgp-peer-groups";
    NETWORKS: "public_network", "public_networks", "networks/v1/public-networks";
    TAGS: "tag", "tags", "tag-manager/v1/tags";
}

/// A block to buy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Where it is to be used: `PHX`.
    pub location: String,
    /// Its prefix length.
    pub prefix: u8,
    /// The tags that it bears from the beginning.
    pub tags: Vec<Tag>,
}

/// The cloud: each method is one request, which is sent once. Where there may be no such thing the error
/// is of the kind `Forbidden` or `NotFound`.
#[async_trait]
pub trait BlockCloud: Send + Sync {
    /// All IPv4 blocks that bear these tags; with none, all of the account.
    async fn blocks(&self, tags: &[Tag]) -> Result<Entries<Block>, CloudError>;

    /// One block.
    async fn block(&self, id: &str) -> Result<Block, CloudError>;

    /// Buys a block. After an error that [may have been done](CloudError::may_have_been_done) list by tags
    /// before you ask again. Status 406: there is none of this size.
    async fn buy(&self, order: &Order) -> Result<Block, CloudError>;

    /// Gives a block these tags, and no others.
    async fn set_tags(&self, block: &str, tags: &[Tag]) -> Result<(), CloudError>;

    /// Gives a block back, which must be unassigned.
    async fn release(&self, block: &str) -> Result<(), CloudError>;

    /// A public network.
    async fn network(&self, id: &str) -> Result<Network, CloudError>;

    /// Begins to assign a block to a public network. The kind `Busy`: ask again in some seconds.
    async fn attach(&self, network: &str, block: &str) -> Result<(), CloudError>;

    /// Begins to take a block off a public network.
    async fn detach(&self, network: &str, block: &str) -> Result<(), CloudError>;

    /// Begins to bring a public network to a server, without giving it addresses there. Inside of the
    /// machine nothing changes.
    async fn add_server(&self, network: &str, server: &str) -> Result<(), CloudError>;

    /// The names of tags that the account knows. One must be known before it can be given to anything;
    /// values need not.
    async fn tag_names(&self) -> Result<BTreeSet<String>, CloudError>;

    /// Makes a name of tags known. That it is known already, since another cluster was quicker, is as good.
    async fn create_tag(&self, name: &str) -> Result<(), CloudError>;

    /// The peer group of this id, else that of the location. `None`: the cloud shows none.
    async fn peers(&self, group: Option<&str>, location: &str)
    -> Result<Option<Peers>, CloudError>;
}

#[derive(Deserialize)]
struct TagName {
    name: String,
}

#[async_trait]
impl BlockCloud for Api {
    /// That the cloud heeds every one of several tags is documented nowhere, so that each block is looked
    /// at again here.
    async fn blocks(&self, tags: &[Tag]) -> Result<Entries<Block>, CloudError> {
        let of_tag = |request: Request, tag: &Tag| request.query("tag", tag.query());
        let request = tags.iter().fold(BLOCKS.list(&[]), of_tag);
        let mut listed: Entries<IpBlock> = self.client.fetch(&request).await?;
        listed.read.retain(|block| block.is_one_of(tags));
        Ok(listed.try_map(IpBlock::read))
    }

    async fn block(&self, id: &str) -> Result<Block, CloudError> {
        let request = BLOCKS.get(&[], id);
        let block = self.same(&request, id, |block: &IpBlock| &block.id).await?;
        block.read().map_err(malformed)
    }

    async fn buy(&self, order: &Order) -> Result<Block, CloudError> {
        let body = json!({
            "location": order.location,
            "cidrBlockSize": format!("/{}", order.prefix),
            "tags": order.tags,
        });
        let bought: IpBlock = self.client.fetch(&BLOCKS.create(&[], body)).await?;
        bought.read().map_err(malformed)
    }

    async fn set_tags(&self, block: &str, tags: &[Tag]) -> Result<(), CloudError> {
        let request = BLOCKS.act((&[], block), (Method::PUT, "tags"), "tag_ip_block");
        let request = request.json(json!(tags));
        let tagged = self.same(&request, block, |block: &IpBlock| &block.id);
        tagged.await.map(|_| ())
    }

    async fn release(&self, block: &str) -> Result<(), CloudError> {
        self.client.call_text(&BLOCKS.delete(&[], block)).await
    }

    async fn network(&self, id: &str) -> Result<Network, CloudError> {
        let request = NETWORKS.get(&[], id);
        let network = self.same(&request, id, |network: &PublicNetwork| &network.id);
        network.await?.read()
    }

    async fn attach(&self, network: &str, block: &str) -> Result<(), CloudError> {
        let to = (Method::POST, "ip-blocks");
        let request = NETWORKS.act((&[], network), to, "attach_ip_block");
        let request = request.json(json!({"id": block}));
        self.client.make(&request).await.map(|_| ())
    }

    async fn detach(&self, network: &str, block: &str) -> Result<(), CloudError> {
        let from = format!("ip-blocks/{block}");
        let from = (Method::DELETE, from.as_str());
        let request = NETWORKS.act((&[], network), from, "detach_ip_block");
        self.client.call_text(&request).await
    }

    async fn add_server(&self, network: &str, server: &str) -> Result<(), CloudError> {
        let configuration = "network-configuration/public-network-configuration";
        let path = format!("bmc/v1/servers/{server}/{configuration}/public-networks");
        let request = Request::new("attach_server", Method::POST, path)
            // Without addresses only by force.
            .query("force", "true")
            .json(json!({"id": network, "ips": []}));
        self.client.make(&request).await.map(|_| ())
    }

    async fn tag_names(&self) -> Result<BTreeSet<String>, CloudError> {
        let tags: Entries<TagName> = self.client.fetch(&TAGS.list(&[])).await?;
        Ok(tags.read.into_iter().map(|tag| tag.name).collect())
    }

    async fn create_tag(&self, name: &str) -> Result<(), CloudError> {
        let body = json!({
            "name": name,
            "isBillingTag": false,
            "description": "IP blocks of Kubernetes clusters",
        });
        match self.client.call(&TAGS.create(&[], body)).await {
            Err(error) if error.status == Some(StatusCode::CONFLICT.as_u16()) => Ok(()),
            answer => answer,
        }
    }

    async fn peers(
        &self,
        group: Option<&str>,
        location: &str,
    ) -> Result<Option<Peers>, CloudError> {
        let group: Option<PeerGroup> = match group {
            Some(id) => match self.client.fetch(&GROUPS.get(&[], id)).await {
                Err(error) if may_not_exist(&error) => None,
                answer => Some(answer?),
            },
            None => {
                let request = GROUPS.list(&[]).query("location", location);
                let groups: Entries<PeerGroup> = self.client.fetch(&request).await?;
                let mut all = groups.read.into_iter();
                let found = all.find(|group| group.is_in(location));
                if found.is_none() && !groups.unread.is_empty() {
                    return Err(self.client.malformed(&request, &groups.unread.join("; ")));
                }
                found
            }
        };
        Ok(group.map(PeerGroup::read))
    }
}
