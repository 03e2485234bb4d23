//! What an L2Network with `spec.controlPlane` is to say of this node: pure, from what the control plane's process
//! says. The control plane file counts, whatever the L2Network says. One without `spec.controlPlane` whose pools have the
//! address differs from the file too: a Service could be given it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mooring_common::l2_network::{ControlPlaneEndpoint, ControlPlaneNode, Segment};
use mooring_common::names::{control_plane_states, labels};

use super::control_plane::published::{Found, Part, Published};
use crate::cluster::snapshot::Snapshot;

/// The longest message that the CRD takes, in characters.
const LONGEST_MESSAGE: usize = 512;

/// What is said of a control-plane node without the process.
const NOT_RUNNING: &str = "mooring-node control-plane does not run on this Node; print its static Pod with mooring-node \
                           control-plane-manifest, or look at the log of the Pod";

/// What is found about one L2Network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// What its status is to say of this node.
    pub node: ControlPlaneNode,
    /// How it differs from the control plane file.
    pub difference: Option<String>,
}

/// What is found, by the L2Network's name.
pub type Findings = BTreeMap<String, Finding>;

/// Whether any L2Network has the address of the control plane, or could give it to a Service.
#[must_use]
pub fn is_asked_for(snapshot: &Snapshot) -> bool {
    segments(snapshot).any(|(_, segment)| {
        segment.control_plane.is_some() || segment.pools.iter().any(|pool| !pool.ranges.is_empty())
    })
}

/// What is found about each L2Network that has the address of the control plane, in `spec.controlPlane` or in a pool.
#[must_use]
pub fn findings(snapshot: &Snapshot, found: &Found) -> Findings {
    let findings = segments(snapshot);
    let findings = findings.filter_map(|(name, segment)| {
        let finding = match (&segment.control_plane, found) {
            (Some(entry), Found::Running(published)) => {
                told(difference(entry, published), published)
            }
            (None, Found::Running(published)) => {
                told(Some(unreserved(segment, published)?), published)
            }
            (Some(_), Found::Ended) => not_running(),
            (Some(_), Found::Nothing) if is_control_plane(snapshot) => not_running(),
            (_, Found::Nothing) | (None, Found::Ended) => return None,
        };
        Some((name.to_owned(), finding))
    });
    findings.collect()
}

/// What an Event says of a difference.
#[must_use]
pub fn note(node: &str, network: &str, difference: &str) -> String {
    format!(
        "L2Network {network} and the control plane file of Node {node} differ: {difference}. The file counts: \
         correct spec.controlPlane, or the file on each control-plane node."
    )
}

fn segments(snapshot: &Snapshot) -> impl Iterator<Item = (&str, &Segment)> {
    snapshot.networks.iter().filter_map(|(key, network)| {
        let segment = network.segment.as_ref().ok()?;
        Some((key.name.as_str(), segment))
    })
}

fn is_control_plane(snapshot: &Snapshot) -> bool {
    let node = snapshot.node.as_ref();
    let labels = node.and_then(|node| node.labels.as_ref());
    labels.is_some_and(|labels| labels.contains_key(labels::CONTROL_PLANE))
}

fn not_running() -> Finding {
    Finding {
        node: ControlPlaneNode {
            state: control_plane_states::NOT_RUNNING.to_owned(),
            message: NOT_RUNNING.to_owned(),
            ..ControlPlaneNode::default()
        },
        difference: None,
    }
}

fn told(difference: Option<String>, published: &Published) -> Finding {
    let told = difference.iter().chain(&published.fault);
    let told: Vec<&str> = told.map(String::as_str).collect();
    let revision = |revision: u64| i64::try_from(revision).unwrap_or(i64::MAX);
    let served = Some(published.served_revision).filter(|served| *served > 0);
    Finding {
        node: ControlPlaneNode {
            state: state(published).to_owned(),
            revision: served.map(revision),
            accepted_revision: published.accepted_revision.map(revision),
            addresses: published.announces.clone(),
            message: told.join("; ").chars().take(LONGEST_MESSAGE).collect(),
        },
        difference,
    }
}

fn state(published: &Published) -> &'static str {
    match published.part {
        _ if !published.announces.is_empty() => control_plane_states::ANNOUNCING,
        Part::Stranger => control_plane_states::NOT_MEMBER,
        Part::Witness => control_plane_states::WITNESS,
        Part::Member if published.ready => control_plane_states::STANDBY,
        Part::Member => control_plane_states::NOT_READY,
    }
}

/// In what they differ; the order of the addresses does not matter.
fn difference(entry: &ControlPlaneEndpoint, published: &Published) -> Option<String> {
    let set = |addresses: &[IpAddr]| addresses.iter().copied().collect::<BTreeSet<_>>();
    let mut told = Vec::new();
    if set(&entry.addresses) != set(&published.addresses) {
        told.push(format!(
            "spec.controlPlane.addresses is {}, and addresses of the file {}",
            list(&entry.addresses),
            list(&published.addresses)
        ));
    }
    if entry.port != published.port {
        told.push(format!(
            "spec.controlPlane.port is {}, and port of the file {}",
            entry.port, published.port
        ));
    }
    (!told.is_empty()).then(|| told.join("; "))
}

/// The addresses that a pool has although nothing keeps them from Services.
fn unreserved(segment: &Segment, published: &Published) -> Option<String> {
    let is_in_pool = |address: &IpAddr| {
        let mut ranges = segment.pools.iter().flat_map(|pool| &pool.ranges);
        ranges.any(|range| range.contains(*address))
    };
    let addresses = published.addresses.iter().copied();
    let addresses: Vec<IpAddr> = addresses.filter(is_in_pool).collect();
    (!addresses.is_empty()).then(|| {
        format!(
            "spec.controlPlane is missing, and the pools have {} of addresses of the file, so that a Service could be \
             given the address of the control plane",
            list(&addresses)
        )
    })
}

fn list(addresses: &[IpAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    format!("[{}]", texts.join(", "))
}

#[cfg(test)]
mod tests;
