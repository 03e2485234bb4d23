//! Why a Service has no address.

use std::sync::Arc;

use mooring_common::names::{CLASS_PREFIX, reasons};

use super::{addresses, pages};
use crate::controllers::service::Server;
use crate::run::inspect::finding::Finding;
use crate::run::inspect::plan::l2_plans;
use crate::run::inspect::print::age;
use crate::run::inspect::snapshot::Snapshot;
use crate::run::plan_command::Planned;
use crate::views::service_view::ServiceView;

pub(super) fn all(snapshot: &Snapshot) -> Vec<Finding> {
    let plans = l2_plans(snapshot, &snapshot.services);
    let services = snapshot.load_balancers();
    let services = services.map(|service| of_service(snapshot, service, plans.as_deref()));
    super::summed_up("Services", "Services", services)
}

pub(super) fn findings(snapshot: &Snapshot, service: &Arc<ServiceView>) -> Vec<Finding> {
    let plans = l2_plans(snapshot, &snapshot.services);
    of_service(snapshot, service, plans.as_deref())
}

fn of_service(
    snapshot: &Snapshot,
    service: &Arc<ServiceView>,
    plans: Option<&[Planned]>,
) -> Vec<Finding> {
    let subject = format!("service {}", service.key);
    if !service.is_load_balancer {
        let line = "it is not of type LoadBalancer, so it gets no address";
        return vec![Finding::warning(subject, "NoLoadBalancer", line)];
    }
    let Some(server) = snapshot.setup.routing.server(service) else {
        return vec![of_another(service, &subject)];
    };
    let has_any = !service.status.is_empty() || service.status_has_hostname;
    let mut findings = Vec::new();
    if !has_any {
        findings.push(match server {
            Server::L2Networks => without_address(snapshot, service, &subject, plans),
            Server::Cloud(cloud) => without_load_balancer(snapshot, service, &subject, cloud),
        });
        return findings;
    }
    if let Some(note) = snapshot.trouble_of(service, reasons::ENSURED_LOAD_BALANCER) {
        let ago = note
            .last
            .map_or_else(String::new, |at| format!(", {} ago", age(snapshot.now, at)));
        let line = format!("the last Warning about it is {}", note.reason);
        findings.push(
            Finding::warning(subject.as_str(), "Warned", line)
                .evidence(format!("{}{ago}", note.note))
                .remedy("what the message says, if that is still so")
                .see(match server {
                    Server::L2Networks => pages::NO_ADDRESS,
                    Server::Cloud(_) => pages::STUCK,
                }),
        );
    }
    match server {
        Server::L2Networks => {
            let each = service.status.iter();
            findings.extend(
                each.flat_map(|address| addresses::findings(snapshot, Some(service), *address)),
            );
        }
        Server::Cloud(cloud) => {
            let entries = service.ingress.iter();
            let all: Vec<String> = entries
                .filter_map(|entry| entry.ip.clone().or_else(|| entry.hostname.clone()))
                .collect();
            let line = format!("it has {} of {cloud}", all.join(", "));
            findings.push(Finding::ok(subject, "LoadBalancer", line));
        }
    }
    findings
}

/// Mooring does not serve it.
fn of_another(service: &ServiceView, subject: &str) -> Finding {
    match service.class.as_deref() {
        Some(class) if class.starts_with(CLASS_PREFIX) => {
            let line = format!("nobody serves its loadBalancerClass {class}");
            Finding::error(subject, "UnknownClass", line)
                .remedy("name a cloud of cloudProvider, or mooring.dev/l2; the class can only be set when the type becomes LoadBalancer")
                .see(pages::BESIDE)
        }
        Some(class) => {
            let line = format!(
                "its loadBalancerClass {class} is another implementation's, and Mooring leaves it alone"
            );
            Finding::ok(subject, "AnothersClass", line)
                .remedy("if Mooring is to serve it, name the class in central.loadBalancers.class of the chart")
                .see(pages::BESIDE)
        }
        None => Finding::ok(
            subject,
            "AnothersClass",
            "Services without a loadBalancerClass are another implementation's here",
        )
        .remedy("if Mooring is to serve it, give it the class mooring.dev/l2, or set central.loadBalancers.serveClassless")
        .see(pages::BESIDE),
    }
}

/// A Service of L2Networks without an address: by what central would decide now.
fn without_address(
    snapshot: &Snapshot,
    service: &ServiceView,
    subject: &str,
    plans: Option<&[Planned]>,
) -> Finding {
    let note = snapshot.warning("Service", &service.key, &[]);
    let told = |finding: Finding| match note {
        Some(note) => finding.evidence(format!("Event {}: {}", note.reason, note.note)),
        None => finding,
    };
    if !snapshot.has_crd {
        return Finding::error(
            subject,
            "NoCrd",
            "it has no address: the cluster has no L2Networks",
        )
        .remedy("apply the CRDs of the chart, and create an L2Network")
        .see(pages::NO_ADDRESS);
    }
    let Some(plans) = plans else {
        let line = "it has no address; why cannot be said without all Services and L2Networks";
        return told(Finding::error(subject, "NoAddress", line)).see(pages::NO_ADDRESS);
    };
    let mut plans = plans.iter();
    let planned = plans.find(|planned| planned.service.key == service.key);
    match planned.map(|planned| &planned.plan) {
        Some(Err(why)) => {
            let line = "it has no address, and gets none as things are";
            Finding::error(subject, "NoAddress", line)
                .evidence(if note.is_some() {
                    "central says the same of it in an Event"
                } else {
                    "so central decides; there is no Event of it (any more)"
                })
                .remedy(why.clone())
                .see(pages::NO_ADDRESS)
        }
        Some(Ok(plan)) => {
            let steps: Vec<&str> = plan.steps.iter().map(|step| step.step.as_str()).collect();
            let line =
                "it has no address, although there is one for it: central has not given it out";
            let finding = Finding::error(subject, "NotServed", line)
                .evidence(format!("central would {}", steps.join(", then ")))
                .remedy("see what is said of central, and read its log")
                .see(pages::NO_EVENT);
            told(finding)
        }
        None => told(Finding::error(subject, "NoAddress", "it has no address"))
            .remedy("it is being deleted, or was changed a moment ago: look again")
            .see(pages::NO_ADDRESS),
    }
}

/// A Service of a cloud without a load balancer: only central knows what the cloud says.
fn without_load_balancer(
    snapshot: &Snapshot,
    service: &ServiceView,
    subject: &str,
    cloud: &str,
) -> Finding {
    let line = format!("it has no load balancer of {cloud} yet");
    if let Some(note) = snapshot.warning("Service", &service.key, &[]) {
        return Finding::error(subject, "NoLoadBalancerYet", line)
            .evidence(format!("Event {}: {}", note.reason, note.note))
            .remedy("what the message says; mooring-central plan shows what would be done next")
            .see(pages::STUCK);
    }
    match service.creation_asked_at() {
        Some(when) => Finding::warning(subject, "Waiting", line)
            .evidence(format!("central has asked the cloud for it at {when}"))
            .remedy("wait: clouds take up to some minutes")
            .see(pages::STUCK),
        None => Finding::error(subject, "NoLoadBalancerYet", line)
            .remedy("see what is said of central, and read its log")
            .see(pages::STUCK),
    }
}
