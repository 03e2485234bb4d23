//! What follows from what the segments' thread reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;

use super::{SupervisorState, event_reporter};
use crate::announce::EventSink;
use crate::announce::forwarding::keeper::{Command, Outcome};
use crate::announce::forwarding::state::Device;
use crate::protocol::{NodeId, Transition};
use crate::responder::{DesiredSegment, Member, Report};

impl<E: EventSink> SupervisorState<E> {
    /// Takes in all reports that wait. Whether any of them is to be saved for the next process.
    pub(super) fn handle_all(&mut self, reports: &mut mpsc::Receiver<(String, Report)>) -> bool {
        let mut any = false;
        while let Ok((segment, report)) = reports.try_recv() {
            any |= is_of_connections(&report);
            self.handle(&segment, report);
        }
        any
    }

    pub(super) fn handle(&mut self, segment: &str, report: Report) {
        // What was said before a segment was closed is out of date.
        if !self.running.contains_key(segment) {
            return;
        }
        match report {
            Report::Responding(mac) => self.reporter.responding_from(segment, mac),
            Report::Fault(fault) => {
                let snapshot = self.context.snapshot.load();
                self.reporter.report_fault(&snapshot, segment, &fault);
            }
            Report::Began {
                address,
                cause,
                former,
                dark_for,
            } => {
                let change = event_reporter::Change {
                    address,
                    cause,
                    former: former.map(|node| name_of(&self.names, node)),
                    dark_for,
                };
                self.kernel.look();
                self.reporter.began(segment, change);
            }
            Report::Stopped { address, cause } => {
                self.kernel.look();
                self.connections
                    .tell(Command::Stopped(segment.to_owned(), address));
                self.reporter.stopped(segment, address, cause);
            }
            Report::Conflict { address, mac } => {
                let snapshot = self.context.snapshot.load();
                let claim = (address, mac);
                self.reporter
                    .conflict(&snapshot, &self.assignment, segment, claim);
            }
            Report::Occupied { address, mac } => {
                let snapshot = self.context.snapshot.load();
                let found = (address, mac);
                self.reporter
                    .occupied(&snapshot, &self.assignment, segment, found);
            }
            Report::Router { address, mac } => {
                let desired = self.running.get(segment);
                if let Some(link) = desired.and_then(|desired| desired.attachment.as_ref()) {
                    self.neighbours.heard(link.index, address, mac);
                }
            }
            Report::Ask(request, asked, uid) => self.ask(segment, uid, request, asked),
            Report::Members(members) => self.handle_members(segment, &members),
            Report::Noted(Transition::BegunAnew) => {
                self.reporter.begun_anew(segment, Instant::now());
            }
            // The responder has counted it.
            Report::Noted(transition) => tracing::debug!(segment, ?transition, "protocol"),
            Report::NodeNetwork(fault) => {
                self.reporter.node_network(segment, fault.as_deref());
            }
            Report::Connections(report) => {
                self.connections
                    .tell(Command::Report(segment.to_owned(), report));
            }
            Report::Ended => self.leaving.ended(segment),
        }
    }

    /// The Leases of voters that have fallen silent are read at once: whether they have stood still
    /// for a while can only be told by a second reading.
    fn handle_members(&mut self, segment: &str, members: &[Member]) {
        let silent: BTreeSet<NodeId> = members
            .iter()
            .filter(|member| member.voter && !member.alive && member.node != self.context.node)
            .map(|member| member.node)
            .collect();
        let known = self.asked_about.entry(segment.to_owned()).or_default();
        let news: Vec<NodeId> = silent.difference(known).copied().collect();
        *known = silent;
        if !news.is_empty() {
            let (voter_store, names) = (self.context.voter_store.clone(), self.names.clone());
            tokio::spawn(async move { voter_store.remember_leases(&news, &names).await });
        }
        let others = members.iter().filter_map(|member| {
            let is_other = member.node != self.context.node;
            Some((member.node, member.contact.mac.filter(|_| is_other)?))
        });
        self.connections
            .tell(Command::Members(segment.to_owned(), others.collect()));
        self.reporter.members(segment, members, self.context.node);
    }

    /// Tells the keeper of connections which segments there are.
    pub(super) fn configure_connections(&mut self) {
        let of = |(name, desired): (&String, &Arc<DesiredSegment>)| {
            let device = desired.attachment.as_ref().map(|attachment| Device {
                name: attachment.name.clone(),
                mac: attachment.mac,
            });
            (name.clone(), (device, desired.keep_connections))
        };
        let segments: BTreeMap<_, _> = self.running.iter().map(of).collect();
        if segments != self.kept {
            self.connections.tell(Command::Configure(segments.clone()));
            self.kept = segments;
        }
    }

    /// Passes on what the keeper of connections says.
    pub(super) fn pass_on_connections(&mut self, outcome: Outcome) {
        match (outcome, &self.responder) {
            (Outcome::Prepared(segment, awaited, addresses, is_done), Some(responder)) => {
                responder.connections_prepared(&segment, awaited, addresses, is_done);
            }
            (Outcome::Counts(segment, to, counts), Some(responder)) => {
                responder.tell_connections(&segment, to, counts);
            }
            (Outcome::Prepared(..) | Outcome::Counts(..), None) => {}
            (Outcome::Forwarded(addresses), _) => self.reporter.forwarded(addresses),
            (Outcome::Fault(fault), _) => self.reporter.connections_not_kept(fault.is_some()),
        }
    }
}

/// Whether it changes to whom connections are passed on. Members do not: the next process hears them itself.
const fn is_of_connections(report: &Report) -> bool {
    matches!(report, Report::Stopped { .. } | Report::Connections(_))
}

/// A Node's name; its number as long as no L2Network speaks of it.
fn name_of(names: &BTreeMap<NodeId, String>, node: NodeId) -> String {
    let name = names.get(&node).cloned();
    name.unwrap_or_else(|| format!("{:016x}", node.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Cause;
    use crate::responder::ConnectionReport;

    #[test]
    fn only_what_changes_connections_is_waited_for() {
        let address = [192, 0, 2, 10].into();
        let cause = Cause::HandedOver;
        assert!(is_of_connections(&Report::Stopped { address, cause }));
        let gone = ConnectionReport::Gone(NodeId(7));
        assert!(is_of_connections(&Report::Connections(gone)));
        for other in [Report::Members(Arc::default()), Report::Ended] {
            assert!(!is_of_connections(&other));
        }
    }
}
