//! How a case ended at Linode.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::{OfService as _, STRANGERS};
use crate::sweep::cluster::NODES;
use crate::sweep::disturbance::Disturbance;
use crate::sweep::reference::Reference;
use crate::sweep::swept_cloud::none_refused;
use crate::sweep::written::by_kind;
use mooring_cloud_sim::Call;
use mooring_cloud_sim::linode::{Kind, Linode};
use mooring_common::names::annotations;

/// What gives a config its nodes: all at once, or one.
const FILLS: &str = "POST /v4/nodebalancers/*/configs/*/rebuild";
const ADDS: &str = "POST /v4/nodebalancers/*/configs/*/nodes";
const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

pub(super) fn faults_of(cloud: &Linode, service: &Service) -> Vec<String> {
    let mut balancers = cloud.of_service(Kind::NodeBalancer, service);
    let Some(balancer) = balancers.pop().filter(|_| balancers.is_empty()) else {
        return vec![format!(
            "has {} NodeBalancers too many or none",
            balancers.len()
        )];
    };
    let mut faults = Vec::new();
    let metadata = &service.metadata;
    let applied = metadata.annotations.clone().unwrap_or_default();
    let applied = applied.get(annotations::APPLIED).cloned();
    let id = format!("{}/", balancer["id"]);
    if !applied.as_ref().is_some_and(|text| text.starts_with(&id)) {
        faults.push(format!("says {applied:?} of NodeBalancer {id}"));
    }
    let finalizers = metadata.finalizers.clone().unwrap_or_default();
    if finalizers != [FINALIZER] {
        faults.push(format!("has the finalizers {finalizers:?}"));
    }
    let status = serde_json::to_value(&service.status).unwrap_or_default();
    let ingress = &status["loadBalancer"]["ingress"];
    let wanted = json!([{ "ip": balancer["ipv4"], "hostname": balancer["hostname"] }]);
    if without_mode(ingress) != wanted {
        faults.push(format!("has the status {ingress} instead of {wanted}"));
    }
    faults
}

/// The API server says how addresses are reached where central says nothing.
fn without_mode(ingress: &Value) -> Value {
    let mut ingress = ingress.clone();
    for entry in ingress.as_array_mut().into_iter().flatten() {
        if entry["ipMode"] == "VIP"
            && let Some(entry) = entry.as_object_mut()
        {
            entry.remove("ipMode");
        }
    }
    ingress
}

/// Those on its NodeBalancer, and those on firewalls, which no other Service of a case has.
pub(super) fn writes_for(cloud: &Linode, service: &Service) -> u64 {
    let balancers = cloud.of_service(Kind::NodeBalancer, service);
    let counted = cloud.writes();
    let of_balancer = balancers
        .iter()
        .filter_map(|balancer| counted.get(&balancer["id"].as_u64()?));
    let on_balancer: u64 = of_balancer.map(|writes| writes.all).sum();
    let writes = cloud.calls().writes();
    let on_firewalls = writes.filter(|call| call.path.contains("/networking/"));
    on_balancer + on_firewalls.len() as u64
}

pub(super) fn was_careful(
    cloud: &Linode,
    disturbance: Disturbance,
    reference: Option<&Reference>,
) -> Result<()> {
    for (id, writes) in cloud.writes() {
        let most = writes.most_at_once;
        // A late write is under way until it is done, whoever waits for it.
        ensure!(most <= 1, "{most} writes at once on NodeBalancer {id}");
    }
    let writes = cloud.calls().writes();
    let is_at_stranger = |call: &Call| {
        let mut segments = call.path.split('/');
        segments.any(|segment| segment.parse().is_ok_and(|id| STRANGERS.contains(&id)))
    };
    let at_strangers = writes.filter(is_at_stranger).summary();
    ensure!(at_strangers.is_empty(), "not its own:\n{at_strangers}");
    if disturbance.is_late() {
        return Ok(());
    }
    none_refused(&writes)?;
    let Some(reference) = reference else {
        return Ok(());
    };
    let was_done = |call: &Call| !call.faulty || disturbance.is_done_unseen();
    let mut done = by_kind(&cloud.calls(), was_done);
    // A config whose nodes are not there is given them one by one.
    let filled = done.get(FILLS).copied().unwrap_or(0);
    let unfilled = reference.by_kind.get(FILLS).copied().unwrap_or(0);
    let one_by_one = unfilled.saturating_sub(filled) * NODES;
    done.entry(ADDS.to_owned())
        .and_modify(|count| *count = count.saturating_sub(one_by_one));
    let too_often: Vec<String> = done
        .iter()
        .filter_map(|(kind, count)| {
            let needed = reference.by_kind.get(kind).copied().unwrap_or(0);
            (*count > needed).then(|| format!("{count} x {kind}, {needed} are needed"))
        })
        .collect();
    ensure!(too_often.is_empty(), "{}", too_often.join("; "));
    Ok(())
}
