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
//! and gives them back.
//!
//! **Guarantees.** One block at a time is bought in a cluster, whoever believes to lead
//! ([`crate::engine::purchases`]), and only on the word of a complete listing that was begun after the claim. Nothing
//! is changed that is not this cluster's by its tags ([`ownership`]). An address is published when its
//! block is assigned to the network. A Service goes when its blocks are marked, so that no block is
//! forgotten.
//!
//! **Assumptions.** All work on blocks of a cluster is done one after the other, under one lock: the
//! network takes one change at a time, and what one Service is given another cannot have.

mod allocate;
mod apply;
mod bgp;
mod buy;
mod elsewhere;
mod ensure;
mod garbage_collector;
mod l2_network;
mod members;
mod notices;
mod observe;
mod orphans;
mod ownership;
mod plan;
mod removal;
mod state;
mod step;
#[cfg(test)]
mod testing;
mod transitions;
pub(super) mod unserved;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::work_queue::Backoff;
use tokio::sync::Notify;

use super::NAME;
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::engine::pooled::Pool;
use crate::engine::provider::AccountWords;
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
/// What its credentials open.
const ACCOUNT: AccountWords = AccountWords {
    resource: "an IP block",
    account: "account",
    credentials: "PNAP_CLIENT_ID and PNAP_CLIENT_SECRET",
};

#[async_trait]
impl Pool for Blocks {
    type Step = Step;

    const NAME: &'static str = NAME;
    const COMPONENT: &'static str = "cloud-provider-phoenixnap";
    /// Blocks and the network.
    const REQUESTS: usize = 2;

    fn has_garbage(&self) -> Arc<Notify> {
        self.has_garbage.clone()
    }

    async fn passed(&mut self, error: Option<&ReconcileError>) {
        self.purchases.settle_unused(error).await;
    }

    fn wrote(&mut self, uid: &str, version: String) {
        self.touched.wrote(uid, version);
    }

    fn forget(&mut self, uid: &str) {
        self.given.forget(uid);
        self.touched.forget(uid);
    }

    fn observe_anew(&mut self) {
        self.expires();
        self.l2_network = None;
        self.annotated.clear();
    }

    async fn ends(&mut self) {
        self.purchases.give_up().await;
    }
}

#[cfg(test)]
mod tests;
