//! Writes what is known of an L2Network on it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Api;
use kube::api::{Patch, PatchParams};
use mooring_common::k8s::{ApiFailure, EventKind, classify};
use mooring_common::l2_network::{L2Network, reference};
use serde_json::json;

use super::Controller;
use super::plan::{READY, WriteStatus};
use crate::election::NotLeading;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("cannot write the status of L2Network {name}")]
    Api { name: String, source: kube::Error },
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
}

impl Controller {
    pub(super) async fn take(&self, step: &WriteStatus) -> Result<(), Failure> {
        self.context.leadership.check()?;
        let WriteStatus { network, verdict } = step;
        let was_ready = network.status.as_ref().map(|status| status.ready);
        let ready = if verdict.ready { "True" } else { "False" };
        let mut conditions = vec![Condition {
            type_: READY.to_owned(),
            status: ready.to_owned(),
            reason: verdict.reason.clone(),
            message: verdict.message.clone(),
            observed_generation: verdict.generation,
            last_transition_time: since(step, READY, ready),
        }];
        for [type_, status, reason, message] in &verdict.others {
            conditions.push(Condition {
                type_: type_.clone(),
                status: status.clone(),
                reason: reason.clone(),
                message: message.clone(),
                observed_generation: None,
                last_transition_time: since(step, type_, status),
            });
        }
        // What the daemons write is absent from the patch.
        let status = json!({
            "conditions": conditions,
            "usedAddresses": verdict.used,
            "ipv4": verdict.counts[0],
            "ipv6": verdict.counts[1],
            "speakers": verdict.speakers,
        });
        let api: Api<L2Network> = Api::all(self.context.client.clone());
        let patch = Patch::Merge(json!({"metadata": {"uid": network.uid}, "status": status}));
        match api
            .patch_status(&network.name, &PatchParams::default(), &patch)
            .await
        {
            Ok(_) => {}
            Err(error) if classify(&error) == ApiFailure::NotFound => return Ok(()),
            Err(source) => {
                return Err(Failure::Api {
                    name: network.name.clone(),
                    source,
                });
            }
        }
        if was_ready != Some(verdict.ready) {
            tracing::info!("{step}");
            let about = reference(&network.name, &network.uid);
            let kind = if verdict.ready {
                EventKind::Normal
            } else {
                EventKind::Warning
            };
            self.events
                .report(&about, kind, &verdict.reason, verdict.message.clone())
                .await;
        }
        self.report(step).await;
        Ok(())
    }

    /// Events about what the Nodes say: each trouble once, and that it is over.
    async fn report(&self, step: &WriteStatus) {
        let network = &step.network;
        let about = reference(&network.name, &network.uid);
        for fact in &network.summary.facts {
            let known = network.status.iter().flat_map(|status| &status.others);
            let before = known.map(|[type_, _, reason, _]| (type_, reason));
            let before = before.filter(|(type_, _)| *type_ == fact.type_);
            let before = before.map(|(_, reason)| reason.as_str()).next();
            if before == Some(&fact.reason) || (before.is_none() && !fact.is_trouble) {
                continue;
            }
            let kind = if fact.is_trouble {
                EventKind::Warning
            } else {
                EventKind::Normal
            };
            tracing::info!(network = %network.name, condition = fact.type_, reason = %fact.reason,
                "{}", fact.message);
            self.events
                .report(&about, kind, &fact.reason, format!("{}.", fact.message))
                .await;
        }
    }
}

/// Since when a condition has this status.
fn since(step: &WriteStatus, type_: &str, status: &str) -> Time {
    let known = step.network.status.as_ref();
    let unchanged = known.is_some_and(|known| {
        let ready = if known.ready { "True" } else { "False" };
        let mut others = known.others.iter();
        (type_ == READY && status == ready)
            || others.any(|[other, was, ..]| other == type_ && was == status)
    });
    let since = step.network.since.get(type_).filter(|_| unchanged);
    since.cloned().unwrap_or_else(|| Time(Timestamp::now()))
}
