//! Tells people: Events, metrics, the log.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mooring_common::k8s::{EventKind, ObjectKey};
use mooring_common::names::reasons;

use super::super::EventSink;
use super::super::mac::Mac;
use super::super::members::Members;
use super::super::metrics::{AddressLabels, Metrics, PeerLabels, SegmentLabels};
use super::super::observe::Snapshot;
use super::super::plan::Assignment;

/// Tells people what happens on the segments.
pub(super) struct Teller<E> {
    node_name: String,
    events: E,
    metrics: Metrics,
    /// What was last complained about, by segment, so that each fault is told once.
    complaints: BTreeMap<String, String>,
    /// The segments that peers are counted for.
    peers: BTreeSet<String>,
    /// The addresses that we have begun to announce and not yet told of, by segment.
    begun: BTreeMap<String, BTreeSet<IpAddr>>,
}

impl<E: EventSink> Teller<E> {
    pub(super) fn new(node_name: &str, events: E, metrics: Metrics) -> Self {
        Self {
            node_name: node_name.to_owned(),
            events,
            metrics,
            complaints: BTreeMap::new(),
            peers: BTreeSet::new(),
            begun: BTreeMap::new(),
        }
    }

    /// How old the snapshot is.
    pub(super) fn view_age(&self, snapshot: &Snapshot) {
        if let Some(heard) = snapshot.heard {
            self.metrics.view_age.set(heard.elapsed().as_secs_f64());
        }
    }

    /// Who is there.
    pub(super) fn peers(&mut self, members: &Members) {
        let mut counts: BTreeMap<String, [i64; 2]> =
            self.peers.iter().map(|s| (s.clone(), [0, 0])).collect();
        for (lease, alive) in members.known() {
            for segment in lease.segments.keys() {
                let [living, dead] = counts.entry(segment.clone()).or_default();
                *(if alive { living } else { dead }) += 1;
            }
        }
        for (segment, [living, dead]) in &counts {
            for (state, count) in [("alive", *living), ("dead", *dead)] {
                let labels = PeerLabels {
                    segment: segment.clone(),
                    state,
                };
                self.metrics.peers.get_or_create(&labels).set(count);
            }
        }
        self.peers = counts.into_keys().collect();
    }

    /// We announce an address from now on. The Event waits for [`Self::begun`].
    pub(super) fn began(&mut self, segment: &str, address: IpAddr) {
        tracing::info!(segment, %address, "announcing an address");
        let owner = AddressLabels::new(segment, address);
        self.metrics.owner.get_or_create(&owner).set(1);
        let labels = SegmentLabels::new(segment);
        self.metrics.takeovers.get_or_create(&labels).inc();
        self.begun
            .entry(segment.to_owned())
            .or_default()
            .insert(address);
    }

    /// We do not announce an address any more.
    pub(super) fn stopped(&self, segment: &str, address: IpAddr) {
        tracing::info!(segment, %address, "not announcing an address any more");
        let owner = AddressLabels::new(segment, address);
        self.metrics.owner.remove(&owner);
    }

    /// Another daemon announces an address of ours.
    pub(super) fn yielded(&self, segment: &str, address: IpAddr, mac: Mac) {
        tracing::info!(segment, %address, %mac, "another daemon announces an address");
        let labels = SegmentLabels::new(segment);
        self.metrics.yields.get_or_create(&labels).inc();
    }

    /// Tells each Service, once, of all its addresses that we have begun to announce.
    pub(super) fn begun(&mut self, snapshot: &Snapshot, assignment: &Assignment) {
        for (segment, addresses) in std::mem::take(&mut self.begun) {
            let mut by_service: BTreeMap<&ObjectKey, Vec<String>> = BTreeMap::new();
            let begun = assignment
                .of(&segment)
                .filter(|(address, _)| addresses.contains(address));
            for (address, assigned) in begun {
                for service in &assigned.services {
                    let told = by_service.entry(service).or_default();
                    told.push(address.to_string());
                }
            }
            for (key, addresses) in by_service {
                let (node, addresses) = (&self.node_name, addresses.join(" and "));
                let note = format!("Node {node} announces {addresses} on L2Network {segment}.");
                let reason = reasons::ADDRESS_ANNOUNCED;
                self.tell_service(snapshot, key, EventKind::Normal, reason, note);
            }
        }
    }

    /// A station that is none of ours claims an address: tells every Service that has it.
    pub(super) fn conflict(
        &self,
        snapshot: &Snapshot,
        assignment: &Assignment,
        segment: &str,
        (address, mac): (IpAddr, Mac),
    ) {
        tracing::warn!(segment, %address, %mac, "a foreign station claims an address");
        let labels = AddressLabels::new(segment, address);
        self.metrics.conflicts.get_or_create(&labels).inc();
        let Some(assigned) = assignment.get(segment, address) else {
            return;
        };
        for key in &assigned.services {
            let note = format!(
                "A station with the MAC address {mac} on L2Network {segment} claims {address}, \
                 which belongs to this Service. Find it and give it another address, or take \
                 {address} out of the ranges of the L2Network."
            );
            let reason = reasons::ADDRESS_CONFLICT;
            self.tell_service(snapshot, key, EventKind::Warning, reason, note);
        }
    }

    /// This node cannot speak on a segment, and why: told once for each reason.
    pub(super) fn complain(&mut self, snapshot: &Snapshot, segment: &str, fault: String) {
        if self.complaints.get(segment) == Some(&fault) {
            return;
        }
        tracing::warn!(segment, %fault, "segment cannot be spoken on");
        if let Some(network) = snapshot.networks.get(&ObjectKey::cluster_wide(segment)) {
            let node = &self.node_name;
            let note = format!("Node {node} cannot announce on this segment: {fault}.");
            let (kind, reason) = (EventKind::Warning, reasons::SEGMENT_UNAVAILABLE);
            let about = network.reference(segment);
            self.events.event(about, kind, reason, note);
        }
        self.complaints.insert(segment.to_owned(), fault);
    }

    /// Why this node cannot speak on a segment, as far as that was told.
    pub(super) fn complaint(&self, segment: &str) -> Option<&str> {
        self.complaints.get(segment).map(String::as_str)
    }

    /// What was complained about is mended.
    pub(super) fn mended(&mut self, segment: &str) {
        self.complaints.remove(segment);
    }

    fn tell_service(
        &self,
        snapshot: &Snapshot,
        key: &ObjectKey,
        kind: EventKind,
        reason: &'static str,
        note: String,
    ) {
        if let Some(service) = snapshot.services.get(key) {
            let about = service.reference(key);
            self.events.event(about, kind, reason, note);
        }
    }
}
