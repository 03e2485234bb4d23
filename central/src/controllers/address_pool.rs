//! The addresses of L2Networks: which there are, who holds them, and what is wrong with a network.
//!
//! **Flow.** One pass over all L2Networks when one of them changes, or when an address is given out
//! or comes back: it decides which networks may be allocated from and writes each one's condition.
//! [`Allocations`] gives out addresses to the service controller in between. Of each network's
//! status it takes away what Nodes that are gone had to say, and sums up what the others say. Where
//! voters may be dead it looks at their Leases: without their majority, the condition `Quorum` permits
//! the survivors to go on.
//!
//! **Guarantees.** No address is held by two Services that do not share it by their own key, or have done so
//! before. What a Service holds stays its own whatever
//! becomes of the network. Of two networks whose ranges overlap, the older is allocated from. What a
//! user can write on a Service is a wish; the router, the ends of a subnet and a Node's addresses are
//! no Service's.

mod allocate;
mod apply;
mod entries;
mod leases;
mod observe;
mod plan;
mod preview;
mod summary;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mooring_common::engine::Outcome;
use mooring_common::k8s::{Cache, Events, ObjectKey, Slim};
use mooring_common::l2_network::{InvalidL2Network, L2Network, Segment};
use mooring_common::names::{components, labels};
use mooring_common::work_queue::{Backoff, WorkQueue, work};
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::cloud_provider::ForeignPool;
pub use allocate::{
    Allocations, Backends, Claim, Collision, Family, Held, Namespace, Pool, Port, Request,
    Reserved, ReservedAddresses, SharingTerms, Unavailable, Unshareable, Violation,
};
use apply::Failure;
use leases::Leases;
use plan::Decisions;
pub use plan::Verdict;
pub use preview::preview;
pub use summary::{Fact, Quorum, Summary};

/// How often to look for entries of Nodes that are gone, if nothing else gives cause to look. It costs
/// no request.
const LOOK: Duration = Duration::from_secs(30);
/// And for the Leases of voters, as long as there is doubt whether most of them live.
const LOOK_AT_VOTERS: Duration = Duration::from_secs(3);

/// There is one thing to look at: all L2Networks.
pub type Queue = WorkQueue<AllNetworks>;

/// The one key of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllNetworks;

impl fmt::Display for AllNetworks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all L2Networks")
    }
}

/// An empty queue.
#[must_use]
pub fn queue() -> Arc<Queue> {
    Arc::new(WorkQueue::new(Backoff::NODES))
}

/// What is kept of an L2Network.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkView {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.creationTimestamp`, in seconds since 1970.
    pub created: i64,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// Whether central itself made it, and gives its addresses out otherwise.
    pub is_managed: bool,
    /// Its specification, or all that is wrong with it.
    pub segment: Result<Segment, InvalidL2Network>,
    /// What central wrote last.
    pub status: Option<Verdict>,
    /// Since when each condition is what it is, by type.
    pub since: BTreeMap<String, Time>,
    /// What the Nodes say.
    pub summary: Summary,
    /// Who votes, and what there is to know of them.
    pub quorum: Quorum,
    /// The Nodes that its status speaks of, in this order.
    pub entries: Vec<String>,
}

impl Slim for NetworkView {
    type Object = L2Network;

    fn slim(network: L2Network) -> Self {
        let segment = Segment::try_from(&network);
        let status = network.status.as_ref().and_then(Verdict::read);
        let since = network.status.as_ref().map(plan::transition_times);
        let summary = network.status.as_ref().map(summary::sum_up);
        let quorum = network.status.as_ref().map(Quorum::read);
        let status_nodes = network.status.into_iter().flat_map(|status| status.nodes);
        let entries = status_nodes.map(|entry| entry.name).collect();
        let meta = network.metadata;
        let manager = meta
            .labels
            .as_ref()
            .and_then(|all| all.get(labels::MANAGED_BY));
        Self {
            is_managed: manager.is_some_and(|name| name == components::CENTRAL),
            name: meta.name.unwrap_or_default(),
            uid: meta.uid.unwrap_or_default(),
            created: meta
                .creation_timestamp
                .map(|t| t.0.as_second())
                .unwrap_or_default(),
            generation: meta.generation,
            segment,
            status,
            since: since.unwrap_or_default(),
            summary: summary.unwrap_or_default(),
            quorum: quorum.unwrap_or_default(),
            entries,
        }
    }
}

