//! The thread of all segments: for each the protocol's [`Machine`](crate::protocol::Machine), the
//! [`AddressResponder`](self::address_responder::AddressResponder), sockets, and one clock.
//!
//! It is an operating system's thread of its own, so that nothing that happens on the async
//! runtime (a slow API server, a large list) can delay an answer or a heartbeat. It takes what is desired
//! from a slot that always holds the newest, so that there is nothing to queue and nothing to
//! overflow, and is woken through a socket pair.

pub mod address_responder;
pub mod metrics;
mod peers;
mod priority;
mod rights;
mod segment;
mod shared;
mod system;
pub mod upgrade_state;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc as channel};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::mpsc;

use self::metrics::Metrics;
pub use self::rights::{InterfaceAddress, Rights};
use self::system::Kernel;
pub use self::system::{NodeNetworkSocket, OnFrame, OnMessage, SegmentSockets, System};
use self::upgrade_state::UpgradeState;
#[cfg(feature = "simulator")]
pub use self::worker::SteppedResponder;
use self::worker::Worker;
use crate::protocol::mac::Mac;
use crate::protocol::{
    ApiAnswer, Awaited, Cause, Contact, Epoch, Flags, Key, KeyId, Moment, NodeId, Parameters,
    Request, Transition, View, VoterSet, Weight,
};
use crate::wire::keys::KeyRing;
use crate::wire::packet_socket::PacketSocket;

/// An interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its name.
    pub name: String,
    /// The kernel's number for it.
    pub index: u32,
    /// The MAC address to speak from.
    pub mac: Mac,
}

/// What to do on one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub struct DesiredSegment {
    /// `metadata.uid` of the L2Network: what tells its segment from all others, in this cluster or in
    /// another one.
    pub uid: String,
    /// The interface to speak on; `None` while it is down, and for a witness.
    pub attachment: Option<Attachment>,
    /// It takes part over the node network only.
    pub witness: bool,
    /// What the API objects say.
    pub view: View,
    /// What each key stands for: its address, with the router to tell first.
    pub addresses: BTreeMap<Key, BTreeMap<IpAddr, Option<IpAddr>>>,
    /// Groups to be in, so that questions already arrive when an address becomes ours.
    pub groups: BTreeSet<Ipv6Addr>,
    /// The routers of the segment.
    pub gateways: BTreeSet<IpAddr>,
    /// It is a VLAN: the kernel has to be told where its routers are.
    pub tells_routers: bool,
    /// The Node is to carry no more traffic.
    pub draining: bool,
    /// The daemon ends, or this segment does: everything is handed over, then [`Report::Ended`].
    pub ending: bool,
    /// The service proxy of this node works, as far as anybody can tell.
    pub service_proxy_works: bool,
    /// Its weight in the choice of holders.
    pub weight: Weight,
    /// Addresses of this node on the segment, which its kernel answers for: at most one of each
    /// family, IPv6 link-local if there is.
    pub own_addresses: Vec<IpAddr>,
    /// The address of this node on the node network.
    pub node_address: Option<IpAddr>,
    /// A hash of its failure domain.
    pub zone: u32,
    /// Whether survivors of a lost majority go on once the API server shows them to be alone.
    pub survive_via_api: bool,
    /// Addresses are put on the interface, and the kernel answers for them: no question is answered
    /// here.
    pub kernel_answers: bool,
    /// An address that nobody is known to have spoken for is asked for before it is claimed.
    pub probes_addresses: bool,
    /// For how long connections stay with a former speaker that lives; zero: they do not.
    pub keep_connections: Duration,
}

impl Default for DesiredSegment {
    fn default() -> Self {
        Self {
            uid: String::new(),
            attachment: None,
            witness: false,
            view: View::default(),
            addresses: BTreeMap::new(),
            groups: BTreeSet::new(),
            gateways: BTreeSet::new(),
            tells_routers: false,
            draining: false,
            ending: false,
            service_proxy_works: true,
            weight: Weight::USUAL,
            own_addresses: Vec::new(),
            node_address: None,
            zone: 0,
            survive_via_api: true,
            kernel_answers: false,
            probes_addresses: true,
            keep_connections: Duration::ZERO,
        }
    }
}

/// What to do on all segments, by the L2Network's name.
pub type DesiredSegments = BTreeMap<String, Arc<DesiredSegment>>;

