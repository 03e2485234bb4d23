//! What is remembered between passes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::super::api::Tag;
use super::super::model::{Block, BlockStatus, Holder, Network};
use super::node_peers::WrittenPeers;
use super::ownership::{Owned, Owner};
use super::purchase::{Ours, Sent};
use super::seen::SeenServices;
use crate::cloud_api::{CloudError, ErrorKind};

/// How often the cloud is asked whether what it was told to do is done.
pub(super) const POLL: Duration = Duration::from_secs(2);
/// How old a listing is at most by which a block is put somewhere: another replica may just have done
/// it.
pub(super) const FRESH: Duration = Duration::from_millis(250);
/// How far apart the two listings are at least that do not have a block, before it counts as gone.
pub(super) const APART: Duration = Duration::from_secs(10);
/// After how long is told again what still holds.
const TELL_AGAIN: Duration = Duration::from_secs(3600);
/// The longest time between two attempts at what the cloud has failed at.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What is remembered.
#[derive(Debug)]
pub(super) struct State {
    /// The blocks of this cluster, from the last complete listing and what was done since; and when
    /// that listing was begun.
    pub(super) blocks: Option<(Vec<Owned>, Instant)>,
    /// The public network, and when it was asked for.
    pub(super) network: Option<(Network, Instant)>,
    /// What is older is not good enough even where nothing is to be done.
    pub(super) fresh_since: Instant,
    /// The names of tags that the account knows. `None`: it was not asked yet.
    pub(super) tags: Option<BTreeSet<String>>,
    /// Whether it is known which addresses were given out before this process.
    pub(super) is_seeded: bool,
    /// What each Service was given and does not say yet, by its UID.
    pub(super) given: HashMap<String, Ipv4Addr>,
    /// What each Service had when it was last looked at, by its UID.
    pub(super) had: HashMap<String, Ipv4Addr>,
    /// Each Service as it was when it was last looked at.
    pub(super) seen: SeenServices,
    /// Services whose block is gone for good, by UID.
    pub(super) lost: HashSet<String>,
    /// Since when the block of this address is missing.
    missing: HashMap<Ipv4Addr, Instant>,
    /// When a server of a Node was seen first that is not in the network, by its id.
    pub(super) non_members: HashMap<String, Instant>,
    /// Until when a network does not take changes, by its id.
    busy: HashMap<String, Instant>,
    /// Networks that have refused a change because of another one.
    one_at_a_time: HashSet<String>,
    /// The block that this process has bought last, and when.
    purchase: Option<(String, Instant)>,
    /// Where blocks are bought, as the peer group has it.
    pub(super) location: Option<String>,
    /// At what the cloud has failed, by block: how often in a row, and when to try again.
    failed: HashMap<String, (u32, Instant)>,
    /// Since when a block is one too many, by id.
    pub(super) surplus: BTreeMap<String, Instant>,
    /// What was last written as the L2Network.
    pub(super) segment: Option<Value>,
    /// What was written on Nodes.
    pub(super) annotated: WrittenPeers,
    /// How often it is still to be said that there is room: whoever is being refused at that moment
    /// hears it the second time.
    pub(super) freed: u8,
    /// What was told, and when.
    told: HashMap<String, Instant>,
    /// The right to buy, while this process has it and has not used it.
    pub(super) claim: Option<Ours>,
    /// The purchase that was sent last, until what was bought is listed.
    pub(super) sent: Option<Sent>,
    /// What this process has bought and no listing has shown yet, and when.
    pub(super) unlisted: Vec<(Owned, Instant)>,
}

