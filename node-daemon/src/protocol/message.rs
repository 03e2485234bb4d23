//! What members say to each other.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::mac::Mac;
use super::random::mix;
use super::weight::Weight;

/// A Node, by the first eight bytes of the SHA-256 of its name.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct NodeId(pub u64);

impl NodeId {
    /// That of the Node of this name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self(hash(&[name.as_bytes()]))
    }
}

/// An address that one node at most speaks for, by a hash of the segment's name and the address. It is
/// the same in whatever view, so that nodes whose views differ still exclude each other.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Key(pub u64);

impl Key {
    /// That of the address on the segment.
    #[must_use]
    pub fn of(segment: &str, address: IpAddr) -> Self {
        let address = address.to_string();
        Self(hash(&[segment.as_bytes(), b"/", address.as_bytes()]))
    }
}

/// The first eight bytes of a SHA-256.
pub(super) fn hash(parts: &[&[u8]]) -> u64 {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update(part);
    }
    let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(sha.finalize());
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// One run of a daemon, told from others by a random number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Incarnation(pub u64);

/// How many times a Node has joined a segment. What a Node says under an earlier one is void.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Epoch(pub u32);

/// A hash of a set of keys.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Digest(pub u64);

impl Digest {
    /// The digest of a set. That of the empty set is zero.
    #[must_use]
    pub fn of<'a>(keys: impl IntoIterator<Item = &'a Key>) -> Self {
        // The sum of well mixed keys does not depend on their order.
        Self(
            keys.into_iter()
                .fold(0, |sum: u64, key| sum.wrapping_add(mix(key.0))),
        )
    }

    /// The digest of the set with this key too.
    #[must_use]
    pub const fn with(self, key: Key) -> Self {
        Self(self.0.wrapping_add(mix(key.0)))
    }

    /// The digest of the set without this key.
    #[must_use]
    pub const fn without(self, key: Key) -> Self {
        Self(self.0.wrapping_sub(mix(key.0)))
    }
}

/// A secret that heartbeats are signed with, by the first bytes of its SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyId(pub u32);

/// Who votes on a segment. Of one generation there is one set, whoever tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VoterSet {
    /// Goes up by one with each change; zero: there is none yet.
    pub generation: u64,
    /// At most seven.
    pub voters: BTreeSet<NodeId>,
    /// Of two voters, the one that may go on alone.
    pub primary: Option<NodeId>,
}

impl VoterSet {
    /// The largest number of voters.
    pub const MOST: usize = 7;

    /// How many voters make a majority.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// What stands for exactly this set in [`Heartbeat::approved`].
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let numbers = [self.generation].into_iter();
        let voters = self.voters.iter().map(|node| node.0);
        let primary = self.primary.map(|node| node.0);
        let bytes: Vec<u8> = numbers
            .chain(voters)
            .chain(primary)
            .flat_map(u64::to_be_bytes)
            .collect();
        // Zero stands for no set.
        hash(&[&bytes]).max(1)
    }
}

/// One message, with what every message bears.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// Who says it.
    pub from: NodeId,
    /// In which run of its daemon.
    pub incarnation: Incarnation,
    /// Under which epoch; zero while it has none.
    pub epoch: Epoch,
    /// The sender's counter of all its messages on this segment in this incarnation.
    pub seq: u64,
    /// The generation of voters that the sender serves.
    pub generation: u64,
    /// What it says.
    pub body: Body,
}

impl Message {
    /// The most keys in one body, so that it fits a frame. Of a grant, this is what it grants and
    /// refuses together. A part of a set may have as many again, if it fits.
    pub const MOST_KEYS: usize = 128;
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// I live; this is what I hold, and whom I hear.
    Heartbeat(Arc<Heartbeat>),
    /// This is the whole of what I hold from now on. It comes in parts; it counts once all parts
    /// of one `revision` are there.
    Owned(Arc<Owned>),
    /// I want to hold these keys.
    Claim(Claim),
    /// These you may hold, as far as I am asked.
    Grant(Grant),
    /// You are to hold these in my place.
    HandOver {
        /// Tells this hand-over from others of the same sender.
        nonce: u32,
        /// The new holder.
        target: NodeId,
        /// What is handed over.
        keys: Vec<Key>,
        /// Whether neighbours are to be told: the old holder's node is going away.
        loud: bool,
    },
    /// I can hold these as soon as you let go.
    Ready {
        /// That of the hand-over.
        nonce: u32,
        /// The old holder.
        to: NodeId,
        /// Those of the keys that the sender takes.
        keys: Vec<Key>,
    },
    /// My kernel passes on to you what is not mine of these keys, and nothing that comes from members. It
    /// is said before [`Self::Ready`], which says nothing of it.
    Prepared {
        /// That of the hand-over.
        nonce: u32,
        /// The old holder.
        to: NodeId,
        /// Those of the keys for which it is so.
        keys: Vec<Key>,
    },
    /// A frame about these keys left after my right to them had ended.
    SpokeLate {
        /// What was spoken about.
        keys: Vec<Key>,
    },
    /// So many connections of these keys, which I have handed over, run through my node.
    Connections {
        /// Who speaks for them now.
        to: NodeId,
        /// How many of each.
        counts: Vec<(Key, u32)>,
    },
}

