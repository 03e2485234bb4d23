//! Which Service has which address, by what is observed. Pure.

use std::net::Ipv4Addr;

use super::super::api::ip_blocks::{Block, BlockStatus, Holder};
use super::super::api::public_networks::Network;
use super::super::setting::Settings;
use super::ownership::Owned;
use crate::engine::address_blocks::Held as _;
use crate::engine::ip_allocation::{self, AddressBlock, Allocation, Elsewhere, IpRequest, Pool};

/// All that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    pub(super) settings: &'a Settings,
    /// Where blocks are bought.
    pub(super) location: &'a str,
    /// The public network that blocks are assigned to. `None`: they are assigned to none.
    pub(super) network: Option<&'a Network>,
    /// The blocks of this cluster.
    pub(super) blocks: &'a [Owned],
    /// What else there is in the account.
    pub(super) elsewhere: &'a Elsewhere,
    pub(super) ip_requests: &'a [IpRequest],
}

/// Decides who has what.
pub(super) fn allocate(observed: &Observed<'_>) -> Allocation {
    ip_allocation::allocate(&Pool {
        blocks: &observed.addresses(),
        requests: observed.ip_requests,
        shares: observed.settings.flags.shares_blocks,
        elsewhere: &|address: Ipv4Addr| match observed.network {
            Some(network) => network.block_of(address),
            None => observed.elsewhere.block_of(address),
        },
        reserved: &|address: Ipv4Addr| {
            let is_used = observed
                .network
                .is_some_and(|network| network.uses(address));
            is_used || observed.elsewhere.is_a_nodes(address)
        },
    })
}

impl<'a> Observed<'a> {
    /// One of the blocks.
    pub(super) fn block(&self, id: &str) -> Option<&'a Owned> {
        self.blocks.iter().find(|owned| owned.block.id == id)
    }

    /// The blocks as addresses are given out of them.
    pub(super) fn addresses(&self) -> Vec<AddressBlock<'a>> {
        let blocks = self.blocks.iter();
        blocks.map(|owned| self.addresses_of(owned)).collect()
    }

    /// Why no Service is given an address of a block, and what to do. `None`: Services are.
    pub(super) fn unfit(&self, block: &Block) -> Option<String> {
        let (here, location) = (self.location, &block.location);
        Some(match (block.status, &block.holder, self.network) {
            (BlockStatus::Subnetted, ..) => {
                "was cut into smaller ones; undo that, or delete the Service".into()
            }
            (BlockStatus::Unknown, ..) => "is in a state that this version does not know, and is \
                 left alone; if it is of no use in the portal either, give it back there"
                .into(),
            (_, Some(holder), Some(Network { id, .. })) if holder.network() != Some(id) => format!(
                "is assigned to the {holder}, and not to the public network {id} that the \
                 configuration names; assign it to that one, give it back in the portal, or name \
                 the network that it is in"
            ),
            (_, None, _) if !location.eq_ignore_ascii_case(here) => format!(
                "is in the location {location:?} as the cloud says, and is to be in {here}; correct \
                 PNAP_LOCATION or the network of PNAP_LOAD_BALANCER, or give it back in the portal"
            ),
            _ => return None,
        })
    }

    /// One of them.
    pub(super) fn addresses_of(&self, owned: &'a Owned) -> AddressBlock<'a> {
        let block = &owned.block;
        let network = self.network.map(|network| network.id.as_str());
        let is_in_place = block.holder.as_ref().and_then(Holder::network) == network;
        AddressBlock {
            id: &block.id,
            cidr: block.cidr,
            holder: owned.holder(),
            created: block.created,
            is_fit: self.unfit(block).is_none(),
            is_in_place,
            works: network.is_none() || (is_in_place && block.status == BlockStatus::Assigned),
        }
    }
}

#[cfg(test)]
mod tests;
