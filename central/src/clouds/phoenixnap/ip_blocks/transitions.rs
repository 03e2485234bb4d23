//! How long the cloud has been at work on blocks.

use std::time::Duration;

use super::super::api::ip_blocks::{Block, BlockStatus};
use super::state::Blocks;

/// For how long a network is not asked for a change because of a block that is on its way. One that takes
/// longer may be stuck, and then others must not wait for it.
const USUAL: Duration = Duration::from_secs(180);
/// After how long the cloud is not going to be done any more.
const STUCK: Duration = Duration::from_secs(15 * 60);

impl Blocks {
    fn lasts(&self, block: &Block, least: Duration) -> bool {
        self.transitions.lasts(&block.id, &block.status, least)
    }

    /// Whether this block takes longer than usual to get to this network, or from it.
    pub(super) fn is_slow(&self, block: &Block, network: &str) -> bool {
        is_on_its_way(block, network) && self.lasts(block, USUAL)
    }

    /// Whether this block is on its way to this network, or from it, and not longer than usual.
    pub(super) fn is_moving(&self, block: &Block, network: &str) -> bool {
        is_on_its_way(block, network) && !self.lasts(block, USUAL)
    }

    /// What a person should know of a block that the cloud does not come to an end with.
    pub(super) fn stuck(&self, block: &Block) -> Option<String> {
        let doing = match block.status {
            BlockStatus::Creating => "creating",
            BlockStatus::Assigning => "assigning",
            BlockStatus::Unassigning => "unassigning",
            _ => return None,
        };
        self.lasts(block, STUCK).then(|| {
            format!(
                "The cloud has been {doing} the {block} for more than {} minutes, and it is paid for; ask the \
                 support of phoenixNAP about it",
                STUCK.as_secs() / 60
            )
        })
    }
}

/// Whether this block is on its way to this network, or from it. The cloud does not always say of one
/// where to.
fn is_on_its_way(block: &Block, network: &str) -> bool {
    let holder = block.holder.as_ref();
    let is_here = holder.is_none_or(|holder| holder.network() == Some(network));
    is_here
        && matches!(
            block.status,
            BlockStatus::Assigning | BlockStatus::Unassigning
        )
}
