//! L2Networks: their conditions, and what their Nodes say.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use mooring_common::l2_network::L2Network;
use mooring_common::names::{reasons, segment_conditions, segment_notices};

use super::pages;
use crate::run::inspect::finding::Finding;
use crate::run::inspect::snapshot::Snapshot;

pub(super) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    if !snapshot.has_crd {
        let message = "this cluster does not know the kind L2Network";
        return vec![
            Finding::error("l2networks", "NoCrd", message)
                .remedy("apply the CRDs of the chart; Helm does not upgrade them by itself")
                .see(pages::INSTALL),
        ];
    }
    let all = snapshot.networks().iter();
    all.flat_map(of_network).collect()
}

fn of_network(network: &L2Network) -> Vec<Finding> {
    let subject = format!("l2network {}", network.name_any());
    let mut findings = conditions(network, &subject);
    findings.extend(said_by_nodes(network, &subject));
    if findings.is_empty() {
        findings.push(Finding::ok(
            subject,
            "Ready",
            "addresses are allocated from it, and its voters hear each other",
        ));
    }
    findings
}

fn conditions(network: &L2Network, subject: &str) -> Vec<Finding> {
    let status = network.status.clone().unwrap_or_default();
    let mut findings = Vec::new();
    let is_told = |known: &Condition| known.type_ == segment_conditions::READY;
    if !status.conditions.iter().any(is_told) {
        findings.push(
            Finding::error(subject, "NotSeen", "central has said nothing of it yet")
                .remedy("see what is said of central; with a cloud, add none or cloudlycke to cloudProvider")
                .see(pages::NO_ADDRESS),
        );
    }
    for known in &status.conditions {
        let (type_, state) = (known.type_.as_str(), known.status.as_str());
        let told = |finding: Finding| finding.evidence(known.message.clone());
        let line = format!("its condition {type_} is {state}: {}", known.reason);
        let found = match (type_, state) {
            (segment_conditions::READY, "False") => told(Finding::error(
                subject,
                "NetworkNotReady",
                line,
            ))
            .remedy("correct the ranges, or what the message names")
            .see(pages::NO_ADDRESS),
            (segment_conditions::QUORUM, "False") => told(Finding::error(
                subject,
                "NoQuorum",
                line,
            ))
            .remedy("look at the Nodes that the message names, and at the network between them")
            .see(pages::VOTERS),
            (segment_conditions::QUORUM, _)
                if [reasons::TWO_VOTERS, "OneVoter"].contains(&known.reason.as_str()) =>
            {
                told(Finding::warning(subject, "FewVoters", line))
                    .remedy("let a third Node be on the segment, or in the cluster")
                    .see(pages::VOTERS)
            }
            (segment_conditions::HEARTBEATS_SIGNED, "False") => told(Finding::error(
                subject,
                "HeartbeatsUnsigned",
                line,
            ))
            .remedy("make sure that the Secret mooring-heartbeat is there, and that the daemons mount it")
            .see(pages::SIGNED),
            (segment_conditions::SEGMENT_FILTERED, "True") => told(Finding::warning(
                subject,
                "SegmentFiltered",
                line,
            ))
            .remedy("let switches pass the heartbeats: look at VLANs, port security and multicast snooping")
            .see(pages::NO_ANSWER),
            _ => continue,
        };
        findings.push(found);
    }
    for (family, counts) in [("IPv4", status.ipv4), ("IPv6", status.ipv6)] {
        if counts.is_some_and(|counts| counts.free == 0 && counts.total > 0) {
            findings.push(
                Finding::warning(subject, "Exhausted", format!("no {family} address is free"))
                    .remedy("add a range, or delete a Service that needs none")
                    .see(pages::NO_ADDRESS),
            );
        }
    }
    findings
}

/// Notices, each once with the Nodes that say so.
fn said_by_nodes(network: &L2Network, subject: &str) -> Vec<Finding> {
    let nodes = network.status.iter().flat_map(|status| &status.nodes);
    let saying = |notice: &str| -> Vec<&str> {
        let nodes = nodes.clone();
        nodes
            .filter(|node| node.notices.iter().any(|said| said == notice))
            .map(|node| node.name.as_str())
            .collect()
    };
    let rows = [
        (
            segment_notices::ADDRESS_CONFLICT,
            "another host has addresses that are to be announced",
            "take the address from that host, or out of the ranges",
            pages::OTHER_HOST,
        ),
        (
            segment_notices::SERVICE_PROXY_UNHEALTHY,
            "kube-proxy says that it does not work, so the node takes no address",
            "look at kube-proxy there: its /healthz on port 10256, and its log",
            pages::NO_ANSWER,
        ),
        (
            segment_notices::KERNEL_ANSWERS,
            "the kernel answers for service addresses, whoever speaks for them",
            "with kube-proxy in IPVS mode, set strictARP: true; the Event KernelAnswers says more",
            pages::DISTRIBUTIONS,
        ),
        (
            segment_notices::CONNECTIONS_NOT_KEPT,
            "the kernel does not pass connections on, so spec.keepConnections has no effect",
            "the log of mooring-node there says why: it needs nftables with fwd, and NET_ADMIN",
            pages::CONNECTIONS,
        ),
        (
            segment_notices::CONTROL_PLANE_FILE_DIFFERS,
            "the control plane file has another address or port than spec.controlPlane",
            "the file counts: correct spec.controlPlane, or the file; the Event ControlPlaneFileDiffers says more",
            pages::CONTROL_PLANE,
        ),
        (
            segment_notices::ADDRESS_REFUSED,
            "a Service claims an address that the daemons do not announce",
            "the Event AddressRefused on the Service says why",
            pages::NO_ANSWER,
        ),
    ];
    let mut findings = Vec::new();
    for (check, message, remedy, page) in rows {
        let names = saying(check);
        if !names.is_empty() {
            findings.push(
                Finding::error(subject, check, format!("{}: {message}", names.join(", ")))
                    .remedy(remedy)
                    .see(page),
            );
        }
    }
    findings
}
