//! What is wanted on each segment, from the snapshot or from what the process before has saved.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use mooring_common::node_addresses::NodeAddress;

use super::SupervisorState;
use crate::announce::EventSink;
use crate::announce::entries;
use crate::announce::kernel_answers::kernel_answers;
use crate::announce::permitted::refused;
use crate::announce::plan::assign;
use crate::announce::segments::{LocalState, Role, Roles, desired, last_interfaces};
use crate::announce::state_file::State;
use crate::cluster::snapshot::Snapshot;
use crate::protocol::NodeId;
use crate::vlan::sysctl;

impl<E: EventSink> SupervisorState<E> {
    /// Whether the snapshot says what there is to announce, and the kernel which interfaces there are.
    pub(super) fn decided(&self) -> bool {
        self.knows_interfaces() && self.context.snapshot.load().decides_speakers()
    }

    /// Every node has interfaces; as long as the kernel has not said which, all would seem lost.
    fn knows_interfaces(&self) -> bool {
        !self.links.borrow().is_empty()
    }

    /// Decides anew, if enough is known. Gives the time at which something else may follow from the
    /// same.
    pub(super) fn decide(&mut self, now: Instant, ending: bool) -> Option<Instant> {
        let snapshot = self.context.snapshot.load_full();
        self.reporter.view_age(&snapshot);
        self.reporter.maintenance(&snapshot);
        let links = Arc::clone(&self.links.borrow_and_update());
        if !self.knows_interfaces() || !snapshot.decides_speakers() {
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
        let here = LocalState {
            node_name: &self.context.node_name,
            links: &links,
            heartbeat_port: self.context.heartbeat_port,
            service_proxy_works: snapshot.service_proxy.may_work(),
            ending,
            spoken: self.reporter.spoken(&self.assignment),
        };
        let desired = desired(&snapshot, &roles, &self.assignment, here);
        if self.wanted.as_deref() != Some(&desired) {
            self.wanted = Some(Arc::new(desired));
        }
        let of_all = sysctl::arp_ignore_of_all();
        let answers = kernel_answers(&roles, &links, &self.assignment, of_all);
        self.reporter.report_kernel_answers(&snapshot, answers);
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
            let assignment = assign(snapshot);
            self.reporter
                .report_joined(snapshot, &self.assignment, &assignment);
            self.assignment = assignment;
            self.reporter.refused(snapshot, refused(snapshot));
            self.assigned_from = Some(Arc::clone(snapshot));
        }
    }

    /// Uses what the process before has saved: the API server has not answered yet, or is `away`.
    pub(super) fn use_saved_state(&mut self, left: &State, ending: bool, away: bool) {
        let links = Arc::clone(&self.links.borrow());
        if !self.knows_interfaces() || !self.context.may_take_part() {
            return;
        }
        let proxy_works = self.context.snapshot.load().service_proxy.may_work();
        let desired = left.desired(&links, proxy_works, ending);
        if self.wanted.is_none() {
            let segments: Vec<_> = desired.keys().map(String::as_str).collect();
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
        self.wanted = Some(Arc::new(desired));
    }
}

/// The addresses of this Node, which are no Service's.
fn node_addresses(snapshot: &Snapshot) -> Option<&[NodeAddress]> {
    let node = snapshot.node.as_ref();
    node.map(|node| node.addresses.as_slice())
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
