//! What can be done to blocks: each step but the first is one request.

use std::fmt;

use ipnet::Ipv4Net;
use mooring_common::engine::{self, Impact};

use super::ownership::Owner;

/// A change in the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::clouds::phoenixnap) enum Step {
    /// Makes sure that tags of these names exist, in the whole account: without, no block can bear
    /// them.
    EnsureTags(&'static [&'static str]),
    /// Buys a block.
    Buy {
        location: String,
        prefix: u8,
        owner: Owner,
    },
    /// Assigns a block to a public network.
    Attach {
        block: String,
        cidr: Ipv4Net,
        network: String,
    },
    /// Takes a block from the public network that it is assigned to.
    Detach {
        block: String,
        cidr: Ipv4Net,
        network: String,
        /// Whether a Service has an address of it.
        is_used: bool,
    },
    /// Gives a block tags by which it is nobody's any more.
    Mark { block: String, cidr: Ipv4Net },
    /// Gives a block back.
    Release { block: String, cidr: Ipv4Net },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EnsureTags(names) => {
                write!(f, "make sure that the tags {} exist", names.join(", "))
            }
            Self::Buy {
                location,
                prefix,
                owner,
            } => {
                write!(f, "buy an IP block /{prefix} in {location}")?;
                match owner {
                    Owner::Service(key) => write!(f, " for the Service {key} alone"),
                    _ => f.write_str(", to be shared by Services"),
                }
            }
            Self::Attach {
                block,
                cidr,
                network,
            } => write!(
                f,
                "assign the IP block {block} ({cidr}) to the public network {network}"
            ),
            Self::Detach {
                block,
                cidr,
                network,
                ..
            } => write!(
                f,
                "take the IP block {block} ({cidr}) from the public network {network}"
            ),
            Self::Mark { block, cidr } => {
                write!(
                    f,
                    "mark the IP block {block} ({cidr}) as one to be given back"
                )
            }
            Self::Release { block, cidr } => write!(f, "give the IP block {block} ({cidr}) back"),
        }
    }
}

impl engine::Step for Step {
    fn impact(&self) -> Impact {
        match self {
            Self::Detach { is_used: true, .. } => Impact::Major,
            _ => Impact::None,
        }
    }
}
