//! The load balancer itself: what of it differs, all in one request.

use std::collections::{BTreeMap, BTreeSet};

use mooring_common::engine::Impact;

use super::super::super::api::{Balancer, HealthCheck, Listener};
use super::super::bundle::Bundle;
use super::super::desired::Desired;
use super::super::model::BalancerChange;
use super::super::step::Step;
use crate::engine::provider::Listed as _;
use crate::engine::stages::{Made, Stages};
use crate::engine::step::PoolRef;

/// What the cloud has where nothing is said: milliseconds, answers, and a policy.
const IDLE_TIMEOUT: u32 = 50_000;
const INTERVAL: u32 = 5_000;
const THRESHOLD: u32 = 3;
const POLICY: &str = "least-connections";

/// `None`: there will be none yet.
pub(super) fn steps(
    desired: &Desired,
    observed: Option<&Bundle>,
    made: &mut Made,
) -> Option<Stages<Step>> {
    let there = observed.and_then(|bundle| bundle.balancer().map(|there| (bundle, there)));
    if let Some((bundle, balancer)) = there {
        return Some(changes(desired, balancer, bundle.owner().is_some()));
    }
    // The names of the Cloud IP belong to the certificate.
    if desired.is_https() && desired.chosen.is_none() {
        return None;
    }
    let new = BalancerChange {
        name: Some(desired.name.clone()),
        nodes: Some(desired.servers.clone()).filter(|servers| !servers.is_empty()),
        policy: desired.policy.map(ToOwned::to_owned),
        listeners: Some(desired.listeners.clone()),
        healthcheck: Some(desired.check.clone()),
        domains: desired.is_https().then(|| desired.domains.clone()),
        https_redirect: Some(desired.is_https()),
    };
    Some(Stages::making(Step::CreateBalancer(Box::new(new)), made))
}

/// `is_ours`: whether central has made it, so that what nobody asks for is as the cloud makes it. Of one that
/// the Go controller has made, that stays as somebody may have set it.
fn changes(desired: &Desired, balancer: &Balancer, is_ours: bool) -> Stages<Step> {
    let mut nodes = desired.servers.clone();
    if !desired.servers_are_complete {
        nodes.extend(balancer.nodes.iter().cloned());
    }
    let listeners = filled_listeners(desired, balancer, is_ours);
    let check = filled_check(desired, &balancer.healthcheck, is_ours);
    let otherwise = balancer.policy.as_ref().filter(|_| is_ours).map(|_| POLICY);
    let policy = desired.policy.or(otherwise);
    let policy = policy.filter(|policy| balancer.policy.as_deref() != Some(*policy));
    let domains = match desired.is_https() {
        true => desired.domains.clone(),
        false => BTreeSet::new(),
    };
    let actual = balancer.names();
    let is_https = Some(desired.is_https());
    let empties = nodes.is_empty() && !balancer.nodes.is_empty();
    let change = BalancerChange {
        name: None,
        policy: policy.map(ToOwned::to_owned),
        healthcheck: Some(check).filter(|check| !is_same_check(check, &balancer.healthcheck)),
        domains: Some(domains).filter(|domains| *domains != actual),
        https_redirect: is_https.filter(|_| differs(&balancer.https_redirect, &is_https)),
        nodes: Some(nodes).filter(|nodes| *nodes != balancer.nodes && !empties),
        listeners: Some(listeners).filter(|all| by_port(all) != by_port(&balancer.listeners)),
    };
    let impact = cuts(&change, balancer);
    let id = balancer.id.clone();
    let changed = (!change.is_empty()).then(|| Step::ChangeBalancer {
        id: id.clone(),
        change: Box::new(change),
        impact,
    });
    // A change cannot say that there are none. It waits until all else is done: the cloud may keep the last one.
    let emptied = empties.then(|| Step::RemoveNodes {
        id: id.clone(),
        nodes: balancer.nodes.clone(),
    });
    Stages {
        reference: PoolRef::Known(id),
        first: changed.into_iter().collect(),
        last: emptied.into_iter().collect(),
    }
}

/// Whether both say something, and not the same.
fn differs<T: PartialEq>(actual: &Option<T>, wanted: &Option<T>) -> bool {
    actual.is_some() && wanted.is_some() && actual != wanted
}

/// What is wanted. Where that is nothing: the cloud's own default if `is_ours`, else what is there.
fn filled(wanted: Option<u32>, actual: Option<u32>, default: u32, is_ours: bool) -> Option<u32> {
    wanted.or(actual.map(|actual| if is_ours { default } else { actual }))
}

fn filled_listeners(desired: &Desired, balancer: &Balancer, is_ours: bool) -> Vec<Listener> {
    let actual = by_port(&balancer.listeners);
    let filled = desired.listeners.iter().map(|wanted| {
        let there = actual.get(&wanted.port).and_then(|there| there.timeout);
        Listener {
            timeout: filled(wanted.timeout, there, IDLE_TIMEOUT, is_ours),
            ..wanted.clone()
        }
    });
    filled.collect()
}

fn by_port(listeners: &[Listener]) -> BTreeMap<u16, &Listener> {
    listeners.iter().map(|one| (one.port, one)).collect()
}

fn filled_check(desired: &Desired, actual: &HealthCheck, is_ours: bool) -> HealthCheck {
    let wanted = &desired.check;
    let number = |wanted, actual, default| filled(wanted, actual, default, is_ours);
    HealthCheck {
        interval: number(wanted.interval, actual.interval, INTERVAL),
        timeout: number(wanted.timeout, actual.timeout, INTERVAL),
        threshold_up: number(wanted.threshold_up, actual.threshold_up, THRESHOLD),
        threshold_down: number(wanted.threshold_down, actual.threshold_down, THRESHOLD),
        ..wanted.clone()
    }
}

/// A path counts only where both say one.
fn is_same_check(wanted: &HealthCheck, actual: &HealthCheck) -> bool {
    let same_path = HealthCheck {
        request: actual.request.clone(),
        ..wanted.clone()
    };
    same_path == *actual && !differs(&actual.request, &wanted.request)
}

/// Connections end where the protocol of a port that stays changes.
fn cuts(change: &BalancerChange, balancer: &Balancer) -> Impact {
    let actual = by_port(&balancer.listeners);
    let mut wanted = change.listeners.iter().flatten();
    let is_cut = wanted.any(|wanted| {
        actual.get(&wanted.port).is_some_and(|there| {
            there.protocol != wanted.protocol || there.proxy_protocol != wanted.proxy_protocol
        })
    });
    if is_cut {
        Impact::Considerable
    } else {
        Impact::None
    }
}