/// Something that is reported of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// It can be heard and spoken on, from this MAC address; or not (any more).
    Responding(Option<Mac>),
    /// It cannot, although the interface is up, and why.
    Fault(String),
    /// This node speaks for an address from now on.
    Began {
        /// Which.
        address: IpAddr,
        /// Why.
        cause: Cause,
        /// Who spoke for it before, as far as is known.
        former: Option<NodeId>,
        /// For how long nobody could be heard for it, if that is known.
        dark_for: Option<Duration>,
    },
    /// It does not speak for it any more.
    Stopped {
        /// Which.
        address: IpAddr,
        /// Why.
        cause: Cause,
    },
    /// A station that is none of ours claims an address that we speak for.
    Conflict {
        /// Which.
        address: IpAddr,
        /// Where it is said to be.
        mac: Mac,
    },
    /// Another station has an address that nobody here speaks for, so that it is left to that.
    Occupied {
        /// Which.
        address: IpAddr,
        /// Where it is; `None`: nobody has it any more.
        mac: Option<Mac>,
    },
    /// A router of a segment with [`DesiredSegment::tells_routers`] was heard.
    Router {
        /// Which.
        address: IpAddr,
        /// Where it is.
        mac: Mac,
    },
    /// What decides which connections stay with a former speaker.
    Connections(ConnectionReport),
    /// The API server is to be asked about the L2Network of this UID; the answer goes to
    /// [`Responder::answer`] with this moment.
    Ask(Request, Moment, String),
    /// The members, this one included, after a change.
    Members(Arc<Vec<Member>>),
    /// Something happened that is logged.
    Noted(Transition),
    /// Messages cannot be exchanged over the node network, and why; or (`None`) they can again.
    NodeNetwork(Option<String>),
    /// After [`DesiredSegment::ending`]: nothing is held any more, or there is nobody to take it.
    Ended,
}

/// What decides which connections stay with a former speaker, by addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionReport {
    /// An address was offered: [`Responder::connections_prepared`] is waited for.
    Offered {
        /// Which.
        address: IpAddr,
        /// Who speaks for it.
        former: NodeId,
    },
    /// An address is about to be handed over: [`Responder::connections_prepared`] is waited for.
    HandingOn {
        /// Which.
        address: IpAddr,
        /// To whom.
        to: NodeId,
    },
    /// An address is spoken for here.
    Began {
        /// Which.
        address: IpAddr,
        /// Who spoke for it before, as far as is known.
        former: Option<NodeId>,
        /// Whether it is announced here.
        is_announced: bool,
    },
    /// An address that is spoken for here is announced, maybe for the first time.
    Announced(IpAddr),
    /// An address was handed over.
    HandedOn {
        /// Which.
        address: IpAddr,
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
        /// Of which.
        address: IpAddr,
        /// How many.
        connections: u32,
    },
}

/// A member of a segment, as this one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who.
    pub node: NodeId,
    /// Under which epoch it is there.
    pub epoch: Epoch,
    /// Whether it has been heard within the last second.
    pub alive: bool,
    /// Whether that was on the segment itself.
    pub on_segment: bool,
    /// Whether that was on the node network.
    pub on_node_network: bool,
    /// What it says of itself.
    pub flags: Flags,
    /// Whether it votes.
    pub voter: bool,
    /// How it is reached.
    pub contact: Contact,
    /// The generation of voters that it serves.
    pub generation: u64,
    /// Those voters.
    pub voters: VoterSet,
    /// The newest generation that it has served for longer than a promise.
    pub settled: u64,
    /// Which set it approves next, where voters come from files; zero: none.
    pub approved: u64,
    /// Whether this node has not heard it for so long that it takes it for dead.
    pub suspected: bool,
    /// Its weight in the choice of holders.
    pub weight: Weight,
    /// How many keys it holds.
    pub holds: u32,
    /// What it signs with; `None`: nothing.
    pub signed: Option<KeyId>,
    /// The secrets that it accepts, newest first.
    pub secrets: Vec<KeyId>,
    /// Whether messages in its name have been refused within the last minute, since they were not
    /// signed, or not with a secret that is held here.
    pub refused: bool,
}

/// What a station is made of.
#[derive(Debug)]
pub struct Setup {
    /// Who this is.
    pub node: NodeId,
    /// What to begin with.
    pub desired: Arc<DesiredSegments>,
    /// Where reports go, with the segment's name. What does not fit is dropped: whoever reads it
    /// must not hold up the thread.
    pub reports: mpsc::Sender<(String, Report)>,
    /// Where to count.
    pub metrics: Metrics,
    /// Sets everything random, and which runs of this node there are: another process has another.
    pub seed: u64,
    /// The UDP port for messages on the node network.
    pub heartbeat_port: u16,
    /// The secrets that are held. They may change at any time.
    pub secrets: Arc<ArcSwap<KeyRing>>,
    /// The times of the protocol.
    pub parameters: Parameters,
    /// What the process before this one left.
    pub inherited: Option<UpgradeState>,
    /// What was opened beforehand: it takes the kernel tens of milliseconds.
    pub prepared: OpenedSockets,
    /// Where what may be spoken for is published, for who puts addresses on interfaces.
    pub rights: Rights,
}

