//! Reports to people: Events, metrics, the log. And keeps the status of each segment.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use mooring_common::k8s::EventKind;
use mooring_common::maintenance::Maintenance;
use mooring_common::names::{reasons, segment_notices};

use crate::announce::EventSink;
use crate::announce::control_plane_entry::Findings;
use crate::announce::entries::SegmentStatus;
use crate::announce::kernel_answers::KernelAnswers;
use crate::announce::permitted::RefusedAddresses;
use crate::announce::plan::Assignment;
use crate::announce::spoken::{reason, spoken_for};
use crate::cluster::snapshot::Snapshot;
use crate::protocol::mac::Mac;
use crate::protocol::{Cause, NodeId};
use crate::responder::Member;
use crate::responder::metrics::{AddressLabels, CauseLabels, Metrics};

mod control_plane;
mod events;

/// How long a majority must be lost before that is reported: a daemon that starts has not heard it yet.
const QUORUM_LOST_AFTER: Duration = Duration::from_secs(3);
/// How long the notice stays that this Node has started another run.
const BEGUN_ANEW_LASTS: Duration = Duration::from_secs(60);

/// A change of the speaker of an address, to this node.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) address: IpAddr,
    pub(super) cause: Cause,
    /// Who spoke before.
    pub(super) former: Option<String>,
    /// For how long nobody could be heard.
    pub(super) dark_for: Option<Duration>,
}

/// Reports what happens on the segments.
pub(super) struct EventReporter<E> {
    node_name: String,
    events: E,
    metrics: Metrics,
    status: BTreeMap<String, SegmentStatus>,
    members: BTreeMap<String, Members>,
    /// The changes that no Event reports yet, by segment.
    begun: BTreeMap<String, Vec<Change>>,
    /// What Services claim and is not announced.
    refused: RefusedAddresses,
    /// What this process has spoken for, by segment.
    spoken: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The addresses of a segment that are left to other stations.
    occupied: BTreeSet<(String, IpAddr)>,
    /// What is wrong with the Node's annotation of its maintenance.
    maintenance_fault: Option<String>,
    /// What this Node's kernel answers for, by segment.
    kernel_answers: BTreeMap<String, KernelAnswers>,
    /// The kernel cannot pass connections on.
    connections_not_kept: bool,
    /// What is found about the address of the control plane.
    control_plane: Findings,
}

/// The members of a segment.
#[derive(Default)]
struct Members {
    own: Option<Member>,
    /// Since when too few voters have been heard.
    no_quorum_since: Option<Instant>,
    /// When this Node has last begun anew.
    begun_anew: Option<Instant>,
}

impl<E: EventSink> EventReporter<E> {
    pub(super) fn new(node_name: &str, events: E, metrics: Metrics) -> Self {
        // Until it says otherwise.
        metrics.service_proxy.set(Some(true));
        Self {
            node_name: node_name.to_owned(),
            events,
            metrics,
            status: BTreeMap::new(),
            members: BTreeMap::new(),
            begun: BTreeMap::new(),
            refused: RefusedAddresses::new(),
            spoken: BTreeMap::new(),
            occupied: BTreeSet::new(),
            maintenance_fault: None,
            kernel_answers: BTreeMap::new(),
            connections_not_kept: false,
            control_plane: Findings::new(),
        }
    }

    /// How this Node does on each segment.
    pub(super) const fn status(&self) -> &BTreeMap<String, SegmentStatus> {
        &self.status
    }

    /// What this process has spoken for of what is still to be announced, by segment.
    pub(super) fn spoken(
        &mut self,
        assignment: &Assignment,
    ) -> &BTreeMap<String, BTreeSet<IpAddr>> {
        for (segment, addresses) in &mut self.spoken {
            addresses.retain(|address| assignment.get(segment, *address).is_some());
        }
        self.spoken.retain(|_, addresses| !addresses.is_empty());
        &self.spoken
    }

