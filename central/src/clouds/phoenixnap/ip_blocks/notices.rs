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
    let lost = blocks.given.is_lost(&service.uid).then(|| {
        let had = service.allocated_addresses.as_deref();
        let had = had.unwrap_or("its address");
        let note = format!(
            "The IP block of {had} is not there any more: two complete listings did not have it. \
             Somebody has given it back by hand. The Service gets another address"
        );
        (reasons::IP_BLOCK_LOST, note)
    });
    let has_failed = |block: &str| {
        let status = blocks.block(block).map(|owned| owned.block.status);
        status.is_some_and(BlockStatus::is_error)
    };
    let next = match found {
        Next::Take(Step::Attach {
            block,
            cidr,
            network,
        }) => {
            if has_failed(block) {
                let note = format!(
                    "phoenixNAP has failed to assign the IP block {block} ({cidr}) to the public network \
                     {network}; it is asked again and again, ever more slowly"
                );
                Some((reasons::IP_BLOCK_FAILED, note))
            } else {
                let note = format!(
                    "Somebody has taken the IP block {block} ({cidr}) from the public network {network}: \
                     the Service's address is out of order. It is assigned to it again"
                );
                is_shown_of(service, *cidr).then_some((reasons::IP_BLOCK_DETACHED, note))
            }
        }
        Next::Take(Step::Detach {
            block,
            cidr,
            network,
            ..
        }) => {
            let to = blocks.settings.setting.network().unwrap_or_default();
            let note = format!(
                "The IP block {block} ({cidr}) moves from the public network {network} to {to}, which the \
                 configuration names now; the Service's address is out of order meanwhile"
            );
            Some((reasons::IP_BLOCK_MOVED, note))
        }
        Next::ProvideUntagged { block, address } => {
            let note = format!(
                "The IP block {block} of the Service's address {address} does not bear this cluster's \
                 tags any more. The address is kept, and the block is neither changed nor given back; \
                 give it back its tags, or give it back by hand when the Service is gone"
            );
            Some((reasons::IP_BLOCK_UNTAGGED, note))
        }
        Next::LeaveAlone(address) => {
            let note = format!(
                "spec.loadBalancerIP {address} is in no IP block of this cluster, so nothing is bought \
                 for the Service, and its status is left to whoever announces that address; take the \
                 field away to have an address allocated"
            );
            Some((reasons::ADDRESS_NOT_OURS, note))
        }
        _ => None,
    };
    let notice = |(reason, note)| Notice {
        reason,
        note,
        by_provider: true,
    };
    lost.into_iter().chain(next).map(notice).collect()
}
