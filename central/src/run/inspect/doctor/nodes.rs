//! Why a Node is tainted, and what else keeps it from its work.

use std::collections::BTreeMap;

use mooring_common::k8s::ObjectKey;
use mooring_common::maintenance::Maintenance;
use mooring_common::names::{annotations, labels, reasons, segment_reasons, taints};
use mooring_common::node_view::{NodeView, Readiness};
use mooring_common::provider_id::ProviderId;
use mooring_common::taints as taints_of;

use super::central::state;
use super::pages;
use crate::run::inspect::finding::Finding;
use crate::run::inspect::print::age;
use crate::run::inspect::setup::NODE_CONTAINER;
use crate::run::inspect::snapshot::{Note, Snapshot, is_ready, node_of};

/// A Node that is younger waits for its daemon.
const YOUNG_SECONDS: i64 = 60;
/// Of Events about a Node: why it is not initialised, with what to do.
const CAUSES: [(&str, &str, &str); 6] = [
    (
        reasons::INITIALIZATION_REFUSED,
        "what the message says; nothing needs a restart",
        "docs/how-to/a-node-stays-tainted.md#initializationrefused",
    ),
    (
        reasons::AMBIGUOUS_INSTANCE,
        "give all but one of the machines other names, or start the kubelet with --provider-id",
        pages::OTHER_REASONS,
    ),
    (
        reasons::UNKNOWN_PROVIDER_ID,
        "add the cloud to cloudProvider, or correct the kubelet's --provider-id and delete the Node",
        pages::OTHER_REASONS,
    ),
    (
        reasons::DUPLICATE_PROVIDER_ID,
        "delete the Node that is wrong; Mooring continues with the other",
        pages::OTHER_REASONS,
    ),
    (
        reasons::LABELS_REFUSED,
        "list the keys in nodeDaemon.additionalLabelKeys of the chart",
        pages::OTHER_REASONS,
    ),
    (
        reasons::FENCE_MISSING,
        "upgrade the release with nodeDaemon.fence: true",
        pages::FENCE,
    ),
];

pub(super) fn all(snapshot: &Snapshot) -> Vec<Finding> {
    let nodes = snapshot.nodes.iter().map(|node| findings(snapshot, node));
    super::summed_up("Nodes", "Nodes", nodes)
}

pub(super) fn findings(snapshot: &Snapshot, node: &NodeView) -> Vec<Finding> {
    let subject = format!("node {}", node.name);
    let found = [
        taint(snapshot, node, &subject),
        never_tainted(snapshot, node, &subject),
        duplicate(snapshot, node, &subject),
        ready(node, &subject),
        excluded(node, &subject),
        maintenance(snapshot, node, &subject),
        daemon(snapshot, node, &subject),
        warned(snapshot, node, &subject),
    ];
    let mut found: Vec<Finding> = found.into_iter().flatten().collect();
    found.extend(segments(snapshot, node, &subject));
    if found.is_empty() {
        found.push(Finding::ok(subject, "Node", "it is initialised and Ready"));
    }
    found
}

fn key(node: &NodeView) -> ObjectKey {
    ObjectKey::cluster_wide(&node.name)
}

fn scheme(node: &NodeView) -> Option<String> {
    let id: ProviderId = node.provider_id.as_ref()?.parse().ok()?;
    Some(id.scheme().to_owned())
}

fn seconds_old(snapshot: &Snapshot, node: &NodeView) -> Option<i64> {
    let created = node.created?;
    Some(snapshot.now.duration_since(created).as_secs())
}

fn told(finding: Finding, snapshot: &Snapshot, note: &Note) -> Finding {
    let ago = note
        .last
        .map(|at| format!(", {} ago", age(snapshot.now, at)))
        .unwrap_or_default();
    finding.evidence(format!("Event {}{ago}: {}", note.reason, note.note))
}

