//! Brings the stations to do what was decided, and tells the world about it: the Lease, Events,
//! metrics, the log.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use mooring_common::engine::Step as _;
use mooring_common::k8s::{EventKind, ObjectKey};
use mooring_common::names::reasons;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::EventSink;
use super::lease::Wish;
use super::links::Link;
use super::mac::Mac;
use super::members::Members;
use super::metrics::{AddressLabels, Metrics, PeerLabels, PeerState, SegmentLabels};
use super::observe::Snapshot;
use super::plan::{Assignment, assign};
use super::segments::{Step, footing, orders, steps};
use super::speaker::Notice;
use super::station::{Orders, Report, Setup, Station};

/// How many reports may wait: a burst of notices about a thousand addresses, several times.
const REPORTS: usize = 4096;
/// How long to go on announcing after the Lease was released, if nobody takes over: nobody else
/// may be there.
const FAREWELL: Duration = Duration::from_secs(1);
/// How often to look even if nothing happens, for the age of the view.
const LOOK: Duration = Duration::from_secs(5);

/// What the conductor works with.
pub struct Conductor<E> {
    /// The Node that this daemon runs on.
    pub node_name: String,
    /// What was observed.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    /// Tells of a new snapshot.
    pub published: watch::Receiver<u64>,
    /// The interfaces of this node.
    pub links: watch::Receiver<Arc<Vec<Link>>>,
    /// Where the Lease's keeper learns what it is to say.
    pub wish: watch::Sender<Option<Wish>>,
    /// Asks the keeper to renew at once.
    pub renew_now: Arc<Notify>,
    /// Who is alive.
    pub members: Members,
    /// How long a Lease holds without renewal.
    pub lease_duration: Duration,
    /// Where Events go.
    pub events: E,
    /// Where to count.
    pub metrics: Metrics,
    /// Sets the random part of the refreshes.
    pub seed: u64,
}

impl<E: EventSink> Conductor<E> {
    /// Conducts until `cancel` is cancelled. Then it waits a moment for others to take over,
    /// which they do once they see the released Lease, and falls silent.
    pub async fn run(self, cancel: CancellationToken) {
        let (sender, reports) = mpsc::channel(REPORTS);
        let mut work = Work {
            assigned_from: None,
            assignment: Assignment::default(),
            stations: BTreeMap::new(),
            on_air: BTreeMap::new(),
            complaints: BTreeMap::new(),
            peers: BTreeSet::new(),
            sender,
            c: self,
        };
        work.conduct(reports, cancel).await;
        work.close_all().await;
    }
}

/// What the last assignment was made from: if nothing of it changed, neither does the assignment.
struct AssignedFrom {
    snapshot: Arc<Snapshot>,
    live: Vec<(String, Vec<String>)>,
}

struct Work<E> {
    c: Conductor<E>,
    assigned_from: Option<AssignedFrom>,
    assignment: Assignment,
    stations: BTreeMap<String, Station>,
    /// The segments that can be spoken on, and from which MAC.
    on_air: BTreeMap<String, Mac>,
    /// What was last complained about, by segment, so that each fault is told once.
    complaints: BTreeMap<String, String>,
    /// The segments that peers are counted for.
    peers: BTreeSet<String>,
    sender: mpsc::Sender<(String, Report)>,
}

impl<E: EventSink> Work<E> {
    async fn conduct(
        &mut self,
        mut reports: mpsc::Receiver<(String, Report)>,
        cancel: CancellationToken,
    ) {
        let mut farewell: Option<Instant> = None;
        loop {
            let now = Instant::now();
            self.round(now).await;
            let silent = self
                .stations
                .values()
                .all(|station| station.orders().view.mine.is_empty());
            if farewell.is_some_and(|end| silent || now >= end) {
                return;
            }
            let next = self.c.members.next_look().into_iter().chain(farewell);
            let next = next.fold(now + LOOK, Instant::min);
            tokio::select! {
                () = cancel.cancelled(), if farewell.is_none() => {
                    farewell = Some(Instant::now() + FAREWELL);
                }
                _ = self.c.published.changed() => {}
                _ = self.c.links.changed() => {}
                Some((segment, report)) = reports.recv() => {
                    self.heed(&segment, report);
                    while let Ok((segment, report)) = reports.try_recv() {
                        self.heed(&segment, report);
                    }
                }
                () = tokio::time::sleep_until(next.into()) => {}
            }
        }
    }