    fn of(&mut self, segment: &str) -> &mut SegmentStatus {
        let metrics = &self.metrics;
        self.status.entry(segment.to_owned()).or_insert_with(|| {
            metrics.count_from_zero(segment, &BEGINNINGS.map(reason));
            SegmentStatus::default()
        })
    }

    /// How old the snapshot is.
    pub(super) fn view_age(&self, snapshot: &Snapshot) {
        if let Some(heard) = snapshot.heard {
            self.metrics.view_age.set(heard.elapsed().as_secs_f64());
        }
    }

    /// The annotation of the Node's maintenance is to name an end, and cannot be read: reported once.
    pub(super) fn maintenance(&mut self, snapshot: &Snapshot) {
        let maintenance = snapshot.maintenance();
        let fault = match &maintenance {
            Maintenance::Unreadable(_) => Some(maintenance.to_string()),
            Maintenance::Off | Maintenance::On | Maintenance::Until(_) => None,
        };
        if fault == self.maintenance_fault {
            return;
        }
        if let (Some(fault), Some(node)) = (&fault, &snapshot.node) {
            tracing::warn!(%fault, "the end of the maintenance cannot be read");
            let (kind, reason) = (EventKind::Warning, reasons::MAINTENANCE_UNREADABLE);
            let note = format!("Node {} is {fault}.", self.node_name);
            self.events.event(node.reference(), kind, reason, note);
        }
        self.maintenance_fault = fault;
    }

    /// The segment can be spoken on, or not any more.
    pub(super) fn responding_from(&mut self, segment: &str, mac: Option<Mac>) {
        match mac {
            Some(mac) => tracing::info!(segment, %mac, "segment can be spoken on"),
            None => tracing::info!(segment, "segment cannot be spoken on"),
        }
        let status = self.of(segment);
        status.responding_from = mac;
        if mac.is_some() {
            status.fault = None;
        }
    }

    /// Heartbeats cannot go over the node network, and why; or they can again.
    pub(super) fn node_network(&self, segment: &str, fault: Option<&str>) {
        match fault {
            Some(fault) => tracing::warn!(segment, fault, "no heartbeats over the node network"),
            None => tracing::info!(segment, "heartbeats go over the node network again"),
        }
    }

    /// The members of a segment, this one among them.
    pub(super) fn members(&mut self, segment: &str, members: &[Member], own: NodeId) {
        let known = self.members.entry(segment.to_owned()).or_default();
        known.own = members.iter().find(|member| member.node == own).cloned();
        let quorum = known.own.as_ref().is_none_or(|own| own.flags.hears_quorum);
        known.no_quorum_since =
            (!quorum).then(|| known.no_quorum_since.unwrap_or_else(Instant::now));
    }

    /// Others refused what this Node said as old, or it theirs, and it has begun anew.
    pub(super) fn begun_anew(&mut self, segment: &str, now: Instant) {
        tracing::warn!(
            segment,
            "heartbeats were refused as old, here or by other nodes: this one has begun anew; does \
             another machine run with the state of this one?"
        );
        let known = self.members.entry(segment.to_owned()).or_default();
        known.begun_anew = Some(now);
    }

    /// The kernel cannot pass connections on to the node that they began at; or it can.
    pub(super) const fn connections_not_kept(&mut self, so: bool) {
        self.connections_not_kept = so;
    }

    /// For so many addresses older connections are passed on.
    pub(super) fn forwarded(&self, addresses: usize) {
        let addresses = i64::try_from(addresses).unwrap_or(i64::MAX);
        self.metrics.forwarded.set(addresses);
    }

