//! What a member is told from outside.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::message::{Contact, Key, KeyId, NodeId, VoterSet, hash};
use super::weight::Weight;

/// What is to be spoken for on the segment, as the API objects say. It is the slow truth: it may
/// differ between nodes for a while, and may be old while the API server is away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The keys, each with who may hold it.
    pub keys: BTreeMap<Key, Wanted>,
    /// The voters as the L2Network's status names them; `None`: not read yet.
    pub voters: Option<VoterSet>,
    /// Who votes is decided elsewhere, from files ([`super::members`]): no set is proposed, and the first is not
    /// taken from other members.
    #[serde(default)]
    pub voters_from_file: bool,
    /// The set that this node approves next, where they come from files.
    #[serde(default)]
    pub accepted: Option<VoterSet>,
    /// The next voters that each node approves, as the L2Network's status says.
    #[serde(default)]
    pub approvals: BTreeMap<NodeId, VoterSet>,
    /// Nodes that are or may be on the segment, and witnesses: whom to reach on the node network
    /// although they have not been heard.
    pub known: BTreeMap<NodeId, Contact>,
}

impl View {
    /// The group of a key. One that is not known here is a group of its own.
    #[must_use]
    pub fn group_of(&self, key: Key) -> Group {
        let wanted = self.keys.get(&key);
        wanted.map_or_else(|| Group::alone(key), |wanted| wanted.group)
    }
}

/// A key that somebody is to hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Who may.
    pub candidates: Candidates,
    /// Those of one group had better be on one node.
    pub group: Group,
    /// Whether this node can serve it by now, as far as its service proxy says. Before that it does not
    /// take it; what it holds it keeps.
    pub ready: bool,
    /// This node has spoken for it, in this process or in one before it: the address is not another host's.
    #[serde(default)]
    pub spoken_here: bool,
}

impl Wanted {
    /// A key that is in no group with any other.
    #[must_use]
    pub const fn alone(key: Key, candidates: Candidates) -> Self {
        Self {
            candidates,
            group: Group::alone(key),
            ready: true,
            spoken_here: false,
        }
    }

    /// Whether `me`, whose view this is, may take it.
    #[must_use]
    pub fn may_go_to(&self, me: NodeId) -> bool {
        self.ready && self.candidates.include(me)
    }
}

/// Keys that had better be on one node: the addresses of one Service, and of Services that share one.
///
/// Where a key goes that nobody holds follows from its group. Who may speak for it does not: nodes
/// need not agree on groups.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Group(pub u64);

impl Group {
    /// That of the group with this name: it stays the same when an address of it changes.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self(hash(&[name.as_bytes()]))
    }

    /// That of a key alone.
    #[must_use]
    pub const fn alone(key: Key) -> Self {
        Self(key.0)
    }
}

/// Who may hold a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Candidates {
    /// Every member.
    All,
    /// These: the Nodes with endpoints of a `Local` Service.
    Only(BTreeSet<NodeId>),
}

impl Candidates {
    /// Whether this Node may hold the key.
    #[must_use]
    pub fn include(&self, node: NodeId) -> bool {
        match self {
            Self::All => true,
            Self::Only(nodes) => nodes.contains(&node),
        }
    }
}

/// The state of this node, as far as the protocol looks at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub struct Local {
    /// The interface of the segment is up and can be spoken on. Never so for a witness.
    pub link_up: bool,
    /// The Node is to carry no more traffic.
    pub draining: bool,
    /// The daemon ends: everything is handed over, and then [`super::Machine::has_ended`].
    pub ending: bool,
    /// The service proxy works, as far as anybody can tell.
    pub service_proxy_works: bool,
    /// Its weight in the choice of holders.
    pub weight: Weight,
    /// How it is reached, which its heartbeats state.
    pub contact: Contact,
    /// The secrets that it holds, newest first.
    pub secrets: Vec<KeyId>,
    /// Whether the segment has a gateway that could answer.
    pub has_gateway: bool,
}

impl Default for Local {
    fn default() -> Self {
        Self {
            link_up: false,
            draining: false,
            ending: false,
            service_proxy_works: true,
            weight: Weight::USUAL,
            contact: Contact::default(),
            secrets: Vec::new(),
            has_gateway: false,
        }
    }
}

/// What the API server has answered to a [`super::Request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiAnswer {
    /// The voters as they are now, by a quorum read that began when the request was made.
    Voters(VoterSet),
    /// The proposed voters are written.
    Written(VoterSet),
    /// The proposed voters are not written yet: too few approve them. That this node does is.
    Awaiting(VoterSet),
    /// That this node approves is written.
    Approved,
    /// Another was faster: these are the voters now.
    Conflict(VoterSet),
    /// Which of the Nodes asked about have not renewed their Lease for 30 s (or have none).
    LeasesUnchanged(BTreeSet<NodeId>),
    /// It cannot be reached, or refuses.
    Unreachable,
}
