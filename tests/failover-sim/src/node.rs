//! One node of the simulation: its kernel, its clock, and the daemon in it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use mooring_node::protocol::mac::Mac;
use mooring_node::protocol::{
    ApiAnswer, Awaited, Contact, Key, Message, Moment, NodeId, Path, VoterSet, Weight,
};

use super::clock::{Clock, Instant, NEVER};
use super::objects::Objects;

/// What a process is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// A message has come.
    Message(Packet, Path),
    /// The API server has answered, to what was asked then.
    Answer(ApiAnswer, Moment),
    /// A node's kernel has answered for its own address.
    Kernel(NodeId),
    /// A station has answered for the address of a key.
    Address(Key, Mac),
    /// The gateway has answered.
    Gateway,
    /// The kernel does what a key's move waits for.
    Prepared(Awaited, Key),
    /// A frame of ARP has come, at that time.
    Frame(Vec<u8>, Moment),
    /// The API's objects are like this now.
    View(Arc<Objects>),
    /// They were like this when the process before this one saw them.
    SavedHealth(Arc<Objects>),
    /// The state of this node has changed.
    Local,
}

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Packet {
    /// What it says.
    pub message: Arc<Message>,
    /// The same in bytes, where whole daemons exchange it.
    pub bytes: Option<Arc<[u8]>>,
}

impl Packet {
    /// Whether these are its bytes.
    #[must_use]
    pub fn is(&self, bytes: &[u8]) -> bool {
        self.bytes.as_deref() == Some(bytes)
    }
}

/// How many messages a stopped process finds when it goes on: what a socket holds.
pub const SOCKET_HOLDS: usize = 256;

/// A daemon.
#[derive(Clone, Debug)]
pub struct Process<E> {
    /// What runs in it.
    pub engine: E,
    /// Tells this process from others.
    pub run: u32,
    /// When it started.
    pub started: Instant,
    /// When it will look at its machine's deadline.
    pub tick_at: Instant,
    /// The deadline that this is for, on its own clock.
    pub due: Moment,
    /// How often it did so at one instant.
    pub ticks_here: u32,
    /// Came while it was stopped.
    pub queue: Vec<Input>,
    /// A key about which a frame is between check and sending.
    pub frame_in_hand: Option<usize>,
    /// Whether it was told to end.
    pub ending: bool,
    /// Until when each key may be spoken for, as it last said, on its own clock.
    pub permits: Vec<Option<Moment>>,
    /// Whether it could speak for each key when that was last told of in a trace.
    pub spoken: Vec<bool>,
    /// Whether it is being replaced by another process of the same member.
    pub upgrading: bool,
    /// How many messages it has sent in this second of true time.
    pub sent: (u64, usize),
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node<E> {
    /// What others call it.
    pub id: NodeId,
    /// Its clock since its last boot.
    pub clock: Clock,
    /// How it is reached.
    pub contact: Contact,
    /// Whether its kernel runs: how many causes there are that it does not.
    pub unpowered: u8,
    /// How many causes there are that no daemon runs on it.
    pub down: u8,
    /// How many causes there are that its daemon is stopped.
    pub paused: u8,
    /// Whether the Node is in the cluster.
    pub present: bool,
    /// How many causes there are that it is to carry no traffic.
    pub draining: u8,
    /// The same, as its daemon knows.
    pub sees_draining: bool,
    /// How many causes there are that its service proxy does not work.
    pub unfit: u8,
    /// How many causes there are that it sees the API's objects as they were.
    pub stale: u8,
    /// Its weight in the choice of holders.
    pub weight: Weight,
    /// When its link went down of late.
    pub flaps: Vec<Instant>,
    /// Until when it may hold itself for unreliable.
    pub damped_until: Instant,
    /// The generation of voters that it last said it serves.
    pub generation: u64,
    /// Those voters.
    pub serves: VoterSet,
    /// Since when nothing but a fault of its network has kept it off the segment.
    pub on_segment_since: Instant,
    /// How many causes there are that its Node has not the label of the segment.
    pub unlabelled: u8,
    /// How many causes there are that its Node object is not there.
    pub unregistered: u8,
    /// The version of the API's objects that its daemon knows.
    pub version: u64,
    /// Which L2Network its daemon has last seen.
    pub network: Option<u64>,
    /// The last objects that it has seen, kept across restarts.
    pub memory: Option<Arc<Objects>>,
    /// The daemon.
    pub process: Option<Box<Process<E>>>,
}

impl<E> Node<E> {
    /// A node without a daemon.
    #[must_use]
    pub fn new(number: usize, id: NodeId, clock: Clock, on_segment: bool) -> Self {
        let last = u8::try_from(number + 1).unwrap_or(u8::MAX);
        let contact = Contact {
            mac: on_segment.then(|| Mac::new([2, 0, 0, 0, 0, last])),
            own_addresses: if on_segment {
                vec![IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))]
            } else {
                Vec::new()
            },
            node_network: Some(SocketAddr::from(([10, 1, 0, last], 10_268))),
            zone: u32::from(last % 3),
        };
        Self {
            id,
            clock,
            contact,
            unpowered: 0,
            down: 0,
            paused: 0,
            present: true,
            draining: 0,
            sees_draining: false,
            unfit: 0,
            stale: 0,
            weight: Weight::USUAL,
            flaps: Vec::new(),
            damped_until: 0,
            generation: 0,
            serves: VoterSet::default(),
            on_segment_since: 0,
            unlabelled: 0,
            unregistered: 0,
            version: 0,
            network: None,
            memory: None,
            process: None,
        }
    }

    /// Whether it is on the segment.
    #[must_use]
    pub const fn is_on_segment(&self) -> bool {
        self.contact.mac.is_some()
    }

    /// Whether its daemon runs, and is not stopped.
    #[must_use]
    pub const fn runs(&self) -> bool {
        self.process.is_some() && self.paused == 0
    }

    /// Since when its daemon has run; [`NEVER`]: it does not.
    #[must_use]
    pub fn runs_since(&self) -> Instant {
        let process = self.process.as_ref().filter(|_| self.paused == 0);
        process.map_or(NEVER, |process| process.started)
    }
}
