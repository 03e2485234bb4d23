//! Brings the stations to do what was decided, and tells the world about it: the Lease, Events,
//! metrics, the log.

mod teller;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use mooring_common::engine::Step as _;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use self::teller::Teller;
use super::EventSink;
use super::entries::{self, Entries};
use super::lease::{Content, Wish};
use super::links::Link;
use super::mac::Mac;
use super::members::Members;
use super::metrics::Metrics;
use super::observe::Snapshot;
use super::old_speaker::Notice;
use super::old_station::{Orders, Report, Setup, Station};
use super::plan::{Assignment, assign};
use super::segments::{Step, footing, orders, steps};

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
    pub wish: watch::Sender<Wish>,
    /// Where the herald learns what L2Networks are to say of this Node.
    pub entries: watch::Sender<Entries>,
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
            teller: Teller::new(&self.node_name, self.events, self.metrics.clone()),
            node_name: self.node_name,
            snapshot: self.snapshot,
            published: self.published,
            links: self.links,
            wish: self.wish,
            entries: self.entries,
            renew_now: self.renew_now,
            members: self.members,
            lease_duration: self.lease_duration,
            metrics: self.metrics,
            seed: self.seed,
            assigned_from: None,
            assignment: Assignment::default(),
            stations: BTreeMap::new(),
            on_air: BTreeMap::new(),
            sender,
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
    teller: Teller<E>,
    node_name: String,
    snapshot: Arc<ArcSwap<Snapshot>>,
    published: watch::Receiver<u64>,
    links: watch::Receiver<Arc<Vec<Link>>>,
    wish: watch::Sender<Wish>,
    entries: watch::Sender<Entries>,
    renew_now: Arc<Notify>,
    members: Members,
    lease_duration: Duration,
    metrics: Metrics,
    seed: u64,
    assigned_from: Option<AssignedFrom>,
    assignment: Assignment,
    stations: BTreeMap<String, Station>,
    /// The segments that can be spoken on, and from which MAC.
    on_air: BTreeMap<String, Mac>,
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
            let next = self.members.next_look(now).into_iter().chain(farewell);
            let next = next.fold(now + LOOK, Instant::min);
            tokio::select! {
                () = cancel.cancelled(), if farewell.is_none() => {
                    farewell = Some(Instant::now() + FAREWELL);
                }
                _ = self.published.changed() => {}
                _ = self.links.changed() => {}
                Some((segment, report)) = reports.recv() => {
                    self.heed(&segment, report);
                    while let Ok((segment, report)) = reports.try_recv() {
                        self.heed(&segment, report);
                    }
                    self.teller.begun(&self.snapshot.load(), &self.assignment);
                }
                () = tokio::time::sleep_until(next.into()) => {}
            }
        }
    }

    /// Decides anew, and does what differs.
    async fn round(&mut self, now: Instant) {
        let snapshot = self.snapshot.load_full();
        self.teller.view_age(&snapshot);
        if !snapshot.decides_speakers() {
            return;
        }
        self.members.observe(snapshot.leases.values(), now);
        self.assign(&snapshot);
        let links = Arc::clone(&self.links.borrow_and_update());
        let footing = footing(&snapshot, &links);
        for (segment, link) in &footing {
            match link {
                Err(fault) => self.teller.complain(&snapshot, segment, fault.clone()),
                // What a station complains about it takes back itself, by going on air.
                Ok(_) if self.stations.contains_key(segment) => {}
                Ok(_) => self.teller.mended(segment),
            }
        }
        self.bury_dead_stations();
        let wanted = orders(&self.node_name, &footing, &self.members, &self.assignment);
        let running = self
            .stations
            .iter()
            .map(|(segment, station)| (segment.clone(), station.orders()))
            .collect();
        for step in steps(&running, &wanted).steps() {
            self.apply(step).await;
        }
        self.tell_lease(&snapshot, !footing.is_empty());
        let wanted = entries::changes(&snapshot, &self.node_name, &footing, &self.on_air, |name| {
            self.teller.complaint(name)
        });
        send_if_new(&self.entries, wanted);
        self.teller.peers(&self.members);
    }

    fn assign(&mut self, snapshot: &Arc<Snapshot>) {
        let live: Vec<_> = self
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
            self.assignment = assign(snapshot, self.members.live(), &self.assignment);
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
            metrics: self.metrics.clone(),
            seed: self.seed,
            longest_gap: self.lease_duration / 2,
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
        self.teller.mended(segment);
        if let Some(station) = self.stations.remove(segment) {
            for address in station.orders().view.mine.keys() {
                self.teller.stopped(segment, *address);
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
        let own_lease = || {
            let mut leases = snapshot.leases.values();
            leases.find(|lease| lease.node == self.node_name)
        };
        let wish = match &snapshot.node {
            Some(node) if on_any_segment => Wish::Hold(Content {
                node_uid: node.uid.clone(),
                segments: if snapshot.draining() {
                    BTreeMap::new()
                } else {
                    self.on_air.clone()
                },
            }),
            _ if own_lease().is_some_and(|lease| !lease.is_idle()) => Wish::LetGo,
            _ => Wish::None,
        };
        send_if_new(&self.wish, wish);
    }

    fn heed(&mut self, segment: &str, report: Report) {
        // What a station said before it was closed is out of date.
        if !self.stations.contains_key(segment) {
            return;
        }
        match report {
            Report::OnAir(Some(mac)) => {
                tracing::info!(segment, %mac, "segment can be spoken on");
                self.on_air.insert(segment.to_owned(), mac);
                self.teller.mended(segment);
            }
            Report::OnAir(None) => {
                tracing::info!(segment, "segment cannot be spoken on");
                self.on_air.remove(segment);
            }
            Report::Trouble(fault) => {
                self.teller.complain(&self.snapshot.load(), segment, fault);
            }
            Report::Notice(notice) => self.heed_notice(segment, &notice),
        }
    }

    fn heed_notice(&mut self, segment: &str, notice: &Notice) {
        match notice {
            Notice::Began(address) => self.teller.began(segment, *address),
            Notice::Stopped(address) => self.teller.stopped(segment, *address),
            Notice::Yielded(address, mac) => {
                self.teller.yielded(segment, *address, *mac);
                self.renew_now.notify_one();
            }
            Notice::Conflict(address, mac) => {
                let snapshot = self.snapshot.load();
                let claim = (*address, *mac);
                self.teller
                    .conflict(&snapshot, &self.assignment, segment, claim);
            }
            Notice::HeldUp(gap) => {
                tracing::warn!(segment, ?gap, "held up: silent until the lease is renewed");
                self.renew_now.notify_one();
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
