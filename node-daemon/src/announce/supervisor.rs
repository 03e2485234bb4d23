//! Gives the responder what was decided, and reports what happens: the Lease, entries of L2Networks, Events,
//! metrics, the log.

mod api_server;
mod apply;
mod control_plane;
mod decide;
mod event_reporter;
mod reports;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::control_plane::ControlPlaneWatch;
use self::event_reporter::EventReporter;
use super::EventSink;
use super::leaving::{Leaving, SHUTDOWN_GRACE};
use super::plan::Assignment;
use super::segments::{LastInterfaces, Roles, roles, without_key};
use super::state_file::{self, State};
use super::upgrade::{Predecessor, Successor, UpgradeSocket};
use super::witness::WitnessCandidates;
use crate::announce::forwarding::keeper::{Keeper, Outcome};
use crate::announce::forwarding::state::Device;
use crate::cluster::lease::DesiredLease;
use crate::cluster::snapshot::Snapshot;
use crate::cluster::status_writer::Entries;
use crate::cluster::voters::VoterStore;
use crate::protocol::{ApiAnswer, Moment, NodeId};
use crate::responder::metrics::Metrics;
use crate::responder::upgrade_state::UpgradeState;
use crate::responder::{DesiredSegments, OpenedSockets, Report, Responder, Rights};
use crate::vlan::kernel_address::{self, KernelAddresses, LOOPBACK};
use crate::vlan::neighbours::Neighbours;
use crate::wire::keys::KeyRing;
use crate::wire::links::Link;
use crate::wire::packet_socket::PacketSocket;

/// How many reports may wait: a burst of them about a thousand addresses, several times.
const REPORTS: usize = 4096;
/// How many questions to the API server may be open. Beyond that it is as good as away.
const QUESTIONS: usize = 32;
/// How long to wait for the API server after the start, until what the process before has left is
/// gone by.
const API_SERVER_TIMEOUT: Duration = Duration::from_secs(1);
/// How often to look even if nothing happens, for the age of the view and for what takes time to be
/// believed.
const LOOK: Duration = Duration::from_secs(1);

/// What the supervisor works with.
pub struct Supervisor<E> {
    /// The Node that this daemon runs on.
    pub node_name: String,
    /// What was observed.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    /// Tells of a new snapshot.
    pub published: watch::Receiver<u64>,
    /// The interfaces of this node.
    pub links: watch::Receiver<Arc<Vec<Link>>>,
    /// Where the lease keeper learns what the Lease is to say.
    pub desired_lease: watch::Sender<DesiredLease>,
    /// Where the status writer learns what L2Networks are to say of this Node.
    pub entries: watch::Sender<Entries>,
    /// Where what is to be kept for the next process goes.
    pub state: watch::Sender<Option<Arc<State>>>,
    /// What outlives the process lies here.
    pub folder: PathBuf,
    /// The control plane's process on this node says how it does here.
    pub control_plane_folder: PathBuf,
    /// Where a successor waits.
    pub upgrade_socket: UpgradeSocket,
    /// Cancelled once this process is the Node's daemon: there was none before it, or that has ended.
    pub in_charge: CancellationToken,
    /// Asks the API server what the protocol wants to know.
    pub voter_store: VoterStore,
    /// The UDP port of heartbeats on the node network.
    pub heartbeat_port: u16,
    /// The secrets that heartbeats are signed with.
    pub secrets: Arc<ArcSwap<KeyRing>>,
    /// Whether to take part in segments without any.
    pub allow_unsigned: bool,
    /// Where Events go.
    pub events: E,
    /// Where to count.
    pub metrics: Metrics,
}

