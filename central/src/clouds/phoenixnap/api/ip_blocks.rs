//! IP blocks: blocks of public addresses.

use std::fmt;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use jiff::Timestamp;
use serde::Deserialize;

use super::Tag;
use crate::api_objects;
use crate::cloud_api::plain;

/// A block, as far as decisions are made by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The cloud's own name for it.
    pub id: String,
    /// Where it is: `PHX`.
    pub location: String,
    /// Its addresses; [`NO_ADDRESSES`] while they are not known.
    pub cidr: Ipv4Net,
    /// What the cloud is doing with it.
    pub status: BlockStatus,
    /// What it is assigned to, or on its way to or from. `None`: nothing.
    pub holder: Option<Holder>,
    /// All its tags.
    pub tags: Vec<Tag>,
    /// When it was bought. `None`: the cloud does not say.
    pub created: Option<Timestamp>,
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IP block {} ({})", self.id, self.cidr)
    }
}

/// What stands for the addresses of a block that is still being bought: none that a Service could have.
pub const NO_ADDRESSES: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 32);

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

impl BlockStatus {
    fn of(word: Option<&str>) -> Self {
        match word.map(plain).as_deref() {
            Some("creating") => Self::Creating,
            Some("subnetted") => Self::Subnetted,
            Some("unassigned") => Self::Unassigned,
            Some("assigning") => Self::Assigning,
            Some("error assigning") => Self::ErrorAssigning,
            Some("assigned") => Self::Assigned,
            Some("unassigning") => Self::Unassigning,
            Some("error unassigning") => Self::ErrorUnassigning,
            _ => Self::Unknown,
        }
    }

    /// Whether the cloud is at work on it.
    #[must_use]
    pub const fn is_transition(self) -> bool {
        matches!(self, Self::Creating | Self::Assigning | Self::Unassigning)
    }

    /// Whether the last assignment, or the end of it, has failed.
    #[must_use]
    pub const fn is_error(self) -> bool {
        matches!(self, Self::ErrorAssigning | Self::ErrorUnassigning)
    }
}

/// What a block is assigned to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// This public network.
    PublicNetwork(String),
    /// Something else, a server for example.
    Other(String),
}

impl Holder {
    fn of(kind: Option<&str>, id: Option<String>) -> Option<Self> {
        match (kind.map(plain).as_deref(), id) {
            (None, None) => None,
            (Some("public network"), Some(id)) => Some(Self::PublicNetwork(id)),
            (kind, id) => {
                let id = id.as_deref().unwrap_or("?");
                Some(Self::Other(format!("{} {id}", kind.unwrap_or("?"))))
            }
        }
    }

    /// The public network that it is.
    #[must_use]
    pub fn network(&self) -> Option<&str> {
        match self {
            Self::PublicNetwork(id) => Some(id),
            Self::Other(_) => None,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PublicNetwork(id) => write!(f, "public network {id}"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

api_objects! {
    /// A block as it is answered. Tags that cannot be read make it nobody's who is known.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct IpBlock {
        pub(super) id?: String,
        location?: Option<String>,
        cidr?: Option<String>,
        ip_version?: Option<String>,
        status?: Option<String>,
        assigned_resource_id?: Option<String>,
        assigned_resource_type?: Option<String>,
        tags?: Option<Vec<Tag>>,
        created_on?: Option<String>,
    }
}

impl IpBlock {
    /// Whether it is of IPv4 and bears all of these tags, each by name and value.
    pub(super) fn is_one_of(&self, tags: &[Tag]) -> bool {
        let version = self.ip_version.as_deref();
        let is_v6 = version.is_some_and(|version| version.eq_ignore_ascii_case("V6"))
            || self.cidr.as_deref().is_some_and(|cidr| cidr.contains(':'));
        let bears = |tag: &Tag| self.tags.iter().flatten().any(|own| own == tag);
        !is_v6 && tags.iter().all(bears)
    }

    /// Nothing can be done with one whose identifier or addresses cannot be read: what is wrong with it.
    pub(super) fn read(self) -> Result<Block, String> {
        let status = BlockStatus::of(self.status.as_deref());
        let cidr = match self.cidr.as_deref().map(str::parse) {
            Some(Ok(cidr)) => cidr,
            None if status == BlockStatus::Creating => NO_ADDRESSES,
            _ => {
                let cidr = self.cidr.as_deref().unwrap_or("(none)");
                let id = &self.id;
                return Err(format!(
                    "the IP block {id} has the addresses {cidr}, which cannot be read"
                ));
            }
        };
        if self.id.is_empty() {
            return Err(format!(
                "the IP block of the addresses {cidr} has no identifier that can be read"
            ));
        }
        Ok(Block {
            cidr,
            status,
            holder: Holder::of(
                self.assigned_resource_type.as_deref(),
                self.assigned_resource_id,
            ),
            location: self.location.unwrap_or_default(),
            tags: self.tags.unwrap_or_default(),
            created: self.created_on.and_then(|text| text.parse().ok()),
            id: self.id,
        })
    }
}