impl Body {
    /// The most counts in one [`Body::Connections`], so that it fits a frame.
    pub const MOST_COUNTS: usize = 100;
}

/// What a member says of itself. Whoever has none of these flags is a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent flags on the wire"
)]
pub struct Flags {
    /// It has no epoch yet.
    pub starting: bool,
    /// It has lost its epoch.
    pub released: bool,
    /// Its Node is to carry no more traffic, or its daemon ends.
    pub draining: bool,
    /// It cannot be heard, or hear, on the segment itself. Witnesses say so always.
    pub vlan_down: bool,
    /// Its service proxy does not work.
    pub unfit: bool,
    /// It hears a majority of the voters, and they hear it.
    pub hears_quorum: bool,
    /// It has never heard anybody on the segment itself, although others live.
    pub segment_filtered: bool,
    /// It has heard nobody on the node network for a while, although it hears others on the segment.
    /// A daemon of a former version saves its state without it.
    #[serde(default)]
    pub node_network_down: bool,
}

/// I live.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Heartbeat {
    /// What it says of itself.
    pub flags: Flags,
    /// Its weight in the choice of holders.
    pub weight: Weight,
    /// The digest of what it holds.
    pub digest: Digest,
    /// How many keys that is.
    pub count: u32,
    /// The voters that it serves. `Message::generation` is theirs.
    pub voters: VoterSet,
    /// The newest generation that it has served for long enough that nothing older can count.
    pub settled: u64,
    /// The runs of the voters that it has heard.
    pub incarnations: Vec<(NodeId, Incarnation)>,
    /// Of voters: whom they hear, and whom they do not although they should. Where there are more
    /// than fit one, each of several heartbeats has some; and what goes to one member by the node
    /// network has the echo of that one, and some others.
    pub echoes: Vec<Echo>,
    /// Whom it has not heard for a while.
    pub suspects: Vec<NodeId>,
    /// The secrets that it accepts, newest first.
    pub secrets: Vec<KeyId>,
    /// How it is reached.
    pub contact: Contact,
    /// Where voters come from files: which set it approves next ([`VoterSet::fingerprint`]); zero: none.
    pub approved: u64,
}

impl Heartbeat {
    /// The most echoes in one, so that it fits a frame.
    pub const MOST_ECHOES: usize = 26;
    /// The most suspects in one.
    pub const MOST_SUSPECTS: usize = 16;
    /// The most secrets in one.
    pub const MOST_SECRETS: usize = 8;
}

/// How a member is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Contact {
    /// Its MAC address on the segment; none: it is not on the segment, a witness.
    pub mac: Option<Mac>,
    /// Addresses of its own on the segment, which its kernel answers for: at most one of each
    /// family.
    pub own_addresses: Vec<IpAddr>,
    /// Where it hears messages on the node network.
    pub node_network: Option<SocketAddr>,
    /// A hash of its failure domain (`topology.kubernetes.io/zone`).
    pub zone: u32,
}

/// What a voter has last heard of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Echo {
    /// Of whom.
    pub node: NodeId,
    /// The highest epoch that the voter knows of it.
    pub epoch: Epoch,
    /// Of which run of it.
    pub incarnation: Incarnation,
    /// Whether heartbeats were heard on the segment itself within the last 300 ms.
    pub on_segment: bool,
    /// What the voter promises.
    pub answer: Answer,
}

/// What a voter promises about a node's heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Answer {
    /// Nothing: it has heard nothing within the promise, or is not awake yet.
    None,
    /// The heartbeat with this sequence number (its low 32 bits) and this digest counts.
    Accepted {
        /// Low 32 bits of the sequence number.
        seq: u32,
        /// Of the set that the voter holds for the node.
        digest: Digest,
    },
    /// It holds no set with the digest that the node states.
    Unknown,
    /// Its set has a key that the voter has promised to another.
    Refused {
        /// The other.
        holder: NodeId,
    },
    /// Nothing: all that the voter has lately heard of this run is older than what it knows.
    Stale,
}

/// A whole set, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owned {
    /// The `seq` of the first message that stated this set: it orders sets of one incarnation.
    pub revision: u64,
    /// Which part, from zero.
    pub part: u16,
    /// How many parts.
    pub parts: u16,
    /// The keys of this part.
    pub keys: Vec<Key>,
    /// What was let go since the last revision that all voters have, and for whom.
    pub released: Vec<(Key, Option<NodeId>)>,
    /// Whether it was let go because the right to it had run out.
    pub lapsed: bool,
}

impl Owned {
    /// The most bytes of keys (8 each) and of what was released (17 each) in one part, so that it
    /// fits a frame.
    pub const MOST_BYTES: usize = 1300;
}

/// Wanting keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Tells this claim from others of the same sender.
    pub nonce: u32,
    /// What is wanted.
    pub keys: Vec<Key>,
    /// Who has let go of them, and in which message: for voters that have not heard it.
    pub released_by: Option<(NodeId, Incarnation, u64)>,
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Who claimed.
    pub to: NodeId,
    /// In which run of its daemon.
    pub incarnation: Incarnation,
    /// The claim's.
    pub nonce: u32,
    /// What is reserved for it.
    pub granted: Vec<Key>,
    /// What is not, and who has it.
    pub refused: Vec<(Key, NodeId)>,
}
