//! What happens to addresses when a Node is drained and its machine stops. Pure.

use std::collections::BTreeSet;

use anyhow::{bail, ensure};
use kube::ResourceExt as _;
use mooring_common::l2_network::{L2Network, L2NetworkStatus, Segment, SegmentNode};
use mooring_common::names::annotations;

use super::doctor::{able, ready_endpoints};
use super::finding::Finding;
use super::setup::CENTRAL_CONTAINER;
use super::snapshot::{Snapshot, is_ready, node_of};

const TAKE_OUT: &str = "docs/how-to/l2-networks.md#take-a-node-out";
const VOTERS: &str = "docs/how-to/l2-networks.md#have-enough-voters";

/// # Errors
/// If there is no such Node, or it may not be read.
pub(super) fn drain_check(snapshot: &Snapshot, name: &str) -> anyhow::Result<Vec<Finding>> {
    ensure!(
        snapshot.objects.networks.is_some() || !snapshot.has_crd,
        "L2Networks may not be listed; missing rights: {}",
        snapshot
            .missing
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    );
    if snapshot.objects.nodes.is_some() && snapshot.node(name).is_none() {
        bail!("there is no Node {name:?}; kubectl get nodes lists them");
    }
    let mut findings = addresses(snapshot, name);
    findings.extend(endpoints(snapshot, name));
    let networks = snapshot.networks().iter();
    findings.extend(networks.filter_map(|network| quorum(network, name)));
    findings.extend(central(snapshot, name));
    Ok(findings)
}

/// What it speaks for, and who can take over.
fn addresses(snapshot: &Snapshot, name: &str) -> Vec<Finding> {
    let subject = format!("addresses that {name} speaks for");
    let mut findings = Vec::new();
    for network in snapshot.networks() {
        let nodes = network.status.iter().flat_map(|status| &status.nodes);
        for node in nodes.filter(|node| node.name == name) {
            for spoken in &node.addresses {
                let address = &spoken.address;
                findings.push(hand_over(snapshot, network, name, address, &subject));
            }
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(subject, "SpeaksForNone", "none"));
        return findings;
    }
    let annotate = format!(
        "kubectl drain moves no address. Before the machine stops: kubectl annotate node {name} {}=",
        annotations::MAINTENANCE
    );
    findings.push(Finding::ok(subject, "TakeOut", annotate).see(TAKE_OUT));
    findings
}

fn hand_over(
    snapshot: &Snapshot,
    network: &L2Network,
    name: &str,
    address: &str,
    subject: &str,
) -> Finding {
    let parsed = address.parse().ok();
    let mut all = snapshot.services.iter();
    let service =
        all.find(|service| parsed.is_some_and(|address| service.status.contains(&address)));
    let on = network.name_any();
    let Some(service) = service else {
        let line =
            format!("{address} on L2Network {on}, of a Service that is gone or cannot be read");
        return Finding::warning(subject, "UnknownService", line);
    };
    let of = format!("{address} of Service {} on L2Network {on}", service.key);
    let mut others = able(snapshot, network, service);
    others.retain(|node| node.name != name);
    if others.is_empty() {
        let why = match service.is_local {
            true => {
                "no other node of the segment that can speak has a ready endpoint of it, and its policy is Local"
            }
            false => "no other node of the segment can speak",
        };
        let remedy = match service.is_local {
            true => {
                "let its Pods run on several nodes of the segment, or use the policy Cluster meanwhile"
            }
            false => "see kubectl mooring doctor: what the other nodes of the segment say",
        };
        return Finding::error(subject, "FallsSilent", format!("{of} falls silent: {why}"))
            .remedy(remedy)
            .see(TAKE_OUT);
    }
    if service.is_local && snapshot.objects.slices.is_none() {
        let line = format!(
            "{of}: not known whether another node can take over: EndpointSlices may not be listed, and its policy is Local"
        );
        return Finding::warning(subject, "UnknownEndpoints", line)
            .remedy("ask again with the missing right")
            .see(TAKE_OUT);
    }
    let line = format!("{of} goes to {}", next(snapshot, network, &others));
    Finding::ok(subject, "HandedOver", line)
}

