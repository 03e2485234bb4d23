//! Which Cloud IP leads to a load balancer.

use mooring_common::engine::Impact;
use serde_json::json;

use super::super::super::api::{Balancer, CloudIp};
use super::super::bundle::Bundle;
use super::super::desired::Desired;
use super::given_back;
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::clouds::brightbox::annotations as keys;
use crate::engine::resource_step::ResourceStep;
use crate::engine::stages::{Made, Stages};
use crate::engine::step::{Effect, PoolRef};

/// The one that is chosen, or a new one.
///
/// # Errors
/// [`ReconcileError::Refused`] if the Service's own leads elsewhere.
pub(super) fn own(
    desired: &Desired,
    observed: Option<&Bundle>,
    made: &mut Made,
) -> Result<Stages<ResourceStep>, ReconcileError> {
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
    let create = ResourceStep::create_named::<CloudIp>(&desired.name, json!({}));
    Ok(Stages::making(create, made))
}

/// Lets one lead elsewhere. `asked`: its identifier, if the Service names it.
fn led(
    ip: &PoolRef,
    verb: [&'static str; 2],
    words: String,
    asked: Option<String>,
) -> ResourceStep {
    ResourceStep::act::<CloudIp>(ip, verb, words)
        .then(json!({"is_moving": true}))
        .with_effect(asked.map_or(Effect::Change, Effect::Assign))
}

/// Lets one lead nowhere, so that it can lead here or go: whoever uses its address loses the connection.
pub(super) fn unmapped(ip: &CloudIp, asked: Option<String>) -> ResourceStep {
    let words = format!("unmap Cloud IP {}", ip.shown());
    let of = PoolRef::Known(ip.id.clone());
    led(&of, ["unmap", "unmap_cloud_ip"], words, asked)
        .later(PoolRef::None)
        .with_impact(Impact::Considerable)
}

/// Lets the one of this reference lead to the load balancer. What it leads to until now has been permitted to
/// lose it, or is a load balancer of the Service that serves no more.
pub(super) fn mapped(
    desired: &Desired,
    ip: &PoolRef,
    balancer: &PoolRef,
    alive: Option<&Balancer>,
) -> Option<ResourceStep> {
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
        Some(_) => chosen.map(|ip| unmapped(ip, asked)),
        None => {
            let shown = match ip {
                PoolRef::Known(id) => format!("Cloud IP {id}"),
                _ => "the new Cloud IP".to_owned(),
            };
            let words = format!("map {shown} to the load balancer");
            let map = led(ip, ["map", "map_cloud_ip"], words, asked);
            Some(map.naming("destination", balancer).later(balancer.clone()))
        }
    }
}

/// What leads here besides, and what was the Service's own, once the chosen one leads here.
pub(super) fn unneeded(desired: &Desired, observed: Option<&Bundle>) -> Vec<ResourceStep> {
    let there = observed.zip(desired.chosen.as_ref());
    let leads_here = |(bundle, chosen): &(&Bundle, &CloudIp)| {
        let balancer = bundle.balancer();
        balancer.is_some_and(|balancer| balancer.is_at(chosen))
    };
    let Some((bundle, chosen)) = there.filter(leads_here) else {
        return Vec::new();
    };
    let others = bundle.cloud_ips.iter().filter(|ip| ip.id != chosen.id);
    let at_rest = others.filter(|ip| !ip.is_moving);
    at_rest
        .filter(|ip| ip.target().is_some() || ip.name == desired.name)
        .map(given_back)
        .collect()
}
