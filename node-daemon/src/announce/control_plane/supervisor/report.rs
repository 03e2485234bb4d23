//! What the log says: each thing once, when it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mooring_common::control_plane::ControlPlaneFile;
use mooring_common::l2_network::SpokenFor;

use crate::announce::control_plane::desired::{is_other_ready, names, voters};
use crate::announce::spoken::spoken_for;
use crate::protocol::members::{FileState, Remembered, Rule, compare};
use crate::protocol::{NodeId, VoterSet};
use crate::responder::metrics::{AddressLabels, Metrics};
use crate::responder::{Member, Report};

/// Says what happens.
pub(super) struct Reporter {
    me: NodeId,
    metrics: Metrics,
    /// What was said of the file last.
    file: Option<(FileState, u64)>,
    /// Whether it was said that no API server is ready.
    none_ready: bool,
    /// Those whose messages are signed with another secret.
    refused: BTreeSet<NodeId>,
    /// The addresses that this node has.
    speaks: BTreeMap<IpAddr, SpokenFor>,
    fault: Option<String>,
    disk_fault: Option<String>,
}

impl Reporter {
    pub(super) fn new(node: &str, metrics: Metrics) -> Self {
        Self {
            me: NodeId::of(node),
            metrics,
            file: None,
            none_ready: false,
            refused: BTreeSet::new(),
            speaks: BTreeMap::new(),
            fault: None,
            disk_fault: None,
        }
    }

    /// Looks what is to be said of the file, and of all API servers.
    pub(super) fn look(
        &mut self,
        file: &ControlPlaneFile,
        remembered: &Remembered,
        is_ready: bool,
        members: &[Member],
    ) {
        let state = compare(remembered, &voters(file));
        if self.file.replace((state, file.revision)) != Some((state, file.revision)) {
            report_file(state, file, remembered);
        }
        let none_ready = !is_ready && self.has_address() && !is_other_ready(members, self.me);
        if none_ready && !self.none_ready {
            tracing::warn!(
                "no API server of the control plane is ready, for example since etcd has lost its quorum: the \
                 address stays on this node"
            );
        } else if self.none_ready && !none_ready {
            tracing::info!("an API server of the control plane is ready again");
        }
        self.none_ready = none_ready;
        let refused = members.iter().filter(|member| member.refused);
        let refused: BTreeSet<NodeId> = refused.map(|member| member.node).collect();
        for node in refused.difference(&self.refused) {
            tracing::warn!(
                node = name(file, *node),
                "messages in the name of this node are not signed with a secret of keyFile here: copy keyFile from one \
                 node to all others"
            );
        }
        self.refused = refused;
    }

    /// Whether this node has an address of the control plane.
    pub(super) fn has_address(&self) -> bool {
        !self.speaks.is_empty()
    }

    /// The addresses that this node has, since when and why.
    pub(super) fn announces(&self) -> Vec<SpokenFor> {
        self.speaks.values().cloned().collect()
    }

    /// What is wrong here, as far as the segment, the disk and who votes are concerned.
    pub(super) fn faults(&self) -> Vec<String> {
        let disk = self.disk_fault.as_ref();
        let disk = disk.map(|error| format!("cannot write to --state-dir: {error}"));
        let voters = self.file.as_ref().map(|(state, _)| *state);
        let voters = voters.filter(|state| *state != FileState::Served);
        let voters = voters.map(|state| words(state).to_owned());
        let secret = "messages of other nodes are not signed with a secret of keyFile here";
        let secret = (!self.refused.is_empty()).then(|| secret.to_owned());
        let fault = self.fault.clone();
        let faults = fault.into_iter().chain(disk).chain(secret);
        faults.chain(voters).collect()
    }

    /// What announced the addresses is gone.
    pub(super) fn lost_all(&mut self) {
        self.speaks.clear();
        self.metrics.owner.clear();
    }

    /// Who votes has changed.
    pub(super) fn went_on(&mut self, file: &ControlPlaneFile, rule: Rule, next: &Remembered) {
        self.disk_fault = None;
        let served = named(file, &next.served);
        let revision = next.served.generation;
        match rule {
            Rule::Begin => tracing::info!(revision, voters = served, "the first voters"),
            Rule::Join => tracing::info!(revision, voters = served, "joining the others"),
            Rule::Follow => tracing::info!(revision, voters = served, "following the others"),
            Rule::Succeed => {
                tracing::info!(revision, voters = served, "other nodes vote from now on");
            }
            Rule::Accept => {
                let accepted = next.accepted.as_ref();
                let revision = accepted.map_or(0, |set| set.generation);
                let voters = accepted.map(|set| named(file, set)).unwrap_or_default();
                tracing::info!(revision, voters, "accepted as the next voters");
            }
        }
    }