    /// Decides anew, and does what differs.
    async fn round(&mut self, now: Instant) {
        let snapshot = self.c.snapshot.load_full();
        if let Some(heard) = snapshot.heard {
            self.c.metrics.view_age.set(heard.elapsed().as_secs_f64());
        }
        if !snapshot.decides_speakers() {
            return;
        }
        self.c.members.observe(snapshot.leases.values(), now);
        self.assign(&snapshot);
        let links = Arc::clone(&self.c.links.borrow_and_update());
        let footing = footing(&snapshot, &links);
        for (segment, link) in &footing {
            self.complain(&snapshot, segment, link.as_ref().err().cloned());
        }
        self.bury_dead_stations();
        let wanted = orders(
            &self.c.node_name,
            &footing,
            &self.c.members,
            &self.assignment,
        );
        let running = self
            .stations
            .iter()
            .map(|(segment, station)| (segment.clone(), station.orders()))
            .collect();
        for step in steps(&running, &wanted).steps() {
            self.apply(step).await;
        }
        self.tell_lease(&snapshot, !footing.is_empty());
        self.count_peers();
    }

    fn assign(&mut self, snapshot: &Arc<Snapshot>) {
        let live: Vec<_> = self
            .c
            .members
            .live()
            .map(|lease| (lease.node.clone(), lease.segments.keys().cloned().collect()))
            .collect();
        let same = self.assigned_from.as_ref().is_some_and(|from| {
            let old = &from.snapshot;
            Arc::ptr_eq(&old.services, &snapshot.services)
                && Arc::ptr_eq(&old.slices, &snapshot.slices)
                && Arc::ptr_eq(&old.networks, &snapshot.networks)
                && from.live == live
        });
        if !same {
            self.assignment = assign(snapshot, self.c.members.live(), &self.assignment);
            self.assigned_from = Some(AssignedFrom {
                snapshot: Arc::clone(snapshot),
                live,
            });
        }
    }

    async fn apply(&mut self, step: &Step) {
        match step {
            Step::Open { segment, orders } => {
                tracing::info!(%step, impact = %step.impact(), "announcing");
                self.open(segment, orders);
            }
            Step::Change {
                segment,
                before,
                orders,
            } => {
                let renewal_only =
                    before.attachment == orders.attachment && before.view.mine == orders.view.mine;
                if !renewal_only {
                    tracing::info!(%step, impact = %step.impact(), "announcing");
                }
                if let Some(station) = self.stations.get(segment) {
                    station.order(Arc::clone(orders));
                }
            }
            Step::Close { segment } => {
                tracing::info!(%step, impact = %step.impact(), "announcing");
                self.close(segment).await;
            }
        }
    }

    fn open(&mut self, segment: &str, orders: &Arc<Orders>) {
        let setup = Setup {
            segment: segment.to_owned(),
            orders: Arc::clone(orders),
            reports: self.sender.clone(),
            metrics: self.c.metrics.clone(),
            seed: self.c.seed,
            longest_gap: self.c.lease_duration / 2,
        };
        match Station::start(setup) {
            Ok(station) => {
                self.stations.insert(segment.to_owned(), station);
            }
            Err(error) => tracing::error!(segment, %error, "cannot start a thread"),
        }
    }

    async fn close(&mut self, segment: &str) {
        self.on_air.remove(segment);
        self.complaints.remove(segment);
        if let Some(station) = self.stations.remove(segment) {
            for address in station.orders().view.mine.keys() {
                let labels = AddressLabels::new(segment, *address);
                self.c.metrics.owner.remove(&labels);
            }
            // It waits for the thread's last frame, which is a matter of microseconds.
            let stopped = tokio::task::spawn_blocking(|| station.stop()).await;
            if let Err(error) = stopped {
                tracing::error!(segment, %error, "cannot end a segment's thread");
            }
        }
    }

    async fn close_all(&mut self) {
        let segments: Vec<_> = self.stations.keys().cloned().collect();
        for segment in segments {
            self.close(&segment).await;
        }
    }

    /// A thread that ended by itself has panicked. Its segment is opened anew.
    fn bury_dead_stations(&mut self) {
        let on_air = &mut self.on_air;
        self.stations.retain(|segment, station| {
            let dead = station.has_died();
            if dead {
                tracing::error!(%segment, "a segment's thread has died, starting another");
                on_air.remove(segment);
            }
            !dead
        });
    }

    /// A draining node keeps its Lease and lists no segment in it, so that others take over while
    /// it still speaks.
    fn tell_lease(&self, snapshot: &Snapshot, on_any_segment: bool) {
        let wish = snapshot
            .node
            .as_ref()
            .filter(|_| on_any_segment)
            .map(|node| Wish {
                node_uid: node.uid.clone(),
                segments: if snapshot.draining() {
                    BTreeMap::new()
                } else {
                    self.on_air.clone()
                },
            });
        self.c.wish.send_if_modified(|known| {
            let changed = *known != wish;
            *known = wish;
            changed
        });
    }

