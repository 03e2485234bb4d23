//! What a person should know of a Service's block.

use mooring_common::names::reasons;

use super::{AddressBlocks, Next, Serve};
use crate::cloud_provider::load_balancers::Notice;
use crate::views::service_view::ServiceView;

/// What is to be told of a Service for which this comes next.
pub(super) fn of<P: Serve>(
    blocks: &P,
    service: &ServiceView,
    found: &Next<<P as AddressBlocks>::Step>,
) -> Vec<Notice> {
    let state = blocks.state();
    let lost = state.given.is_lost(&service.uid).then(|| {
        let had = service.allocated_addresses.as_deref();
        let had = had.unwrap_or("its address");
        let note = format!(
            "The IP block of {had} is not there any more: two complete listings did not have it. \
             Somebody has given it back by hand. The Service gets another address"
        );
        (reasons::IP_BLOCK_LOST, note)
    });
    let next = match found {
        Next::Take(step) => blocks.notice(service, step),
        // A block that cannot be read may well bear them.
        Next::ProvideUntagged { block, address } if state.unread.is_empty() => {
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
