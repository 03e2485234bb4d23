//! The Events: on Services of which an address is announced, or not, and on the Node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mooring_common::k8s::{EventKind, ObjectKey};
use mooring_common::names::reasons;

use super::{Change, EventReporter};
use crate::announce::EventSink;
use crate::announce::kernel_answers::{self, KernelAnswers};
use crate::announce::permitted::RefusedAddresses;
use crate::announce::plan::Assignment;
use crate::announce::spoken::reason;
use crate::cluster::snapshot::Snapshot;
use crate::protocol::Cause;
use crate::protocol::mac::Mac;
use crate::responder::metrics::AddressLabels;

impl<E: EventSink> EventReporter<E> {
    /// One Event for each Service, with all its addresses that this node has begun to announce.
    pub(in crate::announce::supervisor) fn report_begun(
        &mut self,
        snapshot: &Snapshot,
        assignment: &Assignment,
    ) {
        // What no Service has any more is nobody's to ask about.
        self.occupied
            .retain(|(segment, address)| assignment.get(segment, *address).is_some());
        for (segment, changes) in std::mem::take(&mut self.begun) {
            let mut by_service: BTreeMap<&ObjectKey, Vec<&Change>> = BTreeMap::new();
            for change in &changes {
                let assigned = assignment.get(&segment, change.address);
                for service in assigned.into_iter().flat_map(|assigned| &assigned.services) {
                    by_service.entry(service).or_default().push(change);
                }
            }
            for (key, mut changes) in by_service {
                changes.sort_by_key(|change| change.address);
                changes.dedup_by_key(|change| change.address);
                let note = note(&self.node_name, &segment, &changes);
                let reason = reasons::ADDRESS_ANNOUNCED;
                self.report_service(snapshot, key, EventKind::Normal, reason, note);
            }
        }
    }

    /// Services share addresses that this node announces already: one Event for each of them, with all its
    /// addresses.
    pub(in crate::announce::supervisor) fn report_joined(
        &self,
        snapshot: &Snapshot,
        before: &Assignment,
        now: &Assignment,
    ) {
        for (segment, status) in &self.status {
            let mut by_service: BTreeMap<&ObjectKey, (Vec<String>, &ObjectKey)> = BTreeMap::new();
            let begun = self.begun.get(segment);
            // Of those that it has just begun to announce, all Services are told.
            let is_told = |address: &&IpAddr| {
                let mut begun = begun.into_iter().flatten();
                !begun.any(|change| change.address == **address)
            };
            for address in status.speaks_for.keys().filter(is_told) {
                let Some((first, joined)) = before.joined(now, segment, *address) else {
                    continue;
                };
                for service in joined {
                    let known = by_service.entry(service);
                    known
                        .or_insert((Vec::new(), first))
                        .0
                        .push(address.to_string());
                }
            }
            for (key, (addresses, first)) in by_service {
                let note = format!(
                    "Node {} announces {} on L2Network {segment}, as it does for Service {first} already.",
                    self.node_name,
                    addresses.join(" and ")
                );
                let reason = reasons::ADDRESS_ANNOUNCED;
                self.report_service(snapshot, key, EventKind::Normal, reason, note);
            }
        }
    }

    /// A station that is no daemon's claims an address: an Event for each Service that has it.
    pub(in crate::announce::supervisor) fn conflict(
        &self,
        snapshot: &Snapshot,
        assignment: &Assignment,
        segment: &str,
        (address, mac): (IpAddr, Mac),
    ) {
        tracing::warn!(segment, %address, %mac, "a foreign station claims an address");
        let note = format!(
            "A station with the MAC address {mac} on L2Network {segment} claims {address}, \
             which belongs to this Service. Find it and give it another address, or take \
             {address} out of the ranges of the L2Network."
        );
        self.report_conflict(snapshot, assignment, (segment, address), &note);
    }

    /// Another station has an address before anybody here has spoken for it, or (`None`) has it no more: an
    /// Event for each Service that is to have it.
    pub(in crate::announce::supervisor) fn occupied(
        &mut self,
        snapshot: &Snapshot,
        assignment: &Assignment,
        segment: &str,
        (address, mac): (IpAddr, Option<Mac>),
    ) {
        let Some(mac) = mac else {
            tracing::info!(segment, %address, "nobody else has this address any more");
            self.occupied.remove(&(segment.to_owned(), address));
            return;
        };
        tracing::warn!(segment, %address, %mac, "another station has an address: it is left to that");
        self.occupied.insert((segment.to_owned(), address));
        let note = format!(
            "Another station, with the MAC address {mac}, answers for {address} on L2Network {segment}. No Node \
             announces the address for this Service until that station has given it up. Remove what else \
             announces it (another load balancer implementation; kube-proxy in IPVS mode without strictARP), \
             or take {address} out of the ranges of the L2Network."
        );
        self.report_conflict(snapshot, assignment, (segment, address), &note);
    }

