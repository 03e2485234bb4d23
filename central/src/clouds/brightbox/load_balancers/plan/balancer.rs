//! The load balancer itself: what of it differs, all in one request.

use std::collections::{BTreeMap, BTreeSet};

use mooring_common::engine::Impact;
use serde_json::json;

use super::super::super::api::{Balancer, BalancerSpec, HealthCheck, Listener, each};
use super::super::bundle::Bundle;
use super::super::desired::Desired;
use crate::cloud_api::{body, with};
use crate::engine::change::{Change, Field, filled};
use crate::engine::changes::Changes;
use crate::engine::outcome::listed;
use crate::engine::provider::Listed as _;
use crate::engine::resource_step::ResourceStep;
use crate::engine::stages::{Made, Stages};
use crate::engine::step::{Effect, PoolRef};

/// What can be changed of one, as people are told of it.
const NODES: &Field = &Field::new(&["nodes"], "servers", "");
const POLICY: &Field = &Field::new(&["policy"], "policy", "");
const LISTENERS: &Field = &Field::new(&["listeners"], "listeners", "");
const CHECK: &Field = &Field::new(&["healthcheck"], "health check", "");
const DOMAINS: &Field = &Field::new(&["domains"], "domains", "").or("none");
const REDIRECT: &Field = &Field::new(&["https_redirect"], "redirection", "");

/// `None`: there will be none yet.
pub(super) fn steps(
    desired: &Desired,
    observed: Option<&Bundle>,
    made: &mut Made,
) -> Option<Stages<ResourceStep>> {
    let there = observed.and_then(|bundle| bundle.balancer().map(|there| (bundle, there)));
    if let Some((bundle, balancer)) = there {
        return Some(changes(desired, balancer, bundle.owner().is_some()));
    }
    // The names of the Cloud IP belong to the certificate.
    if desired.is_https() && desired.chosen.is_none() {
        return None;
    }
    let is_https = desired.is_https();
    let spec = BalancerSpec {
        nodes: desired.servers.clone(),
        policy: desired.policy.map(ToOwned::to_owned),
        listeners: desired.listeners.clone(),
        healthcheck: desired.check.clone(),
        https_redirect: Some(is_https),
    };
    let domains = is_https.then_some(&desired.domains);
    let acme = domains.map(|domains| Balancer::default().certificate(domains));
    let new = with(body(&spec), json!({"domains": domains}));
    let create = ResourceStep::create_named::<Balancer>(&desired.name, new)
        .then(json!({"status": "creating", "acme": acme}))
        .with_effect(Effect::CreateBalancer);
    Some(Stages::making(create, made))
}

/// `is_ours`: whether central has made it, so that what nobody asks for is as the cloud makes it. Of one that
/// the Go controller has made, that stays as somebody may have set it.
fn changes(desired: &Desired, balancer: &Balancer, is_ours: bool) -> Stages<ResourceStep> {
    let actual = &balancer.spec;
    let mut nodes = desired.servers.clone();
    let kept = actual.nodes.iter().filter(|id| desired.kept.keeps(id));
    nodes.extend(kept.cloned());
    // What the cloud has where nothing is said: milliseconds, answers, and a policy.
    let of_listener = json!({"timeout": 50_000});
    let of_check = json!({
        "interval": 5_000, "timeout": 5_000, "threshold_up": 3, "threshold_down": 3,
    });
    let otherwise = Some("least-connections").filter(|_| is_ours && actual.policy.is_some());
    let there = by_port(&actual.listeners);
    let listener = |wanted: &Listener| match there.get(&wanted.port) {
        Some(there) => filled(wanted, there, &of_listener, is_ours),
        None => wanted.clone(),
    };
    let listeners: Vec<Listener> = desired.listeners.iter().map(listener).collect();
    let check = filled(&desired.check, &actual.healthcheck, &of_check, is_ours);
    let policy = desired.policy.or(otherwise);
    let policy = policy.filter(|policy| actual.policy.as_deref() != Some(*policy));
    let is_https = desired.is_https();
    let domains = desired.domains.iter().filter(|_| is_https).cloned();
    let domains: BTreeSet<String> = domains.collect();
    let is_certified = domains == balancer.names();
    let empties = nodes.is_empty() && !actual.nodes.is_empty();
    let told = |one: &Listener| format!("{} {}->{}", one.protocol, one.port, one.target);
    let changes = Changes::of([
        (nodes != actual.nodes && !empties)
            .then(|| Change::told(NODES, each("node", &nodes), listed(&nodes))),
        policy.map(|policy| Change::new(POLICY, policy)),
        (by_port(&listeners) != there).then(|| {
            let told: Vec<String> = listeners.iter().map(told).collect();
            Change::told(LISTENERS, &listeners, told.join(", "))
        }),
        (!is_same_check(&check, &actual.healthcheck)).then(|| {
            let told = format!("{} at port {}", check.kind, check.port);
            Change::told(CHECK, &check, told)
        }),
        (!is_certified).then(|| Change::new(DOMAINS, &domains)),
        differs(&actual.https_redirect, &Some(is_https)).then(|| {
            let told = if is_https { "HTTPS on" } else { "HTTPS off" };
            Change::told(REDIRECT, is_https, told)
        }),
    ]);
    let id = &balancer.id;
    let changed = changes.map(|changes| {
        let words = format!("set {changes} of load balancer {id}");
        let impact = cuts(&listeners, &actual.listeners);
        let change = ResourceStep::change::<Balancer>(id, words, changes.body());
        let acme = (!is_certified).then(|| balancer.certificate(&domains));
        change
            .then(body(&json!({"acme": acme})))
            .with_impact(impact)
    });
    let mut steps = Stages::of(PoolRef::Known(id.clone()));
    steps.first.extend(changed);
    if empties {
        // A change cannot say that there are none. It waits until all else is done.
        let words = format!("take all servers from load balancer {id}");
        let verb = ["remove_nodes", "remove_nodes"];
        let empty = ResourceStep::act::<Balancer>(&steps.reference, verb, words)
            .telling(each("node", &actual.nodes))
            .then(json!({"nodes": []}))
            .or_else("the load balancer keeps its last server, the firewall shuts it out");
        steps.last.push(empty);
    }
    steps
}

/// Whether both say something, and not the same.
fn differs<T: PartialEq>(actual: &Option<T>, wanted: &Option<T>) -> bool {
    actual.is_some() && wanted.is_some() && actual != wanted
}

fn by_port(listeners: &[Listener]) -> BTreeMap<u16, &Listener> {
    listeners.iter().map(|one| (one.port, one)).collect()
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
fn cuts(wanted: &[Listener], actual: &[Listener]) -> Impact {
    let actual = by_port(actual);
    let is_cut = |wanted: &Listener| {
        actual.get(&wanted.port).is_some_and(|there| {
            there.protocol != wanted.protocol || there.proxy_protocol != wanted.proxy_protocol
        })
    };
    match wanted.iter().any(is_cut) {
        true => Impact::Considerable,
        false => Impact::None,
    }
}
