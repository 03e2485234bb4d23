//! Which Cloud IP leads to a load balancer.

use super::super::super::api::{Balancer, CloudIp};
use super::super::bundle::Bundle;
use super::super::desired::Desired;
use super::super::step::Step;
use super::given_back;
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::clouds::brightbox::annotations as keys;
use crate::engine::stages::{Made, Stages};
use crate::engine::step::PoolRef;

/// The one that is chosen, or a new one.
///
/// # Errors
/// [`ReconcileError::Refused`] if the Service's own leads elsewhere.
pub(super) fn own(
    desired: &Desired,
    observed: Option<&Bundle>,
    made: &mut Made,
) -> Result<Stages<Step>, ReconcileError> {
    if let Some(chosen) = &desired.chosen {
        return Ok(Stages::of(PoolRef::Known(chosen.id.clone())));
    }
    let taken = observed.and_then(|bundle| bundle.taken.first());
    if let Some(taken) = taken {
        return Err(ReconcileError::Refused(format!(
            "the Cloud IP {} has the name of this Service, and leads to {}; unmap it there, or give it another \
             name, so that the Service gets a new one, or name one in the annotation {}",
            taken.shown(),
            taken.target().unwrap_or_default(),
            keys::CLOUD_IP.key
        )));
    }
    let name = desired.name.clone();
    Ok(Stages::making(Step::CreateCloudIp { name }, made))
}

/// Lets the one of this reference lead to the load balancer. What it leads to until now has been permitted to
/// lose it, or is a load balancer of the Service that serves no more.
pub(super) fn mapped(
    desired: &Desired,
    ip: PoolRef,
    balancer: PoolRef,
    alive: Option<&Balancer>,
) -> Option<Step> {
    let asked = desired.asked();
    let chosen = desired.chosen.as_ref();
    if chosen.is_some_and(|ip| ip.is_moving) {
        return None;
    }
    let leads_here = |ip: &CloudIp, alive: &Balancer| match ip.known_target() {
        Some(target) => target == alive.id,
        None => alive.is_at(ip),
    };
    let at_alive = chosen.zip(alive);
    let is_here = at_alive.is_some_and(|(ip, alive)| leads_here(ip, alive));
    match chosen.and_then(CloudIp::target) {
        Some(_) if is_here => None,
        Some(_) => chosen.map(|ip| Step::UnmapCloudIp {
            ip: ip.clone(),
            asked,
        }),
        None => Some(Step::MapCloudIp {
            ip,
            balancer,
            asked,
        }),
    }
}

/// What leads here besides, and what was the Service's own, once the chosen one leads here.
pub(super) fn unneeded(desired: &Desired, observed: Option<&Bundle>) -> Vec<Step> {
    let chosen = desired.chosen.as_ref();
    let Some((bundle, chosen)) = observed.zip(chosen) else {
        return Vec::new();
    };
    if !bundle
        .balancer()
        .is_some_and(|balancer| balancer.is_at(chosen))
    {
        return Vec::new();
    }
    let others = bundle.cloud_ips.iter().filter(|ip| ip.id != chosen.id);
    let at_rest = others.filter(|ip| !ip.is_moving);
    at_rest
        .filter(|ip| ip.target().is_some() || ip.name == desired.name)
        .map(given_back)
        .collect()
}

/// Whether others than this one are still to go.
pub(super) fn are_left(bundle: &Bundle, chosen: &CloudIp) -> bool {
    bundle.cloud_ips.iter().any(|ip| ip.id != chosen.id)
}
