//! Writes what is known of an L2Network on it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Api;
use kube::api::{Patch, PatchParams};
use mooring_common::k8s::{ApiFailure, EventKind, classify};
use mooring_common::l2_network::{L2Network, L2NetworkStatus, reference};
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
        let unchanged = network
            .since
            .clone()
            .filter(|_| was_ready == Some(verdict.ready));
        let status = L2NetworkStatus {
            conditions: vec![Condition {
                type_: READY.to_owned(),
                status: if verdict.ready { "True" } else { "False" }.to_owned(),
                reason: verdict.reason.clone(),
                message: verdict.message.clone(),
                observed_generation: verdict.generation,
                last_transition_time: unchanged.unwrap_or_else(|| Time(Timestamp::now())),
            }],
            used_addresses: Some(verdict.used),
            // Absent from the patch: those are the daemons' to write.
            nodes: Vec::new(),
        };
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
        Ok(())
    }
}
