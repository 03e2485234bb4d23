//! What a segment does: what the machine has decided, and what it says.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Segment;
use crate::protocol::mac::Mac;
use crate::protocol::{
    AnnounceMode, ApiAnswer, Body, Cause, ConnectionEvent, Decision, Destination, Key, Moment,
    Path, Transition, Transmit,
};
use crate::responder::address_responder::{Beginning, Notice};
use crate::responder::shared::Shared;
use crate::responder::{ConnectionReport, Report};
use crate::wire::codec;
use crate::wire::frames;

/// From when on a gateway that has not answered counts as unreachable.
const GATEWAY_TIMEOUT: Duration = Duration::from_millis(300);
/// Heartbeats of which the echo is waited for.
const BEATS: usize = 8;

impl Segment {
    /// Does what the machine has decided, and sends what it says, in this order: it has fallen
    /// silent before it says so.
    pub(super) fn settle(&mut self, shared: &Shared, now: Moment) {
        while let Some(decision) = self.machine.poll_decision() {
            self.carry_out(decision, shared, now);
        }
        while let Some(transmit) = self.machine.poll_transmit() {
            self.transmit(transmit, shared, now);
        }
        self.report_notices(shared);
        if self.desired.ending && !self.has_ended && self.machine.has_ended() {
            self.has_ended = true;
            self.report(shared, Report::Ended);
        }
    }

    pub(super) fn carry_out(&mut self, decision: Decision, shared: &Shared, now: Moment) {
        match decision {
            Decision::Begin {
                key,
                mode,
                cause,
                former,
                silent_since,
            } => {
                let mut beginning = Beginning {
                    key,
                    mode,
                    cause,
                    former,
                    silent_since,
                };
                if cause == Cause::Inherited {
                    let quiet = self.quiet.contains(&key);
                    beginning.mode = if quiet {
                        AnnounceMode::OnRequest
                    } else {
                        AnnounceMode::Unsolicited
                    };
                }
                if let Some(since) = silent_since.filter(|_| cause == Cause::TakenOver) {
                    let dark = now.since(since);
                    shared.metrics.segments.takeover.observe(dark.as_secs_f64());
                }
                self.responder.begin(&beginning, now);
                let is_announced =
                    cause != Cause::Inherited && beginning.mode == AnnounceMode::Unsolicited;
                let addresses = self.addresses_of(key).into_iter();
                let reports = addresses.map(|address| ConnectionReport::Began {
                    address,
                    former,
                    is_announced,
                });
                self.report_all(reports.collect(), shared);
                if cause == Cause::Inherited && self.unfinished.contains(&key) {
                    self.responder.burst(key, now);
                }
            }
            Decision::Stop { key, cause } => self.responder.stop(key, cause),
            Decision::Burst { key } => {
                self.responder.burst(key, now);
                let addresses = self.addresses_of(key).into_iter();
                self.report_all(addresses.map(ConnectionReport::Announced).collect(), shared);
            }
            Decision::Ask(request) => {
                let uid = self.desired.uid.clone();
                if !self.report(shared, Report::Ask(request, now, uid)) {
                    self.machine.api_answered(ApiAnswer::Unreachable, now, now);
                }
            }
            Decision::ProbeKernel { node, addresses } => {
                let contact = self.peers.contact(node, &self.desired.view);
                let station = contact.and_then(|contact| contact.mac);
                for address in addresses {
                    self.kernels.insert(address, node);
                    self.probe_stations(address, station);
                }
            }
            Decision::ProbeAddress { key, stations } => {
                let desired = Arc::clone(&self.desired);
                for address in desired.addresses.get(&key).into_iter().flatten() {
                    self.probe_stations(*address.0, stations.iter().copied());
                }
            }
            Decision::ProbeSegment { key } => {
                let desired = Arc::clone(&self.desired);
                for address in desired.addresses.get(&key).into_iter().flatten() {
                    let source = self.own_address(|own| own.is_ipv6() && address.0.is_ipv6());
                    self.probe(source, *address.0);
                }
            }
            Decision::Conflict { key, station } => {
                let desired = Arc::clone(&self.desired);
                for address in desired.addresses.get(&key).into_iter().flatten() {
                    let (address, mac) = (*address.0, station);
                    self.report(shared, Report::Occupied { address, mac });
                }
            }
            Decision::Connections(event) => self.report_connections(event, shared),
            Decision::ProbeGateway => {
                let asked = *self.gateway_asked.get_or_insert(now);
                if now.since(asked) >= GATEWAY_TIMEOUT {
                    self.labels.gateway(&shared.metrics.segments, false);
                }
                let desired = Arc::clone(&self.desired);
                for gateway in &desired.gateways {
                    let source = self.own_address(|own| own.is_ipv4() == gateway.is_ipv4());
                    self.probe(source, *gateway);
                }
            }
            Decision::Note(transition) => self.note(transition, shared, now),
        }
    }

    fn addresses_of(&self, key: Key) -> Vec<IpAddr> {
        let addresses = self.desired.addresses.get(&key);
        addresses.map_or_else(Vec::new, |addresses| addresses.keys().copied().collect())
    }

    /// Reports by addresses what the machine says by keys.
    fn report_connections(&mut self, event: ConnectionEvent, shared: &Shared) {
        let of = |key: Key| self.addresses_of(key).into_iter();
        let reports: Vec<ConnectionReport> = match event {
            ConnectionEvent::Offered { key, former } => of(key)
                .map(|address| ConnectionReport::Offered { address, former })
                .collect(),
            ConnectionEvent::HandingOn { key, to } => of(key)
                .map(|address| ConnectionReport::HandingOn { address, to })
                .collect(),
            ConnectionEvent::HandedOn {
                key,
                to,
                is_announced,
            } => of(key)
                .map(|address| ConnectionReport::HandedOn {
                    address,
                    to,
                    is_announced,
                })
                .collect(),
            ConnectionEvent::Gone(node) => vec![ConnectionReport::Gone(node)],
            ConnectionEvent::Counted { from, counts } => {
                let counts = counts.into_iter();
                let reports = counts.flat_map(|(key, connections)| {
                    of(key).map(move |address| ConnectionReport::Counted {
                        from,
                        address,
                        connections,
                    })
                });
                reports.collect()
            }
        };
        self.report_all(reports, shared);
    }

