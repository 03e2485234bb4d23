//! What cannot be done at all.

use mooring_common::names::cloudscale_annotations as keys;

use super::super::desired::Desired;
use super::super::model::VipRequest;
use super::super::observed::Observed;
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::clouds::cloudscale::api::balancers::Vip;

/// What would have to change of a load balancer, and cannot.
pub(super) fn of_changes(desired: &Desired, observed: &Observed) -> Result<(), ReconcileError> {
    let (wanted, balancer) = (&desired.balancer, &observed.balancer);
    let differs = |wanted: Option<&String>, actual: Option<&String>| match (wanted, actual) {
        (Some(wanted), Some(actual)) if wanted != actual => {
            Some((format!("{actual:?}"), format!("{wanted:?}")))
        }
        _ => None,
    };
    let flavor = differs(Some(&wanted.flavor), balancer.flavor.as_ref());
    let zone = differs(wanted.zone.as_ref(), balancer.zone.as_ref());
    let is_wrong = |actual: &&[Vip]| !fit(&wanted.vips, actual);
    let said = balancer.vip_addresses.as_deref();
    let vips = said.filter(is_wrong).map(|actual| {
        let actual: Vec<_> = actual.iter().map(vip).collect();
        let wanted: Vec<_> = wanted.vips.iter().map(vip_request).collect();
        (actual.join(", "), wanted.join(", "))
    });
    let all = [
        ("flavor", keys::FLAVOR, flavor),
        ("zone", keys::ZONE, zone),
        ("virtual addresses", keys::VIP_ADDRESSES, vips),
    ];
    let reasons = all.into_iter().filter_map(|(what, key, difference)| {
        let (actual, wanted) = difference?;
        Some(format!(
            "its {what} cannot be changed from {actual} to {wanted} (annotation {key})"
        ))
    });
    refused(&reasons.collect::<Vec<_>>(), |reasons| {
        format!(
            "the load balancer stays as it is: {reasons}; undo that, or delete the Service and \
             create it anew"
        )
    })
}

/// What keeps a load balancer from being made.
pub(super) fn of_creation(desired: &Desired) -> Result<(), ReconcileError> {
    let mut reasons = Vec::new();
    if desired.balancer.zone.is_none() && desired.zone_of_nodes.is_none() {
        reasons.push(format!(
            "its zone is not known, since there is no Node to take it from, or Nodes stand in \
             several; set annotation {}",
            keys::ZONE
        ));
    }
    if let Some(address) = &desired.unmet_address {
        reasons.push(format!(
            "it would not get spec.loadBalancerIP {address:?}; remove the field, or ask for the \
             address with annotation {} or {}",
            keys::VIP_ADDRESSES,
            keys::FLOATING_IPS
        ));
    }
    refused(&reasons, |reasons| {
        format!("no load balancer is made: {reasons}")
    })
}

fn refused(reasons: &[String], text: impl FnOnce(String) -> String) -> Result<(), ReconcileError> {
    if reasons.is_empty() {
        Ok(())
    } else {
        Err(ReconcileError::Refused(text(reasons.join("; "))))
    }
}

/// Whether each address is as it is asked for, as far as it is said.
fn fit(wanted: &[VipRequest], actual: &[Vip]) -> bool {
    let is_right = |(wanted, actual): (&VipRequest, &Vip)| {
        let is_address_right = wanted.address.as_ref().is_none_or(|a| *a == actual.address);
        is_address_right && (wanted.subnet.is_none() || wanted.subnet == actual.subnet)
    };
    let is_unsaid = wanted.is_empty() || actual.is_empty();
    is_unsaid || wanted.len() == actual.len() && wanted.iter().zip(actual).all(is_right)
}

fn vip(vip: &Vip) -> String {
    match &vip.subnet {
        Some(subnet) => format!("{} in subnet {subnet}", vip.address),
        None => vip.address.clone(),
    }
}

fn vip_request(vip: &VipRequest) -> String {
    let address = vip.address.as_deref().unwrap_or("any address");
    match &vip.subnet {
        Some(subnet) => format!("{address} in subnet {subnet}"),
        None => address.to_owned(),
    }
}
