//! Addresses for Services out of public IP blocks.
//!
//! ```text
//!   Services ──► ip_requests ─┐
//!                             ├─► allocate: who has which address ─► plan: the next step ─► apply
//!   listings ──► blocks ──────┘                                                               │
//!      ▲                                                                                      │
//!      └──────────────────── what is known, as it is after each step ◄────────────────────────┘
//! ```
//!
//! A block is bought with its tags, assigned to the public network, and used when it has arrived
//! there. When nobody needs it any more, it is marked; [`garbage_collector`] takes marked blocks from their network
//! and gives them back. What of this is the same for every cloud is in [`crate::engine::address_blocks`].
//!
//! **Guarantees.** One block at a time is bought in a cluster, whoever believes to lead
//! ([`crate::engine::purchases`]), and only on the word of a complete listing that was begun after the claim. Nothing
//! is changed that is not this cluster's by its tags ([`ownership`]). An address is published when its
//! block is assigned to the network.
//!
//! **Assumptions.** All work on blocks of a cluster is done one after the other, under one lock: the
//! network takes one change at a time, and what one Service is given another cannot have.

mod allocate;
mod apply;
mod bgp;
mod buy;
mod ensure;
mod garbage_collector;
mod l2_network;
mod members;
mod notices;
mod observe;
mod ownership;
mod plan;
mod state;
mod step;
#[cfg(test)]
mod testing;
mod transitions;
pub(super) mod unserved;

use std::time::Duration;

use mooring_common::work_queue::Backoff;

use super::NAME;
use crate::engine::address_blocks::{AddressBlocks, State};
use crate::engine::ip_allocation::{AddressBlock, Allocation, IpRequest};
use crate::engine::provider::AccountWords;
use ownership::Owned;
pub(super) use state::Blocks;
use step::Step;

/// What Events call the cloud.
const CLOUD: &str = "PhoenixNAP";
/// How often the cloud is asked whether what it was told to do is done.
const POLL: Duration = Duration::from_secs(2);
/// Between two attempts at what the cloud has failed at.
const FAILED: Backoff = Backoff {
    first: Duration::from_secs(4),
    most: Duration::from_secs(60),
};

impl AddressBlocks for Blocks {
    type Step = Step;
    type Block = Owned;

    const NAME: &'static str = NAME;
    const COMPONENT: &'static str = "cloud-provider-phoenixnap";
    /// Blocks and the network.
    const REQUESTS: usize = 2;
    const ACCOUNT: AccountWords = AccountWords {
        resource: "an IP block",
        account: "account",
        credentials: "PNAP_CLIENT_ID and PNAP_CLIENT_SECRET",
    };
    const POLL: Duration = POLL;

    fn state(&self) -> &State<Owned> {
        &self.state
    }

    fn state_mut(&mut self) -> &mut State<Owned> {
        &mut self.state
    }

    fn forget_written(&mut self) {
        self.annotated.clear();
    }

    fn addresses(&self) -> Vec<AddressBlock<'_>> {
        self.observed(&[]).addresses()
    }

    fn allocate(&self, requests: &[IpRequest]) -> Allocation {
        allocate::allocate(&self.observed(requests))
    }
}

#[cfg(test)]
mod tests;
