//! IP blocks.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Api, Tag, plain};
use crate::cloud_api::{CloudError, Request, lenient};

/// One block. Only its identifier is needed.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpBlock {
    /// Its identifier.
    pub id: String,
    /// Where it can be used: `PHX`.
    #[serde(default, deserialize_with = "lenient")]
    pub location: Option<String>,
    /// `/29`.
    #[serde(default, deserialize_with = "lenient")]
    pub cidr_block_size: Option<String>,
    /// `203.0.113.8/29`.
    #[serde(default, deserialize_with = "lenient")]
    pub cidr: Option<String>,
    /// `V4` or `V6`.
    #[serde(default, deserialize_with = "lenient")]
    pub ip_version: Option<String>,
    /// See [`IpBlock::status`].
    #[serde(default, deserialize_with = "lenient")]
    status: Option<String>,
    /// What it is assigned to.
    #[serde(default, deserialize_with = "lenient")]
    pub assigned_resource_id: Option<String>,
    /// What kind of thing that is: `public network`, `PUBLIC_NETWORK`, `server`.
    #[serde(default, deserialize_with = "lenient")]
    assigned_resource_type: Option<String>,
    /// Words of a person.
    #[serde(default, deserialize_with = "lenient")]
    pub description: Option<String>,
    /// Its tags. None: they cannot be read, so that it is nobody's who is known.
    #[serde(default, deserialize_with = "lenient")]
    pub tags: Option<Vec<Tag>>,
    /// Whether the cloud made it by itself, for a server.
    #[serde(default, deserialize_with = "lenient")]
    pub is_system_managed: Option<bool>,
    /// When it was bought, in a form that sorts.
    #[serde(default, deserialize_with = "lenient")]
    pub created_on: Option<String>,
}

/// How far the cloud is with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockStatus {
    /// It is being made.
    Creating,
    /// It is split into others, and of no use itself.
    Subnetted,
    /// It is free.
    Unassigned,
    /// It is on its way to what it is assigned to.
    Assigning,
    /// Assigning it has failed.
    ErrorAssigning,
    /// It is where it is assigned to.
    Assigned,
    /// It is on its way back.
    Unassigning,
    /// Taking it back has failed.
    ErrorUnassigning,
    /// A word that is not known, or none.
    Unknown,
}

/// What a block is assigned to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// This public network.
    PublicNetwork(String),
    /// Something else, a server for example.
    Other(String),
}

/// A block to buy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewIpBlock {
    /// Where it is to be used.
    pub location: String,
    /// `/29`.
    pub cidr_block_size: String,
    /// Words for a person, at most 250 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// It bears them from the beginning.
    pub tags: Vec<Tag>,
}

impl IpBlock {
    /// How far the cloud is with it.
    pub fn status(&self) -> BlockStatus {
        match self.status.as_deref().map(plain).as_deref() {
            Some("creating") => BlockStatus::Creating,
            Some("subnetted") => BlockStatus::Subnetted,
            Some("unassigned") => BlockStatus::Unassigned,
            Some("assigning") => BlockStatus::Assigning,
            Some("error assigning") => BlockStatus::ErrorAssigning,
            Some("assigned") => BlockStatus::Assigned,
            Some("unassigning") => BlockStatus::Unassigning,
            Some("error unassigning") => BlockStatus::ErrorUnassigning,
            _ => BlockStatus::Unknown,
        }
    }

    /// Its status in the cloud's own words.
    pub fn status_word(&self) -> &str {
        self.status.as_deref().unwrap_or("unknown")
    }

    /// What it is assigned to, if anything. A block may be on its way there, or back.
    pub fn holder(&self) -> Option<Holder> {
        let kind = self.assigned_resource_type.as_deref().map(plain);
        let id = self.assigned_resource_id.clone();
        match (kind.as_deref(), id) {
            (None, None) => None,
            (Some("public network"), Some(id)) => Some(Holder::PublicNetwork(id)),
            (kind, id) => {
                let id = id.unwrap_or_else(|| "?".to_owned());
                Some(Holder::Other(format!("{} {id}", kind.unwrap_or("?"))))
            }
        }
    }

    /// The value of a tag.
    pub fn tag(&self, name: &str) -> Option<&str> {
        let tag = self.tags.iter().flatten().find(|tag| tag.name == name)?;
        Some(tag.value.as_deref().unwrap_or_default())
    }

    /// Whether it bears exactly this tag, name and value.
    pub fn bears(&self, tag: &Tag) -> bool {
        self.tags.iter().flatten().any(|own| own == tag)
    }
}

const BLOCKS: &str = "ips/v1/ip-blocks";

impl Api {
    /// The blocks that bear all of these tags; with none: all of the account. That the cloud heeds
    /// every one of several is documented nowhere, so that each block is looked at again here.
    pub async fn ip_blocks(&self, tags: &[Tag]) -> Result<Vec<IpBlock>, CloudError> {
        let request = tags
            .iter()
            .fold(Request::get("list_ip_blocks", BLOCKS), |request, tag| {
                request.query("tag", tag.query())
            });
        let mut blocks: Vec<IpBlock> = self.client.fetch(&request).await?;
        blocks.retain(|block| tags.iter().all(|tag| block.bears(tag)));
        Ok(blocks)
    }

    /// One block. The kinds `Forbidden` and `NotFound` both mean that there may be none.
    pub async fn ip_block(&self, id: &str) -> Result<IpBlock, CloudError> {
        let request = Request::get("get_ip_block", format!("{BLOCKS}/{id}"));
        self.same(&request, id).await
    }

    /// Buys a block. Sent once: after an error that [may have been
    /// done](CloudError::may_have_been_done) list by tags before you ask again. Status 406: there is
    /// none of this size.
    pub async fn buy_ip_block(&self, block: &NewIpBlock) -> Result<IpBlock, CloudError> {
        let request = Request::new("create_ip_block", Method::POST, BLOCKS).json(json!(block));
        self.client.fetch(&request).await
    }

    /// Gives a block these tags, and no others.
    pub async fn tag_ip_block(&self, id: &str, tags: &[Tag]) -> Result<IpBlock, CloudError> {
        let path = format!("{BLOCKS}/{id}/tags");
        let request = Request::new("tag_ip_block", Method::PUT, path).json(json!(tags));
        self.same(&request, id).await
    }

    /// Gives a block back, which must be unassigned.
    pub async fn release_ip_block(&self, id: &str) -> Result<(), CloudError> {
        let path = format!("{BLOCKS}/{id}");
        let request = Request::new("delete_ip_block", Method::DELETE, path);
        self.client.tell(&request).await
    }

    async fn same(&self, request: &Request, id: &str) -> Result<IpBlock, CloudError> {
        let block: IpBlock = self.client.fetch(request).await?;
        if block.id == id {
            Ok(block)
        } else {
            Err(self.client.malformed(request, "another block was given"))
        }
    }
}
