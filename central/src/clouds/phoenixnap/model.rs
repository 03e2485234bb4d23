//! Public IP blocks and networks as they are looked at, whatever the API's own words for them.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use jiff::Timestamp;

/// A block of public addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The cloud's own name for it.
    pub id: String,
    /// Where it is: `PHX`.
    pub location: String,
    /// Its addresses.
    pub cidr: Ipv4Net,
    /// What the cloud is doing with it.
    pub status: BlockStatus,
    /// What it is assigned to, or on its way to. `None`: nothing.
    pub holder: Option<Holder>,
    /// All its tags.
    pub tags: Vec<Tag>,
    /// When it was bought. `None`: the cloud does not say.
    pub created: Option<Timestamp>,
}

/// What the cloud is doing with a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockStatus {
    /// It is being bought.
    Creating,
    /// It is free, or can be released.
    Unassigned,
    /// It is on its way to its holder.
    Assigning,
    /// It works.
    Assigned,
    /// It is on its way from its holder.
    Unassigning,
    /// It did not arrive at its holder.
    AssigningFailed,
    /// It did not get away from its holder.
    UnassigningFailed,
    /// It was cut into smaller ones.
    Subnetted,
    /// A word that is not known, as the cloud writes it.
    Other(String),
}

impl BlockStatus {
    /// Reads the cloud's word, in whatever case, with spaces or underscores.
    #[must_use]
    pub fn read(word: &str) -> Self {
        let plain = word.trim().to_ascii_lowercase().replace('_', " ");
        match plain.as_str() {
            "creating" => Self::Creating,
            "unassigned" => Self::Unassigned,
            "assigning" => Self::Assigning,
            "assigned" => Self::Assigned,
            "unassigning" => Self::Unassigning,
            "error assigning" => Self::AssigningFailed,
            "error unassigning" => Self::UnassigningFailed,
            "subnetted" => Self::Subnetted,
            _ => Self::Other(word.to_owned()),
        }
    }
}

/// What a block is assigned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A public network, by its id.
    Network(String),
    /// Something else: its type and its id.
    Other(String, String),
}

impl Holder {
    /// Reads the two fields in which the cloud says it.
    #[must_use]
    pub fn read(kind: Option<&str>, id: Option<&str>) -> Option<Self> {
        let kind = kind.map(str::trim).filter(|kind| !kind.is_empty());
        let id = id.map(str::trim).filter(|id| !id.is_empty());
        if kind.is_none() && id.is_none() {
            return None;
        }
        let (kind, id) = (kind.unwrap_or_default(), id.unwrap_or_default().to_owned());
        let plain = kind.to_ascii_lowercase().replace('_', " ");
        if plain == "public network" && !id.is_empty() {
            return Some(Self::Network(id));
        }
        Some(Self::Other(kind.to_owned(), id))
    }

    /// The public network that it is.
    #[must_use]
    pub fn network(&self) -> Option<&str> {
        match self {
            Self::Network(id) => Some(id),
            Self::Other(..) => None,
        }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Network(id) => write!(f, "public network {id}"),
            Self::Other(kind, id) => write!(f, "{kind} {id}"),
        }
    }
}

/// A tag of a block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    /// Its name.
    pub name: String,
    /// Its value, if it has one.
    pub value: Option<String>,
}

impl Tag {
    /// A tag with a value.
    #[must_use]
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: Some(value.into()),
        }
    }
}

/// A public network: a VLAN with blocks of public addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The cloud's own name for it.
    pub id: String,
    /// Where it is: `PHX`.
    pub location: String,
    /// Its VLAN, 2 to 4094.
    pub vlan: u16,
    /// The IPv4 blocks that it has, ours and others': id and addresses.
    pub blocks: Vec<(String, Ipv4Net)>,
    /// The servers that its VLAN is led to, by their ids.
    pub servers: Vec<String>,
}

impl Network {
    /// The block of it that has this address, whoever's it is.
    #[must_use]
    pub fn block_of(&self, address: Ipv4Addr) -> Option<&str> {
        let found = self.blocks.iter().find(|(_, cidr)| cidr.contains(&address));
        found.map(|(id, _)| id.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_in_both_spellings() {
        for word in ["error assigning", "ERROR_ASSIGNING", " Error Assigning "] {
            assert_eq!(BlockStatus::read(word), BlockStatus::AssigningFailed);
        }
        let other = BlockStatus::read("resting");
        assert_eq!(other, BlockStatus::Other("resting".to_owned()));
    }

    #[test]
    fn a_holder_is_read_in_both_spellings_and_half_a_holder_is_no_network() {
        let network = Some(Holder::Network("n".to_owned()));
        assert_eq!(Holder::read(Some("public network"), Some("n")), network);
        assert_eq!(Holder::read(Some("PUBLIC_NETWORK"), Some("n")), network);
        assert_eq!(Holder::read(None, Some("")), None);
        let half = Holder::read(Some("public network"), None).unwrap();
        assert_eq!(half.network(), None);
    }
}