/// Those with the highest sum of weights; the daemons share what is between them.
fn next(snapshot: &Snapshot, network: &L2Network, others: &[&SegmentNode]) -> String {
    let segment = Segment::try_from(network).ok();
    let weight = |node: &SegmentNode| {
        let view = snapshot.node(&node.name);
        let labels = view
            .and_then(|view| view.labels.clone())
            .unwrap_or_default();
        segment
            .as_ref()
            .map_or(0, |segment| segment.preference_for(&labels))
    };
    let highest = others.iter().map(|node| weight(node)).max();
    let first: Vec<&str> = others
        .iter()
        .filter(|node| Some(weight(node)) == highest)
        .map(|node| node.name.as_str())
        .collect();
    match first.as_slice() {
        [one] => (*one).to_owned(),
        several => format!("one of {}", several.join(", ")),
    }
}

/// Services whose only endpoints are there.
fn endpoints(snapshot: &Snapshot, name: &str) -> Vec<Finding> {
    let subject = format!("endpoints on {name}");
    let mut findings = Vec::new();
    for service in snapshot.load_balancers() {
        let Some(ready) = ready_endpoints(snapshot, service) else {
            continue;
        };
        let here = ready.iter().filter(|one| one.node.as_deref() == Some(name));
        if ready.is_empty() || here.count() < ready.len() {
            continue;
        }
        let line = format!("all ready endpoints of Service {} are here", service.key);
        findings.push(
            Finding::error(subject.as_str(), "OnlyEndpoints", line)
                .remedy("raise the number of its Pods, and spread them over nodes, before the drain; a PodDisruptionBudget lets the drain wait"),
        );
    }
    if findings.is_empty() && snapshot.objects.slices.is_some() {
        let line = "no Service of type LoadBalancer has all its ready endpoints here";
        findings.push(Finding::ok(subject, "Endpoints", line));
    }
    findings
}

/// Whether most of the voters are left.
fn quorum(network: &L2Network, name: &str) -> Option<Finding> {
    let subject = format!("voters of L2Network {}", network.name_any());
    let L2NetworkStatus { voters, nodes, .. } = network.status.clone()?;
    let voters = voters?;
    if !voters.nodes.iter().any(|voter| voter == name) {
        return Some(Finding::ok(subject, "NoVoter", "it does not vote there"));
    }
    let lives: BTreeSet<&str> = nodes
        .iter()
        .filter(|node| node.ready || node.witness || node.reason == "Draining")
        .map(|node| node.name.as_str())
        .collect();
    let left: Vec<&str> = voters
        .nodes
        .iter()
        .map(String::as_str)
        .filter(|voter| *voter != name && lives.contains(voter))
        .collect();
    let (all, needed) = (voters.nodes.len(), voters.nodes.len() / 2 + 1);
    let others = lives.iter().filter(|node| **node != name).count();
    if all == 1 && others == 0 {
        let line = "it is the only one: there is no fail-over";
        return Some(
            Finding::error(subject, "OnlyVoter", line)
                .remedy("let another Node be on the segment")
                .see(VOTERS),
        );
    }
    if left.len() >= needed {
        let line = format!(
            "{} of {all} are left, and {needed} are needed; the daemons replace it",
            left.len()
        );
        return Some(Finding::ok(subject, "Quorum", line));
    }
    let line = format!(
        "only {} of {all} are left, and {needed} are needed",
        left.len()
    );
    let seen = format!("living voters beside it: {}", left.join(", "));
    Some(match all {
        2 => Finding::warning(subject, "FewVoters", line)
            .evidence(seen)
            .remedy("the other one goes on alone after about 2 s, if the API server is there; hand over first")
            .see(VOTERS),
        _ => Finding::error(subject, "LosesQuorum", line)
            .evidence(seen)
            .remedy("bring the other voters back before you stop this machine: addresses fall silent for 30 s or longer")
            .see(VOTERS),
    })
}

/// Whether central runs elsewhere too.
fn central(snapshot: &Snapshot, name: &str) -> Option<Finding> {
    snapshot.objects.pods.as_ref()?;
    let is_here = |pod: &&k8s_openapi::api::core::v1::Pod| node_of(pod) == Some(name);
    let ready: Vec<_> = snapshot
        .pods_of(CENTRAL_CONTAINER)
        .filter(|pod| is_ready(pod))
        .collect();
    let here = ready.iter().copied().filter(is_here).count();
    if here == 0 {
        return None;
    }
    Some(match here == ready.len() {
        true => Finding::warning("central", "OnlyCentral", "all Ready Pods of mooring-central are here")
            .remedy("nothing is allocated or initialised until one runs elsewhere; addresses go on being announced"),
        false => Finding::ok("central", "Central", "another replica of mooring-central takes over"),
    })
}
