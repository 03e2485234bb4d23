//! Keeps the control plane's address where an API server is ready: remembers who votes, tells the responder what
//! is to be done, and reports what happens.

mod listening;
mod publish;
mod report;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use mooring_common::control_plane::{ControlPlaneFile, Role};
use mooring_common::errors::with_causes;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use self::listening::Listening;
use self::report::Reporter;
use super::Metrics;
use super::desired::{Here, desired, heard, is_other_ready, voters};
use super::fitness::{Readiness, Urgency};
use super::memory::Memory;
use super::published::Published;
use crate::announce::leaving::SHUTDOWN_GRACE;
use crate::announce::upgrade::{Predecessor, Successor, UpgradeSocket};
use crate::protocol::members::{Observed, Remembered, Rule, step};
use crate::protocol::{ApiAnswer, NodeId, Parameters, UNANNOUNCED_FROM_FILE};
use crate::responder::metrics::Metrics as ResponderMetrics;
use crate::responder::upgrade_state::UpgradeState;
use crate::responder::{DesiredSegments, Member, OpenedSockets, Report, Responder, Rights, Setup};
use crate::vlan::kernel_address::{self, KernelAddresses, LOOPBACK};
use crate::vlan::sysctl;
use crate::wire::keys::KeyRing;
use crate::wire::links::Link;

/// How many reports may wait.
const REPORTS: usize = 1024;
/// How often to look even if nothing happens.
const LOOK: Duration = Duration::from_millis(200);
/// For how long the address stays on `lo` when this process ends on a node whose API server is ready: the kubelet
/// ends a static Pod, and looks 10 to 15 s later whether the next version of it may start (`backOffPeriod` in
/// `pkg/kubelet`, with a jitter). Others only answer meanwhile, so that no connection moves, and give the address back.
const LEFT_FOR: Duration = Duration::from_secs(30);
const _: () = assert!(LEFT_FOR.as_secs() > UNANNOUNCED_FROM_FILE.as_secs());
/// For how long the API server is still asked once this process is to end. Where the whole node shuts down, the two are
/// told at the same time, and the address must not be left on `lo` with nothing behind it.
const LAST_ANSWERS: Duration = Duration::from_millis(600);
/// After that time it is known whether the API server is ready.
const PROBING: Duration = Duration::from_secs(1);

/// What the supervisor works with.
pub struct Supervisor {
    /// The name of this node.
    pub node_name: String,
    /// The control plane file.
    pub file: watch::Receiver<Arc<ControlPlaneFile>>,
    /// Why what is on disk cannot be used, where it is another than `file`.
    pub file_fault: watch::Receiver<Option<String>>,
    /// Where it is remembered who votes.
    pub memory: Memory,
    /// What is.
    pub remembered: Remembered,
    /// The interfaces of this node.
    pub links: watch::Receiver<Arc<Vec<Link>>>,
    /// What can be expected of the API server of this node.
    pub readiness: watch::Receiver<Readiness>,
    /// Told how soon it should be ready.
    pub urgency: watch::Sender<Urgency>,
    /// The secrets that heartbeats are signed with.
    pub secrets: Arc<ArcSwap<KeyRing>>,
    /// Where the host's /proc/sys/net is.
    pub proc_sys_net: PathBuf,
    /// Where how this node does is published.
    pub published: watch::Sender<Option<Arc<Published>>>,
    /// Where to count.
    pub metrics: Metrics,
    /// Where to count what the responder does.
    pub responder_metrics: ResponderMetrics,
}