    fn report_conflict(
        &self,
        snapshot: &Snapshot,
        assignment: &Assignment,
        (segment, address): (&str, IpAddr),
        note: &str,
    ) {
        let labels = AddressLabels::new(segment, address);
        self.metrics.conflicts.get_or_create(&labels).inc();
        let assigned = assignment.get(segment, address);
        for key in assigned.into_iter().flat_map(|assigned| &assigned.services) {
            let reason = reasons::ADDRESS_CONFLICT;
            self.report_service(snapshot, key, EventKind::Warning, reason, note.to_owned());
        }
    }

    /// What Services claim and is not announced. Each Service gets one Event, from the daemon of the voter
    /// that comes first by name.
    pub(in crate::announce::supervisor) fn refused(
        &mut self,
        snapshot: &Snapshot,
        refused: RefusedAddresses,
    ) {
        for ((segment, key), addresses) in &refused {
            let known = self.refused.get(&(segment.clone(), key.clone()));
            if known == Some(addresses) {
                continue;
            }
            for (address, why) in addresses {
                tracing::warn!(segment, service = %key, %address, %why, "address refused");
            }
            let network = snapshot
                .networks
                .get(&ObjectKey::cluster_wide(segment.as_str()));
            let voters = network.and_then(|network| network.voters.as_ref());
            let first = voters.and_then(|voters| voters.nodes.iter().min());
            if first.is_some_and(|first| *first != self.node_name) {
                continue;
            }
            let refused: Vec<String> = addresses
                .iter()
                .map(|(address, why)| format!("{address} ({why})"))
                .collect();
            let note = format!(
                "No Node announces {} on L2Network {segment} for this Service. Correct the ranges of \
                 the L2Network, or find out who has written this address into the status.",
                refused.join(" and ")
            );
            let reason = reasons::ADDRESS_REFUSED;
            self.report_service(snapshot, key, EventKind::Warning, reason, note);
        }
        self.refused = refused;
    }

    /// What this Node's kernel answers for by itself: one Event for each segment and interface, until it has
    /// stopped.
    pub(in crate::announce::supervisor) fn report_kernel_answers(
        &mut self,
        snapshot: &Snapshot,
        answers: BTreeMap<String, KernelAnswers>,
    ) {
        for (segment, interfaces) in &answers {
            let known = self.kernel_answers.get(segment);
            for (interface, addresses) in interfaces {
                if known.is_some_and(|known| known.contains_key(interface)) {
                    continue;
                }
                let note = kernel_answers::note(&self.node_name, segment, interface, addresses);
                tracing::warn!(segment, interface, "{note}");
                let key = ObjectKey::cluster_wide(segment.as_str());
                if let Some(network) = snapshot.networks.get(&key) {
                    let (kind, reason) = (EventKind::Warning, reasons::KERNEL_ANSWERS);
                    self.events
                        .event(network.reference(segment), kind, reason, note);
                }
            }
        }
        self.kernel_answers = answers;
    }

    /// This node cannot speak on a segment, and why: reported once for each reason.
    pub(in crate::announce::supervisor) fn report_fault(
        &mut self,
        snapshot: &Snapshot,
        segment: &str,
        fault: &str,
    ) {
        if self.of(segment).fault.as_deref() == Some(fault) {
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
        self.of(segment).fault = Some(fault.to_owned());
    }

    /// A fault that was reported is gone.
    pub(in crate::announce::supervisor) fn fault_cleared(&mut self, segment: &str) {
        if let Some(status) = self.status.get_mut(segment) {
            status.fault = None;
        }
    }

    fn report_service(
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

/// What an Event says about changes of the addresses of one Service.
fn note(node: &str, segment: &str, changes: &[&Change]) -> String {
    let addresses: Vec<String> = changes.iter().map(|c| c.address.to_string()).collect();
    let addresses = addresses.join(" and ");
    let mut note = format!("Node {node} announces {addresses} on L2Network {segment}");
    if let Some(change) = changes.first() {
        let former = change.former.as_deref();
        let former = former.map(|former| format!("Node {former}"));
        note.push_str(": ");
        note.push_str(&match (change.cause, former) {
            (Cause::TakenOver, former) => {
                let former = former.unwrap_or_else(|| "its speaker".to_owned());
                format!("{former} fell silent")
            }
            (Cause::HandedOver, Some(former)) => format!("{former} handed it over"),
            (Cause::HandedOver, None) => "it was handed over".to_owned(),
            (Cause::GivenBack, Some(former)) => format!("{former} gave it back"),
            (Cause::GivenBack, None) => "it was given back".to_owned(),
            (Cause::Inherited, _) => "the daemon was replaced there".to_owned(),
            _ => "nobody did".to_owned(),
        });
        if let Some(dark_for) = changes.iter().filter_map(|change| change.dark_for).max() {
            note.push_str(&format!(" ({} ms before)", dark_for.as_millis()));
        }
        note.push_str(&format!(" ({})", reason(change.cause)));
    }
    note.push('.');
    note
}
