//! What a person should know of a Service's block.

use mooring_common::names::reasons;

use super::super::api::ip_blocks::BlockStatus;
use super::plan::Next;
use super::state::Blocks;
use super::step::Step;
use crate::cloud_provider::load_balancers::Notice;
use crate::engine::ip_allocation::is_shown_of;
use crate::views::service_view::ServiceView;

/// What is to be told of a Service for which this comes next.
pub(super) fn of(blocks: &Blocks, service: &ServiceView, found: &Next) -> Vec<Notice> {
    let mut notices = Vec::new();
    let mut notice = |reason, note: String| {
        notices.push(Notice {
            reason,
            note,
            by_provider: true,
        });
    };
    if blocks.given.is_lost(&service.uid) {
        let had = service
            .allocated_addresses
            .as_deref()
            .unwrap_or("its address");
        notice(
            reasons::IP_BLOCK_LOST,
            format!(
                "The IP block of {had} is not there any more: two complete listings did not have it. \
                 Somebody has given it back by hand. The Service gets another address"
            ),
        );
    }
    match found {
        Next::Take(Step::Attach {
            block,
            cidr,
            network,
        }) => {
            let status = blocks.block(block).map(|owned| owned.block.status);
            if status.is_some_and(BlockStatus::is_error) {
                notice(
                    reasons::IP_BLOCK_FAILED,
                    format!(
                        "phoenixNAP has failed to assign the IP block {block} ({cidr}) to the public \
                         network {network}; it is asked again and again, ever more slowly"
                    ),
                );
            } else if is_shown_of(service, *cidr) {
                notice(
                    reasons::IP_BLOCK_DETACHED,
                    format!(
                        "Somebody has taken the IP block {block} ({cidr}) from the public network \
                         {network}: the Service's address is out of order. It is assigned to it again"
                    ),
                );
            }
        }
        Next::Take(Step::Detach {
            block,
            cidr,
            network,
            ..
        }) => {
            let to = blocks.settings.setting.network().unwrap_or_default();
            notice(
                reasons::IP_BLOCK_MOVED,
                format!(
                    "The IP block {block} ({cidr}) moves from the public network {network} to {to}, \
                     which the configuration names now; the Service's address is out of order \
                     meanwhile"
                ),
            );
        }
        Next::ProvideUntagged { block, address } => notice(
            reasons::IP_BLOCK_UNTAGGED,
            format!(
                "The IP block {block} of the Service's address {address} does not bear this \
                 cluster's tags any more. The address is kept, and the block is neither changed nor \
                 given back; give it back its tags, or give it back by hand when the Service is gone"
            ),
        ),
        Next::LeaveAlone(address) => notice(
            reasons::ADDRESS_NOT_OURS,
            format!(
                "spec.loadBalancerIP {address} is in no IP block of this cluster, so nothing is \
                 bought for the Service, and its status is left to whoever announces that address; \
                 take the field away to have an address allocated"
            ),
        ),
        _ => {}
    }
    notices
}