    /// Who votes cannot be remembered, so that it does not change.
    pub(super) fn not_remembered(&mut self, error: &str) {
        if self.disk_fault.as_deref() != Some(error) {
            tracing::error!(
                error,
                "cannot write to --state-dir: who votes stays as it was; make it a folder that this process may write to"
            );
            self.disk_fault = Some(error.to_owned());
        }
    }

    /// Something has happened on the segment.
    pub(super) fn happened(&mut self, file: &ControlPlaneFile, report: Report) {
        match report {
            Report::Began {
                address,
                cause,
                former,
                dark_for,
            } => {
                self.speaks.insert(address, spoken_for(address, cause));
                let labels = AddressLabels::new(&file.segment(), address);
                self.metrics.owner.get_or_create(&labels).set(1);
                let former = former.map(|node| name(file, node));
                tracing::info!(%address, ?cause, former, ?dark_for, "this node has the address");
            }
            Report::Stopped { address, cause } => {
                self.speaks.remove(&address);
                let labels = AddressLabels::new(&file.segment(), address);
                self.metrics.owner.remove(&labels);
                tracing::info!(%address, ?cause, "this node has the address no more");
            }
            Report::Conflict { address, mac } => conflict(address, &mac.to_string()),
            Report::Occupied {
                address,
                mac: Some(mac),
            } => tracing::warn!(
                %address, %mac,
                "another station has the address, which is left to it; is it kube-vip's, or that of a host?"
            ),
            Report::Occupied { address, mac: None } => {
                tracing::info!(%address, "no other station has the address any more");
            }
            Report::Fault(fault) => {
                if self.fault.as_ref() != Some(&fault) {
                    tracing::warn!(fault, "the interface cannot be used");
                }
                self.fault = Some(fault);
            }
            Report::Responding(mac) => {
                self.fault = None;
                let mac = mac.map(|mac| mac.to_string());
                tracing::info!(mac, "on the segment");
            }
            Report::NodeNetwork(Some(fault)) => {
                tracing::warn!(fault, "heartbeats go over the segment alone");
            }
            Report::NodeNetwork(None) => tracing::info!("heartbeats go over the node network too"),
            Report::Noted(transition) => tracing::debug!(?transition, "protocol"),
            // Connections are not kept here: `DesiredSegment::keep_connections` is zero.
            Report::Connections(_)
            | Report::Router { .. }
            | Report::Ask(..)
            | Report::Members(_)
            | Report::Ended => {}
        }
    }
}

fn conflict(address: IpAddr, mac: &str) {
    tracing::warn!(
        %address, mac,
        "another station claims the address, which this node has; remove the address there"
    );
}

fn report_file(state: FileState, file: &ControlPlaneFile, remembered: &Remembered) {
    let (revision, served) = (file.revision, remembered.served.generation);
    let words = words(state);
    match state {
        FileState::Served => {
            tracing::info!(revision, "{words}");
            for warning in file.warnings() {
                tracing::warn!(revision, "{warning}");
            }
        }
        FileState::AwaitsOthers | FileState::AwaitsAcceptance => {
            tracing::info!(revision, served, "{words}");
        }
        FileState::Outdated
        | FileState::Contradicts
        | FileState::AcceptedOther
        | FileState::TooManyChanges
        | FileState::SkipsRevisions => tracing::warn!(revision, served, "{words}"),
    }
}

/// How the file compares with what is served, and what to do.
const fn words(state: FileState) -> &'static str {
    match state {
        FileState::Served => "the voters are those of the control plane file",
        FileState::AwaitsOthers => {
            "waiting for the other members of the control plane; where there are none yet, begin with revision 1"
        }
        FileState::AwaitsAcceptance => {
            "waiting until most voters have this revision of the control plane file, and enough of the new ones have joined"
        }
        FileState::Outdated => {
            "the control plane file is older than what the others have; copy theirs"
        }
        FileState::Contradicts => {
            "the control plane file has other members than this revision has on the other nodes; copy theirs, or raise \
             revision by one on all nodes"
        }
        FileState::AcceptedOther => {
            "the control plane file had other members under the same revision before; write those again, or let most \
             nodes agree on what this file says now"
        }
        FileState::TooManyChanges => {
            "the control plane file differs by more than one name from what is served; change one name with each \
             revision"
        }
        FileState::SkipsRevisions => {
            "the control plane file skips revisions; raise revision by one with each change"
        }
    }
}

fn named(file: &ControlPlaneFile, set: &VoterSet) -> String {
    voter_names(file, set).join(" ")
}

/// The names of all voters of a set.
pub(super) fn voter_names(file: &ControlPlaneFile, set: &VoterSet) -> Vec<String> {
    set.voters.iter().map(|node| name(file, *node)).collect()
}

/// A node's name; its number if this file does not name it.
pub(super) fn name(file: &ControlPlaneFile, node: NodeId) -> String {
    let name = names(file).remove(&node);
    name.unwrap_or_else(|| format!("{:016x}", node.0))
}
