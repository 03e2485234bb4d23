//! What a person should know of what is done for a Service.

use mooring_common::names::reasons;

use super::super::api::ip_blocks::BlockStatus;
use super::state::Blocks;
use super::step::Step;
use crate::engine::ip_allocation::is_shown_of;
use crate::views::service_view::ServiceView;

/// What is to be told of this step: the Event's reason, and the text.
pub(super) fn of(
    blocks: &Blocks,
    service: &ServiceView,
    step: &Step,
) -> Option<(&'static str, String)> {
    let has_failed = |block: &str| {
        let status = blocks.state.block(block).map(|owned| owned.block.status);
        status.is_some_and(BlockStatus::is_error)
    };
    match step {
        Step::Attach {
            block,
            cidr,
            network,
        } if has_failed(block) => {
            let note = format!(
                "phoenixNAP has failed to assign the IP block {block} ({cidr}) to the public network \
                 {network}; it is asked again and again, ever more slowly"
            );
            Some((reasons::IP_BLOCK_FAILED, note))
        }
        Step::Attach {
            block,
            cidr,
            network,
        } => {
            let note = format!(
                "Somebody has taken the IP block {block} ({cidr}) from the public network {network}: \
                 the Service's address is out of order. It is assigned to it again"
            );
            is_shown_of(service, *cidr).then_some((reasons::IP_BLOCK_DETACHED, note))
        }
        Step::Detach {
            block,
            cidr,
            network,
            ..
        } => {
            let to = blocks.settings.setting.network().unwrap_or_default();
            let note = format!(
                "The IP block {block} ({cidr}) moves from the public network {network} to {to}, which the \
                 configuration names now; the Service's address is out of order meanwhile"
            );
            Some((reasons::IP_BLOCK_MOVED, note))
        }
        _ => None,
    }
}
