//! Addresses for Services out of public IP blocks.
//!
//! ```text
//!   Services ──► ip_requests ─┐
//!                           ├─► allocate: who has which address ─► plan: the next step ─► apply
//!   listings ──► blocks ────┘                                                           │
//!      ▲                                                                                │
//!      └─────────────────────── what is known, as it is after each step ◄───────────────┘
//! ```
//!
//! A block is bought with its tags, assigned to the public network, and used when it has arrived
//! there. When nobody needs it any more, it is marked; [`garbage_collector`] takes marked blocks from their network
//! and gives them back.
//!
//! **Guarantees.** One block at a time is bought in a cluster, whoever believes to lead
//! ([`purchase`]), and only on the word of a complete listing that was begun after the claim. Nothing
//! is changed that is not this cluster's by its tags ([`ownership`]). An address is published when its
//! block is assigned to the network. A Service goes when its blocks are marked, so that no block is
//! forgotten.
//!
//! **Assumptions.** All work on blocks of a cluster is done one after the other, under one lock: the
//! network takes one change at a time, and what one Service is given another cannot have.

mod allocate;
mod api;
mod apply;
mod bgp;
mod buy;
mod cloud;
mod cluster;
mod garbage_collector;
mod ip_request;
mod layout;
mod members;
mod node_peers;
mod notices;
mod observe;
mod orphans;
mod ownership;
mod pass;
mod plan;
mod purchase;
mod removal;
mod seen;
mod segment;
mod settings;
mod state;
mod step;
mod surplus;
#[cfg(test)]
mod testing;

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use kube::Client;
use mooring_common::engine::Step as _;
use tokio::sync::{Mutex, MutexGuard, Notify};

use super::NAME;
use crate::cloud_api::CloudError;
use crate::cloud_provider::load_balancers::{
    CollectorContext, LoadBalancerRequest, LoadBalancers, Orphan, OwnedFields, PlannedStep,
    PreparedPlan, ReconcileError, WriteGuard,
};
use crate::engine::inventory::Inventory;
use crate::engine::members::MemberResolver;
use crate::engine::provider::AccountWords;
use crate::views::service_view::ServiceView;
use cloud::BlockCloud;
use cluster::{Cluster, RealCluster};
use pass::EnsurePlan;
use purchase::Purchases;
use removal::Removal;
pub(super) use settings::Settings;
use state::{Said, State, Written};
use step::Step;

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
    cloud: Arc<dyn BlockCloud>,
    cluster: Arc<dyn Cluster>,
    settings: Settings,
    machines: MemberResolver,
    purchases: Purchases,
    state: Mutex<State>,
    said: std::sync::Mutex<Said>,
    /// Told when there may be garbage to collect.
    untended: Notify,
    /// Told when Nodes have changed.
    nodes_changed: Notify,
}

impl IpBlocks {
    /// Nothing is known of them yet. `inventory`: the machines of the same account; `identity`: this
    /// process' name.
    pub(super) fn new(
        cloud: Arc<dyn BlockCloud>,
        inventory: Arc<Inventory>,
        client: Client,
        identity: String,
        settings: Settings,
    ) -> Self {
        let cluster = Arc::new(RealCluster::new(client));
        Self::of(cloud, inventory, cluster, identity, settings)
    }

    fn of(
        cloud: Arc<dyn BlockCloud>,
        inventory: Arc<Inventory>,
        cluster: Arc<dyn Cluster>,
        identity: String,
        settings: Settings,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                cloud,
                cluster,
                machines: MemberResolver::new(inventory, CLOUD),
                purchases: Purchases::new(identity, settings.settle_time),
                settings,
                state: Mutex::new(State::new()),
                said: std::sync::Mutex::default(),
                untended: Notify::new(),
                nodes_changed: Notify::new(),
            }),
        }
    }
}

impl Shared {
    /// The state, for one at a time.
    async fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().await;
        let said = std::mem::take(&mut *self.said());
        for service in said.written {
            state.seen.wrote(&service.uid, service.version);
        }
        for uid in said.gone {
            state.forget(&uid);
        }
        if said.anew {
            state.starts_anew();
        }
        state
    }

    fn said(&self) -> std::sync::MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For people.
fn planned(step: &Step) -> PlannedStep {
    PlannedStep {
        step: step.to_string(),
        impact: step.impact(),
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
        let prepared = EnsurePlan::prepare(self.shared.clone(), request).await?;
        Ok(Box::new(prepared))
    }

    async fn prepare_removal(
        &self,
        request: &LoadBalancerRequest,
    ) -> Result<Box<dyn PreparedPlan>, ReconcileError> {
        let prepared = Removal::prepare(self.shared.clone(), request).await?;
        Ok(Box::new(prepared))
    }

    fn may_have(&self, service: &ServiceView) -> bool {
        observe::may_have(service)
    }

    fn owned_fields(&self, service: &ServiceView) -> OwnedFields {
        removal::owned_fields(service)
    }

    fn wrote(&self, service: &ServiceView) {
        self.shared.said().written.push(Written {
            uid: service.uid.clone(),
            version: service.resource_version.clone(),
        });
    }

    fn forget(&self, service_uid: &str) {
        self.shared.said().gone.push(service_uid.to_owned());
    }

    fn observe_anew(&self) {
        self.shared.said().anew = true;
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
        self.shared.orphans(living).await
    }

    async fn remove_orphan(
        &self,
        _cluster: &str,
        orphan: &Orphan,
        guard: &dyn WriteGuard,
    ) -> Result<(), ReconcileError> {
        self.shared.remove_orphan(orphan, guard).await
    }

    async fn collect_garbage(&self, context: &dyn CollectorContext) {
        self.shared.collect_garbage(context).await;
    }
}

#[cfg(test)]
mod tests;
