//! What is known of a cluster's blocks between passes, as it is after each step.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::api::Tag;
use super::super::api::blocks::BlockCloud;
use super::super::api::ip_blocks::{BlockStatus, Holder};
use super::super::api::public_networks::Network;
use super::super::setting::Settings;
use super::elsewhere::Elsewhere;
use super::ownership::{Owned, Owner};
use super::transitions::Transitions;
use super::{CLOUD, FAILED, POLL};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::engine::cluster::{Cluster, NodeAnnotations};
use crate::engine::inventory::Inventory;
use crate::engine::ip_allocation::{BlockMetrics, Given, Suspects};
use crate::engine::members::MemberResolver;
use crate::engine::pauses::Pauses;
use crate::engine::purchases::Purchases;
use crate::engine::refusals::Refusals;
use crate::engine::reports::Reports;
use crate::engine::touched::TouchedServices;

/// How old a listing is at most by which a block is put somewhere: another replica may just have done
/// it.
pub(super) const FRESH: Duration = Duration::from_millis(250);

/// How often a network is asked for a change while a block takes longer than usual on its way.
const SLOW_POLL: Duration = Duration::from_secs(30);

/// The blocks of a cluster, and all that is asked and told of them.
pub(in crate::clouds::phoenixnap) struct Blocks {
    pub(super) cloud: Arc<dyn BlockCloud>,
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) machines: MemberResolver,
    pub(super) settings: Settings,
    /// Told when there may be garbage to collect.
    pub(super) has_garbage: Arc<Notify>,
    /// The blocks, from the last complete listing and what was done since.
    pub(super) blocks: Vec<Owned>,
    /// When that listing was begun. `None`: nothing is known of them.
    pub(super) as_of: Option<Instant>,
    /// The public network, and when it was asked for.
    pub(super) network: Option<(Network, Instant)>,
    /// What else there is in the account.
    pub(super) elsewhere: Elsewhere,
    /// What is older is not good enough even where nothing is to be done.
    pub(super) fresh_since: Instant,
    /// The names of tags that the account knows. `None`: it was not asked yet.
    pub(super) tags: Option<BTreeSet<String>>,
    /// What Services were given.
    pub(super) given: Given,
    /// Services that somebody has touched.
    pub(super) touched: TouchedServices,
    /// When a server of a Node was seen first that is not in the network, by its id.
    pub(super) non_members: HashMap<String, Instant>,
    /// Until when a network does not take changes, by its id.
    pub(super) busy: Pauses,
    /// Networks that have refused a change because of another one.
    one_at_a_time: HashSet<String>,
    /// The right to buy, and what was bought by it.
    pub(super) purchases: Purchases<Owner>,
    /// The block that this process has bought last, and when.
    last_bought: Option<(String, Instant)>,
    /// What this process has bought and no listing has shown yet, and when.
    pub(super) unlisted: Vec<(Owned, Instant)>,
    /// Where blocks are bought, as the peer group has it.
    pub(super) location: Option<String>,
    /// Blocks that the cloud has failed at, until it is tried again.
    failed: Pauses,
    /// Blocks, and servers, of which the cloud refuses a change.
    pub(super) refused_blocks: Refusals,
    pub(super) refused_servers: Refusals,
    /// Since when blocks are on their way.
    pub(super) transitions: Transitions,
    /// Blocks that may be one too many.
    pub(super) suspects: Suspects,
    /// What was last written as the L2Network.
    pub(super) l2_network: Option<Value>,
    /// What was written on Nodes.
    pub(super) annotated: WrittenPeers,
    /// Whether a block was given back, and nobody has been told that there is room.
    pub(super) is_freed: bool,
    pub(super) reports: Reports,
    metrics: BlockMetrics,
}

/// The address that a Node peers from and what it was told of its BGP peers, by the Node's UID: one that is
/// made again under its name knows nothing of it.
pub(super) type WrittenPeers = BTreeMap<String, (Ipv4Addr, NodeAnnotations)>;

impl Blocks {
    /// Nothing is known of them yet. `inventory`: the machines of the same account; `identity`: this
    /// process' name; `metrics`: where they are counted.
    pub(in crate::clouds::phoenixnap) fn new(
        cloud: Arc<dyn BlockCloud>,
        inventory: Arc<Inventory>,
        cluster: Arc<dyn Cluster>,
        identity: String,
        settings: Settings,
        metrics: BlockMetrics,
    ) -> Self {
        let settle_time = settings.flags.settle_time;
        Self {
            purchases: Purchases::new(cluster.clone(), identity, settle_time),
            machines: MemberResolver::new(inventory, CLOUD),
            cloud,
            cluster,
            settings,
            has_garbage: Arc::new(Notify::new()),
            blocks: Vec::new(),
            as_of: None,
            network: None,
            elsewhere: Elsewhere::default(),
            fresh_since: Instant::now(),
            tags: None,
            given: Given::default(),
            touched: TouchedServices::default(),
            non_members: HashMap::new(),
            busy: Pauses::default(),
            one_at_a_time: HashSet::new(),
            last_bought: None,
            unlisted: Vec::new(),
            location: None,
            failed: Pauses::default(),
            refused_blocks: Refusals::new(POLL, FAILED),
            refused_servers: Refusals::new(POLL, FAILED),
            transitions: Transitions::default(),
            suspects: Suspects::default(),
            l2_network: None,
            annotated: WrittenPeers::new(),
            is_freed: false,
            reports: Reports::default(),
            metrics,
        }
    }

    fn count(&self) {
        self.metrics.count(self.blocks.iter().map(Owned::counted));
    }