    fn report_all(&mut self, reports: Vec<ConnectionReport>, shared: &Shared) {
        if self.desired.keep_connections.is_zero() {
            return;
        }
        let reports = reports.into_iter().map(Report::Connections);
        self.unreported.extend(reports);
        self.report_left(shared);
    }

    /// Reports in order what must not be lost, as far as there is room: a node that has missed who spoke when could pass on
    /// in a circle.
    pub(super) fn report_left(&mut self, shared: &Shared) {
        while let Some(report) = self.unreported.front() {
            if !shared.try_report(&self.name, report.clone()) {
                return;
            }
            self.unreported.pop_front();
        }
    }

    pub(super) fn note(&mut self, transition: Transition, shared: &Shared, now: Moment) {
        let metrics = &shared.metrics.segments;
        match transition {
            Transition::MessageDropped => {
                // As many as somebody likes to send: counted, and no more.
                self.labels.dropped(metrics, "stale");
                return;
            }
            Transition::HandOverBegun => {
                self.hand_over_begun.get_or_insert(now);
            }
            Transition::HandOverDone => {
                if let Some(begun) = self.hand_over_begun.take() {
                    metrics.hand_over.observe(now.since(begun).as_secs_f64());
                }
            }
            Transition::HandOverFailed => self.hand_over_begun = None,
            _ => {}
        }
        self.labels.transition(metrics, transition);
        self.report(shared, Report::Noted(transition));
    }

    pub(super) fn transmit(&mut self, transmit: Transmit, shared: &Shared, now: Moment) {
        let Transmit { message, to } = transmit;
        self.note_move(&message.body, now);
        let metrics = &shared.metrics.segments;
        let bytes = match codec::encode(self.id, &message, self.secret.as_ref()) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.labels.dropped(metrics, "too_long");
                tracing::warn!(segment = %self.name, %error, "a message is not sent");
                return;
            }
        };
        match to {
            Destination::Segment => {
                if let Some(link) = &self.link {
                    match link.sockets.send_message(link.attachment.mac, &bytes) {
                        Ok(()) => self.labels.said(metrics, Path::Segment),
                        Err(error) => {
                            self.labels.send_error(&shared.metrics);
                            tracing::debug!(segment = %self.name, %error, "message not sent");
                        }
                    }
                }
            }
            Destination::NodeNetwork(nodes) => {
                for node in nodes {
                    let socket = self.peers.socket(node, &self.desired.view);
                    if let (Some(socket), Some(network)) = (socket, &shared.node_network) {
                        // Who cannot be reached is silent for us, and that is seen elsewhere.
                        if network.send(&bytes, socket).is_ok() {
                            self.labels.said(metrics, Path::NodeNetwork);
                        }
                    }
                }
            }
        }
        if let Body::Heartbeat(heartbeat) = &message.body {
            let heartbeat = Arc::clone(heartbeat);
            let low = u32::try_from(message.seq & u64::from(u32::MAX)).unwrap_or_default();
            if self.beats.back().is_none_or(|(last, _)| *last != low) {
                self.beats.push_back((low, now));
            }
            if self.beats.len() > BEATS {
                self.beats.pop_front();
            }
            self.said = Some((message, heartbeat));
        }
    }

    pub(super) fn own_address(&self, suits: impl Fn(&IpAddr) -> bool) -> Option<IpAddr> {
        self.desired.own_addresses.iter().copied().find(suits)
    }

    pub(super) fn probe(&self, source: Option<IpAddr>, target: IpAddr) {
        if let Some(link) = &self.link
            && let Some(frame) = frames::probe(link.attachment.mac, source, target)
            && let Err(error) = link.sockets.send(&frame)
        {
            tracing::debug!(segment = %self.name, %error, "question not sent");
        }
    }

    /// Asks stations for an address, each by its own MAC address.
    fn probe_stations(&self, target: IpAddr, stations: impl IntoIterator<Item = Mac>) {
        let Some(link) = &self.link else {
            return;
        };
        let own = link.attachment.mac;
        let source = self.own_address(|own| own.is_ipv6() && target.is_ipv6());
        for station in stations {
            if let Some(frame) = frames::probe_station(own, source, target, station)
                && let Err(error) = link.sockets.send(&frame)
            {
                tracing::debug!(segment = %self.name, %error, "question not sent");
            }
        }
    }

    pub(super) fn report_notices(&mut self, shared: &Shared) {
        while let Some(notice) = self.responder.poll_notice() {
            if !matches!(notice, Notice::Conflict(..)) {
                self.rights.change();
            }
            let report = match notice {
                Notice::Began {
                    address,
                    cause,
                    former,
                    dark_for,
                } => Report::Began {
                    address,
                    cause,
                    former,
                    dark_for,
                },
                Notice::Stopped(address, cause) => Report::Stopped { address, cause },
                Notice::Conflict(address, mac) => {
                    self.report(shared, Report::Conflict { address, mac });
                    continue;
                }
            };
            self.unreported.push_back(report);
        }
        self.report_left(shared);
    }

    pub(super) fn report(&self, shared: &Shared, report: Report) -> bool {
        shared.report(&self.name, report)
    }
}
