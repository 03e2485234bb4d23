//! Who speaks for an address of an L2Network, or why nobody does.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kube::ResourceExt as _;
use mooring_common::l2_network::{L2Network, Segment, SegmentNode};
use mooring_common::names::{reasons, segment_conditions, segment_notices, segment_reasons};
use mooring_common::node_view::NodeView;

use super::pages;
use crate::run::inspect::finding::Finding;
use crate::run::inspect::print::age;
use crate::run::inspect::snapshot::{Endpoint, Snapshot};
use crate::views::service_view::ServiceView;

/// How many Nodes are named in one line.
const MOST_NAMED: usize = 8;

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
        [] => findings.push(silence(snapshot, service, network, address, &subject)),
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
/// endpoints are.
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

fn says(node: &SegmentNode, notice: &str) -> bool {
    node.notices.iter().any(|said| said == notice)
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

fn no_endpoint(service: &ServiceView, subject: &str) -> Finding {
    let line = format!("Service {} has no ready endpoint", service.key);
    Finding::error(subject, "NoEndpoint", line)
        .remedy(format!(
            "kubectl --namespace {} describe service {}, and look at the Pods that its selector selects",
            service.key.namespace, service.key.name
        ))
        .see(pages::NO_ANSWER)
}

/// Why nobody speaks for it: the first cause that holds.
fn silence(
    snapshot: &Snapshot,
    service: &ServiceView,
    network: &L2Network,
    address: IpAddr,
    subject: &str,
) -> Finding {
    let name = network.name_any();
    let status = network.status.clone().unwrap_or_default();
    let nodes: Vec<&SegmentNode> = status.nodes.iter().filter(|node| !node.witness).collect();
    let error = |check, why: String| {
        let line = format!("nobody speaks for it on L2Network {name}: {why}");
        Finding::error(subject, check, line).see(pages::NO_ANSWER)
    };
    let event = |finding: Finding, reasons: &[&str]| match snapshot.warning(
        "Service",
        &service.key,
        reasons,
    ) {
        Some(note) => finding.evidence(format!("Event {}: {}", note.reason, note.note)),
        None => finding,
    };
    let ready = ready_endpoints(snapshot, service);
    if ready.as_ref().is_some_and(Vec::is_empty) {
        let finding = no_endpoint(service, subject);
        return finding.evidence("a Service without a ready endpoint is not announced");
    }
    let mut conditions = status.conditions.iter();
    let quorum = conditions.find(|known| known.type_ == segment_conditions::QUORUM);
    if let Some(lost) = quorum.filter(|known| known.status == "False") {
        return error("NoQuorum", "most of the voters are lost".to_owned())
            .evidence(lost.message.clone())
            .remedy("look at these Nodes, and at the network between them")
            .see(pages::VOTERS);
    }
    let conflict = [reasons::ADDRESS_CONFLICT];
    let is_told = snapshot
        .warning("Service", &service.key, &conflict)
        .is_some();
    let is_seen = nodes
        .iter()
        .any(|node| says(node, segment_notices::ADDRESS_CONFLICT));
    if is_told && is_seen {
        let finding = error("AddressConflict", "another host has the address".to_owned());
        return event(finding, &conflict)
            .remedy("take the address from that host, or out of the ranges, and create the Service again")
            .see(pages::OTHER_HOST);
    }
    let refused = [reasons::ADDRESS_REFUSED, reasons::ADDRESS_RESERVED];
    if snapshot
        .warning("Service", &service.key, &refused)
        .is_some()
    {
        let finding = error(
            "AddressRefused",
            "the daemons refuse to announce it".to_owned(),
        );
        return event(finding, &refused).remedy("what the message says");
    }
    let segment = Segment::try_from(network);
    let is_recorded = service.allocated_network.as_deref() == Some(&name);
    if segment
        .as_ref()
        .is_ok_and(|segment| !segment.contains(address))
        && !is_recorded
    {
        let why = "it is in no range of the network, and not recorded on the Service".to_owned();
        return error("AddressRefused", why)
            .remedy("add it to the ranges, or ask for another address");
    }
    if nodes.is_empty() {
        let selected: Vec<&NodeView> = snapshot
            .nodes
            .iter()
            .filter(|node| {
                let labels = node.labels.clone().unwrap_or_default();
                segment
                    .as_ref()
                    .is_ok_and(|segment| segment.includes(&labels))
            })
            .collect();
        let knows = snapshot.objects.nodes.is_some();
        return match knows && selected.is_empty() {
            true => error("NoNodes", "spec.nodeSelector selects no Node".to_owned())
                .remedy("label the Nodes of the segment, or correct the selector"),
            false => error(
                "NoDaemons",
                "no daemon says that it is on the segment".to_owned(),
            )
            .remedy("look at the Pods of mooring-node on these Nodes, and at their logs"),
        };
    }
    let able_by_daemon: BTreeSet<&str> = nodes
        .iter()
        .filter(|node| node.ready)
        .map(|node| node.name.as_str())
        .collect();
    if able_by_daemon.is_empty() {
        return unable(snapshot, &nodes, &error);
    }
    let is_unhealthy = |node: &&SegmentNode| says(node, segment_notices::SERVICE_PROXY_UNHEALTHY);
    if nodes.iter().filter(|node| node.ready).all(is_unhealthy) {
        let why = "kube-proxy says on all nodes that it does not work".to_owned();
        return error("ServiceProxyUnhealthy", why)
            .remedy("look at kube-proxy on these Nodes: its /healthz on port 10256, and its log");
    }
    if let Some(ready) = ready.filter(|_| service.is_local) {
        let there: BTreeSet<&str> = ready.iter().filter_map(|one| one.node.as_deref()).collect();
        if there.is_disjoint(&able_by_daemon) {
            let why =
                "externalTrafficPolicy is Local, and its endpoints are on other nodes".to_owned();
            return error("EndpointElsewhere", why)
                .evidence(format!("ready endpoints are on {}", named(&there)))
                .evidence(format!(
                    "nodes that can speak are {}",
                    named(&able_by_daemon)
                ))
                .remedy("let its Pods run on nodes of the segment, or use the policy Cluster");
        }
    }
    error(
        "NoSpeaker",
        "the nodes that could have not said so yet".to_owned(),
    )
    .evidence(format!(
        "nodes that can speak are {}",
        named(&able_by_daemon)
    ))
    .remedy("look again in a minute; then read the logs of mooring-node on these nodes")
    .see(pages::SPEAKS)
}

/// All nodes of the segment say that they cannot.
fn unable(
    snapshot: &Snapshot,
    nodes: &[&SegmentNode],
    error: &dyn Fn(&'static str, String) -> Finding,
) -> Finding {
    let is_excluded = |node: &&SegmentNode| {
        let view = snapshot.node(&node.name);
        view.is_some_and(NodeView::is_excluded)
    };
    let all_excluded = nodes.iter().all(is_excluded);
    let finding = match all_excluded {
        true => error(
            "Excluded",
            "all its nodes are excluded from load balancers by their label".to_owned(),
        )
        .remedy("take the label off where nodes are to announce, or set spec.includeExcludedNodes")
        .see(pages::TAKEN_OUT),
        false => error("NoNodeReady", "none of its nodes can speak".to_owned())
            .remedy("what the nodes say")
            .see(pages::SPEAKS),
    };
    let shown = nodes.iter().take(MOST_NAMED);
    let mut finding = shown.fold(finding, |finding, node| {
        let SegmentNode {
            name,
            reason,
            message,
            ..
        } = node;
        finding.evidence(match message.as_str() {
            "" => format!("{name}: {reason}"),
            message => format!("{name}: {reason}: {message}"),
        })
    });
    if nodes
        .iter()
        .all(|node| node.reason == segment_reasons::NO_HEARTBEAT_KEY)
    {
        finding = finding
            .remedy("make sure that the Secret mooring-heartbeat is there, and that the daemons mount it")
            .see(pages::SIGNED);
    }
    finding
}

fn named(all: &BTreeSet<&str>) -> String {
    let mut names: Vec<String> = all
        .iter()
        .take(MOST_NAMED)
        .map(|name| (*name).to_owned())
        .collect();
    let more = all.len().saturating_sub(MOST_NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}
