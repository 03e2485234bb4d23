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
mod pass;
mod plan;
mod removal;
mod settings;
mod state;
mod step;
mod surplus;
#[cfg(test)]
mod testing;

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use tokio::sync::{Mutex, MutexGuard, Notify};

use super::NAME;
use super::api::blocks::BlockCloud;
use crate::cloud_api::CloudError;
use crate::cloud_provider::load_balancers::{
    CollectorContext, LoadBalancerRequest, LoadBalancers, Orphan, OwnedFields, PreparedPlan,
    ReconcileError, WriteGuard,
};
use crate::engine::cluster::Cluster;
use crate::engine::inventory::Inventory;
use crate::engine::ip_allocation;
use crate::engine::members::MemberResolver;
use crate::engine::provider::AccountWords;
use crate::engine::purchases::Purchases;
use crate::views::service_view::ServiceView;
use pass::Pass;
pub(super) use settings::Settings;
use state::Blocks;

/// The name under which Events are reported.
const COMPONENT: &str = "cloud-provider-phoenixnap";
/// What Events call the cloud.
const CLOUD: &str = "PhoenixNAP";
/// What its credentials open.
const ACCOUNT: AccountWords = AccountWords {
    resource: "an IP block",
    account: "account",
    credentials: "PNAP_CLIENT_ID and PNAP_CLIENT_SECRET",
};
/// Blocks and the network.
const REQUESTS: usize = 2;

/// The IP blocks of a cluster.
pub(super) struct IpBlocks {
    shared: Arc<Shared>,
}

/// What all passes share.
struct Shared {
    blocks: Mutex<Blocks>,
    /// What is said while somebody else works with the blocks; it is heeded before the next does.
    said: std::sync::Mutex<Vec<Said>>,
    /// Told when there may be garbage to collect.
    untended: Arc<Notify>,
    /// Told when Nodes have changed.
    nodes_changed: Notify,
}

enum Said {
    /// This process has written the Service of this UID, which has made it this `resourceVersion`.
    Written(String, String),
    /// The Service of this UID is no more.
    Gone(String),
    /// What is known is to be looked at anew.
    Anew,
}

impl IpBlocks {
    /// Nothing is known of them yet. `inventory`: the machines of the same account; `identity`: this
    /// process' name.
    pub(super) fn new(
        cloud: Arc<dyn BlockCloud>,
        inventory: Arc<Inventory>,
        cluster: Arc<dyn Cluster>,
        identity: String,
        settings: Settings,
    ) -> Self {
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
        Self {
            shared: Arc::new(Shared {
                blocks: Mutex::new(blocks),
                said: std::sync::Mutex::default(),
                untended,
                nodes_changed: Notify::new(),
            }),
        }
    }
}

impl Shared {
    /// The blocks, for one at a time.
    async fn blocks(&self) -> MutexGuard<'_, Blocks> {
        let mut blocks = self.blocks.lock().await;
        for said in std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner)) {
            match said {
                Said::Written(uid, version) => blocks.touched.wrote(&uid, version),
                Said::Gone(uid) => blocks.forget(&uid),
                Said::Anew => blocks.starts_anew(),
            }
        }
        blocks
    }

    fn say(&self, said: Said) {
        let mut all = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(said);
    }
}

#[async_trait]
impl LoadBalancers for IpBlocks {
    fn provider(&self) -> &'static str {
        NAME
    }

    fn component(&self) -> &'static str {
        COMPONENT
    }

    async fn prepare(
        &self,
        request: &LoadBalancerRequest,
    ) -> Result<Box<dyn PreparedPlan>, ReconcileError> {
        Ok(Box::new(Pass::ensure(&self.shared, request).await?))
    }

    async fn prepare_removal(
        &self,
        request: &LoadBalancerRequest,
    ) -> Result<Box<dyn PreparedPlan>, ReconcileError> {
        Ok(Box::new(Pass::remove(&self.shared, request).await?))
    }

    fn may_have(&self, service: &ServiceView) -> bool {
        ip_allocation::may_have(service)
    }

    fn owned_fields(&self, service: &ServiceView) -> OwnedFields {
        ip_allocation::owned_fields(service)
    }

    fn wrote(&self, service: &ServiceView) {
        let version = service.resource_version.clone();
        self.shared.say(Said::Written(service.uid.clone(), version));
    }

    fn forget(&self, service_uid: &str) {
        self.shared.say(Said::Gone(service_uid.to_owned()));
    }

    fn observe_anew(&self) {
        self.shared.say(Said::Anew);
    }

    fn nodes_changed(&self) {
        self.shared.nodes_changed.notify_one();
    }

    fn observation_cost(&self) -> usize {
        REQUESTS
    }

    async fn orphans(
        &self,
        _cluster: &str,
        living: &[ServiceView],
    ) -> Result<Vec<Orphan>, CloudError> {
        self.shared.blocks().await.orphans(living).await
    }

    async fn remove_orphan(
        &self,
        _cluster: &str,
        orphan: &Orphan,
        guard: &dyn WriteGuard,
    ) -> Result<(), ReconcileError> {
        self.shared
            .blocks()
            .await
            .remove_orphan(orphan, guard)
            .await
    }

    async fn collect_garbage(&self, context: &dyn CollectorContext) {
        self.shared.collect_garbage(context).await;
    }
}

#[cfg(test)]
mod tests;