impl Supervisor {
    /// Runs until `cancel` is cancelled. Then it passes everything on to the successor on this node if there is
    /// one, or hands the address over to another node, and falls silent.
    pub async fn run(mut self, cancel: CancellationToken) {
        let segment = self.file.borrow().segment();
        let mut inherited = None;
        if let Some(predecessor) = Predecessor::find(&segment) {
            inherited = tokio::select! {
                inherited = predecessor.ended() => inherited,
                // The other process goes on, or has ended; nothing of this one is known to anybody.
                () = cancel.cancelled() => return,
            };
            // The other may have gone on meanwhile.
            match self.memory.read() {
                Ok(remembered) => self.remembered = remembered,
                Err(error) => {
                    let error = with_causes(&error);
                    return tracing::error!(
                        error,
                        "cannot go on without what is remembered of who votes"
                    );
                }
            }
        }
        let (sender, reports) = mpsc::channel(REPORTS);
        let rights = Rights::default();
        let interface = Arc::new(AtomicU32::new(0));
        let (kernel, keep_addresses) = KernelAddresses::new({
            let (rights, interface) = (rights.clone(), Arc::clone(&interface));
            // The right is to speak on the interface; the address is on `lo`.
            move |(_, address)| rights.held((interface.load(Ordering::Relaxed), address))
        });
        let upgrade_socket = UpgradeSocket::default();
        let keep_socket = upgrade_socket.clone().keep(&segment);
        let work = Work {
            me: NodeId::of(&self.node_name),
            reporter: Reporter::new(&self.node_name, self.responder_metrics.clone()),
            started: Instant::now(),
            listening: Listening::default(),
            segment: segment.clone(),
            interface,
            sender,
            rights,
            kernel,
            members: Arc::default(),
            running: Arc::default(),
            responder: None,
            has_ended: false,
            has_swept: inherited.is_some(),
            is_heir: inherited.is_some(),
            is_left: false,
            prepared_interface: None,
            with: self,
        };
        let work = work.run(inherited, &upgrade_socket, reports, cancel);
        tokio::select! {
            ((), ()) = async { tokio::join!(work, keep_addresses) } => {}
            () = keep_socket => {}
        }
    }
}

struct Work {
    with: Supervisor,
    me: NodeId,
    reporter: Reporter,
    started: Instant,
    listening: Listening,
    segment: String,
    /// The number of the interface of the segment.
    interface: Arc<AtomicU32>,
    sender: mpsc::Sender<(String, Report)>,
    rights: Rights,
    kernel: KernelAddresses,
    members: Arc<Vec<Member>>,
    running: Arc<DesiredSegments>,
    responder: Option<Responder>,
    has_ended: bool,
    /// What the process before this one has left on `lo` was removed, or is not to be.
    has_swept: bool,
    /// The process before this one has left its state, and what of it is spoken for is not reported yet.
    is_heir: bool,
    /// What is on `lo` is left there.
    is_left: bool,
    /// The interface whose `arp_ignore` is set, and its number: one of the same name that is made anew has it no more.
    prepared_interface: Option<(String, u32)>,
}

impl Work {
    async fn run(
        mut self,
        mut inherited: Option<UpgradeState>,
        upgrade_socket: &UpgradeSocket,
        mut reports: mpsc::Receiver<(String, Report)>,
        cancel: CancellationToken,
    ) {
        let mut told_to_end: Option<Instant> = None;
        let mut ends_at: Option<Instant> = None;
        let successor = loop {
            if ends_at.is_none() && told_to_end.is_some_and(|at| self.is_known_after(at.elapsed()))
            {
                ends_at = Some(Instant::now() + SHUTDOWN_GRACE);
                if *self.with.readiness.borrow() == Readiness::Ready {
                    self.is_left = true;
                    self.kernel.leave_for(LEFT_FOR);
                }
            }
            let file = Arc::clone(&self.with.file.borrow_and_update());
            self.remember(&file).await;
            self.prepare_interface(&file);
            self.apply(&file, &mut inherited, ends_at.is_some());
            self.sweep().await;
            self.with.urgency.send_replace(self.urgency());
            self.count(&file);
            self.reporter
                .look(&file, &self.with.remembered, self.is_ready(), &self.members);
            self.publish(&file);
            if ends_at.is_some_and(|end| Instant::now() >= end || self.has_ended) {
                break None;
            }
            tokio::select! {
                () = cancel.cancelled(), if told_to_end.is_none() => {
                    let successor = upgrade_socket.successor().await;
                    if successor.is_some() {
                        break successor;
                    }
                    told_to_end = Some(Instant::now());
                }
                _ = self.with.links.changed() => {}
                _ = self.with.readiness.changed() => {}
                _ = self.with.file.changed() => {}
                _ = self.with.file_fault.changed() => {}
                Some((_, report)) = reports.recv() => {
                    self.handle(report);
                    while let Ok((_, report)) = reports.try_recv() {
                        self.handle(report);
                    }
                }
                () = tokio::time::sleep(LOOK) => {}
            }
        };
        self.end(successor).await;
    }

