//! What a member is told from outside.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::message::{Contact, Key, KeyId, NodeId, VoterSet};

/// What is to be spoken for on the segment, as the API objects say. It is the slow truth: it may
/// differ between nodes for a while, and may be old while the API server is away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The keys, each with who may hold it.
    pub keys: BTreeMap<Key, Candidates>,
    /// The voters as the L2Network's status names them; `None`: not read yet.
    pub voters: Option<VoterSet>,
    /// Nodes that are or may be on the segment, and witnesses: whom to reach on the node network
    /// although they have not been heard.
    pub known: BTreeMap<NodeId, Contact>,
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
    /// Its weight in the choice of holders: 100 is usual.
    pub weight: u16,
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
            weight: 100,
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
    /// Another was faster: these are the voters now.
    Conflict(VoterSet),
    /// Which of the Nodes asked about have not renewed their Lease for 30 s (or have none).
    LeasesUnchanged(BTreeSet<NodeId>),
    /// It cannot be reached, or refuses.
    Unreachable,
}
