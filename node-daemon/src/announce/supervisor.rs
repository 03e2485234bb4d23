//! Gives the responder what was decided, and reports what happens: the Lease, entries of L2Networks, Events,
//! metrics, the log.

mod api_server;
mod event_reporter;
mod reports;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use mooring_common::engine::Step as _;
use mooring_common::node_addresses::NodeAddress;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::event_reporter::EventReporter;
use super::EventSink;
use super::entries;
use super::leaving::{Leaving, SHUTDOWN_GRACE};
use super::permitted::refused;
use super::plan::{Assignment, assign};
use super::segments::{
    Here, LastInterfaces, Role, Roles, closed, last_interfaces, on_interfaces, orders, roles,
    steps, without_key,
};
use super::state_file::{self, State};
use super::upgrade::{Predecessor, Successor, UpgradeSocket};
use super::witness::WitnessCandidates;
use crate::cluster::lease::DesiredLease;
use crate::cluster::snapshot::Snapshot;
use crate::cluster::status_writer::Entries;
use crate::cluster::voters::VoterStore;
use crate::protocol::{ApiAnswer, Moment, NodeId, Parameters};
use crate::responder::metrics::Metrics;
use crate::responder::upgrade_state::UpgradeState;
use crate::responder::{AllOrders, OpenedSockets, Report, Responder, Rights, Setup};
use crate::vlan::kernel_address::{self, KernelAddresses};
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
            kernel_address::sweep().await;
        }
        let upgrade_socket = self.upgrade_socket.clone();
        let supervising = async {
            let (folder, upgrade_socket) = (&self.folder, &self.upgrade_socket);
            let successor = work
                .supervise(
                    inherited,
                    (folder, upgrade_socket),
                    published,
                    &mut reports,
                    cancel,
                )
                .await;
            work.end(successor).await;
            // What is still on an interface is removed.
            drop(work);
        };
        tokio::select! {
            ((), (), ()) = async { tokio::join!(supervising, keep_addresses, tell_kernel) } => {}
            () = upgrade_socket.keep(&node_name) => {}
        }
    }
}

/// The addresses of this Node, which are no Service's.
fn node_addresses(snapshot: &Snapshot) -> Option<&[NodeAddress]> {
    let node = snapshot.node.as_ref();
    node.map(|node| node.addresses.as_slice())
}

