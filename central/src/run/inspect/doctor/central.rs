//! Whether central leads, runs, and may write.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;
use mooring_common::names::policies;

use super::pages;
use crate::run::inspect::finding::Finding;
use crate::run::inspect::print::age;
use crate::run::inspect::setup::{CENTRAL_CONTAINER, NODE_CONTAINER};
use crate::run::inspect::snapshot::{Snapshot, is_ready, node_of};

const SUBJECT: &str = "central";

pub(super) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let found = [
        deployment(snapshot),
        lease(snapshot),
        fence(snapshot),
        daemons(snapshot),
    ];
    found.into_iter().flatten().collect()
}

/// The Lease of the leader: the one that was renewed last.
fn lease(snapshot: &Snapshot) -> Option<Finding> {
    let leases = snapshot.objects.leader_leases.as_ref()?;
    let namespace = &snapshot.setup.lease_namespace;
    let names = snapshot.setup.leases.join(" or ");
    let found = leases
        .iter()
        .filter_map(|lease| Some((lease, lease.spec.as_ref()?)))
        .max_by_key(|(_, spec)| spec.renew_time.as_ref().map(|time| time.0));
    let Some((lease, spec)) = found else {
        let message = format!("no Lease {names} in namespace {namespace}: no central has ever led");
        return Some(
            Finding::error(SUBJECT, "NoLeader", message)
                .remedy("install mooring-central, or look at its log: it names every fault at once")
                .see(pages::NO_EVENT),
        );
    };
    let name = format!("{namespace}/{}", lease.name_any());
    let holder = spec.holder_identity.clone().unwrap_or_default();
    let renewed = spec.renew_time.as_ref().map(|time| time.0);
    let lasts = i64::from(spec.lease_duration_seconds.unwrap_or_default());
    let since = |at: Timestamp| snapshot.now.duration_since(at).as_secs();
    Some(match renewed {
        _ if holder.is_empty() => Finding::error(
            SUBJECT,
            "NoLeader",
            format!("nobody holds the Lease {name}"),
        )
        .remedy("wait some seconds; if it stays so, look at central's log")
        .see(pages::NO_EVENT),
        Some(at) if since(at) <= lasts => {
            let line = format!(
                "{holder} leads: it has renewed the Lease {name} {} ago",
                age(snapshot.now, at)
            );
            match is_another(snapshot, &holder) {
                true => Finding::warning(SUBJECT, "ForeignLeader", line)
                    .evidence("no Pod of central has this name or is on this Node")
                    .remedy("if that is the controller of before, remove it: Mooring waits until it is gone")
                    .see(pages::NO_EVENT),
                false => Finding::ok(SUBJECT, "Leader", line),
            }
        }
        at => {
            let ago = at.map_or_else(
                || "never".to_owned(),
                |at| format!("{} ago", age(snapshot.now, at)),
            );
            Finding::error(
                SUBJECT,
                "StaleLease",
                format!("no central works: the Lease {name} has run out"),
            )
            .evidence(format!(
                "its holder {holder} has renewed it {ago}, and it lasts {lasts} s"
            ))
            .remedy("look at the Pods of central and at their logs: none of them runs, or none reaches the API server")
            .see(pages::NO_EVENT)
        }
    })
}

/// Whether the holder of the Lease is none of central's Pods, as far as they are known. Its name begins with the
/// host's.
fn is_another(snapshot: &Snapshot, holder: &str) -> bool {
    let mut pods = snapshot.pods_of(CENTRAL_CONTAINER).peekable();
    let is_of = |pod: &Pod| {
        let names = [Some(pod.name_any()), node_of(pod).map(str::to_owned)];
        names
            .into_iter()
            .flatten()
            .any(|name| holder.starts_with(&name))
    };
    pods.peek().is_some() && !pods.any(is_of)
}

/// The Pods of central.
fn deployment(snapshot: &Snapshot) -> Option<Finding> {
    snapshot.objects.pods.as_ref()?;
    let pods: Vec<&Pod> = snapshot.pods_of(CENTRAL_CONTAINER).collect();
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    let line = format!(
        "{ready} of {} Pods of mooring-central in namespace {} are Ready",
        pods.len(),
        snapshot.system
    );
    if ready > 0 && ready == pods.len() {
        return Some(Finding::ok(SUBJECT, "Pods", line));
    }
    let mut finding = match ready {
        0 => Finding::error(SUBJECT, "CentralNotRunning", line),
        _ => Finding::warning(SUBJECT, "CentralNotRunning", line),
    };
    for pod in pods.iter().filter(|pod| !is_ready(pod)) {
        finding = finding.evidence(format!("Pod {}: {}", pod.name_any(), state(pod)));
    }
    if pods.is_empty() {
        return Some(
            finding
                .remedy("install it, or name its namespace by --mooring-namespace")
                .see(pages::INSTALL),
        );
    }
    let remedy = format!(
        "kubectl --namespace {0} describe pods, and kubectl --namespace {0} logs deploy/{1}: the log names every fault \
         at once",
        snapshot.system,
        snapshot
            .setup
            .deployment
            .as_deref()
            .unwrap_or("mooring-central")
    );
    Some(finding.remedy(remedy).see(pages::NO_EVENT))
}

