//! What a member wants done.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::mac::Mac;
use super::message::{Key, Message, NodeId, VoterSet};
use super::time::Moment;

/// The two ways between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// The segment itself: what clients use.
    Segment,
    /// The node network, by UDP.
    NodeNetwork,
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// What to send.
    pub message: Message,
    /// To whom.
    pub to: Destination,
}

/// To whom a message goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To all on the segment, by multicast.
    Segment,
    /// To these, by UDP on the node network.
    NodeNetwork(Vec<NodeId>),
}

/// How to begin to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AnnounceMode {
    /// Announce the address to all neighbours.
    #[serde(rename = "Loud")]
    Unsolicited,
    /// Only answer requests: the last speaker's node still forwards, and moving its flows would break them.
    #[serde(rename = "FormerSpeakers")]
    OnRequest,
}

/// Why an address is spoken for here, or no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// Nobody spoke for it.
    Unclaimed,
    /// Its speaker fell silent.
    TakenOver,
    /// Its speaker handed it over, or takes it over from here.
    HandedOver,
    /// Its last speaker is back.
    GivenBack,
    /// The right to it ran out here: too few voters were heard.
    Lapsed,
    /// This node cannot be heard on the segment.
    SegmentLost,
    /// The Services that have it are gone, or cannot be served here.
    Withdrawn,
    /// The daemon ends.
    Ended,
    /// The process before this one spoke for it.
    Inherited,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Speak for the key from now on, as long as [`super::Machine::permits`] says so.
    Begin {
        /// What.
        key: Key,
        /// How.
        mode: AnnounceMode,
        /// Why.
        cause: Cause,
        /// Who spoke before, as far as is known.
        former: Option<NodeId>,
        /// Since when nobody could be heard for it, if that is known.
        silent_since: Option<Moment>,
    },
    /// Say nothing more about the key.
    Stop {
        /// What.
        key: Key,
        /// Why.
        cause: Cause,
    },
    /// Tell everybody once more: neighbours may have learnt another MAC.
    Burst {
        /// What.
        key: Key,
    },
    /// Ask the API server; the answer goes to [`super::Machine::api_answered`].
    Ask(Request),
    /// Ask a node for its own addresses on the segment, by ARP or NS to its MAC address alone, and tell
    /// [`super::Machine::kernel_answered`] when it answers.
    ProbeKernel {
        /// Whose.
        node: NodeId,
        /// Which.
        addresses: Vec<IpAddr>,
    },
    /// Ask each of these stations, by its MAC address, for the address of a key, and tell
    /// [`super::Machine::address_answered`] when one answers.
    ProbeAddress {
        /// Which.
        key: Key,
        /// Whom.
        stations: BTreeSet<Mac>,
    },
    /// Ask everybody on the segment for the address of a key, without claiming it, and tell
    /// [`super::Machine::address_answered`] when somebody answers.
    ProbeSegment {
        /// Which.
        key: Key,
    },
    /// A station answers for the address of a key that no member is known to have spoken for: it is left to that.
    Conflict {
        /// Which.
        key: Key,
        /// Who; `None`: nobody any more.
        station: Option<Mac>,
    },
    /// Something happened that decides which connections stay with a former speaker.
    Connections(ConnectionEvent),
    /// Ask for the gateways by ARP or NS, and tell [`super::Machine::gateway_answered`].
    ProbeGateway,
    /// Something happened that is counted and logged.
    Note(Transition),
}

/// What a kernel is to do before a key moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Awaited {
    /// To pass on to this node, which offered the key, what is not known here.
    Offer(NodeId),
    /// To let through what this node, which is to have the key, passes on.
    HandOver(NodeId),
}

/// What decides which connections stay with a former speaker: who keeps them acts on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// A key was offered, and is taken after [`super::Machine::connections_prepared`], or a moment later.
    Offered {
        /// What.
        key: Key,
        /// Who speaks for it.
        former: NodeId,
    },
    /// A key that is spoken for here is about to be handed over to a node that will pass on to this one what
    /// it does not know. It is let go after [`super::Machine::connections_prepared`], or a moment later.
    HandingOn {
        /// What.
        key: Key,
        /// To whom.
        to: NodeId,
    },
    /// A key that was spoken for here was handed over.
    HandedOn {
        /// What.
        key: Key,
        /// To whom.
        to: NodeId,
        /// Whether the other one announces it.
        is_announced: bool,
    },
    /// The node of a former speaker forwards no more.
    Gone(NodeId),
    /// A former speaker has so many connections of its own.
    Counted {
        /// Who.
        from: NodeId,
        /// Of each key.
        counts: Vec<(Key, u32)>,
    },
}

/// A question to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Read the voters by a quorum read.
    ReadVoters,
    /// Replace the voters, provided that they are still of this generation, and that enough nodes
    /// approve what replaces them. If too few do, say that this node does.
    Propose {
        /// The generation that is replaced.
        replacing: u64,
        /// What replaces it.
        voters: VoterSet,
        /// Who must approve it.
        consent: Consent,
    },
    /// Say that this node approves these as the next voters.
    Approve(VoterSet),
    /// Find out whose Leases have not changed for 30 s.
    ReadLeases(Vec<NodeId>),
}

/// Who must approve other voters before they are written. Whoever writes them approves them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Nobody else: there are no voters yet, or two of which one may go on alone.
    Own,
    /// Most of these, who are served, and most of those who are stored.
    Most(BTreeSet<NodeId>),
    /// All that are named: they are the survivors of a lost majority.
    All,
}

/// The transitions of the machine, for metrics, the log and the simulator's counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transition {
    /// It has got an epoch.
    Joined,
    /// Its right to speak ran out.
    Lapsed,
    /// It let go since it is not heard on the segment.
    SegmentLost,
    /// It suspects somebody.
    Suspected(NodeId),
    /// It claimed.
    Claimed,
    /// As a voter it granted.
    Granted,
    /// As a voter it refused.
    Refused,
    /// It got a majority for a claim.
    ClaimWon,
    /// It withdrew a claim.
    ClaimLost,
    /// It began to hand over.
    HandOverBegun,
    /// What it handed over was taken.
    HandOverDone,
    /// Nobody took it in time.
    HandOverFailed,
    /// As a voter it woke up after its start.
    VoterAwake,
    /// It serves another generation of voters.
    GenerationAdopted,
    /// It proposed other voters.
    Proposed,
    /// It goes on as the primary of two.
    PrimaryAlone,
    /// Survivors go on through the API server.
    SurvivedViaApi,
    /// It dropped keys that voters refused.
    KeysDropped,
    /// It gave an address back to its last speaker.
    GivenBack,
    /// It moved an address to even out.
    Rebalanced,
    /// Others refused what it said as old, or it theirs: it has begun anew, as another run.
    BegunAnew,
    /// It dropped a message: replayed, of an old epoch, or for another incarnation.
    MessageDropped,
    /// It spoke after its right had ended.
    SpokeLate,
    /// Its link came and went too often.
    Damped,
}