    /// Updates the notices of all segments.
    pub(super) fn look(&mut self, unsigned: bool, service_proxy_works: bool, now: Instant) {
        self.metrics.service_proxy.set(Some(service_proxy_works));
        for (segment, members) in &self.members {
            let own = members.own.as_ref();
            let silent = members.no_quorum_since;
            let lost = silent.is_some_and(|since| now.duration_since(since) >= QUORUM_LOST_AFTER);
            let filtered = own.is_some_and(|own| own.flags.segment_filtered);
            let refused = self.refused.keys().any(|(of, _)| of == segment);
            let occupied = self.occupied.iter().any(|(of, _)| of == segment);
            let begun_anew = members.begun_anew;
            let lately = begun_anew.is_some_and(|at| now.duration_since(at) < BEGUN_ANEW_LASTS);
            let notices: Vec<&'static str> = [
                (occupied, segment_notices::ADDRESS_CONFLICT),
                (refused, segment_notices::ADDRESS_REFUSED),
                (
                    self.kernel_answers.contains_key(segment),
                    segment_notices::KERNEL_ANSWERS,
                ),
                (unsigned, segment_notices::HEARTBEATS_UNSIGNED),
                (lost, segment_notices::QUORUM_LOST),
                (filtered, segment_notices::SEGMENT_FILTERED),
                (lately, segment_notices::BEGUN_ANEW),
                (
                    self.connections_not_kept,
                    segment_notices::CONNECTIONS_NOT_KEPT,
                ),
                (
                    !service_proxy_works,
                    segment_notices::SERVICE_PROXY_UNHEALTHY,
                ),
            ]
            .into_iter()
            .filter_map(|(is_so, notice)| is_so.then_some(notice))
            .collect();
            let status = self.status.entry(segment.clone()).or_default();
            for notice in notices.iter().filter(|n| !status.notices.contains(n)) {
                tracing::warn!(segment, notice, "to be known of this segment");
            }
            for notice in status.notices.iter().filter(|n| !notices.contains(n)) {
                tracing::info!(segment, notice, "no longer so on this segment");
            }
            status.notices = notices;
        }
    }

    /// This node speaks for an address from now on. The Event waits for [`Self::report_begun`].
    pub(super) fn began(&mut self, segment: &str, change: Change) {
        let (address, reason) = (change.address, reason(change.cause));
        let epoch = self.epoch(segment);
        tracing::info!(
            segment,
            %address,
            reason,
            epoch,
            former = change.former.as_deref(),
            dark_for = change.dark_for.map(|time| time.as_secs_f64()),
            "announcing an address"
        );
        let owner = AddressLabels::new(segment, address);
        self.metrics.owner.get_or_create(&owner).set(1);
        let labels = CauseLabels {
            segment: segment.to_owned(),
            reason,
        };
        self.metrics.takeovers.get_or_create(&labels).inc();
        let spoken_for = spoken_for(address, change.cause);
        self.of(segment).speaks_for.insert(address, spoken_for);
        let spoken = self.spoken.entry(segment.to_owned()).or_default();
        spoken.insert(address);
        let begun = self.begun.entry(segment.to_owned()).or_default();
        begun.push(change);
    }

    fn epoch(&self, segment: &str) -> Option<u32> {
        let own = self.members.get(segment)?.own.as_ref()?;
        Some(own.epoch.0)
    }

    /// This node does not speak for an address any more.
    pub(super) fn stopped(&mut self, segment: &str, address: IpAddr, cause: Cause) {
        let (reason, epoch) = (reason(cause), self.epoch(segment));
        tracing::info!(segment, %address, reason, epoch, "not announcing an address any more");
        self.metrics
            .owner
            .remove(&AddressLabels::new(segment, address));
        self.of(segment).speaks_for.remove(&address);
    }

    /// This Node has no part in a segment any more.
    pub(super) fn closed(&mut self, segment: &str) {
        self.members.remove(segment);
        self.begun.remove(segment);
        self.occupied.retain(|(of, _)| of != segment);
        for address in self
            .status
            .remove(segment)
            .unwrap_or_default()
            .speaks_for
            .into_keys()
        {
            tracing::info!(segment, %address, "not announcing an address any more");
            self.metrics
                .owner
                .remove(&AddressLabels::new(segment, address));
        }
    }
}

/// Why an address may be spoken for here.
const BEGINNINGS: [Cause; 5] = [
    Cause::Unclaimed,
    Cause::TakenOver,
    Cause::HandedOver,
    Cause::GivenBack,
    Cause::Inherited,
];
