//! Walks the evidence: why a Node is tainted, why a Service has no address, why an address does not answer.
//!
//! ```text
//!   Snapshot ─┬─► central    leader, Pods, admission policies
//!             ├─► networks   L2Networks: conditions, and what their Nodes say
//!             ├─► nodes      taint, maintenance, daemon
//!             ├─► services   who serves it, whether it has an address  ─► addresses: who speaks, or why nobody
//!   reach ────┴─► connections from here to the TCP ports of an address
//! ```
//!
//! All but `reach` is pure.

mod addresses;
mod central;
mod networks;
mod nodes;
mod reach;
mod services;
mod silence;
#[cfg(test)]
mod tests;

use anyhow::{bail, ensure};

use super::finding::{Finding, Severity};
use super::flags::Target;
use super::snapshot::Snapshot;
pub(super) use addresses::{able, ready_endpoints};
pub(super) use reach::{Reach, reach};

/// Where a reader finds more.
mod pages {
    pub(super) const TAINTED: &str = "docs/how-to/a-node-stays-tainted.md";
    pub(super) const OTHER_REASONS: &str = "docs/how-to/a-node-stays-tainted.md#the-other-reasons";
    pub(super) const NO_EVENT: &str = "docs/how-to/a-node-stays-tainted.md#there-is-no-event";
    pub(super) const NO_ADDRESS: &str = "docs/how-to/l2-networks.md#if-there-is-no-address";
    pub(super) const CONNECTIONS: &str =
        "docs/how-to/l2-networks.md#keep-connections-when-an-address-moves";
    pub(super) const NO_ANSWER: &str = "docs/how-to/l2-networks.md#if-there-is-no-answer";
    pub(super) const OTHER_HOST: &str = "docs/how-to/l2-networks.md#another-host-has-the-address";
    pub(super) const VOTERS: &str = "docs/how-to/l2-networks.md#have-enough-voters";
    pub(super) const SPEAKS: &str = "docs/how-to/l2-networks.md#see-who-speaks";
    pub(super) const TAKEN_OUT: &str = "docs/how-to/l2-networks.md#take-a-node-out";
    pub(super) const SIGNED: &str = "docs/how-to/l2-networks.md#sign-the-heartbeats";
    pub(super) const STUCK: &str = "docs/how-to/load-balancers.md#a-load-balancer-is-stuck";
    pub(super) const BESIDE: &str = "docs/how-to/l2-networks.md#beside-another-implementation";
    pub(super) const CONTROL_PLANE: &str =
        "docs/how-to/control-plane.md#reserve-the-address-in-an-l2network";
    pub(super) const DISTRIBUTIONS: &str = "docs/how-to/distributions.md";
    pub(super) const FENCE: &str = "docs/explanation/fence.md";
    pub(super) const INSTALL: &str = "docs/how-to/install.md";
}

/// What is right and wrong with the target. Of what all others depend on, only what is wrong is told.
///
/// # Errors
/// If the target is not there, or may not be read.
pub(super) fn examine(
    snapshot: &Snapshot,
    target: &Target,
    reached: Vec<Reach>,
) -> anyhow::Result<Vec<Finding>> {
    let mut findings = central::findings(snapshot);
    if *target != Target::All {
        findings.extend(networks::findings(snapshot));
        findings.retain(|finding| finding.severity != Severity::Ok);
    }
    match target {
        Target::All => {
            findings.extend(networks::findings(snapshot));
            findings.extend(nodes::all(snapshot));
            findings.extend(services::all(snapshot));
        }
        Target::Node(name) => {
            ensure!(
                snapshot.objects.nodes.is_some(),
                "Nodes may not be listed; {}",
                missing(snapshot)
            );
            match snapshot.node(name) {
                Some(node) => findings.extend(nodes::findings(snapshot, node)),
                None => bail!("there is no Node {name:?}; kubectl get nodes lists them"),
            }
        }
        Target::Service(key) => {
            ensure!(
                snapshot.objects.services.is_some(),
                "Services may not be listed; {}",
                missing(snapshot)
            );
            match snapshot.service(key) {
                Some(service) => {
                    findings.extend(services::findings(snapshot, service));
                    findings.extend(reach::findings(snapshot, Some(service), reached));
                }
                None => bail!("there is no Service {key}; kubectl get services -A lists them"),
            }
        }
        Target::Address(address) => {
            let mut all = snapshot.services.iter();
            let service = all.find(|service| service.status.contains(address));
            let service = service.map(AsRef::as_ref);
            findings.extend(addresses::findings(snapshot, service, *address));
            findings.extend(reach::findings(snapshot, service, reached));
        }
    }
    Ok(findings)
}

fn missing(snapshot: &Snapshot) -> String {
    let all: Vec<String> = snapshot.missing.iter().map(ToString::to_string).collect();
    format!("missing rights: {}", all.join("; "))
}

/// One line for all of a kind that have no fault.
fn summed_up(
    what: &str,
    check: &'static str,
    all: impl Iterator<Item = Vec<Finding>>,
) -> Vec<Finding> {
    let (mut well, mut wrong) = (0_usize, Vec::new());
    for findings in all {
        let faults = findings
            .into_iter()
            .filter(|finding| finding.severity != Severity::Ok);
        let before = wrong.len();
        wrong.extend(faults);
        well += usize::from(wrong.len() == before);
    }
    if well > 0 {
        let line = format!("{well} {what} have no fault");
        wrong.insert(0, Finding::ok(what, check, line));
    }
    wrong
}
