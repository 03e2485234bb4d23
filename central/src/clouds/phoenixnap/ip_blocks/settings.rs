//! What the configuration and the flags say of load balancers.

use super::layout;

/// How Services get their addresses announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// kube-vip does it, on the VLAN of a public network of this id.
    KubeVip(String),
    /// The node daemons do it, on the VLAN of a public network of this id.
    L2(String),
    /// Whoever speaks BGP on the Nodes does it, with the peer group of this id. `None`: with the one
    /// of the location.
    Bgp(Option<String>),
}

impl Mode {
    /// The public network that blocks are assigned to.
    #[must_use]
    pub fn network(&self) -> Option<&str> {
        match self {
            Self::KubeVip(network) | Self::L2(network) => Some(network),
            Self::Bgp(_) => None,
        }
    }
}

/// What the configuration and the flags say of load balancers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How addresses are announced.
    pub mode: Mode,
    /// `--ip-block-sharing`: whether several Services share a block.
    pub sharing: bool,
    /// `--ip-block-size`: the prefix length of blocks that are bought to be shared.
    pub shared_prefix: u8,
    /// `--max-ip-blocks`: how many blocks of this cluster there may be. `None`: any number.
    pub most: Option<usize>,
    /// Where blocks are bought, if the configuration says so. `None`: where the network is.
    pub location: Option<String>,
    /// `--attach-nodes`: whether Nodes' servers are made members of the network.
    pub attaches_nodes: bool,
}

/// The prefix length of a block that one Service has for itself, as the Go controller buys it.
pub(super) const OWN_PREFIX: u8 = 29;

impl Settings {
    /// The prefix length of blocks that are bought.
    pub(super) const fn prefix(&self) -> u8 {
        if self.sharing {
            self.shared_prefix
        } else {
            OWN_PREFIX
        }
    }

    /// How many Services a block that is bought serves.
    pub(super) fn per_block(&self) -> usize {
        if self.sharing {
            layout::capacity(self.shared_prefix)
        } else {
            1
        }
    }
}
