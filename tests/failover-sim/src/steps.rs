//! What happens to the simulation from outside, one thing at one instant.

use mooring_node::protocol::{Body, Path, Weight};

use super::clock::Instant;
use super::network::Nodes;
use super::objects::Spots;

/// One thing that happens. Those with `on` begin or end; what several causes keep up lasts until
/// the last of them has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The segment is cut between these nodes and all others, with whom the gateway is.
    CutSegment { nodes: Nodes, on: bool },
    /// The node network is cut between these nodes and all others.
    CutNodeNetwork { nodes: Nodes, on: bool },
    /// What `from` send on a path does not reach `to`. Clients of the segment hear them.
    Blind {
        from: Nodes,
        to: Nodes,
        path: Path,
        on: bool,
    },
    /// What a node sends on the segment is lost.
    TransmitDead { node: usize, on: bool },
    /// What a node should hear on the segment is lost.
    ReceiveDead { node: usize, on: bool },
    /// A node's link to the segment is down.
    LinkDown { node: usize, on: bool },
    /// The gateway does not answer these.
    GatewayAway { nodes: Nodes, on: bool },
    /// These do not reach the API server.
    ApiAway { nodes: Nodes, on: bool },
    /// The API server does what these ask for, but its answers do not reach them.
    AnswersLost { nodes: Nodes, on: bool },
    /// These are told nothing new by the API server, though it answers them.
    StaleView { nodes: Nodes, on: bool },
    /// A Node is to carry no more traffic.
    Drain { node: usize, on: bool },
    /// A node's service proxy does not work.
    Unfit { node: usize, on: bool },
    /// More is lost of what these send and should hear: so many of a thousand.
    Lossy {
        nodes: Nodes,
        thousandths: u16,
        on: bool,
    },
    /// What these send and should hear takes up to so much longer.
    Slow {
        nodes: Nodes,
        delay: Instant,
        on: bool,
    },
    /// What one sends to another on a path takes exactly so much longer.
    Delay {
        from: usize,
        to: usize,
        path: Path,
        delay: Instant,
    },
    /// Messages of one kind that `from` send do not reach `to`, on either path.
    Drop {
        from: Nodes,
        to: Nodes,
        kind: Kind,
        on: bool,
    },
    /// The daemon is gone at once; its node goes on, or not. Counted: see [`Step::Up`].
    Down { node: usize, power: bool },
    /// One cause less for the daemon to be gone. It starts when there is none left.
    Up { node: usize, memory: bool },
    /// The daemon is told to end.
    End { node: usize },
    /// The daemon is stopped, with a frame between the check and the sending, or not.
    Pause { node: usize, frame_in_hand: bool },
    /// It goes on.
    Resume { node: usize },
    /// Another process takes the daemon's place, after so much time, as the same member.
    Upgrade { node: usize, gap: Instant },
    /// A Node is added to the cluster, and its daemon starts.
    Join { node: usize },
    /// A Node is removed from the cluster, and its daemon told to end.
    Leave { node: usize },
    /// There is something to speak for, or no more.
    KeyThere { key: usize, on: bool },
    /// These may hold a key; `None`: all.
    Candidates { key: usize, nodes: Option<Nodes> },
    /// A Service has these addresses from now on.
    Readdress { service: usize, spots: Spots },
    /// A Node has not the label that the L2Network's selector asks for.
    Unlabel { node: usize, on: bool },
    /// A Node object is not there, although its daemon runs.
    Unregister { node: usize, on: bool },
    /// The L2Network is deleted, or (with a UID) made anew.
    Network { uid: Option<u64> },
    /// The API server holds what it held so long ago.
    Restore { back: Instant },
    /// A node's weight in the choice of holders.
    Weight { node: usize, weight: Weight },
    /// Messages that were recorded are sent again, in another order, to anybody.
    Replay { messages: usize },
    /// All that `from` has sent between two instants reaches `to` again, at the pace at which it was
    /// sent, from now on.
    PlayBack {
        from: usize,
        to: usize,
        since: Instant,
        until: Instant,
    },
}

impl Step {
    /// Whether it changes who can hear, speak or decide. After it the simulation has a while to settle.
    #[must_use]
    pub const fn disturbs(&self) -> bool {
        !matches!(
            self,
            Self::Replay { .. } | Self::PlayBack { .. } | Self::Weight { .. }
        )
    }
}

/// A kind of messages that can be lost by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Statements of whole sets.
    Owned,
}

impl Kind {
    /// Whether a message is of this kind.
    #[must_use]
    pub const fn is(self, body: &Body) -> bool {
        match self {
            Self::Owned => matches!(body, Body::Owned(_)),
        }
    }
}
