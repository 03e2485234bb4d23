//! What is heard of one other member.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::protocol::decision::Path;
use crate::protocol::message::{Digest, Echo, Epoch, Heartbeat, Incarnation, Key, NodeId, Owned};
use crate::protocol::time::Moment;

/// How many claims of a member are told from one another.
const CLAIMS: usize = 32;
/// A copy that is so many messages older than the newest on the other path is a recording.
const COPIES: u64 = 16;
/// For how long it counts what a member has said of another.
const ECHOES_LAST: Duration = Duration::from_millis(300);
/// How many earlier runs of a daemon are remembered, so that nothing of theirs counts again.
const FORMER_RUNS: usize = 8;

/// Something for each path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PerPath<T> {
    pub(super) segment: T,
    pub(super) node_network: T,
}

impl<T> PerPath<T> {
    pub(super) const fn of(&mut self, path: Path) -> &mut T {
        match path {
            Path::Segment => &mut self.segment,
            Path::NodeNetwork => &mut self.node_network,
        }
    }
}

/// Which of the newest 64 sequence numbers have been seen: nothing counts twice, and what is older
/// than that does not count at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    newest: u64,
    seen: u64,
}

impl Window {
    /// Nothing up to this number counts.
    const fn after(newest: u64) -> Self {
        Self {
            newest,
            seen: u64::MAX,
        }
    }

    /// Whether this one was seen, or is too old to tell.
    const fn has(&self, seq: u64) -> bool {
        if seq > self.newest {
            return false;
        }
        let back = self.newest - seq;
        back >= 64 || (self.seen >> back) & 1 == 1
    }

    /// Marks it as seen; whether it was not.
    const fn mark(&mut self, seq: u64) -> bool {
        if self.has(seq) {
            return false;
        }
        if seq > self.newest {
            let ahead = seq - self.newest;
            self.seen = if ahead >= 64 { 0 } else { self.seen << ahead };
            self.newest = seq;
            self.seen |= 1;
        } else {
            self.seen |= 1 << (self.newest - seq);
        }
        true
    }
}

/// A set as a member has stated it, whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stated {
    /// Sets of one run are ordered by this.
    pub(super) revision: u64,
    pub(super) digest: Digest,
    pub(super) keys: BTreeSet<Key>,
}

/// What was let go, and for whom.
pub(super) type Released = Vec<(Key, Option<NodeId>)>;

/// The parts of a set, as they come in.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Assembly {
    revision: u64,
    parts: u16,
    keys: BTreeMap<u16, Vec<Key>>,
    released: Released,
    lapsed: bool,
}

/// What somebody said of another, in which of its messages, and when that was heard.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Said {
    echo: Echo,
    seq: u64,
    at: Moment,
}

impl Said {
    fn lasts(&self, now: Moment) -> bool {
        self.at + ECHOES_LAST > now
    }

    /// Whether a message that is heard now says something later.
    fn gives_way(&self, seq: u64, now: Moment) -> bool {
        self.seq <= seq || !self.lasts(now)
    }
}

/// One other member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Peer {
    pub(super) incarnation: Incarnation,
    former_runs: Vec<(Incarnation, u64)>,
    /// The highest epoch known of it, in whichever run.
    pub(super) epoch: Epoch,
    /// The highest epoch of this run: what it said under an earlier one is void.
    pub(super) run_highest: Epoch,
    /// The epoch that this run states; zero while it has none.
    pub(super) run_epoch: Epoch,
    windows: PerPath<Window>,
    /// When something was last heard.
    pub(super) heard: PerPath<Option<Moment>>,
    /// Since when it has been heard without a pause.
    pub(super) steady_since: Moment,
    /// The sequence number of its newest heartbeat.
    pub(super) newest: u64,
    #[serde(serialize_with = "store", deserialize_with = "load")]
    pub(super) last: Arc<Heartbeat>,
    /// What it has lately said of others.
    #[serde(default)]
    echoes: BTreeMap<NodeId, Said>,
    /// The generation of voters that it serves.
    pub(super) generation: u64,
    pub(super) stated: Stated,
    assembly: Option<Assembly>,
    /// In which message each of its claims was last heard.
    claims: BTreeMap<u32, u64>,
    /// In which message it last let any key go.
    #[serde(default)]
    pub(super) let_go: u64,
    /// Since when it has stated a digest of a set that is not known here.
    pub(super) unknown_since: Option<Moment>,
    /// The run whose heartbeat was last refused since it is no news, and when.
    #[serde(default)]
    stale: Option<(Incarnation, Moment)>,
    /// It has not been heard for a while.
    pub(super) suspected: bool,
    /// Nor by most voters.
    pub(super) gone: bool,
    /// It does not count as connected to the node network before.
    #[serde(default)]
    pub(super) off_node_network_until: Moment,
}

fn store<S: Serializer>(heartbeat: &Arc<Heartbeat>, serializer: S) -> Result<S::Ok, S::Error> {
    heartbeat.serialize(serializer)
}

fn load<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Heartbeat>, D::Error> {
    Heartbeat::deserialize(deserializer).map(Arc::new)
}

