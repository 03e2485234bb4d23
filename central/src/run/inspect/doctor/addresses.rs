//! Who speaks for an address of an L2Network, or why nobody does.

use std::net::IpAddr;

use kube::ResourceExt as _;
use mooring_common::l2_network::{L2Network, Segment, SegmentNode};
use mooring_common::names::segment_notices;

use super::pages;
use super::silence::{Silence, no_endpoint, says};
use crate::run::inspect::finding::Finding;
use crate::run::inspect::print::age;
use crate::run::inspect::snapshot::{Endpoint, Snapshot};
use crate::views::service_view::ServiceView;

pub(super) fn findings(
    snapshot: &Snapshot,
    service: Option<&ServiceView>,
    address: IpAddr,
) -> Vec<Finding> {
    let subject = format!("address {address}");
    let speakers = snapshot.speakers(address);
    let Some(network) = network_of(snapshot, service, address) else {
        return vec![of_no_network(snapshot, service, &subject)];
    };
    let Some(service) = service else {
        let line = format!(
            "no Service has it; it is of L2Network {}",
            network.name_any()
        );
        return vec![
            Finding::error(subject, "NoService", line)
                .remedy("only addresses in the status of a Service are announced")
                .see(pages::NO_ANSWER),
        ];
    };
    let mut findings = Vec::new();
    match speakers.as_slice() {
        [] => {
            let ready = ready_endpoints(snapshot, service);
            let silence = Silence::new(snapshot, service, network, address, ready);
            findings.push(silence.cause());
        }
        [first, others @ ..] => {
            let since = first.entry.since.0;
            let line = format!(
                "{} speaks for it on L2Network {} since {since}, {} ago ({})",
                first.node.name,
                first.network.name_any(),
                age(snapshot.now, since),
                first.entry.reason
            );
            findings.push(Finding::ok(subject.as_str(), "Speaker", line));
            if !others.is_empty() {
                let names: Vec<&str> = others.iter().map(|one| one.node.name.as_str()).collect();
                let line = format!("the status names {} for it as well", names.join(", "));
                findings.push(
                    Finding::warning(subject.as_str(), "SeveralSpeakers", line)
                        .remedy("look again: an entry can be a minute behind; one that stays is of a daemon that has ended")
                        .see(pages::SPEAKS),
                );
            }
            findings.extend(endpoints(snapshot, service, &first.node.name, &subject));
        }
    }
    findings
}

/// The L2Network of an address: that of the record, else whose ranges have it.
fn network_of<'a>(
    snapshot: &'a Snapshot,
    service: Option<&ServiceView>,
    address: IpAddr,
) -> Option<&'a L2Network> {
    let recorded = service.and_then(|service| service.allocated_network.as_deref());
    let recorded = recorded.and_then(|name| snapshot.network_named(name));
    let in_range = || {
        let mut all = snapshot.networks().iter();
        all.find(|network| {
            Segment::try_from(*network).is_ok_and(|segment| segment.contains(address))
        })
    };
    recorded.or_else(in_range)
}

fn of_no_network(snapshot: &Snapshot, service: Option<&ServiceView>, subject: &str) -> Finding {
    match service {
        Some(service) => {
            let by = match service.allocated_network.as_deref() {
                Some(name) if snapshot.objects.networks.is_some() => {
                    format!(
                        "Service {} has it of L2Network {name}, which is not there any more",
                        service.key
                    )
                }
                _ => format!(
                    "Service {} has it, and not of an L2Network that can be read",
                    service.key
                ),
            };
            Finding::warning(subject, "NoNetwork", by)
                .remedy("if it is of a cloud, its load balancer answers; else create the L2Network again")
                .see(pages::NO_ANSWER)
        }
        None => Finding::error(
            subject,
            "UnknownAddress",
            "no Service has it in its status, and no L2Network in its ranges",
        )
        .remedy("kubectl get services -A lists the addresses of Services")
        .see(pages::NO_ANSWER),
    }
}

/// The Nodes with a ready endpoint; `None`: that may not be read.
pub(in crate::run::inspect) fn ready_endpoints(
    snapshot: &Snapshot,
    service: &ServiceView,
) -> Option<Vec<Endpoint>> {
    let all = snapshot.endpoints(&service.key)?;
    Some(all.into_iter().filter(|one| one.ready).collect())
}

/// The Nodes that could speak for an address of a Service on a segment, by what their daemons say and by where its
/// endpoints are, as far as these may be read.
pub(in crate::run::inspect) fn able<'a>(
    snapshot: &Snapshot,
    network: &'a L2Network,
    service: &ServiceView,
) -> Vec<&'a SegmentNode> {
    let endpoints = ready_endpoints(snapshot, service);
    let has_endpoint = |node: &SegmentNode| match &endpoints {
        Some(all) if service.is_local => {
            let mut all = all.iter();
            all.any(|one| one.node.as_deref() == Some(&node.name))
        }
        _ => true,
    };
    let nodes = network.status.iter().flat_map(|status| &status.nodes);
    nodes
        .filter(|node| node.ready && !node.witness)
        .filter(|node| !says(node, segment_notices::SERVICE_PROXY_UNHEALTHY))
        .filter(|node| has_endpoint(node))
        .collect()
}

/// Whether the speaker has Pods to send to.
fn endpoints(
    snapshot: &Snapshot,
    service: &ServiceView,
    speaker: &str,
    subject: &str,
) -> Option<Finding> {
    let ready = ready_endpoints(snapshot, service)?;
    let is_there = |one: &Endpoint| one.node.as_deref() == Some(speaker);
    if ready.is_empty() {
        return Some(no_endpoint(service, subject));
    }
    (service.is_local && !ready.iter().any(is_there)).then(|| {
        let line = format!(
            "Service {} has externalTrafficPolicy Local, and no ready endpoint on {speaker}",
            service.key
        );
        Finding::warning(subject, "EndpointElsewhere", line)
            .remedy("look again in some seconds: another node takes the address over")
            .see(pages::NO_ANSWER)
    })
}