/// The taint of a Node that waits to be initialised, with its cause.
fn taint(snapshot: &Snapshot, node: &NodeView, subject: &str) -> Option<Finding> {
    if !node.is_uninitialized() {
        return None;
    }
    let message = |why: &str| format!("it has the taint {}: {why}", taints::UNINITIALIZED);
    let causes: Vec<&str> = CAUSES.iter().map(|(reason, ..)| *reason).collect();
    if let Some(note) = snapshot.warning("Node", &key(node), &causes) {
        let row = CAUSES.iter().find(|(reason, ..)| *reason == note.reason);
        let (check, remedy, page) = *row?;
        let line = message("it cannot be initialised as things are");
        let finding = Finding::error(subject, check, line)
            .remedy(remedy)
            .see(page);
        return Some(left(told(finding, snapshot, note), node));
    }
    let setup = &snapshot.setup;
    let is_known = setup.deployment.is_some();
    if is_known && setup.providers.is_empty() {
        let line = message("cloudProvider is none, so Mooring leaves Nodes alone");
        let remedy = "start the kubelets without --cloud-provider=external, or name the cloud in cloudProvider";
        return Some(
            Finding::error(subject, "NoCloud", line)
                .remedy(remedy)
                .see(pages::TAINTED),
        );
    }
    if let Some(scheme) =
        scheme(node).filter(|scheme| is_known && !setup.providers.contains(scheme))
    {
        let line = message("its machine belongs to a cloud that central does not use");
        return Some(
            Finding::error(subject, reasons::UNKNOWN_PROVIDER_ID, line)
                .evidence(format!(
                    "spec.providerID begins with {scheme}://, and cloudProvider is {}",
                    setup.providers.join(",")
                ))
                .remedy(
                    "add the cloud to cloudProvider, or let its own controller initialise the Node",
                )
                .see(pages::OTHER_REASONS),
        );
    }
    if seconds_old(snapshot, node).is_some_and(|seconds| seconds < YOUNG_SECONDS) {
        let line = message("it is younger than a minute, and central waits for its daemon");
        return Some(
            Finding::warning(subject, "Waiting", line)
                .remedy("wait a minute")
                .see(pages::NO_EVENT),
        );
    }
    let line = message("neither its daemon nor central has said why");
    Some(left(
        Finding::error(subject, "NotInitialized", line)
            .remedy(
                "see what is said of central and of the daemon on this Node; then read their logs",
            )
            .see(pages::NO_EVENT),
        node,
    ))
}

/// What the daemon has left to central.
fn left(finding: Finding, node: &NodeView) -> Finding {
    match node.annotation(annotations::LEFT_TO_CENTRAL) {
        Some(what) => finding.evidence(format!("its daemon leaves it to central: {what}")),
        None => finding,
    }
}

/// A Node whose kubelet knows of no external cloud provider.
fn never_tainted(snapshot: &Snapshot, node: &NodeView, subject: &str) -> Option<Finding> {
    let has_clouds = !snapshot.setup.providers.is_empty();
    let is_without = node.provider_id.is_none() && !node.is_uninitialized();
    (has_clouds && is_without).then(|| {
        let line = "it has no provider ID, and not the taint of a Node that waits for one";
        Finding::warning(subject, "NeverTainted", line)
            .remedy("start its kubelet with --cloud-provider=external, delete the Node, and let it register again")
            .see(pages::NO_EVENT)
    })
}

/// Another Node with the same machine.
fn duplicate(snapshot: &Snapshot, node: &NodeView, subject: &str) -> Option<Finding> {
    let id = node.provider_id.as_ref()?;
    let mut by_id: BTreeMap<&String, Vec<&str>> = BTreeMap::new();
    for other in snapshot
        .nodes
        .iter()
        .filter(|other| other.name != node.name)
    {
        let ids = other.provider_id.iter();
        ids.for_each(|id| by_id.entry(id).or_default().push(&other.name));
    }
    let others = by_id.get(id)?;
    let line = format!("{} has the same provider ID", others.join(", "));
    Some(
        Finding::error(subject, reasons::DUPLICATE_PROVIDER_ID, line)
            .evidence(format!("spec.providerID is {id}"))
            .remedy("delete the Node that is wrong: it was renamed, or two kubelets have one --provider-id")
            .see(pages::OTHER_REASONS),
    )
}

fn ready(node: &NodeView, subject: &str) -> Option<Finding> {
    if taints_of::has(&node.taints, taints::SHUTDOWN) {
        let line = "its machine is stopped";
        return Some(
            Finding::warning(subject, "Stopped", line)
                .remedy("start the machine, or delete it: then its Node is deleted"),
        );
    }
    (node.readiness != Readiness::Ready).then(|| {
        Finding::warning(subject, "NotReady", "it is not Ready")
            .remedy("its kubelet or the pod network says why: kubectl describe node, conditions")
            .see(pages::NO_EVENT)
    })
}

