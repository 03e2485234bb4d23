//! Which Service has which address, by what is observed. Pure.

use std::net::Ipv4Addr;

use super::super::api::ip_blocks::{BlockStatus, Holder};
use super::super::api::public_networks::Network;
use super::super::setting::Settings;
use super::elsewhere::Elsewhere;
use super::ownership::{Owned, Owner};
use crate::engine::ip_allocation::{self, AddressBlock, Allocation, BlockHolder, IpRequest, Pool};

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

    /// One of them.
    pub(super) fn addresses_of(&self, owned: &'a Owned) -> AddressBlock<'a> {
        let block = &owned.block;
        let network = self.network.map(|network| network.id.as_str());
        let is_in_place = block.holder.as_ref().and_then(Holder::network) == network;
        let is_in_reach = match (&block.holder, network) {
            (None, _) => block.location == self.location,
            (Some(Holder::PublicNetwork(id)), Some(network)) => id == network,
            (Some(_), None) => true,
            (Some(Holder::Other(_)), Some(_)) => false,
        };
        let is_whole = !matches!(block.status, BlockStatus::Subnetted | BlockStatus::Unknown);
        AddressBlock {
            id: &block.id,
            cidr: block.cidr,
            holder: match &owned.owner {
                Owner::Service(key) => BlockHolder::Service(key),
                Owner::Pool(_) => BlockHolder::Shared,
                Owner::Marked => BlockHolder::Released,
                Owner::Unclear => BlockHolder::Unclear,
            },
            created: block.created,
            is_fit: is_in_reach && is_whole,
            is_in_place,
            works: network.is_none() || (is_in_place && block.status == BlockStatus::Assigned),
        }
    }
}

#[cfg(test)]
mod tests;