/// Why a Pod does not work, in its own words.
pub(super) fn state(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let containers = status.container_statuses.into_iter().flatten();
    let mut told: Vec<String> = containers
        .filter_map(|container| {
            let waiting = container.state?.waiting?;
            let reason = waiting.reason.unwrap_or_default();
            let message = waiting.message.unwrap_or_default();
            Some(format!("{reason} {message}").trim().to_owned())
        })
        .collect();
    let unmet = status
        .conditions
        .into_iter()
        .flatten()
        .filter(|condition| condition.status == "False")
        .filter_map(|condition| condition.message);
    told.extend(unmet);
    match told.is_empty() {
        true => status.phase.unwrap_or_else(|| "not started".to_owned()),
        false => told.join("; "),
    }
}

/// The admission policies, without which no daemon writes.
fn fence(snapshot: &Snapshot) -> Option<Finding> {
    let there = snapshot.objects.policies.as_ref()?;
    let all = [
        policies::OWN_NODE,
        policies::OWN_LEASE,
        policies::OWN_SEGMENT_ENTRY,
    ];
    let gone: Vec<&str> = all
        .into_iter()
        .filter(|name| !there.iter().any(|bound| bound == name))
        .collect();
    let is_waived = daemon_set(snapshot).is_some_and(|(_, container)| {
        let mut arguments = container.args.iter().flatten();
        arguments.any(|argument| argument == "--allow-unfenced")
    });
    let remedy = "upgrade the release with nodeDaemon.fence: true, on Kubernetes 1.31 or newer";
    Some(match gone.is_empty() {
        true => Finding::ok(SUBJECT, "Fence", "the daemons' admission policies are bound"),
        false if is_waived => Finding::warning(
            SUBJECT,
            "FenceWaived",
            "the fence is waived: the token of one daemon can change every Node",
        )
        .evidence("the daemons run with --allow-unfenced")
        .remedy(remedy)
        .see(pages::FENCE),
        false => Finding::error(
            SUBJECT,
            "FenceMissing",
            format!(
                "admission policies are missing or not bound: {}; the daemons write nothing without them",
                gone.join(", ")
            ),
        )
        .remedy(remedy)
        .see(pages::FENCE),
    })
}

/// The DaemonSet of the daemons, and their container.
fn daemon_set(snapshot: &Snapshot) -> Option<(&DaemonSet, &Container)> {
    let mut sets = snapshot.objects.daemon_sets.iter().flatten();
    sets.find_map(|set| {
        let spec = set.spec.as_ref()?.template.spec.as_ref()?;
        let mut containers = spec.containers.iter();
        let found = containers.find(|container| container.name == NODE_CONTAINER)?;
        Some((set, found))
    })
}

/// The daemons as a whole; each is looked at with its Node.
fn daemons(snapshot: &Snapshot) -> Option<Finding> {
    snapshot.objects.daemon_sets.as_ref()?;
    let Some((set, _)) = daemon_set(snapshot) else {
        return Some(
            Finding::warning(
                SUBJECT,
                "NoDaemons",
                format!("there is no DaemonSet mooring-node in namespace {}", snapshot.system),
            )
            .remedy("without it no Node announces addresses, and central initialises all Nodes; install it, or name its namespace by --mooring-namespace")
            .see(pages::INSTALL),
        );
    };
    let status = set.status.clone().unwrap_or_default();
    let (ready, wanted) = (status.number_ready, status.desired_number_scheduled);
    let line = format!("{ready} of {wanted} Pods of {} are Ready", set.name_any());
    Some(match ready >= wanted {
        true => Finding::ok(SUBJECT, "Daemons", line),
        false => Finding::warning(SUBJECT, "DaemonsNotReady", line)
            .remedy(format!(
                "kubectl --namespace {} get pods -o wide -l app.kubernetes.io/name=mooring-node",
                snapshot.system
            ))
            .see(pages::NO_EVENT),
    })
}
