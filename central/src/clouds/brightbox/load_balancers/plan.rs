//! From what is to what should be, without a moment in which a port that stays is not served.
//!
//! The servers' firewall lets new ports and servers in before the load balancer sends anything there, and shuts
//! out what is old after that. A Cloud IP is given up once another one leads here.

mod balancer;
mod cloud_ips;
mod firewall;

use mooring_common::engine::{Impact, Plan};

use super::super::api::{Balancer, CloudIp, Group, plain_name};
use super::bundle::Bundle;
use super::desired::Desired;
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::engine::provider::{Listed as _, Unready};
use crate::engine::resource_step::ResourceStep;
use crate::engine::stages::Made;
use crate::engine::step::{Effect, PoolRef};

/// The steps in order.
///
/// # Errors
/// [`ReconcileError::Refused`] if it cannot be done: why.
pub(super) fn plan(
    desired: &Desired,
    observed: Option<&Bundle>,
) -> Result<Plan<ResourceStep>, ReconcileError> {
    let dead = observed.into_iter().flat_map(|bundle| &bundle.balancers);
    let delete = |balancer: &Balancer| deleted(balancer, plain_name(&balancer.name));
    let mut dead = dead.filter(|balancer| !balancer.is_alive()).peekable();
    let alive = observed.and_then(Bundle::balancer);
    if alive.is_none() && dead.peek().is_some() {
        // Its Cloud IP is free once it is gone.
        return Ok(dead.filter(|one| one.is("failed")).map(delete).collect());
    }
    let mut made = Made::default();
    let group = firewall::group(desired, observed, &mut made);
    let firewall = firewall::steps(desired, observed, &group.reference, &mut made)?;
    let mut steps = group.first;
    steps.extend(firewall.first);
    let ip = cloud_ips::own(desired, observed, &mut made)?;
    steps.extend(ip.first);
    let mut emptied = Vec::new();
    if let Some(balancer) = balancer::steps(desired, observed, &mut made) {
        steps.extend(balancer.first);
        let mapped = cloud_ips::mapped(desired, &ip.reference, &balancer.reference, alive);
        steps.extend(mapped);
        emptied = balancer.last;
    }
    steps.extend(cloud_ips::unneeded(desired, observed));
    steps.extend(emptied);
    steps.extend(firewall.last);
    steps.extend(group.last);
    let surplus = observed.into_iter().flat_map(|bundle| &bundle.balancers);
    let surplus = surplus.filter(|one| alive.is_some_and(|alive| alive.id != one.id));
    steps.extend(surplus.filter(|one| !one.is("deleting")).map(delete));
    Ok(steps.into_iter().collect())
}

/// Deletes a load balancer of this name.
pub(super) fn deleted(balancer: &Balancer, name: &str) -> ResourceStep {
    ResourceStep::delete_named(balancer, name)
        .with_impact(Impact::Major)
        .with_effect(Effect::DeleteBalancer(name.to_owned(), name.to_owned()))
        .later(PoolRef::None)
}

/// What the Service has to wait for before its status says anything new.
pub(super) fn unready(desired: &Desired, observed: &Bundle) -> Option<Unready> {
    let wait = |what: &str| Some(Unready::Wait(what.to_owned()));
    let Some(balancer) = observed.balancer() else {
        let is_failing = observed.balancers.iter().any(|one| one.is("failing"));
        let why =
            "Brightbox says that the load balancer is failing; it is replaced once it has failed";
        return match is_failing {
            true => Some(Unready::Failed(why.to_owned())),
            false => wait("the load balancer is not there yet"),
        };
    };
    let chosen = desired.chosen.as_ref().or_else(|| observed.own_ip());
    let Some(chosen) = chosen.filter(|ip| balancer.is_at(ip)) else {
        return wait("Brightbox is mapping the Cloud IP to the load balancer");
    };
    if observed.cloud_ips.iter().any(|ip| ip.id != chosen.id) {
        return wait("Brightbox is unmapping the former Cloud IP");
    }
    if !desired.is_https() {
        return None;
    }
    if let Some(why) = &desired.astray {
        return Some(Unready::Failed(why.clone()));
    }
    let mut domains = balancer.domains().filter(|domain| domain.status != "valid");
    let domain = domains.next()?;
    let name = &domain.identifier;
    if ["", "validating", "pending", "processing"].contains(&domain.status.as_str()) {
        return wait(&format!("the domain {name} is being validated"));
    }
    let words = domain.last_message.as_deref().unwrap_or_default();
    Some(Unready::Failed(format!(
        "the domain {name} of the certificate is {}: {words}; see that it leads to the Cloud IP {}, or take it \
         out of the annotation",
        domain.status,
        chosen.shown()
    )))
}

/// What it takes to be rid of all that a Service has, as far as that can be asked for now.
///
/// The load balancer goes first, and all else once it is gone and nothing leads there any more. What proves whose
/// the rest is goes last: the server group if it bears a mark, else the Cloud IPs, whose names are in the Service's
/// status.
pub(super) fn removal(bundle: &Bundle) -> Vec<ResourceStep> {
    if !bundle.balancers.is_empty() {
        let balancers = bundle.balancers.iter();
        return balancers.map(|one| deleted(one, &bundle.name)).collect();
    }
    let mapped = bundle.cloud_ips.iter().filter(|ip| ip.target().is_some());
    let mapped: Vec<ResourceStep> = mapped.map(given_back).collect();
    if !mapped.is_empty() {
        return mapped;
    }
    let ips = bundle.cloud_ips.iter().map(given_back);
    let policies = bundle.policies.iter();
    let policies = policies.map(|policy| ResourceStep::delete_named(policy, &policy.name));
    let groups = bundle.groups.iter().flat_map(emptied_and_deleted);
    match bundle.owner() {
        Some(_) => ips.chain(policies).chain(groups).collect(),
        None => policies.chain(groups).chain(ips).collect(),
    }
}

/// One that still leads to what is gone is unmapped first.
fn given_back(ip: &CloudIp) -> ResourceStep {
    match ip.target() {
        Some(_) => cloud_ips::unmapped(ip, None),
        None => ResourceStep::delete(ip, format!("delete Cloud IP {}", ip.shown())),
    }
}

fn emptied_and_deleted(group: &Group) -> Vec<ResourceStep> {
    let of = PoolRef::Known(group.id.clone());
    let emptied = firewall::without(&of, &group.servers).later(PoolRef::None);
    let emptied = Some(emptied).filter(|_| !group.servers.is_empty());
    let deleted = ResourceStep::delete_named(group, &group.name);
    emptied.into_iter().chain([deleted]).collect()
}

#[cfg(test)]
mod tests;