impl<E: EventSink> Supervisor<E> {
    /// Runs until `cancel` is cancelled. Then it passes everything on to the successor on this
    /// node if there is one, or hands it over to other nodes, and falls silent.
    pub async fn run(self, cancel: CancellationToken) {
        let (sender, mut reports) = mpsc::channel(REPORTS);
        let rights = Rights::default();
        let (kernel, keep_addresses) = KernelAddresses::new({
            let rights = rights.clone();
            move |place| rights.held(place)
        });
        let (neighbours, tell_kernel) = Neighbours::new();
        let (connections, mut outcomes, keep_connections) = Keeper::new(self.folder.clone());
        let node_name = self.node_name.clone();
        let mut work = SupervisorState {
            reporter: EventReporter::new(&self.node_name, self.events, self.metrics.clone()),
            witness_candidates: WitnessCandidates::new(&self.node_name),
            context: Context {
                node: NodeId::of(&self.node_name),
                node_name: self.node_name,
                snapshot: self.snapshot,
                desired_lease: self.desired_lease,
                entries: self.entries,
                state: self.state,
                voter_store: self.voter_store,
                heartbeat_port: self.heartbeat_port,
                secrets: self.secrets,
                allow_unsigned: self.allow_unsigned,
                metrics: self.metrics,
                sender,
            },
            links: self.links,
            assigned_from: None,
            assignment: Assignment::default(),
            wanted: None,
            running: Arc::default(),
            leaving: Leaving::default(),
            interfaces: BTreeMap::new(),
            last_interfaces: state_file::read(&self.folder, &node_name)
                .map_or_else(LastInterfaces::new, State::last_interfaces),
            prepared: OpenedSockets::new(),
            responder: None,
            rights: rights.clone(),
            kernel,
            neighbours,
            connections,
            kept: BTreeMap::new(),
            control_plane: ControlPlaneWatch::new(self.control_plane_folder),
            questions: JoinSet::new(),
            names: BTreeMap::new(),
            asked_about: BTreeMap::new(),
        };
        let mut published = self.published;
        let inherited = tokio::select! {
            inherited = work.stand_by(&self.folder, &mut published) => inherited,
            // The other process goes on, or has ended; nothing of this one is known to anybody.
            () = cancel.cancelled() => return,
        };
        // From here on this process is the Node's daemon, and may have a successor of its own.
        self.in_charge.cancel();
        if inherited.is_none() {
            kernel_address::sweep(|interface| interface != LOOPBACK).await;
        }
        let upgrade_socket = self.upgrade_socket.clone();
        let supervising = async {
            let (folder, upgrade_socket) = (&self.folder, &self.upgrade_socket);
            let successor = work
                .supervise(
                    inherited,
                    (folder, upgrade_socket),
                    published,
                    (&mut reports, &mut outcomes),
                    cancel,
                )
                .await;
            work.end(successor, &mut reports).await;
            // What is still on an interface is removed.
            drop(work);
        };
        tokio::select! {
            ((), (), (), ()) = async {
                tokio::join!(supervising, keep_addresses, tell_kernel, keep_connections)
            } => {}
            () = upgrade_socket.keep(&node_name) => {}
        }
    }
}

/// What the last assignment was made from. If nothing of it has changed, the assignment has not either.
type AssignedFrom = Arc<Snapshot>;

/// What is the same all the time.
struct Context {
    node: NodeId,
    node_name: String,
    snapshot: Arc<ArcSwap<Snapshot>>,
    desired_lease: watch::Sender<DesiredLease>,
    entries: watch::Sender<Entries>,
    state: watch::Sender<Option<Arc<State>>>,
    voter_store: VoterStore,
    heartbeat_port: u16,
    secrets: Arc<ArcSwap<KeyRing>>,
    allow_unsigned: bool,
    metrics: Metrics,
    sender: mpsc::Sender<(String, Report)>,
}

impl Context {
    /// Whether this daemon may take part in segments: it can sign, or need not.
    fn may_take_part(&self) -> bool {
        self.allow_unsigned || !self.secrets.load().is_empty()
    }

    /// The part that this Node plays on each segment.
    fn roles<'a>(
        &self,
        snapshot: &Snapshot,
        links: &'a [Link],
        witness_of: &BTreeSet<String>,
        last_interfaces: &LastInterfaces,
    ) -> Roles<'a> {
        let roles = roles(snapshot, links, witness_of, last_interfaces);
        if self.may_take_part() {
            roles
        } else {
            without_key(roles)
        }
    }
}

/// A question that was answered: of which segment, what, and when it was asked.
type Answered = (String, ApiAnswer, Moment);

struct SupervisorState<E> {
    reporter: EventReporter<E>,
    witness_candidates: WitnessCandidates,
    context: Context,
    links: watch::Receiver<Arc<Vec<Link>>>,
    assigned_from: Option<AssignedFrom>,
    assignment: Assignment,
    /// What follows from the snapshot, or from what the process before has left; `None` as long as
    /// neither is there.
    wanted: Option<Arc<DesiredSegments>>,
    /// What was desired last.
    running: Arc<DesiredSegments>,
    /// Segments that this Node is not on any more.
    leaving: Leaving,
    /// The interface of each segment.
    interfaces: BTreeMap<String, String>,
    /// The interfaces that segments were on.
    last_interfaces: LastInterfaces,
    /// What was opened for the responder while it waited.
    prepared: OpenedSockets,
    responder: Option<Responder>,
    /// What the responder may speak for.
    rights: Rights,
    /// Puts addresses on interfaces.
    kernel: KernelAddresses,
    /// Tells the kernel where routers are.
    neighbours: Neighbours,
    /// Keeps connections with the nodes that they began at.
    connections: Keeper,
    /// The segments that it was told of last.
    kept: BTreeMap<String, (Option<Device>, Duration)>,
    /// What the control plane's process says.
    control_plane: ControlPlaneWatch,
    questions: JoinSet<Answered>,
    /// The Nodes that have a part in some segment.
    names: BTreeMap<NodeId, String>,
    /// The voters of each segment that are silent, and whose Leases have been looked at.
    asked_about: BTreeMap<String, BTreeSet<NodeId>>,
}