impl Peer {
    pub(super) fn new(incarnation: Incarnation, now: Moment) -> Self {
        Self {
            incarnation,
            former_runs: Vec::new(),
            epoch: Epoch(0),
            run_highest: Epoch(0),
            run_epoch: Epoch(0),
            windows: PerPath::default(),
            heard: PerPath::default(),
            steady_since: now,
            newest: 0,
            last: Arc::default(),
            echoes: BTreeMap::new(),
            generation: 0,
            stated: Stated::default(),
            assembly: None,
            claims: BTreeMap::new(),
            let_go: 0,
            unknown_since: None,
            stale: None,
            suspected: false,
            gone: false,
            off_node_network_until: Moment::default(),
        }
    }

    /// When anything was last heard, on either path.
    pub(super) fn last_heard(&self) -> Moment {
        let Self { heard, .. } = self;
        heard.segment.max(heard.node_network).unwrap_or_default()
    }

    /// Takes in what a heartbeat says of others. It need not speak of all of them, and may have been
    /// overtaken by one that speaks of others.
    pub(super) fn note_echoes(&mut self, seq: u64, heartbeat: &Heartbeat, at: Moment) {
        for echo in &heartbeat.echoes {
            let said = Said {
                echo: *echo,
                seq,
                at,
            };
            match self.echoes.entry(echo.node) {
                Entry::Vacant(place) => {
                    place.insert(said);
                }
                Entry::Occupied(mut place) if place.get().gives_way(seq, at) => {
                    place.insert(said);
                }
                Entry::Occupied(_) => {}
            }
        }
        if self.echoes.len() > heartbeat.echoes.len() {
            self.echoes.retain(|_, said| said.lasts(at));
        }
    }

    /// Whether no later message than this one, which is heard now, speaks of a node.
    pub(super) fn has_said_nothing_since(&self, node: NodeId, seq: u64, now: Moment) -> bool {
        let said = self.echoes.get(&node);
        said.is_none_or(|said| said.gives_way(seq, now))
    }

    /// What it says of others.
    pub(super) fn echoes(&self, now: Moment) -> impl Iterator<Item = &Echo> {
        let lasting = self.echoes.values().filter(move |said| said.lasts(now));
        lasting.map(|said| &said.echo)
    }

    /// Whether it says that it hears anybody but this node on the segment, and has said so since then.
    pub(super) fn hears_others_on_segment(&self, me: NodeId, since: Moment, now: Moment) -> bool {
        let said = self.echoes.values();
        let mut lasting = said.filter(|said| said.lasts(now) && said.at >= since);
        lasting.any(|said| said.echo.node != me && said.echo.on_segment)
    }

    /// When it was last heard on the segment.
    pub(super) const fn last_heard_on_segment(&self) -> Option<Moment> {
        self.heard.segment
    }

    /// Whether anything was heard on the segment since then.
    pub(super) fn heard_on_segment_since(&self, since: Moment) -> bool {
        self.heard.segment.is_some_and(|at| at >= since)
    }

    /// Whether it is on the node network, as far as it has said.
    pub(super) fn is_on_node_network(&self, now: Moment) -> bool {
        !self.last.flags.node_network_down && self.off_node_network_until <= now
    }

    /// Whether this run was replaced by another. Should it be heard once more, with a message that
    /// it had not sent before, while the other is silent, then the other was a replay.
    pub(super) fn is_former(&self, incarnation: Incarnation, seq: u64) -> bool {
        self.former_runs
            .iter()
            .any(|(run, newest)| *run == incarnation && !(self.suspected && seq > *newest))
    }

    /// Takes in that a heartbeat of this run was no news: a recording, or the run has begun to count
    /// from the start.
    pub(super) const fn note_stale(&mut self, run: Incarnation, now: Moment) {
        self.stale = Some((run, now));
    }

    /// The run of which nothing but old heartbeats is heard.
    pub(super) fn stale_run(&self, now: Moment) -> Option<Incarnation> {
        let lately = |(_, at): &(Incarnation, Moment)| *at + ECHOES_LAST > now;
        let (run, _) = self.stale.filter(lately)?;
        self.suspected.then_some(run)
    }

    /// Goes over to another run of the same node's daemon. What the former one says is void.
    pub(super) fn restart(&mut self, incarnation: Incarnation, now: Moment) {
        let mut former_runs = std::mem::take(&mut self.former_runs);
        let known = former_runs
            .iter()
            .position(|(run, _)| *run == incarnation)
            .map(|index| former_runs.remove(index).1);
        let newest = self
            .windows
            .segment
            .newest
            .max(self.windows.node_network.newest);
        former_runs.push((self.incarnation, newest));
        let window = Window::after(known.unwrap_or_default());
        if former_runs.len() > FORMER_RUNS {
            former_runs.remove(0);
        }
        *self = Self {
            former_runs,
            epoch: self.epoch,
            windows: PerPath {
                segment: window,
                node_network: window,
            },
            heard: self.heard,
            suspected: self.suspected,
            gone: self.gone,
            ..Self::new(incarnation, now)
        };
    }

