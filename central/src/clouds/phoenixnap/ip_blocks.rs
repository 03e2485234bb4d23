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
//! ([`Purchases`]), and only on the word of a complete listing that was begun after the claim. Nothing
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
mod settings;
mod state;
mod step;
mod surplus;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::NAME;
use super::api::blocks::BlockCloud;
use crate::cloud_provider::load_balancers::{LoadBalancers, ReconcileError};
use crate::engine::cluster::Cluster;
use crate::engine::inventory::Inventory;
use crate::engine::members::MemberResolver;
use crate::engine::pooled::{Pool, PooledEngine};
use crate::engine::provider::AccountWords;
use crate::engine::purchases::Purchases;
pub(super) use settings::Settings;
use state::Blocks;
use step::Step;

/// What Events call the cloud.
const CLOUD: &str = "PhoenixNAP";
/// What its credentials open.
const ACCOUNT: AccountWords = AccountWords {
    resource: "an IP block",
    account: "account",
    credentials: "PNAP_CLIENT_ID and PNAP_CLIENT_SECRET",
};

/// The load balancers of a cluster, of which nothing is known yet. `inventory`: the machines of the same
/// account; `identity`: this process' name.
pub(super) fn load_balancers(
    cloud: Arc<dyn BlockCloud>,
    inventory: Arc<Inventory>,
    cluster: Arc<dyn Cluster>,
    identity: String,
    settings: Settings,
) -> Arc<dyn LoadBalancers> {
    Arc::new(ip_blocks(cloud, inventory, cluster, identity, settings))
}

fn ip_blocks(
    cloud: Arc<dyn BlockCloud>,
    inventory: Arc<Inventory>,
    cluster: Arc<dyn Cluster>,
    identity: String,
    settings: Settings,
) -> PooledEngine<Blocks> {
    let untended = Arc::new(Notify::new());
    let purchases = Purchases::new(cluster.clone(), identity, settings.settle_time);
    let machines = MemberResolver::new(inventory, CLOUD);
    let blocks = Blocks::new(
        cloud,
        cluster,
        machines,
        settings,
        purchases,
        untended.clone(),
    );
    PooledEngine::new(blocks, untended)
}

#[async_trait]
impl Pool for Blocks {
    type Step = Step;

    const NAME: &'static str = NAME;
    const COMPONENT: &'static str = "cloud-provider-phoenixnap";
    /// Blocks and the network.
    const REQUESTS: usize = 2;

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
