//! Why nobody speaks for an address of a Service: the first cause that holds.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kube::ResourceExt as _;
use mooring_common::l2_network::{L2Network, L2NetworkStatus, Segment, SegmentNode};
use mooring_common::names::{reasons, segment_conditions, segment_notices, segment_reasons};
use mooring_common::node_view::NodeView;

use super::pages;
use crate::run::inspect::finding::Finding;
use crate::run::inspect::snapshot::{Endpoint, Snapshot};
use crate::views::service_view::ServiceView;

/// How many Nodes are named in one line.
const MOST_NAMED: usize = 8;

/// What there is to know of it.
pub(super) struct Silence<'a> {
    snapshot: &'a Snapshot,
    service: &'a ServiceView,
    network: &'a L2Network,
    status: L2NetworkStatus,
    segment: Option<Segment>,
    address: IpAddr,
    /// The ready endpoints of the Service; `None`: they may not be read.
    ready: Option<Vec<Endpoint>>,
}

impl<'a> Silence<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        service: &'a ServiceView,
        network: &'a L2Network,
        address: IpAddr,
        ready: Option<Vec<Endpoint>>,
    ) -> Self {
        Self {
            snapshot,
            service,
            network,
            status: network.status.clone().unwrap_or_default(),
            segment: Segment::try_from(network).ok(),
            address,
            ready,
        }
    }

    pub(super) fn cause(&self) -> Finding {
        let causes = [
            Self::endpoints,
            Self::quorum,
            Self::conflict,
            Self::refused,
            Self::nobody_there,
            Self::unable,
            Self::service_proxies,
            Self::elsewhere,
        ];
        let mut causes = causes.iter();
        let found = causes.find_map(|cause| cause(self));
        found.unwrap_or_else(|| {
            self.error("NoSpeaker", "the nodes that could have not said so yet")
                .evidence(format!("nodes that can speak are {}", named(&self.able())))
                .remedy("look again in a minute; then read the logs of mooring-node on these nodes")
                .see(pages::SPEAKS)
        })
    }

    fn subject(&self) -> String {
        format!("address {}", self.address)
    }

    fn error(&self, check: &'static str, why: &str) -> Finding {
        let name = self.network.name_any();
        let line = format!("nobody speaks for it on L2Network {name}: {why}");
        Finding::error(self.subject(), check, line).see(pages::NO_ANSWER)
    }

    /// With what an Event says of the Service, if one of these reasons has been told.
    fn with_event(&self, finding: Finding, reasons: &[&str]) -> Option<Finding> {
        let note = self
            .snapshot
            .warning("Service", &self.service.key, reasons)?;
        Some(finding.evidence(format!("Event {}: {}", note.reason, note.note)))
    }

    /// The nodes of the segment, without those that only vote.
    fn nodes(&self) -> impl Iterator<Item = &SegmentNode> + Clone {
        self.status.nodes.iter().filter(|node| !node.witness)
    }

    /// Those that say that they can speak.
    fn able(&self) -> BTreeSet<&str> {
        let ready = self.nodes().filter(|node| node.ready);
        ready.map(|node| node.name.as_str()).collect()
    }

    fn endpoints(&self) -> Option<Finding> {
        let is_none = self.ready.as_ref().is_some_and(Vec::is_empty);
        is_none.then(|| {
            no_endpoint(self.service, &self.subject())
                .evidence("a Service without a ready endpoint is not announced")
        })
    }

    fn quorum(&self) -> Option<Finding> {
        let mut conditions = self.status.conditions.iter();
        let lost = conditions
            .find(|known| known.type_ == segment_conditions::QUORUM && known.status == "False")?;
        let finding = self
            .error("NoQuorum", "most of the voters are lost")
            .evidence(lost.message.clone())
            .remedy("look at these Nodes, and at the network between them")
            .see(pages::VOTERS);
        Some(finding)
    }

    fn conflict(&self) -> Option<Finding> {
        let is_seen = |node: &SegmentNode| says(node, segment_notices::ADDRESS_CONFLICT);
        if !self.nodes().any(is_seen) {
            return None;
        }
        let finding = self
            .error("AddressConflict", "another host has the address")
            .remedy("take the address from that host, or out of the ranges, and create the Service again")
            .see(pages::OTHER_HOST);
        self.with_event(finding, &[reasons::ADDRESS_CONFLICT])
    }

    fn refused(&self) -> Option<Finding> {
        let finding = self
            .error("AddressRefused", "the daemons refuse to announce it")
            .remedy("what the message says");
        let told = [reasons::ADDRESS_REFUSED, reasons::ADDRESS_RESERVED];
        if let Some(finding) = self.with_event(finding, &told) {
            return Some(finding);
        }
        let segment = self.segment.as_ref()?;
        let name = self.network.name_any();
        let is_recorded = self.service.allocated_network.as_deref() == Some(&name);
        (!segment.contains(self.address) && !is_recorded).then(|| {
            let why = "it is in no range of the network, and not recorded on the Service";
            self.error("AddressRefused", why)
                .remedy("add it to the ranges, or ask for another address")
        })
    }

    /// No node says anything.
    fn nobody_there(&self) -> Option<Finding> {
        if self.nodes().next().is_some() {
            return None;
        }
        let is_selected = |node: &NodeView| {
            let labels = node.labels.clone().unwrap_or_default();
            let segment = self.segment.as_ref();
            segment.is_some_and(|segment| segment.includes(&labels))
        };
        let knows_nodes = self.snapshot.objects.nodes.is_some();
        let selects_some = self.snapshot.nodes.iter().any(is_selected);
        Some(match knows_nodes && !selects_some {
            true => self
                .error("NoNodes", "spec.nodeSelector selects no Node")
                .remedy("label the Nodes of the segment, or correct the selector"),
            false => self
                .error("NoDaemons", "no daemon says that it is on the segment")
                .remedy("look at the Pods of mooring-node on these Nodes, and at their logs"),
        })
    }

    /// All nodes say that they cannot.
    fn unable(&self) -> Option<Finding> {
        if !self.able().is_empty() {
            return None;
        }
        let is_excluded = |node: &SegmentNode| {
            let view = self.snapshot.node(&node.name);
            view.is_some_and(NodeView::is_excluded)
        };
        let has_no_key = |node: &SegmentNode| node.reason == segment_reasons::NO_HEARTBEAT_KEY;
        let finding = if self.nodes().all(is_excluded) {
            let why = "all its nodes are excluded from load balancers by their label";
            self.error("Excluded", why)
                .remedy("take the label off where nodes are to announce, or set spec.includeExcludedNodes")
                .see(pages::TAKEN_OUT)
        } else if self.nodes().all(has_no_key) {
            self.error("NoHeartbeatKey", "no daemon has a key to sign heartbeats with")
                .remedy("make sure that the Secret mooring-heartbeat is there, and that the daemons mount it")
                .see(pages::SIGNED)
        } else {
            self.error("NoNodeReady", "none of its nodes can speak")
                .remedy("what the nodes say")
                .see(pages::SPEAKS)
        };
        let shown = self.nodes().take(MOST_NAMED);
        Some(shown.fold(finding, |finding, node| {
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
        }))
    }

    fn service_proxies(&self) -> Option<Finding> {
        let mut ready = self.nodes().filter(|node| node.ready);
        let is_unhealthy =
            |node: &SegmentNode| says(node, segment_notices::SERVICE_PROXY_UNHEALTHY);
        ready.all(is_unhealthy).then(|| {
            let why = "kube-proxy says on all nodes that it does not work";
            self.error("ServiceProxyUnhealthy", why).remedy(
                "look at kube-proxy on these Nodes: its /healthz on port 10256, and its log",
            )
        })
    }

    fn elsewhere(&self) -> Option<Finding> {
        let ready = self.ready.as_ref().filter(|_| self.service.is_local)?;
        let there: BTreeSet<&str> = ready.iter().filter_map(|one| one.node.as_deref()).collect();
        let able = self.able();
        there.is_disjoint(&able).then(|| {
            let why = "externalTrafficPolicy is Local, and its endpoints are on other nodes";
            self.error("EndpointElsewhere", why)
                .evidence(format!("ready endpoints are on {}", named(&there)))
                .evidence(format!("nodes that can speak are {}", named(&able)))
                .remedy("let its Pods run on nodes of the segment, or use the policy Cluster")
        })
    }
}

/// That there is nothing to send to.
pub(super) fn no_endpoint(service: &ServiceView, subject: &str) -> Finding {
    let line = format!("Service {} has no ready endpoint", service.key);
    Finding::error(subject, "NoEndpoint", line)
        .remedy(format!(
            "kubectl --namespace {} describe service {}, and look at the Pods that its selector selects",
            service.key.namespace, service.key.name
        ))
        .see(pages::NO_ANSWER)
}

pub(super) fn says(node: &SegmentNode, notice: &str) -> bool {
    node.notices.iter().any(|said| said == notice)
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
