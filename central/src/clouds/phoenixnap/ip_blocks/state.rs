//! What is known of a cluster's blocks between passes, as it is after each step.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::api::Tag;
use super::super::api::blocks::BlockCloud;
use super::super::api::ip_blocks::{BlockStatus, Holder};
use super::super::api::public_networks::Network;
use super::super::setting::Settings;
use super::ownership::{Owned, Owner};
use super::{CLOUD, FAILED, POLL};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::engine::address_blocks::State;
use crate::engine::cluster::{Cluster, NodeAnnotations};
use crate::engine::inventory::Inventory;
use crate::engine::ip_allocation::BlockMetrics;
use crate::engine::members::MemberResolver;
use crate::engine::pauses::Pauses;
use crate::engine::refusals::Refusals;
use crate::engine::transitions::Transitions;
use crate::engine::unread::Unread;

/// How old a listing is at most by which a block is put somewhere: another replica may just have done
/// it.
pub(super) const FRESH: Duration = Duration::from_millis(250);

/// How often a network is asked for a change while a block takes longer than usual on its way.
const SLOW_POLL: Duration = Duration::from_secs(30);

/// The blocks of a cluster, and all that is asked and told of them.
pub(in crate::clouds::phoenixnap) struct Blocks {
    pub(super) state: State<Owned>,
    pub(super) cloud: Arc<dyn BlockCloud>,
    pub(super) settings: Settings,
    /// The public network, and when it was asked for.
    pub(super) network: Option<(Network, Instant)>,
    /// What it lists that cannot be read.
    pub(super) unread_of_network: Unread,
    /// The names of tags that the account knows. `None`: it was not asked yet.
    pub(super) tags: Option<BTreeSet<String>>,
    /// When a server of a Node was seen first that is not in the network, by its id.
    pub(super) non_members: HashMap<String, Instant>,
    /// Until when a network does not take changes, by its id.
    pub(super) busy: Pauses,
    /// Networks that have refused a change because of another one.
    one_at_a_time: HashSet<String>,
    /// Where blocks are bought, as the peer group has it.
    pub(super) location: Option<String>,
    /// Blocks that the cloud has failed at, until it is tried again.
    pub(super) failed: Pauses,
    /// Blocks, and servers, of which the cloud refuses a change.
    pub(super) refused_blocks: Refusals,
    pub(super) refused_servers: Refusals,
    /// Since when blocks are on their way.
    pub(super) transitions: Transitions<BlockStatus>,
    /// What was written on Nodes.
    pub(super) annotated: WrittenPeers,
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
        let machines = MemberResolver::new(inventory, CLOUD);
        Self {
            state: State::new(cluster, machines, identity, settings.flags.settle_time),
            cloud,
            settings,
            network: None,
            unread_of_network: Unread::default(),
            tags: None,
            non_members: HashMap::new(),
            busy: Pauses::default(),
            one_at_a_time: HashSet::new(),
            location: None,
            failed: Pauses::default(),
            refused_blocks: Refusals::new(POLL, FAILED),
            refused_servers: Refusals::new(POLL, FAILED),
            transitions: Transitions::default(),
            annotated: WrittenPeers::new(),
            metrics,
        }
    }

    pub(super) fn count(&self) {
        let blocks = self.state.blocks.iter();
        self.metrics.count(blocks.map(Owned::counted));
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

    pub(super) fn attached(&mut self, block: &str, network: &str) {
        let Some(Owned { block, .. }) = self.state.block_mut(block) else {
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
        if let Some(owned) = self.state.block_mut(block) {
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
        if let Some(owned) = self.state.block_mut(block) {
            owned.block.tags = tags;
            owned.owner = Owner::Marked;
        }
        self.count();
    }

    pub(super) fn released(&mut self, block: &str) {
        self.state.released(block);
        self.count();
        self.failed.forget(block);
    }

    /// A network does not take a change now, for so long.
    pub(super) fn set_busy(&mut self, network: &str, error: &CloudError) -> Duration {
        let mut blocks = self.state.blocks.iter();
        let is_slow = blocks.any(|owned| self.is_slow(&owned.block, network));
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
        let mut blocks = self.state.blocks.iter();
        blocks.any(|owned| self.is_moving(&owned.block, network))
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
