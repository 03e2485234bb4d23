//! Gives Nodes their pod CIDRs, as kube-controller-manager does elsewhere.
//!
//! **Flow.** One pass over all Nodes when one of them comes, goes, or gets a provider ID or pod CIDRs.
//! Whoever begins to lead first reads every Node from the API server itself.
//!
//! **Guarantees.** What a Node has is kept, in whichever order it has it. What is taken is read off the Nodes
//! in each pass, with what was written and does not show yet: nothing can leak. A Node gets all of its pod
//! CIDRs in one patch, which is refused if it has any by then. A patch whose outcome is not known is repeated
//! with the same pod CIDRs.
//!
//! **Assumptions.** Nobody else gives out pod CIDRs: kube-controller-manager runs without
//! `--allocate-node-cidrs`.

mod apply;
mod observe;
mod plan;
mod pool;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use mooring_common::engine::Outcome;
use mooring_common::k8s::Events;
use mooring_common::names::components;
use mooring_common::node_view::NodeView;
use mooring_common::work_queue::{Backoff, WorkQueue, work};
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::cloud_api::CloudError;
use crate::cloud_provider::pod_network::NodeIpam;
use crate::election::NotLeading;
use observe::{Given, Waiting};
use pool::Pool;

/// There is one thing to look at: all Nodes.
pub type Queue = WorkQueue<AllNodes>;

/// How long a change of a Node waits for others.
pub const SOON: Duration = Duration::from_millis(100);

/// The one key of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllNodes;

impl fmt::Display for AllNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the pod CIDRs of all Nodes")
    }
}

/// An empty queue.
#[must_use]
pub fn queue() -> Arc<Queue> {
    Arc::new(WorkQueue::new(Backoff::NODES))
}

/// Whether a change of a Node, from `old` to `new`, may change who gets what.
#[must_use]
pub fn concerns(old: Option<&NodeView>, new: Option<&NodeView>) -> bool {
    fn looked_at(node: &NodeView) -> (&str, Option<&str>, &[String], bool) {
        let (id, cidrs) = (node.provider_id.as_deref(), &node.pod_cidrs);
        (&node.uid, id, cidrs, node.deleting)
    }
    old.map(looked_at) != new.map(looked_at)
}

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the API server did not do it")]
    Api(#[from] kube::Error),
    #[error("a patch cannot be written")]
    Patch(#[from] serde_json::Error),
    #[error("the Node was changed meanwhile")]
    Overtaken,
    #[error(transparent)]
    Cloud(#[from] CloudError),
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
}

struct Controller {
    context: Context,
    ipam: NodeIpam,
    cluster_cidr: Ipv4Net,
    /// With nothing taken.
    pool: Pool,
    nodes: Api<Node>,
    events: Events,
    state: tokio::sync::Mutex<State>,
    /// By the UIDs of Nodes, as what follows.
    given: Mutex<HashMap<String, Given>>,
    waiting: Mutex<HashMap<String, Waiting>>,
    told: Mutex<HashMap<String, BTreeSet<String>>>,
}

/// What is remembered from pass to pass.
#[derive(Default)]
struct State {
    /// The pool without what the cloud keeps for itself. None: not everything is read yet.
    pool: Option<Pool>,
    cursor: u64,
}

/// Runs until cancelled, and then until what is under way has come to its end.
pub async fn run(
    context: Context,
    ipam: NodeIpam,
    cluster_cidr: Ipv4Net,
    queue: Arc<Queue>,
    cancel: CancellationToken,
) {
    let controller = Arc::new(Controller {
        nodes: Api::all(context.client.clone()),
        events: context.events(components::NODE_IPAM),
        pool: Pool::new(cluster_cidr, ipam.ipv4_mask),
        context,
        ipam,
        cluster_cidr,
        state: tokio::sync::Mutex::default(),
        given: Mutex::default(),
        waiting: Mutex::default(),
        told: Mutex::default(),
    });
    queue.add(AllNodes);
    work("node-ipam", queue, 1, cancel, move |AllNodes| {
        let controller = controller.clone();
        async move { controller.pass().await }
    })
    .await;
}

impl Controller {
    /// One look at all Nodes.
    async fn pass(&self) -> Outcome<Failure> {
        let mut state = self.state.lock().await;
        let ready = self.context.leadership.until_ending(self.start(&mut state));
        let pool = match ready.await {
            Ok(Ok(pool)) => pool,
            Ok(Err(failure)) => return Outcome::Backoff(failure),
            Err(ending) => return Outcome::Backoff(ending.into()),
        };
        let observed = match self.context.leadership.until_ending(self.observe()).await {
            Ok(observed) => observed,
            Err(ending) => return Outcome::Backoff(ending.into()),
        };
        let decisions = plan::plan(&observed, pool, state.cursor);
        state.cursor = decisions.cursor;
        self.forget_told();
        self.explain(&observed, &decisions).await;
        match (self.apply(&decisions).await, observed.look_again) {
            (Err(failure), _) => Outcome::Backoff(failure),
            (Ok(()), Some(after)) => Outcome::RetryAfter(after),
            (Ok(()), None) => Outcome::Done,
        }
    }

    /// Once: what the cloud keeps for itself, and what all Nodes have.
    async fn start(&self, state: &mut State) -> Result<Pool, Failure> {
        if let Some(pool) = &state.pool {
            return Ok(pool.clone());
        }
        let mut pool = self.pool.clone();
        let end = self.cluster_cidr.broadcast();
        let subnet = self.ipam.ranges.subnet().await?;
        if subnet.is_some_and(|subnet| subnet.broadcast() == end) {
            pool.take_last();
        }
        self.read_all().await?;
        state.pool = Some(pool.clone());
        Ok(pool)
    }

    fn given(&self) -> MutexGuard<'_, HashMap<String, Given>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_told(&self) {
        let nodes = self.context.nodes.all();
        let uids: HashSet<&str> = nodes.iter().map(|(_, node)| node.uid.as_str()).collect();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|uid, _| uids.contains(uid.as_str()));
    }
}