impl<E: EventSink> SupervisorState<E> {
    /// Waits for the end of the process before this one on the same node, if there is one.
    /// Meanwhile everything is made ready.
    async fn stand_by(
        &mut self,
        folder: &Path,
        published: &mut watch::Receiver<u64>,
    ) -> Option<UpgradeState> {
        let predecessor = Predecessor::find(&self.context.node_name)?;
        let ended = predecessor.ended();
        tokio::pin!(ended);
        loop {
            self.decide(Instant::now(), false);
            self.prepare(folder).await;
            tokio::select! {
                inherited = &mut ended => return inherited,
                _ = published.changed() => {}
                _ = self.links.changed() => {}
            }
        }
    }

    /// Opens the sockets on the interfaces that the responder is going to need.
    async fn prepare(&mut self, folder: &Path) {
        let desired = match &self.wanted {
            Some(wanted) => Arc::clone(wanted),
            None => {
                let Some(left) = state_file::read(folder, &self.context.node_name) else {
                    return;
                };
                let links = Arc::clone(&self.links.borrow());
                Arc::new(left.desired(&links, true, false))
            }
        };
        for attachment in desired
            .values()
            .filter_map(|desired| desired.attachment.as_ref())
        {
            let interface = (attachment.name.clone(), attachment.index);
            if self.prepared.contains_key(&interface) {
                continue;
            }
            let (name, index) = interface.clone();
            let opened =
                tokio::task::spawn_blocking(move || PacketSocket::open(&name, index)).await;
            match opened {
                Ok(Ok(wire)) => {
                    self.prepared.insert(interface, wire);
                }
                // The responder tries again when it needs the socket, and reports the failure.
                Ok(Err(error)) => tracing::debug!(%error, "cannot attach yet"),
                Err(error) => tracing::error!(%error, "cannot attach"),
            }
        }
    }

    async fn supervise(
        &mut self,
        mut inherited: Option<UpgradeState>,
        (folder, upgrade_socket): (&Path, &UpgradeSocket),
        mut published: watch::Receiver<u64>,
        (reports, outcomes): (
            &mut mpsc::Receiver<(String, Report)>,
            &mut mpsc::Receiver<Outcome>,
        ),
        cancel: CancellationToken,
    ) -> Option<Successor> {
        let wait_until = Instant::now() + API_SERVER_TIMEOUT;
        let inherits = inherited.is_some();
        let decided = self.decided();
        let mut left = (!decided)
            .then(|| state_file::read(folder, &self.context.node_name))
            .flatten();
        let mut ends_at: Option<Instant> = None;
        let mut again = None;
        loop {
            let now = Instant::now();
            let ending = ends_at.is_some();
            again = self.decide(now, ending).or(again.filter(|at| *at > now));
            let heard = self.context.snapshot.load().heard.is_some();
            let away = !heard && now >= wait_until;
            if self.decided() {
                left = None;
            } else if let Some(state) = left.as_ref().filter(|_| inherits || away) {
                self.use_saved_state(state, ending, away);
            }
            self.apply(&mut inherited, ending).await;
            self.reporter
                .report_begun(&self.context.snapshot.load(), &self.assignment);
            if ends_at.is_some_and(|end| now >= end || self.has_ended()) {
                return None;
            }
            let times = [again, ends_at, Some(wait_until)].into_iter().flatten();
            let next = times.filter(|at| *at > now).fold(now + LOOK, Instant::min);
            tokio::select! {
                () = cancel.cancelled(), if ends_at.is_none() => {
                    let successor = upgrade_socket.successor().await;
                    if successor.is_some() {
                        return successor;
                    }
                    ends_at = Some(Instant::now() + SHUTDOWN_GRACE);
                    self.leaving.end();
                }
                _ = published.changed() => {}
                _ = self.links.changed() => {}
                Some((segment, report)) = reports.recv() => {
                    self.handle(&segment, report);
                    self.handle_all(reports);
                }
                Some(answered) = self.questions.join_next() => self.pass_on(answered),
                Some(outcome) = outcomes.recv() => self.pass_on_connections(outcome),
                () = tokio::time::sleep_until(next.into()) => {}
            }
        }
    }
}

fn send_if_new<T: PartialEq>(to: &watch::Sender<T>, value: T) {
    to.send_if_modified(|known| {
        let changed = *known != value;
        *known = value;
        changed
    });
}