/// What a listing says of an address that it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// Another listing is to say so too.
    Suspected,
    /// Two have said so.
    Certain,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            blocks: None,
            network: None,
            fresh_since: Instant::now(),
            tags: None,
            is_seeded: false,
            given: HashMap::new(),
            had: HashMap::new(),
            seen: SeenServices::default(),
            lost: HashSet::new(),
            missing: HashMap::new(),
            non_members: HashMap::new(),
            busy: HashMap::new(),
            one_at_a_time: HashSet::new(),
            purchase: None,
            location: None,
            failed: HashMap::new(),
            surplus: BTreeMap::new(),
            segment: None,
            annotated: WrittenPeers::new(),
            freed: 0,
            told: HashMap::new(),
            claim: None,
            sent: None,
            unlisted: Vec::new(),
        }
    }

    /// What is known of the cloud is not good enough any more.
    pub(super) fn expires(&mut self) {
        self.fresh_since = Instant::now();
    }

    /// The same of what is older than passes that wait are apart: they share what is listed for one.
    pub(super) fn expires_unless_recent(&mut self) {
        let recent = Instant::now().checked_sub(POLL);
        self.fresh_since = self.fresh_since.max(recent.unwrap_or(self.fresh_since));
    }

    /// Whether the last listing, begun after this purchase was sent, has what was bought.
    pub(super) fn shows(&self, sent: &Sent) -> bool {
        match sent.is_heard {
            true => self.unlisted.is_empty(),
            false => self
                .blocks
                .as_ref()
                .is_some_and(|(blocks, begun)| *begun >= sent.at && sent.is_among(blocks)),
        }
    }

    /// Somebody may have changed whatever is remembered.
    pub(super) fn starts_anew(&mut self) {
        self.expires();
        self.segment = None;
        self.annotated.clear();
    }

    /// Whether this was not told within the last hour.
    pub(super) fn is_news(&mut self, note: &str) -> bool {
        let now = Instant::now();
        self.told.retain(|_, at| now - *at < TELL_AGAIN);
        let is_news = !self.told.contains_key(note);
        if is_news {
            self.told.insert(note.to_owned(), now);
        }
        is_news
    }

    /// This server is a member of the network now.
    pub(super) fn joined(&mut self, server: &str) {
        if let Some((network, _)) = &mut self.network {
            network
                .servers
                .get_or_insert_default()
                .push(server.to_owned());
        }
    }

    /// A complete listing, begun then.
    pub(super) fn listed(&mut self, blocks: Vec<Owned>, begun: Instant) {
        self.seen.listed(begun);
        let has = |id: &String| blocks.iter().any(|owned| owned.block.id == *id);
        self.failed.retain(|id, _| has(id));
        self.surplus.retain(|id, _| has(id));
        self.missing
            .retain(|address, _| !blocks.iter().any(|o| o.block.cidr.contains(address)));
        for owned in &blocks {
            let is_failed = matches!(
                owned.block.status,
                BlockStatus::ErrorAssigning | BlockStatus::ErrorUnassigning
            );
            if !is_failed && !in_transit(&owned.block.status) {
                self.failed.remove(&owned.block.id);
            }
        }
        self.blocks = Some((blocks, begun));
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

    /// What is known of one block now.
    pub(super) fn changed(&mut self, id: &str, change: impl FnOnce(&mut Owned)) {
        if let Some((blocks, _)) = &mut self.blocks
            && let Some(owned) = blocks.iter_mut().find(|owned| owned.block.id == id)
        {
            change(owned);
        }
    }

    pub(super) fn bought(&mut self, owned: Owned) {
        self.purchase = Some((owned.block.id.clone(), Instant::now()));
        self.unlisted.push((owned.clone(), Instant::now()));
        if let Some((blocks, _)) = &mut self.blocks {
            blocks.retain(|other| other.block.id != owned.block.id);
            blocks.push(owned);
        }
    }

    pub(super) fn attached(&mut self, block: &str, network: &str) {
        self.changed(block, |owned| {
            owned.block.status = BlockStatus::Assigning;
            owned.block.holder = Some(Holder::PublicNetwork(network.to_owned()));
        });
        let cidr = self.block(block).map(|block| block.cidr);
        if let (Some((known, _)), Some(cidr)) = (&mut self.network, cidr)
            && known.id == network
            && !known.blocks.iter().any(|(id, _)| id == block)
        {
            known.blocks.push((block.to_owned(), cidr));
        }
    }

    pub(super) fn detached(&mut self, block: &str, network: &str) {
        self.changed(block, |owned| owned.block.status = BlockStatus::Unassigning);
        if let Some((known, _)) = &mut self.network
            && known.id == network
        {
            known.blocks.retain(|(id, _)| id != block);
        }
    }

    pub(super) fn released(&mut self, block: &str) {
        if let Some((blocks, _)) = &mut self.blocks {
            blocks.retain(|owned| owned.block.id != block);
        }
        self.failed.remove(block);
        self.surplus.remove(block);
        self.unlisted.retain(|(owned, _)| owned.block.id != block);
    }

    pub(super) fn block(&self, id: &str) -> Option<&Block> {
        let (blocks, _) = self.blocks.as_ref()?;
        let found = blocks.iter().find(|owned| owned.block.id == id);
        found.map(|owned| &owned.block)
    }

    /// Whose a block is, as far as that is known.
    pub(super) fn owner(&self, id: &str) -> Option<&Owner> {
        let (blocks, _) = self.blocks.as_ref()?;
        let found = blocks.iter().find(|owned| owned.block.id == id);
        found.map(|owned| &owned.owner)
    }

    /// Whether some block of the cluster is listed.
    pub(super) fn has_blocks(&self) -> bool {
        self.blocks.iter().any(|(blocks, _)| !blocks.is_empty())
    }

    /// Whether some block is to be given back.
    pub(super) fn has_marked(&self) -> bool {
        let mut blocks = self.blocks.iter().flat_map(|(blocks, _)| blocks);
        blocks.any(|owned| owned.owner == Owner::Marked)
    }

    /// The last listing does not have the block of this address.
    pub(super) fn misses(&mut self, address: Ipv4Addr) -> Absence {
        let Some((_, begun)) = &self.blocks else {
            return Absence::Suspected;
        };
        let since = *self.missing.entry(address).or_insert(*begun);
        if *begun >= since + APART {
            Absence::Certain
        } else {
            Absence::Suspected
        }
    }

    /// For how long a network does not take changes, if that is known.
    pub(super) fn is_busy(&self, network: &str) -> Option<Duration> {
        let until = self.busy.get(network)?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    pub(super) fn set_busy(&mut self, network: &str, pause: Duration) {
        self.busy.insert(network.to_owned(), Instant::now() + pause);
    }

    /// Whether this process has bought a block so recently that nobody else has put it anywhere.
    pub(super) fn has_just_bought(&self, block: &str) -> bool {
        let last = self.purchase.as_ref();
        last.is_some_and(|(id, at)| id == block && at.elapsed() < POLL)
    }

    /// A network has refused a change because of another one.
    pub(super) fn takes_one_change_at_a_time(&mut self, network: &str) {
        self.one_at_a_time.insert(network.to_owned());
    }

    /// Whether a network is known to refuse a change now, without being asked: one of our blocks is on
    /// its way, and it has refused for such a reason before.
    pub(super) fn is_at_work(&self, network: &str) -> bool {
        let mut blocks = self.blocks.iter().flat_map(|(blocks, _)| blocks);
        self.one_at_a_time.contains(network)
            && blocks.any(|owned| {
                let status = owned.block.status;
                matches!(status, BlockStatus::Assigning | BlockStatus::Unassigning)
            })
    }

    /// How long to wait before what has failed is tried again.
    pub(super) fn pause(&self, block: &str) -> Option<Duration> {
        let (_, at) = self.failed.get(block)?;
        let left = at.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// It is tried at a block that the cloud has failed at.
    pub(super) fn tries_again(&mut self, block: &str) {
        let entry = self
            .failed
            .entry(block.to_owned())
            .or_insert((0, Instant::now()));
        entry.0 = entry.0.saturating_add(1);
        let factor = 2_u32.saturating_pow(entry.0.min(8));
        entry.1 = Instant::now() + POLL.saturating_mul(factor).min(LONGEST_PAUSE);
    }

    /// The cache has caught up with what was given to this Service: from now on its record counts,
    /// whoever changes it.
    pub(super) fn recorded(&mut self, uid: &str, address: Option<Ipv4Addr>) {
        if address.is_some() && self.given.get(uid).copied() == address {
            self.given.remove(uid);
        }
    }

    /// A block is nobody's any more: what failed for its Service's sake is tried anew for its own.
    pub(super) fn marked(&mut self, block: &str, tags: Vec<Tag>) {
        self.failed.remove(block);
        self.changed(block, |owned| {
            owned.block.tags = tags;
            owned.owner = Owner::Marked;
        });
    }

    pub(super) fn forget(&mut self, uid: &str) {
        self.given.remove(uid);
        self.had.remove(uid);
        self.seen.forget(uid);
        self.lost.remove(uid);
    }
}

/// Whether the cloud is at work on it.
fn in_transit(status: &BlockStatus) -> bool {
    matches!(
        status,
        BlockStatus::Creating | BlockStatus::Assigning | BlockStatus::Unassigning
    )
}

/// What is said while somebody else works with the state: it is heeded before the next does.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Services as this process has written them.
    pub(super) written: Vec<Written>,
    /// Services that are no more, by UID.
    pub(super) gone: Vec<String>,
    /// What is known is to be looked at anew.
    pub(super) anew: bool,
}

/// A Service as this process has written it.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) uid: String,
    /// `metadata.resourceVersion`.
    pub(super) version: String,
}
