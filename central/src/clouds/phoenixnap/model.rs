//! Public IP blocks and networks as they are worked with: those parts of the API's answers that
//! decisions are made by, all of them there.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use jiff::Timestamp;

use super::api::Tag;
pub(super) use super::api::ip_blocks::{BlockStatus, Holder};

/// A block of public addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The cloud's own name for it.
    pub(super) id: String,
    /// Where it is: `PHX`.
    pub(super) location: String,
    /// Its addresses; [`no_addresses`] while they are not known.
    pub(super) cidr: Ipv4Net,
    /// What the cloud is doing with it.
    pub(super) status: BlockStatus,
    /// What it is assigned to, or on its way to. `None`: nothing.
    pub(super) holder: Option<Holder>,
    /// All its tags.
    pub(super) tags: Vec<Tag>,
    /// When it was bought. `None`: the cloud does not say.
    pub(super) created: Option<Timestamp>,
}

/// What stands for the addresses of a block that is still being bought: none that a Service could have.
pub(super) fn no_addresses() -> Ipv4Net {
    Ipv4Net::from(Ipv4Addr::UNSPECIFIED)
}

impl Holder {
    /// The public network that it is.
    pub(super) fn network(&self) -> Option<&str> {
        match self {
            Self::PublicNetwork(id) => Some(id),
            Self::Other(_) => None,
        }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PublicNetwork(id) => write!(f, "public network {id}"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// A public network: a VLAN with blocks of public addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Network {
    /// The cloud's own name for it.
    pub(super) id: String,
    /// Where it is: `PHX`.
    pub(super) location: String,
    /// Its VLAN, 2 to 4094. `None`: the cloud does not say.
    pub(super) vlan: Option<u16>,
    /// The IPv4 blocks that it has, ours and others': id and addresses.
    pub(super) blocks: Vec<(String, Ipv4Net)>,
    /// The servers that its VLAN is led to, by their ids. `None`: the cloud does not say.
    pub(super) servers: Option<Vec<String>>,
}

impl Network {
    /// The block of it that has this address, whoever's it is.
    pub(super) fn block_of(&self, address: Ipv4Addr) -> Option<&str> {
        let found = self.blocks.iter().find(|(_, cidr)| cidr.contains(&address));
        found.map(|(id, _)| id.as_str())
    }
}