    /// Marks a message as heard. `None`: a replay; else whether it is the first of its copies.
    ///
    /// On a path by which little came before, a recording is new. If it is a copy of what came by
    /// the other path long ago, it does not show that its sender lives.
    pub(super) fn mark(&mut self, path: Path, seq: u64, now: Moment) -> Option<bool> {
        if !self.windows.of(path).mark(seq) {
            return None;
        }
        let other = match path {
            Path::Segment => Path::NodeNetwork,
            Path::NodeNetwork => Path::Segment,
        };
        let other = *self.windows.of(other);
        let is_copy = other.has(seq);
        if is_copy && seq.saturating_add(COPIES) <= other.newest {
            return None;
        }
        *self.heard.of(path) = Some(now);
        Some(!is_copy)
    }

    /// Marks a claim as heard in this message; whether nothing newer of the same claim was, nor has
    /// the claimant let keys go since. A claim that comes in after its own withdrawal, or after what
    /// it won was let go again, would keep its keys from others.
    pub(super) fn mark_claim(&mut self, nonce: u32, seq: u64) -> bool {
        let newest = self.claims.entry(nonce).or_default();
        let is_newest = *newest <= seq && self.let_go <= seq;
        *newest = seq.max(*newest);
        while self.claims.len() > CLAIMS {
            self.claims.pop_first();
        }
        is_newest
    }

    /// Whether it could hold keys, and lives.
    pub(super) fn is_eligible(&self) -> bool {
        !self.suspected && self.can_hold()
    }

    /// Whether it could hold keys: it is fit, and hears the voters.
    pub(super) fn can_hold(&self) -> bool {
        self.is_fit() && self.last.flags.hears_quorum
    }

    /// Whether it has an epoch, and nothing that it says of its node speaks against it.
    pub(super) fn is_fit(&self) -> bool {
        let flags = self.last.flags;
        let hindered = flags.starting
            || flags.released
            || flags.draining
            || flags.vlan_down
            || flags.unfit
            || self.last.contact.mac.is_none();
        !hindered && self.run_epoch > Epoch(0)
    }

    /// Whether the set is known that its newest heartbeat speaks of.
    pub(super) fn is_known(&self) -> bool {
        self.last.digest == self.stated.digest
    }

    /// Takes a part of a set in. Once it is whole: the set that it replaces, what was let go, and
    /// whether by a lapse.
    pub(super) fn assemble(&mut self, owned: &Owned) -> Option<(Stated, Released, bool)> {
        if owned.revision <= self.stated.revision || owned.part >= owned.parts {
            return None;
        }
        if self
            .assembly
            .as_ref()
            .is_none_or(|assembly| assembly.revision < owned.revision)
        {
            self.assembly = Some(Assembly {
                revision: owned.revision,
                parts: owned.parts,
                ..Assembly::default()
            });
        }
        let assembly = self.assembly.as_mut()?;
        if assembly.revision != owned.revision || assembly.parts != owned.parts {
            return None;
        }
        if assembly.keys.contains_key(&owned.part) {
            return None;
        }
        assembly.keys.insert(owned.part, owned.keys.clone());
        assembly.released.extend_from_slice(&owned.released);
        assembly.lapsed |= owned.lapsed;
        if assembly.keys.len() < usize::from(assembly.parts) {
            return None;
        }
        let assembly = self.assembly.take()?;
        let keys: BTreeSet<Key> = assembly.keys.into_values().flatten().collect();
        let stated = Stated {
            revision: assembly.revision,
            digest: Digest::of(&keys),
            keys,
        };
        let old = std::mem::replace(&mut self.stated, stated);
        Some((old, assembly.released, assembly.lapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_drops_duplicates() {
        let mut window = Window::default();
        assert!(window.mark(1));
        assert!(window.mark(3));
        assert!(!window.mark(3));
        assert!(window.mark(2), "late, but new");
        assert!(!window.mark(2));
        assert!(window.mark(100));
        assert!(!window.mark(3), "too old to tell");
        assert!(window.mark(99));
    }

    #[test]
    fn replay_on_other_path_is_no_sign_of_life() {
        let mut peer = Peer::new(Incarnation(1), Moment(1));
        for seq in 1..=40 {
            assert_eq!(peer.mark(Path::NodeNetwork, seq, Moment(seq)), Some(true));
        }
        assert_eq!(peer.mark(Path::Segment, 24, Moment(100)), None);
        assert_eq!(peer.last_heard(), Moment(40));
        assert_eq!(peer.mark(Path::Segment, 25, Moment(101)), Some(false));
        assert_eq!(peer.last_heard(), Moment(101));
    }

    #[test]
    fn release_voids_earlier_claim() {
        let mut peer = Peer::new(Incarnation(1), Moment(1));
        assert!(peer.mark_claim(1, 10));
        assert!(peer.mark_claim(1, 12));
        assert!(!peer.mark_claim(1, 11), "older than another of its copies");
        peer.let_go = 15;
        assert!(!peer.mark_claim(1, 14));
        assert!(!peer.mark_claim(2, 13));
        assert!(peer.mark_claim(2, 16));
    }
}
