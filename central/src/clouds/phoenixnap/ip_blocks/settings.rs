//! What the configuration and the flags say of load balancers.

use std::time::Duration;

use super::super::ServiceConfig;
use super::super::setting::Setting;

/// What the configuration and the flags say of load balancers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::clouds::phoenixnap) struct Settings {
    /// How addresses are announced, and in which public network.
    pub(in crate::clouds::phoenixnap) setting: Setting,
    /// `--ip-block-sharing`: whether several Services share a block.
    pub(in crate::clouds::phoenixnap) sharing: bool,
    /// `--ip-block-size`: the prefix length of blocks that are bought to be shared.
    pub(in crate::clouds::phoenixnap) shared_prefix: u8,
    /// `--max-ip-blocks`: how many blocks of this cluster there may be.
    pub(in crate::clouds::phoenixnap) most: usize,
    /// Where blocks are bought, if the configuration says so. `None`: where the network is.
    pub(in crate::clouds::phoenixnap) location: Option<String>,
    /// The annotation by which a Service may say where its block is to be bought.
    pub(in crate::clouds::phoenixnap) location_annotation: String,
    /// `--attach-nodes`: whether Nodes' servers are made members of the network.
    pub(in crate::clouds::phoenixnap) attaches_nodes: bool,
    /// `--creation-settle-time`: for how long a block that was bought may be in no listing.
    pub(in crate::clouds::phoenixnap) settle_time: Duration,
}

/// The prefix length of a block that one Service has for itself, as the Go controller buys it.
pub(super) const OWN_PREFIX: u8 = 29;

impl Settings {
    /// What a configuration says. `None`: there are to be no load balancers.
    pub(in crate::clouds::phoenixnap) fn of(config: &ServiceConfig) -> Option<Self> {
        Some(Self {
            setting: config.setting.clone()?,
            sharing: config.flags.shares_blocks,
            shared_prefix: config.flags.block_size,
            most: usize::try_from(config.flags.max_blocks).unwrap_or(usize::MAX),
            location: config.location.clone(),
            location_annotation: config.location_annotation.clone(),
            attaches_nodes: config.flags.attaches_nodes,
            settle_time: config.flags.settle_time,
        })
    }

    /// The prefix length of blocks that are bought.
    pub(super) const fn prefix(&self) -> u8 {
        if self.sharing {
            self.shared_prefix
        } else {
            OWN_PREFIX
        }
    }
}