    /// Whether it is known, so long after this process was told to end, if the API server goes on.
    fn is_known_after(&self, waited: Duration) -> bool {
        let is_doubtful = *self.with.readiness.borrow() == Readiness::Doubtful;
        waited >= LAST_ANSWERS && (!is_doubtful || waited >= LAST_ANSWERS * 2)
    }

    /// Goes on with who votes, as far as the rules permit. Nothing follows from what is accepted before it is on
    /// disk; the machine may serve a newer set already, as others have told it.
    async fn remember(&mut self, file: &ControlPlaneFile) {
        let wanted = voters(file);
        let heard = heard(&self.members);
        loop {
            let observed = Observed {
                me: self.me,
                file: &wanted,
                heard: &heard,
                has_listened: self.listening.is_enough(Instant::now()),
            };
            let Some((rule, next)) = step(&self.with.remembered, observed) else {
                return;
            };
            if !self.write(rule, &next).await && rule.is_promise() {
                return;
            }
            self.reporter.went_on(file, rule, &next);
            self.with.remembered = next;
        }
    }

    /// Writes what is remembered; whether that is done.
    async fn write(&mut self, rule: Rule, next: &Remembered) -> bool {
        let (memory, next) = (self.with.memory.clone(), next.clone());
        let writing = tokio::task::spawn_blocking(move || memory.write(&next));
        let fault = match writing.await {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::debug!(?rule, fault, "not remembered");
        self.reporter.not_remembered(&fault);
        false
    }

    /// The kernel must not answer for the address: it is on `lo`, and stays there for a moment after this process
    /// has died.
    fn prepare_interface(&mut self, file: &ControlPlaneFile) {
        let is_witness = file.role_of(&self.with.node_name) == Role::Witness;
        if is_witness || !file.addresses.iter().any(IpAddr::is_ipv4) {
            return;
        }
        let links = self.with.links.borrow();
        let link = links.iter().find(|link| link.name == file.interface);
        let interface = link.map(|link| (link.name.clone(), link.index));
        drop(links);
        let is_new = interface.is_some() && self.prepared_interface != interface;
        self.prepared_interface = interface;
        if !is_new {
            return;
        }
        let set = sysctl::answer_only_for_own_interface(&self.with.proc_sys_net, &file.interface);
        if let Err(error) = set {
            let interface = &file.interface;
            tracing::warn!(interface, %error, "cannot set net.ipv4.conf.{interface}.arp_ignore to 1: the kernel answers \
                for the address for up to 2 s after this process was killed, and for 30 s after it has ended; set it on \
                the host, or let this process write to --host-proc-sys-net");
        }
    }

    fn apply(
        &mut self,
        file: &ControlPlaneFile,
        inherited: &mut Option<UpgradeState>,
        is_ending: bool,
    ) {
        if self.responder.as_ref().is_some_and(Responder::has_died) {
            tracing::error!("the thread of the segment has died, starting another");
            self.responder = None;
            self.reporter.lost_all();
        }
        let links = Arc::clone(&self.with.links.borrow_and_update());
        if links.is_empty() {
            // Every node has interfaces; which, the kernel has not said yet.
            return;
        }
        let readiness = *self.with.readiness.borrow_and_update();
        self.is_heir &= readiness == Readiness::Unknown;
        let here = Here {
            node: &self.with.node_name,
            links: &links,
            readiness,
            has_address: self.reporter.has_address() || self.is_heir,
            is_other_ready: is_other_ready(&self.members, self.me),
            is_ending,
        };
        let desired = desired(file, &self.with.remembered, here);
        let index = desired.attachment.as_ref().map_or(0, |link| link.index);
        self.interface.store(index, Ordering::Relaxed);
        let on_loopback = file.addresses.iter().map(|address| (LOOPBACK, *address));
        let on_loopback = on_loopback.filter(|_| !desired.witness).collect();
        let desired: DesiredSegments = [(self.segment.clone(), Arc::new(desired))].into();
        match &self.responder {
            Some(_) if *self.running == desired => {}
            Some(responder) => {
                self.running = Arc::new(desired);
                responder.set_desired(Arc::clone(&self.running));
            }
            None => self.start(file, desired, inherited.take()),
        }
        if !self.is_left {
            self.kernel.set(on_loopback);
        }
    }

    /// Removes what the process before this one has left on `lo`, unless the API server is ready: then packets that
    /// still come are for it.
    async fn sweep(&mut self) {
        if self.has_swept || self.started.elapsed() < PROBING {
            return;
        }
        self.has_swept = true;
        if !self.is_ready() && !self.reporter.has_address() {
            kernel_address::sweep(|interface| interface == LOOPBACK).await;
        }
    }

    fn start(
        &mut self,
        file: &ControlPlaneFile,
        desired: DesiredSegments,
        inherited: Option<UpgradeState>,
    ) {
        self.running = Arc::new(desired);
        let setup = Setup {
            node: self.me,
            desired: Arc::clone(&self.running),
            reports: self.sender.clone(),
            metrics: self.with.responder_metrics.clone(),
            seed: RandomState::new().build_hasher().finish(),
            heartbeat_port: file.heartbeat_port,
            secrets: Arc::clone(&self.with.secrets),
            parameters: Parameters::default(),
            inherited,
            prepared: OpenedSockets::new(),
            rights: self.rights.clone(),
        };
        match Responder::start(setup) {
            Ok(responder) => {
                let is_witness = file.role_of(&self.with.node_name) == Role::Witness;
                self.listening.started(is_witness, Instant::now());
                self.responder = Some(responder);
            }
            Err(error) => tracing::error!(%error, "cannot start a thread"),
        }
    }

    fn is_ready(&self) -> bool {
        self.with.readiness.borrow().is_ready()
    }

    fn urgency(&self) -> Urgency {
        if self.reporter.has_address() {
            Urgency::HasAddress
        } else if is_other_ready(&self.members, self.me) {
            Urgency::None
        } else {
            Urgency::NoneReady
        }
    }

    fn count(&self, file: &ControlPlaneFile) {
        let metrics = &self.with.metrics;
        let is_member = file.role_of(&self.with.node_name) == Role::Member;
        metrics.ready.set(is_member.then(|| self.is_ready()));
        let revision = self.with.remembered.served.generation;
        metrics
            .revision
            .set(revision.try_into().unwrap_or(i64::MAX));
    }

    fn handle(&mut self, report: Report) {
        self.listening.note(&report, self.me, Instant::now());
        match report {
            Report::Members(members) => self.members = members,
            Report::Ended => self.has_ended = true,
            // There is nobody to ask.
            Report::Ask(_, asked, _) => {
                if let Some(responder) = &self.responder {
                    responder.answer(&self.segment, ApiAnswer::Unreachable, asked);
                }
            }
            report => {
                self.kernel.look();
                self.reporter.happened(&self.with.file.borrow(), report);
            }
        }
    }

    /// Stops speaking, and passes the state on to the successor if there is one. What could be handed over
    /// otherwise has been.
    async fn end(mut self, successor: Option<Successor>) {
        let Some(responder) = self.responder.take() else {
            return;
        };
        if successor.is_some() {
            self.kernel.leave();
        }
        let left = tokio::task::spawn_blocking(|| responder.export()).await;
        match (left, successor) {
            (Ok(Some(state)), Some(successor)) => successor.inherit(&state).await,
            (Ok(_), _) => {}
            (Err(error), _) => {
                let error = with_causes(&error);
                tracing::error!(error, "cannot end the thread of the segment");
            }
        }
    }
}