fn excluded(node: &NodeView, subject: &str) -> Option<Finding> {
    let label = labels::EXCLUDE_FROM_LOAD_BALANCERS;
    if node.is_excluded() {
        return Some(
            Finding::warning(subject, "Excluded", "it carries no load balancer traffic")
                .evidence(format!("it has the label {label}"))
                .remedy(format!(
                    "where it is to: kubectl label node {} {label}-, or spec.includeExcludedNodes of the L2Network",
                    node.name
                ))
                .see(pages::TAKEN_OUT),
        );
    }
    let taints = [taints::OUT_OF_SERVICE, taints::TO_BE_DELETED];
    let taint = taints
        .into_iter()
        .find(|key| taints_of::has(&node.taints, key))?;
    Some(
        Finding::warning(subject, "Excluded", "it carries no load balancer traffic")
            .evidence(format!("it has the taint {taint}"))
            .remedy("take the taint off once the Node is well")
            .see(pages::TAKEN_OUT),
    )
}

fn maintenance(snapshot: &Snapshot, node: &NodeView, subject: &str) -> Option<Finding> {
    let maintenance = Maintenance::read(node.annotation(annotations::MAINTENANCE));
    maintenance.lasts(snapshot.now).then(|| {
        Finding::warning(subject, "Maintenance", format!("it is {maintenance}"))
            .remedy(format!(
                "to end it: kubectl annotate node {} {}-",
                node.name,
                annotations::MAINTENANCE
            ))
            .see(pages::TAKEN_OUT)
    })
}

fn daemon(snapshot: &Snapshot, node: &NodeView, subject: &str) -> Option<Finding> {
    snapshot.objects.pods.as_ref()?;
    let sets = snapshot.objects.daemon_sets.as_deref().unwrap_or_default();
    if sets.is_empty() {
        return None;
    }
    let pods = snapshot.pods_of(NODE_CONTAINER);
    let here = pods.filter(|pod| node_of(pod) == Some(&node.name));
    // While the daemon is replaced there are two.
    match here.max_by_key(|pod| is_ready(pod)) {
        None => Some(
            Finding::warning(subject, "NoDaemon", "no Pod of mooring-node runs on it")
                .remedy("look at the tolerations and the node selector of the DaemonSet; central initialises the Node after the grace, but nothing is announced from it")
                .see(pages::NO_EVENT),
        ),
        Some(pod) if !is_ready(pod) => {
            let name = pod.metadata.name.clone().unwrap_or_default();
            Some(
                Finding::error(subject, "DaemonNotReady", format!("its daemon, Pod {name}, is not Ready"))
                    .evidence(state(pod))
                    .remedy(format!(
                        "kubectl --namespace {} logs {name}; while the Node has no address, crictl logs on the machine",
                        snapshot.system
                    ))
                    .see(pages::NO_EVENT),
            )
        }
        Some(_) => None,
    }
}

/// The last Warning about a Node that is initialised.
fn warned(snapshot: &Snapshot, node: &NodeView, subject: &str) -> Option<Finding> {
    let all = [
        reasons::FACTS_CORRECTED,
        reasons::ADDRESSES_CONTESTED,
        reasons::LABELS_REFUSED,
        reasons::FENCE_MISSING,
        reasons::NODE_DELETION_HELD,
        reasons::DELETING_NODE_FAILED,
        reasons::MAINTENANCE_UNREADABLE,
        reasons::FAILED_TO_CREATE_ROUTE,
        reasons::CIDR_NOT_AVAILABLE,
        reasons::CIDR_ASSIGNMENT_FAILED,
    ];
    if node.is_uninitialized() {
        return None;
    }
    let note = snapshot.warning("Node", &key(node), &all)?;
    let check = all.into_iter().find(|reason| *reason == note.reason)?;
    let line = format!("the last Warning about it is {check}");
    let finding = Finding::warning(subject, check, line)
        .remedy("what the message says, if that is still so")
        .see(pages::OTHER_REASONS);
    Some(told(finding, snapshot, note))
}

/// Where it cannot speak.
fn segments(snapshot: &Snapshot, node: &NodeView, subject: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for network in snapshot.networks() {
        let name = network.metadata.name.clone().unwrap_or_default();
        let nodes = network.status.iter().flat_map(|status| &status.nodes);
        for entry in nodes.filter(|entry| entry.name == node.name && !entry.ready) {
            let reason = entry.reason.as_str();
            let expected = [segment_reasons::WITNESS, segment_reasons::DRAINING];
            if expected.contains(&reason) {
                continue;
            }
            let line = format!("it cannot speak on L2Network {name}: {reason}");
            findings.push(
                Finding::error(subject, "CannotSpeak", line)
                    .evidence(entry.message.clone())
                    .remedy("what the message says")
                    .see(pages::SPEAKS),
            );
        }
    }
    findings
}