    /// What is known of the cloud is not good enough any more.
    pub(super) fn expires(&mut self) {
        self.fresh_since = Instant::now();
    }

    /// Since when what was listed is good enough where something is done.
    pub(super) fn recent(&self) -> Instant {
        since(POLL, self.fresh_since)
    }

    /// A complete listing, begun then.
    pub(super) fn listed(&mut self, blocks: Vec<Owned>, begun: Instant) {
        self.touched.listed(begun);
        let there = |id: &str| blocks.iter().find(|owned| owned.block.id == id);
        self.failed.retain(|id| {
            let status = there(id).map(|owned| owned.block.status);
            status.is_some_and(|status| status.is_error() || status.is_transition())
        });
        self.refused_blocks.retain(|id| there(id).is_some());
        self.transitions.listed(&blocks, begun);
        self.given.listed(|address| {
            blocks
                .iter()
                .any(|owned| owned.block.cidr.contains(&address))
        });
        self.blocks = blocks;
        self.as_of = Some(begun);
        self.count();
    }

    /// The cloud refuses a block whose tags do not exist: somebody may have taken one away.
    pub(super) fn doubts_tags(&mut self, error: &CloudError) {
        if error.kind == ErrorKind::Invalid {
            self.tags = None;
        }
    }

    /// Whether the account is known to know all these names.
    pub(super) fn knows_tags(&self, names: &[&str]) -> bool {
        let tags = self.tags.as_ref();
        tags.is_some_and(|tags| names.iter().all(|name| tags.contains(*name)))
    }

    /// One of the blocks.
    pub(super) fn block(&self, id: &str) -> Option<&Owned> {
        self.blocks.iter().find(|owned| owned.block.id == id)
    }

    fn block_mut(&mut self, id: &str) -> Option<&mut Owned> {
        self.blocks.iter_mut().find(|owned| owned.block.id == id)
    }

    pub(super) fn bought(&mut self, owned: Owned) {
        let now = Instant::now();
        self.last_bought = Some((owned.block.id.clone(), now));
        self.unlisted.push((owned.clone(), now));
        self.blocks.retain(|other| other.block.id != owned.block.id);
        self.blocks.push(owned);
        self.count();
    }

    pub(super) fn attached(&mut self, block: &str, network: &str) {
        let Some(Owned { block, .. }) = self.block_mut(block) else {
            return;
        };
        block.status = BlockStatus::Assigning;
        block.holder = Some(Holder::PublicNetwork(network.to_owned()));
        let (id, cidr) = (block.id.clone(), block.cidr);
        if let Some((known, _)) = &mut self.network
            && known.id == network
            && !known.has(&id)
        {
            known.blocks.push((id, cidr));
        }
    }

    pub(super) fn detached(&mut self, block: &str, network: &str) {
        if let Some(owned) = self.block_mut(block) {
            owned.block.status = BlockStatus::Unassigning;
        }
        if let Some((known, _)) = &mut self.network
            && known.id == network
        {
            known.blocks.retain(|(id, _)| id != block);
        }
    }

    /// A block is nobody's any more: what failed for its Service's sake is tried anew for its own.
    pub(super) fn marked(&mut self, block: &str, tags: Vec<Tag>) {
        self.failed.forget(block);
        self.refused_blocks.forget(block);
        if let Some(owned) = self.block_mut(block) {
            owned.block.tags = tags;
            owned.owner = Owner::Marked;
        }
        self.count();
    }

    pub(super) fn released(&mut self, block: &str) {
        self.blocks.retain(|owned| owned.block.id != block);
        self.count();
        self.failed.forget(block);
        self.unlisted.retain(|(owned, _)| owned.block.id != block);
    }

    /// Whether this process has bought a block so recently that nobody else has put it anywhere.
    pub(super) fn has_just_bought(&self, block: &str) -> bool {
        let last = self.last_bought.as_ref();
        last.is_some_and(|(id, at)| id == block && at.elapsed() < POLL)
    }

    /// A network does not take a change now, for so long.
    pub(super) fn set_busy(&mut self, network: &str, error: &CloudError) -> Duration {
        let mut blocks = self.blocks.iter();
        let is_slow = blocks.any(|owned| self.transitions.is_slow(&owned.block, network));
        let usual = if is_slow { SLOW_POLL } else { POLL };
        let pause = error.retry_after.unwrap_or(usual);
        self.busy.set(network, pause);
        pause
    }

    /// A network has refused a change because of another one.
    pub(super) fn takes_one_change_at_a_time(&mut self, network: &str) {
        self.one_at_a_time.insert(network.to_owned());
    }

    /// Whether a network is known to refuse a change now, without being asked: one of our blocks is on
    /// its way, and it has refused for such a reason before.
    pub(super) fn is_at_work(&self, network: &str) -> bool {
        self.one_at_a_time.contains(network) && self.has_moving(network)
    }

    /// Whether one of our blocks is on its way to a network, or from it, and may well be so.
    pub(super) fn has_moving(&self, network: &str) -> bool {
        let mut blocks = self.blocks.iter();
        blocks.any(|owned| self.transitions.is_moving(&owned.block, network))
    }

    /// For how long a block is left alone that the cloud has failed at; else it is tried now.
    pub(super) fn tries_failed(&mut self, block: &str) -> Option<Duration> {
        let left = self.failed.left(block);
        if left.is_none() {
            self.failed.tries(block, FAILED);
        }
        left
    }
}

/// So long ago, and not before that.
pub(super) fn since(age: Duration, least: Instant) -> Instant {
    Instant::now().checked_sub(age).unwrap_or(least).max(least)
}