/// The shortest time between two writes that only repeat what Nodes say.
const COALESCE: Duration = Duration::from_secs(1);

struct Controller {
    context: Context,
    networks: Arc<Cache<NetworkView>>,
    declared: Option<Pool>,
    allocations: Arc<Allocations>,
    events: Events,
    changed: Box<dyn Fn() + Send + Sync>,
    /// When each network's status was last written.
    written: Mutex<BTreeMap<String, Instant>>,
    leases: Leases,
}

/// The name under which the provider's own pool is allocated from. No L2Network can have it.
pub const DECLARED_POOL: &str = "(machines file)";

/// Runs until cancelled, and then until what is under way has come to its end. `declared` is the provider's own pool, which something else announces;
/// `changed` is called when the pools to allocate from have changed.
pub async fn run(
    context: Context,
    networks: Arc<Cache<NetworkView>>,
    declared: ForeignPool,
    allocations: Arc<Allocations>,
    queue: Arc<Queue>,
    changed: impl Fn() + Send + Sync + 'static,
    cancel: CancellationToken,
) {
    let events = context.events(components::ADDRESS_POOL);
    let changed = Box::new(changed);
    let declared = (!declared.ranges.is_empty()).then(|| Pool::new(DECLARED_POOL, declared.ranges));
    let leases = Leases::new(context.client.clone());
    let controller = Arc::new(Controller {
        context,
        networks,
        declared,
        allocations,
        events,
        changed,
        written: Mutex::default(),
        leases,
    });
    // Before that, every Node would seem to be gone.
    let synced = async {
        tokio::join!(
            controller.networks.synced(),
            controller.context.nodes.synced()
        );
    };
    if cancel.run_until_cancelled(synced).await.is_none() {
        return;
    }
    queue.add(AllNetworks);
    work("l2network", queue, 1, cancel, move |AllNetworks| {
        let controller = controller.clone();
        async move { controller.pass().await }
    })
    .await;
}

impl Controller {
    /// One look at all L2Networks.
    async fn pass(&self) -> Outcome<Failure> {
        let mut observed = observe::observe(&self.networks, &self.allocations);
        let doubted = self.look_at_voters(&mut observed).await;
        let decisions = plan::plan(&observed, self.declared.as_ref());
        let networks = observed
            .iter()
            .map(|one| one.network.name.clone())
            .collect();
        let Decisions {
            pools,
            reserved,
            plan,
        } = decisions;
        if self.allocations.set_pools(pools, networks, reserved) {
            (self.changed)();
        }
        if !self.allocations.is_seeded() {
            return Outcome::WaitForChange("what Services hold is not known yet".to_owned());
        }
        let mut failure = None;
        let mut soon = if doubted { LOOK_AT_VOTERS } else { LOOK };
        for step in plan.steps() {
            if step.only_repeats() && !self.may_write_again(&step.network.name) {
                soon = COALESCE;
                continue;
            }
            if let Err(error) = self.take(step).await {
                failure = Some(error);
            }
        }
        let exists = |name: &str| {
            let nodes = &self.context.nodes;
            nodes.get(&ObjectKey::cluster_wide(name)).is_some()
        };
        for step in entries::forgotten(&observed, exists) {
            if let Err(error) = self.forget(&step).await {
                failure = Some(error);
            }
        }
        failure.map_or(Outcome::RetryAfter(soon), Outcome::Backoff)
    }

    /// Finds out whether voters live, where that is in doubt; whether it is.
    async fn look_at_voters(&self, observed: &mut [observe::Observed]) -> bool {
        let mut doubted = false;
        for one in observed {
            let quorum = &one.network.quorum;
            if quorum.is_doubted {
                doubted = true;
                let still = self.leases.standing_still(quorum.voters.iter()).await;
                let fact = quorum.fact(&still);
                Arc::make_mut(&mut one.network).summary.replace(&fact);
            }
        }
        doubted
    }

    /// Whether the last write of what Nodes say is long enough ago; if so, there is one now.
    fn may_write_again(&self, network: &str) -> bool {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let last = written.get(network);
        if last.is_some_and(|last| now.duration_since(*last) < COALESCE) {
            return false;
        }
        written.insert(network.to_owned(), now);
        true
    }
}
