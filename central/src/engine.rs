//! Load balancers of any cloud whose Services each have one of their own.
//!
//! ```text
//!   Service ─► read: options ─► desired ─► zones, endpoints ─┐
//!   Nodes ───► members ───────────┘                          ├─► plan: steps ─► apply ─► the cloud
//!   listings ► find: whose is it ─► observed ────────────────┘                    │
//!                 ▲                                                               │
//!                 └──────────────── cache: as it is after each step ◄─────────────┘
//! ```
//!
//! A [`Provider`] writes what differs between clouds: its API, its annotations, what is wanted, what is there,
//! and a pure plan. All else is here, once. What plans are made of is here too: the parts of a load balancer and
//! what can be done about each (`step.rs`), steps about whole resources (`resource_step.rs`), what of them comes
//! before and after the others (`stages.rs`), fields that change in place (`change.rs`, `changes.rs`), the members of
//! a pool (`pool.rs`), and rules of a firewall (`port_rules.rs`, `acl.rs`).
//!
//! **Guarantees.** What was observed and done is remembered, so that a Service of which nothing
//! changes costs no request. Nothing is made or adopted but on the word of a complete listing that
//! was begun in the same pass, and nothing is changed that is not provably the Service's own
//! (`ownership.rs`). Credentials that show nothing of the cluster are doubted as a whole
//! (`credentials.rs`). No two writes to one load balancer are under way at once.

pub mod acl;
pub mod address_blocks;
pub mod annotations;
pub(crate) mod applied;
mod apply;
mod cache;
pub mod canonical;
pub mod change;
pub mod changes;
pub mod cluster;
mod credentials;
pub mod dns;
pub mod drains;
pub mod endpoints;
mod ensure;
pub mod exclusive;
mod find;
pub mod forgiving_annotations;
pub mod interface_routes;
pub mod inventory;
pub mod ip_allocation;
mod kept_members;
pub mod listing;
pub mod members;
pub mod notices;
mod orphans;
pub mod outcome;
mod ownership;
pub mod pauses;
pub mod pending;
pub mod pool;
pub mod pooled;
pub mod port_annotations;
pub mod port_rules;
pub mod prices;
pub mod provider;
pub mod purchases;
pub mod refusals;
mod remove;
pub mod reports;
pub mod resource_step;
pub mod selector;
pub mod service_spec;
pub mod stages;
pub mod step;
pub mod tag_marks;
pub mod text_marks;
pub mod touched;
pub mod transitions;
pub mod unread;
mod zones;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use crate::cloud_api::CloudError;
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, LoadBalancers, Orphan, PreparedPlan, ReconcileError, WriteGuard,
};

use crate::views::service_view::ServiceView;
use applied::noted;
use cache::Cache;
use ensure::EnsurePlan;
use inventory::Inventory;
use listing::Listings;
use members::MemberResolver;
use provider::{IdBy, ListedOf, Provider};
use remove::Removal;

/// The load balancers of a cloud.
pub struct Engine<P: Provider> {
    shared: Arc<Shared<P>>,
}

/// What all passes share.
struct Shared<P: Provider> {
    provider: Arc<P>,
    members: MemberResolver,
    listings: Listings<ListedOf<P>>,
    cache: Cache<P::Observed>,
}

impl<P: Provider> Engine<P> {
    /// Nothing is known of them yet. `inventory`: the machines of the same project.
    pub fn new(provider: P, inventory: Arc<Inventory>) -> Self {
        let provider = Arc::new(provider);
        let listed = provider.clone();
        let list = move || {
            let provider = listed.clone();
            async move { provider.list().await }
        };
        Self {
            shared: Arc::new(Shared {
                provider,
                members: MemberResolver::new(inventory, P::WORDS.cloud),
                listings: Listings::new(P::WORDS.provider, list),
                cache: Cache::new(),
            }),
        }
    }
}

#[async_trait]
impl<P: Provider> LoadBalancers for Engine<P> {
    fn provider(&self) -> &'static str {
        P::WORDS.provider
    }

    fn component(&self) -> &'static str {
        P::WORDS.component
    }

    fn secrets(&self, service: &ServiceView) -> BTreeSet<String> {
        P::secrets(service)
    }

    fn follows_endpoints(&self) -> bool {
        P::FOLLOWS_ENDPOINTS
    }

    fn may_have(&self, service: &ServiceView) -> bool {
        let words = P::WORDS;
        let is_recorded =
            service.annotation(words.id_key).is_some() || noted(service, words).is_some();
        let is_shown = words.id_by != IdBy::Central && !service.ingress.is_empty();
        is_recorded || is_shown || service.creation_asked_of(words.provider).is_some()
    }

    async fn prepare(
        &self,
        request: &LoadBalancerRequest,
    ) -> Result<Box<dyn PreparedPlan>, ReconcileError> {
        let plan = EnsurePlan::prepare(self.shared.clone(), request).await?;
        Ok(Box::new(plan))
    }

    async fn prepare_removal(
        &self,
        request: &LoadBalancerRequest,
    ) -> Result<Box<dyn PreparedPlan>, ReconcileError> {
        let plan = Removal::prepare(self.shared.clone(), request).await?;
        Ok(Box::new(plan))
    }

    fn forget(&self, service_uid: &str) {
        self.shared.cache.forget(service_uid);
    }

    fn observe_anew(&self) {
        self.shared.cache.observe_anew();
    }

    fn observation_cost(&self) -> usize {
        P::LISTINGS + self.shared.cache.cost()
    }

    async fn orphans(
        &self,
        cluster: &str,
        living: &[ServiceView],
    ) -> Result<Vec<Orphan>, CloudError> {
        self.shared.orphans(cluster, living).await
    }

    async fn remove_orphan(
        &self,
        cluster: &str,
        orphan: &Orphan,
        guard: &dyn WriteGuard,
    ) -> Result<(), ReconcileError> {
        self.shared.remove_orphan(cluster, orphan, guard).await
    }
}