/// Sockets on interfaces, by the name and the kernel's number of each.
pub type OpenedSockets = BTreeMap<(String, u32), PacketSocket>;

/// The running thread.
#[derive(Debug)]
pub struct Responder {
    desired: Arc<ArcSwap<Slot>>,
    answers: channel::Sender<Told>,
    waker: UnixStream,
    left: channel::Receiver<UpgradeState>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct Slot {
    desired: Arc<DesiredSegments>,
    stop: bool,
}

/// What a segment is told once.
#[derive(Debug)]
struct Told {
    segment: String,
    news: News,
}

#[derive(Debug)]
enum News {
    /// What the API server has answered, and when it was asked.
    Answer(ApiAnswer, Moment),
    /// For these addresses the kernel does what a move waits for; or (`false`) it cannot.
    Prepared(Awaited, Vec<IpAddr>, bool),
    /// How many connections to addresses this node has, for who speaks for them now.
    Counts(NodeId, Vec<(IpAddr, u32)>),
}

impl Slot {
    fn of(desired: Arc<DesiredSegments>) -> Self {
        Self {
            desired,
            stop: false,
        }
    }
}

impl Responder {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the operating system gives no thread or no socket pair.
    pub fn start(setup: Setup) -> std::io::Result<Self> {
        let (waker, woken) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let slot = Slot::of(Arc::clone(&setup.desired));
        let desired = Arc::new(ArcSwap::from_pointee(slot));
        let (answers, answered) = channel::channel();
        let slot = Arc::clone(&desired);
        let worker = Worker::new(setup, Box::new(Kernel), slot, answered, woken);
        let (leave, left) = channel::channel();
        let thread = std::thread::Builder::new()
            .name("segments".to_owned())
            .spawn(move || {
                priority::raise();
                worker.run(&leave);
            })?;
        Ok(Self {
            desired,
            answers,
            waker,
            left,
            thread,
        })
    }

    /// What it was last told.
    #[must_use]
    pub fn desired(&self) -> Arc<DesiredSegments> {
        Arc::clone(&self.desired.load().desired)
    }

    /// Tells it what to do from now on. A segment that is not named any more falls silent at once;
    /// to hand over what it holds, say [`DesiredSegment::ending`] first.
    pub fn set_desired(&self, desired: Arc<DesiredSegments>) {
        self.put(Slot::of(desired));
    }

    /// Tells it what the API server has answered to [`Report::Ask`]. It is never lost.
    pub fn answer(&self, segment: &str, answer: ApiAnswer, asked: Moment) {
        self.tell(segment, News::Answer(answer, asked));
    }

    /// Tells it that the kernel does what is awaited of it for these addresses, or that it cannot.
    pub fn connections_prepared(
        &self,
        segment: &str,
        awaited: Awaited,
        addresses: Vec<IpAddr>,
        is_done: bool,
    ) {
        self.tell(segment, News::Prepared(awaited, addresses, is_done));
    }

    /// Has the new speaker of addresses told how many connections to them this node has.
    pub fn tell_connections(&self, segment: &str, to: NodeId, counts: Vec<(IpAddr, u32)>) {
        self.tell(segment, News::Counts(to, counts));
    }

    fn tell(&self, segment: &str, news: News) {
        let segment = segment.to_owned();
        // If the thread has died there is nobody who would like to know.
        let _ = self.answers.send(Told { segment, news });
        self.wake();
    }

    /// Whether the thread has ended by itself, which is a fault.
    #[must_use]
    pub fn has_died(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it: no frame leaves any more once this returns. It takes a moment; call it where
    /// blocking is allowed.
    pub fn stop(self) {
        let _ = self.export();
    }

    /// Ends it as [`Self::stop`] does, and tells what the process that takes the place of this one
    /// needs in order to go on as the same member. `None` if the thread had panicked.
    #[must_use]
    pub fn export(self) -> Option<UpgradeState> {
        self.put(Slot {
            desired: self.desired(),
            stop: true,
        });
        // The thread still closes its sockets after that, which nobody need wait for.
        let left = self.left.recv();
        if left.is_err() {
            tracing::error!("the thread of the segments had panicked");
        }
        left.ok()
    }

    fn put(&self, slot: Slot) {
        self.desired.store(Arc::new(slot));
        self.wake();
    }

    fn wake(&self) {
        // If it cannot be written, a wake-up is already waiting there.
        let _ = (&self.waker).write(&[1]);
    }
}