/// What the last assignment was made from: if nothing of it changed, neither does the assignment.
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
    wanted: Option<Arc<AllOrders>>,
    /// What was ordered last.
    running: Arc<AllOrders>,
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
        let orders = match &self.wanted {
            Some(wanted) => Arc::clone(wanted),
            None => {
                let Some(left) = state_file::read(folder, &self.context.node_name) else {
                    return;
                };
                let links = Arc::clone(&self.links.borrow());
                Arc::new(left.orders(&links, true, false))
            }
        };
        for attachment in orders
            .values()
            .filter_map(|orders| orders.attachment.as_ref())
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
                // It is tried again when it is needed, and then told.
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
        reports: &mut mpsc::Receiver<(String, Report)>,
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
                self.go_by(state, ending, away);
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
                    while let Ok((segment, report)) = reports.try_recv() {
                        self.handle(&segment, report);
                    }
                }
                Some(answered) = self.questions.join_next() => self.pass_on(answered),
                () = tokio::time::sleep_until(next.into()) => {}
            }
        }
    }

    /// Whether the snapshot says what there is to announce.
    fn decided(&self) -> bool {
        self.context.snapshot.load().decides_speakers()
    }

    /// Decides anew, if enough is known. Gives the time at which something else may follow from the
    /// same.
    fn decide(&mut self, now: Instant, ending: bool) -> Option<Instant> {
        let snapshot = self.context.snapshot.load_full();
        self.reporter.view_age(&snapshot);
        let links = Arc::clone(&self.links.borrow_and_update());
        if !snapshot.decides_speakers() {
            return None;
        }
        self.assign(&snapshot);
        let (witness_of, again) = self.witness_candidates.look(&snapshot, now);
        self.last_interfaces = last_interfaces(&snapshot, &self.last_interfaces);
        let roles = self
            .context
            .roles(&snapshot, &links, &witness_of, &self.last_interfaces);
        for (segment, role) in &roles {
            match role {
                Role::Hindered(fault) => {
                    self.reporter.report_fault(&snapshot, segment, fault);
                }
                Role::Keyless => {
                    self.reporter
                        .report_fault(&snapshot, segment, entries::NO_KEY);
                }
                // The responder takes back a fault that it has reported, as soon as it responds.
                Role::Speaker(_) | Role::Witness if self.running.contains_key(segment) => {}
                Role::Speaker(_) | Role::Witness => self.reporter.fault_cleared(segment),
                Role::Awaiting(_) => {}
            }
        }
        let here = Here {
            node_name: &self.context.node_name,
            links: &links,
            heartbeat_port: self.context.heartbeat_port,
            service_proxy_works: snapshot.service_proxy.may_work(),
            ending,
        };
        let orders = orders(&snapshot, &roles, &self.assignment, here);
        if self.wanted.as_deref() != Some(&orders) {
            self.wanted = Some(Arc::new(orders));
        }
        self.interfaces = interfaces(&roles);
        let chosen = self.interfaces.iter();
        let chosen = chosen.map(|(segment, name)| (segment.clone(), Some(name.clone())));
        self.last_interfaces.extend(chosen);
        self.names = names(&snapshot, &self.context.node_name);
        again
    }

    fn assign(&mut self, snapshot: &Arc<Snapshot>) {
        let same = self.assigned_from.as_ref().is_some_and(|old| {
            Arc::ptr_eq(&old.services, &snapshot.services)
                && Arc::ptr_eq(&old.slices, &snapshot.slices)
                && Arc::ptr_eq(&old.networks, &snapshot.networks)
                && node_addresses(old) == node_addresses(snapshot)
                && Arc::ptr_eq(&old.confirmed, &snapshot.confirmed)
        });
        if !same {
            self.assignment = assign(snapshot);
            self.reporter.refused(snapshot, refused(snapshot));
            self.assigned_from = Some(Arc::clone(snapshot));
        }
    }

    /// Goes by what the process before has left: the API server has not answered yet, or is `away`.
    fn go_by(&mut self, left: &State, ending: bool, away: bool) {
        let links = Arc::clone(&self.links.borrow());
        if links.is_empty() || !self.context.may_take_part() {
            // Every node has interfaces; which, the kernel has not said yet. Without them all would
            // seem lost.
            return;
        }
        let proxy_works = self.context.snapshot.load().service_proxy.may_work();
        let orders = left.orders(&links, proxy_works, ending);
        if self.wanted.is_none() {
            let segments: Vec<_> = orders.keys().map(String::as_str).collect();
            let segments = segments.join(" ");
            if away {
                tracing::warn!(
                    segments,
                    "the API server does not answer: going by what the daemon before this one knew \
                     of the segments"
                );
            } else {
                tracing::info!(segments, "going by what the daemon before this one knew");
            }
        }
        self.wanted = Some(Arc::new(orders));
    }

    /// Does what differs from what is wanted, and tells of it.
    async fn apply(&mut self, inherited: &mut Option<UpgradeState>, ending: bool) {
        let Some(wanted) = self.wanted.clone() else {
            return;
        };
        self.drop_dead_responder();
        let orders = self.leaving.orders(&self.running, &wanted, Instant::now());
        for step in steps(&self.running, &orders).steps() {
            tracing::info!(%step, impact = %step.impact(), "announcing");
        }
        let gone: Vec<String> = closed(&self.running, &orders).cloned().collect();
        match &self.responder {
            Some(responder) if *self.running != orders => {
                responder.order(Arc::new(orders.clone()));
                self.running = Arc::new(orders);
            }
            Some(_) => {}
            None if orders.is_empty() && inherited.is_none() => {}
            None => self.start(orders, inherited.take()),
        }
        self.kernel.set(on_interfaces(&self.running));
        for segment in gone {
            self.reporter.closed(&segment);
            self.asked_about.remove(&segment);
        }
        if self.decided() {
            let state = State::of(
                &self.context.node_name,
                &wanted,
                &self.interfaces,
                &self.last_interfaces,
            );
            // What is handed over at the end is still what the next process needs to know.
            if !ending {
                send_if_new(&self.context.state, Some(Arc::new(state)));
            }
            self.write_to_api_server(ending);
        }
    }

    fn start(&mut self, orders: AllOrders, inherited: Option<UpgradeState>) {
        let orders = Arc::new(orders);
        let setup = Setup {
            node: self.context.node,
            orders: Arc::clone(&orders),
            reports: self.context.sender.clone(),
            metrics: self.context.metrics.clone(),
            seed: RandomState::new().build_hasher().finish(),
            heartbeat_port: self.context.heartbeat_port,
            secrets: Arc::clone(&self.context.secrets),
            parameters: Parameters::default(),
            inherited,
            prepared: std::mem::take(&mut self.prepared),
            rights: self.rights.clone(),
        };
        match Responder::start(setup) {
            Ok(responder) => {
                self.responder = Some(responder);
                self.running = orders;
            }
            Err(error) => tracing::error!(%error, "cannot start a thread"),
        }
    }

    /// A thread that ended by itself has panicked. Another one starts as after a crash.
    fn drop_dead_responder(&mut self) {
        if self.responder.as_ref().is_some_and(Responder::has_died) {
            tracing::error!("the thread of the segments has died, starting another");
            self.responder = None;
            for segment in std::mem::take(&mut self.running).keys() {
                self.reporter.closed(segment);
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.responder.is_none() || self.leaving.have_ended(&self.running)
    }

    /// Falls silent, and passes everything on to the successor if there is one: otherwise what could
    /// be handed over has been.
    async fn end(&mut self, successor: Option<Successor>) {
        let Some(responder) = self.responder.take() else {
            return;
        };
        if successor.is_some() {
            self.kernel.leave();
        }
        // It waits for the thread's last frame, which is a matter of microseconds.
        let left = tokio::task::spawn_blocking(|| responder.export()).await;
        match (left, successor) {
            (Ok(Some(state)), Some(successor)) => successor.inherit(&state).await,
            (Ok(_), _) => self.write_stopped(),
            (Err(error), _) => tracing::error!(%error, "cannot end the segments' thread"),
        }
        let segments: Vec<String> = self.running.keys().cloned().collect();
        for segment in segments {
            self.reporter.closed(&segment);
        }
    }
}

fn interfaces(roles: &Roles<'_>) -> BTreeMap<String, String> {
    let of = |(segment, role): (&String, &Role<'_>)| match role {
        Role::Speaker(link) => Some((segment.clone(), link.name.clone())),
        Role::Hindered(_) | Role::Awaiting(_) | Role::Witness | Role::Keyless => None,
    };
    roles.iter().filter_map(of).collect()
}

/// All Nodes that some L2Network speaks of.
fn names(snapshot: &Snapshot, own: &str) -> BTreeMap<NodeId, String> {
    let networks = || snapshot.networks.values();
    let entries = networks().flat_map(|network| network.others.keys());
    let voters = networks().flat_map(|network| &network.voters);
    let approved = networks().flat_map(|network| network.approvals.values());
    let voters = voters.chain(approved).flat_map(|voters| &voters.nodes);
    entries
        .chain(voters)
        .map(String::as_str)
        .chain([own])
        .map(|name| (NodeId::of(name), name.to_owned()))
        .collect()
}

fn send_if_new<T: PartialEq>(to: &watch::Sender<T>, value: T) {
    to.send_if_modified(|known| {
        let changed = *known != value;
        *known = value;
        changed
    });
}
