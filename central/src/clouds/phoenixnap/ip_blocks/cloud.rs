//! What of the cloud's API is asked for blocks.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::super::api::Tag;
use super::super::model::{Block, Network};
use super::bgp::Peers;
use crate::cloud_api::CloudError;

/// A block to buy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::clouds::phoenixnap) struct Order {
    /// Where: `PHX`.
    pub(in crate::clouds::phoenixnap) location: String,
    /// Its prefix length.
    pub(in crate::clouds::phoenixnap) prefix: u8,
    /// The tags that it bears from the beginning.
    pub(in crate::clouds::phoenixnap) tags: Vec<Tag>,
}

/// The cloud: each method is one request.
#[async_trait]
pub(in crate::clouds::phoenixnap) trait BlockCloud:
    Send + Sync
{
    /// All blocks that the cloud finds by these tags; it may find others too.
    async fn blocks(&self, tags: &[Tag]) -> Result<Vec<Block>, CloudError>;

    /// One block.
    async fn block(&self, id: &str) -> Result<Block, CloudError>;

    /// A public network.
    async fn network(&self, id: &str) -> Result<Network, CloudError>;

    /// The names of all tags of the account.
    async fn tag_names(&self) -> Result<BTreeSet<String>, CloudError>;

    /// Makes a tag. That there is one already is no error.
    async fn create_tag(&self, name: &str) -> Result<(), CloudError>;

    /// Buys a block.
    async fn buy(&self, order: &Order) -> Result<Block, CloudError>;

    /// Begins to assign a block to a public network.
    async fn attach(&self, network: &str, block: &str) -> Result<(), CloudError>;

    /// Begins to take a block from a public network.
    async fn detach(&self, network: &str, block: &str) -> Result<(), CloudError>;

    /// Gives a block all these tags and no others.
    async fn set_tags(&self, block: &str, tags: &[Tag]) -> Result<(), CloudError>;

    /// Begins to make a server a member of a public network, without addresses there.
    async fn add_server(&self, network: &str, server: &str) -> Result<(), CloudError>;

    /// The peer group of this id, else that of the location. `None`: the cloud shows none.
    async fn peers(&self, group: Option<&str>, location: &str)
    -> Result<Option<Peers>, CloudError>;

    /// Gives a block back.
    async fn release(&self, block: &str) -> Result<(), CloudError>;
}
