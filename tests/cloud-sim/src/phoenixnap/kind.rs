//! The kinds of objects that there are.

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A server.
    Server,
    /// A tag's name, which must be there before anything can be tagged with it.
    Tag,
    /// A public network.
    Network,
    /// An IP block.
    Block,
    /// A BGP peer group.
    PeerGroup,
}

impl Kind {
    /// All of them, each after those that it refers to.
    pub const ALL: [Self; 5] = [
        Self::Server,
        Self::Tag,
        Self::Network,
        Self::Block,
        Self::PeerGroup,
    ];

    /// Its key in a state file.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Server => "servers",
            Self::Tag => "tags",
            Self::Network => "networks",
            Self::Block => "blocks",
            Self::PeerGroup => "peer_groups",
        }
    }

    /// The path of the listing.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Server => "/bmc/v1/servers",
            Self::Tag => "/tag-manager/v1/tags",
            Self::Network => "/networks/v1/public-networks",
            Self::Block => "/ips/v1/ip-blocks",
            Self::PeerGroup => "/networks/v1/bgp-peer-groups",
        }
    }
}