    fn count_peers(&mut self) {
        let mut counts: BTreeMap<String, [i64; 2]> =
            self.peers.iter().map(|s| (s.clone(), [0, 0])).collect();
        for (lease, alive) in self.c.members.known() {
            for segment in lease.segments.keys() {
                let [living, dead] = counts.entry(segment.clone()).or_default();
                *(if alive { living } else { dead }) += 1;
            }
        }
        for (segment, [living, dead]) in &counts {
            for (state, count) in [(PeerState::Alive, *living), (PeerState::Dead, *dead)] {
                let labels = PeerLabels {
                    segment: segment.clone(),
                    state,
                };
                self.c.metrics.peers.get_or_create(&labels).set(count);
            }
        }
        self.peers = counts.into_keys().collect();
    }

    fn heed(&mut self, segment: &str, report: Report) {
        match report {
            Report::OnAir(Some(mac)) => {
                tracing::info!(segment, %mac, "segment can be spoken on");
                self.on_air.insert(segment.to_owned(), mac);
                self.complaints.remove(segment);
            }
            Report::OnAir(None) => {
                tracing::info!(segment, "segment cannot be spoken on");
                self.on_air.remove(segment);
            }
            Report::Trouble(note) => {
                let snapshot = self.c.snapshot.load_full();
                self.complain_once(&snapshot, segment, note);
            }
            Report::Notice(notice) => self.heed_notice(segment, &notice),
        }
    }

    fn heed_notice(&self, segment: &str, notice: &Notice) {
        let metrics = &self.c.metrics;
        let labels = SegmentLabels::new(segment);
        match notice {
            Notice::Began(address) => {
                tracing::info!(segment, %address, "announcing an address");
                let owner = AddressLabels::new(segment, *address);
                metrics.owner.get_or_create(&owner).set(1);
                metrics.takeovers.get_or_create(&labels).inc();
                let node = &self.c.node_name;
                let note = format!("Node {node} announces {address} on L2Network {segment}.");
                self.tell(
                    segment,
                    *address,
                    EventKind::Normal,
                    reasons::ADDRESS_ANNOUNCED,
                    &note,
                );
            }
            Notice::Stopped(address) => {
                tracing::info!(segment, %address, "not announcing an address any more");
                metrics.owner.remove(&AddressLabels::new(segment, *address));
            }
            Notice::Yielded(address, mac) => {
                tracing::info!(segment, %address, %mac, "another daemon announces an address");
                metrics.yields.get_or_create(&labels).inc();
                self.c.renew_now.notify_one();
            }
            Notice::Conflict(address, mac) => {
                tracing::warn!(segment, %address, %mac, "a foreign station claims an address");
                let conflict = AddressLabels::new(segment, *address);
                metrics.conflicts.get_or_create(&conflict).inc();
                let note = format!(
                    "A station with the MAC address {mac} on L2Network {segment} claims \
                     {address}, which belongs to this Service. Find it and give it another \
                     address, or take {address} out of the ranges of the L2Network."
                );
                self.tell(
                    segment,
                    *address,
                    EventKind::Warning,
                    reasons::ADDRESS_CONFLICT,
                    &note,
                );
            }
            Notice::HeldUp(gap) => {
                tracing::warn!(segment, ?gap, "held up: silent until the lease is renewed");
                self.c.renew_now.notify_one();
            }
        }
    }

    /// Tells every Service that has the address.
    fn tell(
        &self,
        segment: &str,
        address: IpAddr,
        kind: EventKind,
        reason: &'static str,
        note: &str,
    ) {
        let Some(assigned) = self.assignment.get(segment, address) else {
            return;
        };
        let snapshot = self.c.snapshot.load();
        for key in &assigned.services {
            if let Some(service) = snapshot.services.get(key) {
                let about = service.reference(key);
                self.c.events.event(about, kind, reason, note.to_owned());
            }
        }
    }

    fn complain(&mut self, snapshot: &Snapshot, segment: &str, fault: Option<String>) {
        match fault {
            Some(note) => self.complain_once(snapshot, segment, note),
            None => {
                // What a station complains about it takes back itself, by going on air.
                if !self.stations.contains_key(segment) {
                    self.complaints.remove(segment);
                }
            }
        }
    }

    fn complain_once(&mut self, snapshot: &Snapshot, segment: &str, note: String) {
        if self.complaints.get(segment) == Some(&note) {
            return;
        }
        let node = &self.c.node_name;
        tracing::warn!(segment, %note, "segment cannot be spoken on");
        if let Some(network) = snapshot.networks.get(&ObjectKey::cluster_wide(segment)) {
            let told = format!("Node {node} cannot announce on this segment: {note}.");
            let (kind, reason) = (EventKind::Warning, reasons::SEGMENT_UNAVAILABLE);
            let about = network.reference(segment);
            self.c.events.event(about, kind, reason, told);
        }
        self.complaints.insert(segment.to_owned(), note);
    }
}
